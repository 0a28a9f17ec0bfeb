//! Live tasks in memory: turns that run, and listeners that wait for the next turn of an idle task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use a2a::{Task, TaskState};
use althing_call::OperationError;
use althing_protocol::{AgentRef, AnswerAttributes};

use crate::machine::record::{Record, Scope};
use crate::machine::shares::{Claim, Load, OverCapacity, ShareOwner, Shares};
use crate::tasks::events::TaskEvents;
use crate::tasks::in_flight::MessageKey;
use crate::tasks::live::{LISTENERS_MAX, Listener, LiveTask, TurnRequest, too_many_listeners};
use crate::tasks::outcome::{CountOutcomes, Counter, TurnOutcome};

/// Turns that may run at once, and the memory of their tasks; beyond that new ones are refused. A task whose turn runs is
/// in memory up to three times: as it is, as its agent was given it, and as it is written.
const LIVE_MAX: Load = Load { turns: 4_096, bytes: 128 << 20 };
/// Write locks, which idle tasks share.
const WRITE_LOCKS: usize = 32;
/// Turns that rest of which it is kept what came of them by then.
const RESTED_MAX: usize = 1_024;

/// The end of a turn of a task that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// The task's id.
    pub task: String,
    /// The agent, by name.
    pub agent: String,
    /// The state of the task from then on.
    pub state: TaskState,
}

pub(crate) struct LiveTasks {
    tasks: Mutex<Tasks>,
    /// Held while an idle task is changed, so that changes are serialized; by task id.
    write_locks: [tokio::sync::Mutex<()>; WRITE_LOCKS],
    /// Who hears of turns that ended.
    ends: OnceLock<Box<dyn Fn(TurnEnd) + Send + Sync>>,
    /// Who counts what comes of turns.
    counter: Counter,
    /// What came by then of turns that rest and are counted when they are over, by their tasks.
    rested: Mutex<BTreeMap<String, TurnOutcome>>,
}

struct Tasks {
    /// Tasks whose turn runs, and their claims on the capacity.
    live: BTreeMap<String, (Arc<LiveTask>, Claim<ShareOwner>)>,
    shares: Shares<ShareOwner>,
    /// Those of them that a message began, by it: such a task may not be on disk yet.
    began: BTreeMap<MessageKey, String>,
    /// Listeners that wait for the next turn of an idle task.
    waiting: BTreeMap<String, Vec<Listener>>,
}

