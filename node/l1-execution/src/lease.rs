//! Leases of group tasks: a turn that runs under one calls no tool and writes no memory once a later fencing token of its
//! task is known here.
//!
//! A member that is thought dead may still work when another one has its task already. Its group refuses its result; this
//! keeps it from doing harm before that. Tools on other systems are told the token and the key, to do the same. An agent
//! that is asked by such a turn works under its lease too, if it is on this node; on another node its task is cancelled. A turn
//! that goes on where its node ended does so under the token that it had, if its group says that this still counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;

/// The member of `_meta` of a tool call (MCP) that says for which task of a group it is.
pub const META: &str = "dev.althing/group-task";
/// Tasks whose highest tokens are remembered, beside those that run.
const TASKS_MAX: usize = 4_096;

/// A task of a group, by its id in text form: first the group's, then its own.
type TaskName = (String, String);

/// A later attempt of the task is known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "SUPERSEDED: the group task {task} was taken from this attempt, whose token is {token}; the next one has at least \
     {highest}. End the work on it: its result does not count"
)]
pub struct Superseded {
    /// Which task.
    pub task: String,
    /// The token of this attempt.
    pub token: u64,
    /// The highest one that is known, or a lower bound of it.
    pub highest: u64,
}

/// By what a turn works on a task of a group.
#[derive(Debug, Clone)]
pub struct Lease {
    name: Arc<TaskName>,
    token: u64,
    highest: Arc<watch::Sender<u64>>,
    channel: Option<Arc<str>>,
}

impl PartialEq for Lease {
    fn eq(&self, other: &Lease) -> bool {
        (&self.name, self.token) == (&other.name, other.token)
    }
}

impl Eq for Lease {}

impl Lease {
    /// Whether this is still the last attempt that is known here.
    ///
    /// # Errors
    /// [`Superseded`].
    pub fn check(&self) -> Result<(), Superseded> {
        let highest = *self.highest.borrow();
        if self.token >= highest {
            return Ok(());
        }
        Err(Superseded { task: self.name.1.clone(), token: self.token, highest })
    }

    /// Ends when a later attempt is known here.
    pub async fn superseded(&self) -> Superseded {
        let mut changes = self.highest.subscribe();
        loop {
            match self.check() {
                Err(superseded) => return superseded,
                // It cannot be closed: this holds a sender.
                Ok(()) => drop(changes.changed().await),
            }
        }
    }

    /// The group and its task, by their ids as text.
    #[must_use]
    pub fn name(&self) -> (&str, &str) {
        (&self.name.0, &self.name.1)
    }

    /// The same, for a task that came by this channel of its group.
    #[must_use]
    pub fn by_channel(self, channel: Option<&str>) -> Lease {
        Lease { channel: channel.map(Arc::from), ..self }
    }

    /// The channel of the group by which the task came, if its submitter named one.
    #[must_use]
    pub fn channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    /// The fencing token of this attempt.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What an outside system is told: the token, to refuse lower ones, and a key that is the same for all attempts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (group, task) = self.name.as_ref();
        json!({ "group": group, "task": task, "token": self.token, "idempotencyKey": task })
    }
}

/// The highest token that is known of each task.
#[derive(Debug, Default)]
pub struct Leases(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    tasks: BTreeMap<Arc<TaskName>, (u64, Arc<watch::Sender<u64>>)>,
    /// In the order of their last use.
    order: BTreeMap<u64, Arc<TaskName>>,
    uses: u64,
}

impl Known {
    fn used(&mut self, name: TaskName) -> (Arc<TaskName>, Arc<watch::Sender<u64>>) {
        self.uses += 1;
        let (name, highest) = match self.tasks.get_key_value(&name) {
            Some((known, (used, highest))) => {
                self.order.remove(used);
                (known.clone(), highest.clone())
            }
            None => (Arc::new(name), Arc::new(watch::Sender::new(0))),
        };
        self.tasks.insert(name.clone(), (self.uses, highest.clone()));
        self.order.insert(self.uses, name.clone());
        (name, highest)
    }

    /// Forgets those that were used first and under which no turn runs, while there are too many.
    fn bound(&mut self) {
        let excess = self.tasks.len().saturating_sub(TASKS_MAX);
        let tasks = &self.tasks;
        let is_idle = |name: &TaskName| tasks.get(name).is_some_and(|(_, highest)| Arc::strong_count(highest) == 1);
        let idle = self.order.iter().filter(|(_, name)| is_idle(name)).map(|(used, name)| (*used, name.clone()));
        let idle: Vec<_> = idle.take(excess).collect();
        for (used, name) in idle {
            self.order.remove(&used);
            self.tasks.remove(&name);
        }
    }
}

impl Leases {
    /// An attempt begins; those by lower tokens are superseded.
    #[must_use]
    pub fn begin(&self, group: &str, task: &str, token: u64) -> Lease {
        let mut known = self.known();
        let (name, highest) = known.used((group.to_owned(), task.to_owned()));
        highest.send_if_modified(|highest| {
            let is_later = token > *highest;
            *highest = token.max(*highest);
            is_later
        });
        known.bound();
        Lease { name, token, highest, channel: None }
    }

