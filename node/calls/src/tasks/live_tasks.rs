//! The tasks that are not over, as far as they are in memory: turns that run, and who waits for the next turn of a
//! task at rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{StreamResponse, Task};
use tokio::sync::mpsc;

use crate::error::OperationError;
use crate::machine::record::Record;
use crate::machine::shares::{Claim, Crowded, Load, Shares, Whose};
use crate::tasks::live::{Asked, LISTENERS_MAX, Listener, Live, crowded};

/// Turns that may run at once, and the memory that their tasks take; beyond, new ones are refused. A task that is
/// worked on is held up to three times: as it is, as its agent was given it, and as it is written.
const LIVE_MAX: Load = Load { turns: 4_096, bytes: 128 << 20 };
/// Tasks at rest share these gates.
const GATES: usize = 32;

/// The tasks that are not over.
pub(crate) struct LiveTasks {
    tasks: Mutex<Tasks>,
    /// Taken while a task at rest is changed, so that of two changes the second sees the first; by task id.
    gates: [tokio::sync::Mutex<()>; GATES],
}

struct Tasks {
    /// Those whose turn runs, and what it has of what there is.
    live: BTreeMap<String, (Arc<Live>, Claim<Whose>)>,
    shares: Shares<Whose>,
    /// Who waits for the next turn of a task at rest.
    waiting: BTreeMap<String, Vec<Listener>>,
}

impl LiveTasks {
    /// None yet.
    pub fn new() -> LiveTasks {
        let tasks = Tasks { live: BTreeMap::new(), shares: Shares::new(LIVE_MAX), waiting: BTreeMap::new() };
        LiveTasks { tasks: Mutex::new(tasks), gates: Default::default() }
    }

    /// The turn of a task, while it runs.
    pub fn running(&self, id: &str) -> Option<Arc<Live>> {
        self.tasks().live.get(id).map(|(live, _)| live).filter(|live| live.running()).cloned()
    }

    /// A task as its turn has made it so far.
    pub fn record(&self, id: &str) -> Option<Record> {
        self.tasks().live.get(id).map(|(live, _)| live.record())
    }

    /// Is this a task of that agent, whose turn runs?
    pub fn is_of(&self, id: &str, agent: &str) -> bool {
        self.tasks().live.get(id).is_some_and(|(live, _)| live.agent == agent)
    }

    /// Turns that run.
    pub fn count(&self) -> usize {
        self.tasks().live.values().filter(|(live, _)| live.running()).count()
    }

    /// Cancels every turn of an agent.
    pub fn cancel(&self, agent: &str) {
        self.tasks().live.values().filter(|(live, _)| live.agent == agent).for_each(|(live, _)| live.cancel.cancel());
    }

    /// Waits until nobody else changes the task while it is at rest.
    pub async fn gate(&self, id: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let sum = id.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.gates[sum % GATES].lock().await
    }

    /// A turn begins; those who waited for it listen. The task's gate is held, or nobody knows the task yet.
    /// `claim` says whose turn it is; the task takes `stored_bytes` as it is stored.
    pub fn begin(
        &self,
        record: &Record,
        claim: Claim<Whose>,
        stored_bytes: usize,
        asked: Asked,
    ) -> Result<Arc<Live>, OperationError> {
        let mut tasks = self.tasks();
        tasks.shares.begin(&claim).map_err(|crowded| OperationError::busy(crowded.to_string()))?;
        let waiting = tasks.waiting.remove(&record.task.id).unwrap_or_default();
        let live = Arc::new(Live::new(record.clone(), stored_bytes, waiting, asked));
        let before = tasks.live.insert(record.task.id.clone(), (live.clone(), claim));
        debug_assert!(before.is_none(), "a task has one turn at a time");
        Ok(live)
    }

    /// The task of a turn takes so much more memory.
    pub fn grow(&self, id: &str, bytes: usize) -> Result<(), Crowded> {
        let Tasks { live, shares, .. } = &mut *self.tasks();
        live.get_mut(id).map_or(Ok(()), |(_, claim)| shares.grow(claim, bytes))
    }

    /// Forgets a turn, and keeps those of its listeners that `end` gives for the next one.
    pub fn put_to_rest(&self, id: &str, end: impl FnOnce() -> Vec<Listener>) {
        let mut tasks = self.tasks();
        if let Some((_, claim)) = tasks.live.remove(id) {
            tasks.shares.end(&claim);
        }
        let listeners = end();
        if !listeners.is_empty() {
            tasks.waiting.entry(id.to_owned()).or_default().extend(listeners);
        }
    }

    /// Those who wait for the next turn of a task; they are forgotten here.
    pub fn take_waiting(&self, id: &str) -> Vec<Listener> {
        self.tasks().waiting.remove(id).unwrap_or_default()
    }

    /// The task as it is, and all that happens to it until it is over. `read` reads it where no turn runs.
    pub fn listen(
        &self,
        id: &str,
        read: impl FnOnce() -> Result<Record, OperationError>,
    ) -> Result<(Task, mpsc::Receiver<StreamResponse>), OperationError> {
        // Held from reading to listening, so that no turn begins or ends in between.
        let mut tasks = self.tasks();
        if let Some((live, _)) = tasks.live.get(id).filter(|(live, _)| live.running()) {
            return live.listen(true).ok_or_else(|| crowded(id));
        }
        let task = read()?.task;
        if task.status.state.is_terminal() {
            return Err(OperationError::unsupported(format!("task {id} is over; GetTask shows it")));
        }
        tasks.waiting.retain(|_, listeners| {
            listeners.retain(|held| !held.is_gone());
            !listeners.is_empty()
        });
        let waiting = tasks.waiting.entry(id.to_owned()).or_default();
        if waiting.len() == LISTENERS_MAX {
            return Err(crowded(id));
        }
        let (listener, events) = Listener::new(true);
        waiting.push(listener);
        Ok((task, events))
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().expect("no holder of the tasks panics")
    }
}