impl LiveTasks {
    /// No tasks yet.
    pub fn new() -> LiveTasks {
        let tasks = Tasks {
            live: BTreeMap::new(),
            shares: Shares::new(LIVE_MAX),
            began: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        let (ends, counter) = (OnceLock::new(), Counter::new());
        let (write_locks, rested) = Default::default();
        LiveTasks { tasks: Mutex::new(tasks), write_locks, ends, counter, rested }
    }

    /// The turn of a task, while it runs.
    pub fn running(&self, id: &str) -> Option<Arc<LiveTask>> {
        self.tasks().running(id).cloned()
    }

    /// The current record of a task whose turn runs.
    pub fn record(&self, id: &str) -> Option<Record> {
        self.tasks().live.get(id).map(|(live, _)| live.record())
    }

    /// Whether this is a task of that agent whose turn runs.
    pub fn is_of(&self, id: &str, agent: &str) -> bool {
        self.tasks().live.get(id).is_some_and(|(live, _)| live.agent.name() == agent)
    }

    /// Whether a task whose turn runs is that agent's and that caller's; none if no turn of it runs.
    pub fn is_own(&self, id: &str, agent: &str, scope: Scope) -> Option<bool> {
        let is_own = |live: &LiveTask| live.agent.name() == agent && live.lock().record.scope == scope;
        self.tasks().live.get(id).map(|(live, _)| is_own(live))
    }

    /// The task whose turn runs, and which a message of this id began.
    pub fn began_by(&self, agent: &str, scope: Scope, message_id: &str) -> Option<String> {
        self.tasks().began.get(&(scope, agent.to_owned(), message_id.to_owned())).cloned()
    }

    /// The number of turns that run.
    pub fn count(&self) -> usize {
        self.tasks().live.values().filter(|(live, _)| live.running()).count()
    }

    /// How many turns of each agent run, of those that have one.
    pub fn by_agent(&self) -> BTreeMap<String, usize> {
        let mut turns = BTreeMap::new();
        for (live, _) in self.tasks().live.values().filter(|(live, _)| live.running()) {
            *turns.entry(live.agent.name().to_owned()).or_default() += 1;
        }
        turns
    }

    /// The turns that run and have a journal.
    pub fn journalled(&self) -> Vec<Arc<LiveTask>> {
        let live = self.tasks();
        let all = live.live.values().map(|(live, _)| live);
        all.filter(|live| live.running() && live.request.journal.is_some()).cloned().collect()
    }

    /// Whether a version of an agent has a turn that is not over: one that runs, or that follows work which was given away.
    pub fn has_any(&self, agent: &AgentRef) -> bool {
        self.tasks().live.values().any(|(live, _)| live.agent == *agent)
    }

    /// Cancels every turn of a version of an agent.
    pub fn cancel(&self, agent: &AgentRef) {
        self.cancel_where(|live| live.agent == *agent);
    }

    /// Cancels every turn of an agent, in whatever version.
    pub fn cancel_all(&self, agent: &str) {
        self.cancel_where(|live| live.agent.name() == agent);
    }

    fn cancel_where(&self, is_meant: impl Fn(&LiveTask) -> bool) {
        self.tasks().live.values().filter(|(live, _)| is_meant(live)).for_each(|(live, _)| live.cancel.cancel());
    }

    /// Locks an idle task for a change.
    pub async fn write_lock(&self, id: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let sum = id.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.write_locks[sum % WRITE_LOCKS].lock().await
    }

    /// Begins a turn of that version of an agent; listeners that waited for it are attached. The caller holds the task's write
    /// lock, or the task is new. `claim` is its claim on the capacity, `stored_bytes` the size of the stored task.
    ///
    /// # Errors
    /// `OVERLOADED`: there is no room, or a turn of the task is still ending.
    pub fn begin(
        &self,
        agent: &AgentRef,
        record: &Record,
        claim: Claim<ShareOwner>,
        stored_bytes: usize,
        asked: TurnRequest,
    ) -> Result<Arc<LiveTask>, OperationError> {
        let mut tasks = self.tasks();
        let id = &record.task.id;
        if tasks.live.contains_key(id) {
            // Its end may be on disk already: listeners are told of it first.
            let why = format!("the turn of task {id} is still ending; try again in a moment");
            return Err(OperationError::busy(why));
        }
        tasks.shares.begin(&claim).map_err(|crowded| OperationError::busy(crowded.to_string()))?;
        let waiting = tasks.waiting.remove(id).unwrap_or_default();
        let live = Arc::new(LiveTask::new(agent.clone(), record.clone(), stored_bytes, waiting, asked));
        if let Some(message) = live.began_by() {
            tasks.began.insert(message, id.clone());
        }
        tasks.live.insert(id.clone(), (live.clone(), claim));
        Ok(live)
    }

    /// Adds to the memory that a turn's task takes.
    pub fn grow(&self, id: &str, bytes: usize) -> Result<(), OverCapacity> {
        let Tasks { live, shares, .. } = &mut *self.tasks();
        live.get_mut(id).map_or(Ok(()), |(_, claim)| shares.grow(claim, bytes))
    }

    /// Counts the memory of a turn's task anew: it goes on from its beginning.
    pub fn recount(&self, id: &str, bytes: usize) {
        let Tasks { live, shares, .. } = &mut *self.tasks();
        if let Some((_, claim)) = live.get_mut(id) {
            shares.recount(claim, bytes);
        }
    }

    /// Removes a turn that is over; the listeners that `end` gives wait for the next one.
    pub fn finish(&self, id: &str, end: impl FnOnce() -> Vec<Listener>) {
        let mut tasks = self.tasks();
        if let Some((live, claim)) = tasks.live.remove(id) {
            tasks.shares.end(&claim);
            // Another message of this id may have begun a task since.
            if let Some(message) = live.began_by()
                && tasks.began.get(&message).is_some_and(|began| began == id)
            {
                tasks.began.remove(&message);
            }
        }
        let listeners = end();
        if !listeners.is_empty() {
            tasks.waiting.entry(id.to_owned()).or_default().extend(listeners);
        }
    }

    /// Tells `hear` of each turn that ends from now on. The first one stays.
    pub fn follow_ends(&self, hear: Box<dyn Fn(TurnEnd) + Send + Sync>) {
        // A second one would be a fault of the composition: the first hears.
        let _ = self.ends.set(hear);
    }

    /// Lets somebody count what comes of turns from now on. The first one stays.
    pub fn count_by(&self, counter: Arc<dyn CountOutcomes>) {
        // A second one would be a fault of the composition: the first counts.
        let _ = self.counter.set(counter);
    }

    /// Who counts what comes of turns.
    pub fn counter(&self) -> Option<&Arc<dyn CountOutcomes>> {
        self.counter.get()
    }

    /// Keeps what came of a turn until it rests, if there is room.
    pub fn keep_rested(&self, task: String, outcome: TurnOutcome) {
        let mut rested = self.rested.lock().expect("no holder of the turns that rest panics");
        if rested.len() < RESTED_MAX {
            rested.insert(task, outcome);
        }
    }

    /// Removes and gives what came of the turn of a task until it rested, if that is kept.
    pub fn take_rested(&self, task: &str) -> Option<TurnOutcome> {
        self.rested.lock().expect("no holder of the turns that rest panics").remove(task)
    }

    /// Says that a turn ended whose task is kept.
    pub fn tell_end(&self, live: &LiveTask, state: TaskState) {
        if let Some(hear) = self.ends.get() {
            hear(TurnEnd { task: live.id.clone(), agent: live.agent.name().to_owned(), state });
        }
    }

    /// Removes and gives the listeners that wait for the next turn of a task.
    pub fn take_waiting(&self, id: &str) -> Vec<Listener> {
        self.tasks().waiting.remove(id).unwrap_or_default()
    }

    /// Subscribes to a task whose turn runs: gives the task as it is and its further events. None if no turn runs: then there
    /// is room for another listener that waits for the next one. What is said of them is added to `answer`.
    pub fn listen(&self, id: &str, answer: &AnswerAttributes) -> Result<Option<(Task, TaskEvents)>, OperationError> {
        let tasks = self.tasks();
        match tasks.running(id) {
            Some(live) => live.listen(true, answer).map(Some).ok_or_else(|| too_many_listeners(id)),
            None => tasks.check_room(id).map(|()| None),
        }
    }

    /// Subscribes to the next turn of an idle task that was read before, while turns went on. None if it `is_as_read` no more,
    /// or if its next turn runs already. What is said of its events is added to `answer`.
    pub fn wait(
        &self,
        id: &str,
        answer: &AnswerAttributes,
        is_as_read: impl FnOnce() -> bool,
    ) -> Result<Option<TaskEvents>, OperationError> {
        // Held from looking to subscribing, so that no turn begins or ends in between.
        let mut tasks = self.tasks();
        if tasks.running(id).is_some() || !is_as_read() {
            return Ok(None);
        }
        tasks.waiting.retain(|_, listeners| {
            listeners.retain(|held| !held.is_gone());
            !listeners.is_empty()
        });
        tasks.check_room(id)?;
        let (listener, events) = Listener::new(true, answer);
        tasks.waiting.entry(id.to_owned()).or_default().push(listener);
        Ok(Some(events))
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().expect("no holder of the tasks panics")
    }
}

impl Tasks {
    /// The turn of a task, while it runs.
    fn running(&self, id: &str) -> Option<&Arc<LiveTask>> {
        self.live.get(id).map(|(live, _)| live).filter(|live| live.running())
    }