    /// Attempts by lower tokens are superseded: the task was taken from this node.
    pub fn supersede(&self, group: &str, task: &str, token: u64) {
        drop(self.begin(group, task, token));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().expect("no holder of the leases panics")
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract;
    use althing_store::MemoryStore;

    use super::*;
    use crate::context::{CALL_CONTEXT, CallContext};
    use crate::journal::TurnRights;
    use crate::memory::{Embedder, MEMORY, Memories, MemoryError};

    #[tokio::test]
    async fn a_superseded_attempt_reads_memory_and_does_not_write_it() {
        let store = Arc::new(MemoryStore::new(&[MEMORY]));
        let memories = Memories::new(store, Arc::new(|| 1), Arc::new(|bytes| bytes.fill(7)), Arc::new(|_| Ok(None)));
        let memory = memories.open("clerk", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("opened");
        memory.adopt().await.expect("adopted");
        let leases = Leases::default();
        let context = CallContext { rights: TurnRights::under(leases.begin("g", "t", 1)), ..CallContext::default() };
        let working = async {
            memory.put("key", b"first").await.expect("it is the last attempt");
            memory.remember("source", "A text.").await.expect("it is the last attempt");
            leases.supersede("g", "t", 2);
            let superseded = MemoryError::Superseded(Superseded { task: "t".to_owned(), token: 1, highest: 2 });
            assert_eq!(memory.put("key", b"second").await, Err(superseded.clone()));
            assert_eq!(memory.delete("key").await, Err(superseded.clone()));
            assert_eq!(memory.remember("source", "Another text.").await, Err(superseded.clone()));
            assert_eq!(memory.forget("source").await, Err(superseded));
            assert_eq!(memory.get("key").await, Ok(Some(b"first".to_vec())));
            assert_eq!(memory.sources().await.expect("readable").len(), 1);
        };
        CALL_CONTEXT.scope(context, working).await;
        memory.put("key", b"third").await.expect("no task of a group");
    }

    #[test]
    fn a_later_attempt_supersedes_the_earlier_ones_of_its_task_and_no_others() {
        let leases = Leases::default();
        let (first, other) = (leases.begin("g", "t", 4), leases.begin("g", "u", 1));
        assert_eq!(first.check(), Ok(()));
        let second = leases.begin("g", "t", 7);
        assert_eq!(first.check(), Err(Superseded { task: "t".to_owned(), token: 4, highest: 7 }));
        assert!(first.check().expect_err("superseded").to_string().starts_with("SUPERSEDED: "));
        assert_eq!((second.check(), other.check()), (Ok(()), Ok(())));
        // An attempt that arrives late is superseded from its beginning.
        assert!(leases.begin("g", "t", 5).check().is_err());
        assert_eq!(leases.begin("another", "t", 1).check(), Ok(()));
        leases.supersede("g", "t", 8);
        assert!(second.check().is_err());
        let by_web = second.clone().by_channel(Some("web"));
        assert_eq!((by_web.channel(), second.channel(), by_web.check()), (Some("web"), None, second.check()));
        let told = json!({ "group": "g", "task": "t", "token": 7, "idempotencyKey": "t" });
        assert_eq!(second.to_json(), told);
    }

    #[tokio::test]
    async fn an_attempt_learns_that_it_is_superseded() {
        let leases = Leases::default();
        let (first, other) = (leases.begin("g", "t", 4), leases.begin("g", "u", 4));
        let waiting = first.superseded();
        tokio::pin!(waiting);
        leases.supersede("g", "u", 9);
        drop(leases.begin("g", "t", 4));
        assert!(futures::poll!(waiting.as_mut()).is_pending(), "neither another task nor the same attempt");
        leases.supersede("g", "t", 7);
        assert_eq!(waiting.await, Superseded { task: "t".to_owned(), token: 4, highest: 7 });
        assert_eq!(other.superseded().await.highest, 9, "one that is known already");
    }

    #[test]
    fn tasks_are_forgotten_when_there_are_too_many_and_never_while_they_run() {
        let leases = Leases::default();
        let runs = leases.begin("g", "runs", 9);
        for number in 0..TASKS_MAX + 10 {
            drop(leases.begin("g", &number.to_string(), 9));
        }
        let kept = leases.known().tasks.len();
        assert_eq!((kept, leases.known().order.len()), (TASKS_MAX, TASKS_MAX));
        assert!(leases.begin("g", "runs", 8).check().is_err(), "it is still known");
        assert_eq!(runs.check(), Ok(()));
        assert_eq!(leases.begin("g", "0", 8).check(), Ok(()), "it ended long ago");
        assert!(leases.begin("g", &(TASKS_MAX + 9).to_string(), 8).check().is_err());
    }
}