    /// Whether an idle task has room for another listener that waits for its next turn.
    fn check_room(&self, id: &str) -> Result<(), OperationError> {
        let waiting = self.waiting.get(id).into_iter().flatten().filter(|held| !held.is_gone()).count();
        if waiting < LISTENERS_MAX { Ok(()) } else { Err(too_many_listeners(id)) }
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Part, Role};
    use althing_call::Refusal;
    use althing_communication::TrustLevel;
    use althing_protocol::{CallerId, PublisherId};
    use chrono::DateTime;

    use super::*;
    use crate::machine::task;

    /// Its end is on disk, and listeners are told of it: whoever goes on with the task comes too early.
    #[test]
    fn a_turn_that_is_still_ending_is_not_replaced_and_nobody_panics() {
        let live = LiveTasks::new();
        let owner = PublisherId::from_digest([1; 32]);
        let (agent, scope) =
            (AgentRef::new(owner, "echo", "1.0.0").expect("a name"), Scope::of(CallerId::Publisher(owner)));
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let submitted = task::submitted("t".to_owned(), "c".to_owned(), message, DateTime::UNIX_EPOCH);
        let record = Record::new(submitted, agent.name(), scope);
        let begin = || {
            let (owner, trust) = (ShareOwner::Scope(scope), TrustLevel::Own);
            let claim = Claim { owner, trust, agent: agent.name().to_owned(), bytes: 1, agent_turns_max: None };
            live.begin(&agent, &record, claim, 1, TurnRequest::default())
        };
        let first = begin().expect("there is room");
        let refused = begin().err().expect("it is still there");
        assert_eq!(refused.refusal, Refusal::Overloaded);
        assert!(refused.message.contains("try again in a moment"), "{}", refused.message);
        assert!(live.running("t").is_some_and(|running| Arc::ptr_eq(&running, &first)), "the first one");
        live.finish("t", Vec::new);
        assert!(begin().is_ok(), "it is over");
    }

    #[test]
    fn nobody_waits_for_the_next_turn_of_a_task_that_changed_while_it_was_read() {
        let (live, answer) = (LiveTasks::new(), AnswerAttributes::default());
        assert!(live.wait("task", &answer, || false).expect("there is room").is_none());
        assert!(live.take_waiting("task").is_empty());
        let _events = live.wait("task", &answer, || true).expect("there is room").expect("it is as it was");
        assert_eq!(live.take_waiting("task").len(), 1);
    }
}
