//! The configurations and what is to be sent to each, in memory: numbers and sizes, not the events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use a2a::TaskPushNotificationConfig;
use tokio::sync::Semaphore;

use crate::machine::moves::PUSH_ROWS_MAX;
use crate::machine::record::Scope;

/// Configurations of one task, of one payer, of all but this node's own owner, and of all.
pub(super) const PER_TASK_MAX: usize = PUSH_ROWS_MAX;
const PER_PAYER_MAX: usize = 512;
const OTHERS_MAX: usize = 1_024;
const ALL_MAX: usize = 2_048;
/// Events that wait for one receiver; beyond that they are replaced by the task as it is.
const QUEUE_MAX: usize = 256;
/// Bytes of all events that wait; from the first half on, those of others than the own owner are not kept as they are.
const BYTES_MAX: usize = 64 << 20;
/// Notifications that are sent at once for one payer, and for all but this node's own owner.
const PER_PAYER_AT_ONCE: usize = 4;
const OTHERS_AT_ONCE: usize = 24;

/// There is no room for another configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a node keeps at most {max} push notification configurations of {of}; delete some")]
pub(crate) struct Full {
    max: usize,
    of: &'static str,
}

/// One event that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its place among all, and its key on disk.
    pub seq: u64,
    /// When it happened.
    pub made_ms: u64,
    /// Its bytes; none: the task as it is when this is sent.
    pub size: Option<usize>,
    /// Whether the task is over with it.
    pub over: bool,
}

/// An event that is to be written for one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    pub config: String,
    pub entry: Entry,
    /// The earlier events that it replaces.
    pub replaced: Vec<u64>,
}

struct Held {
    config: Arc<TaskPushNotificationConfig>,
    payer: Scope,
    queue: VecDeque<Entry>,
    /// Whether a courier is on its way.
    sending: bool,
    /// Whether its task is over and all was said.
    over: bool,
}

/// What one courier needs for its next delivery.
pub(super) struct Next {
    pub config: Arc<TaskPushNotificationConfig>,
    pub entry: Entry,
    /// Bounds what is sent at once for the same payer.
    pub lane: Arc<Semaphore>,
    /// Bounds what is sent at once for all but this node's own owner, if it is for another one.
    pub others: Option<Arc<Semaphore>>,
}

pub(super) struct Book {
    /// This node's own owner.
    own: Scope,
    tasks: BTreeMap<String, BTreeMap<String, Held>>,
    payers: BTreeMap<Scope, (usize, Arc<Semaphore>)>,
    others: Arc<Semaphore>,
    configs: usize,
    bytes: usize,
    next: u64,
}

impl Book {
    /// An empty one of a node of that owner.
    pub fn new(own: Scope) -> Book {
        Book {
            own: own.payer(),
            tasks: BTreeMap::new(),
            payers: BTreeMap::new(),
            others: Arc::new(Semaphore::new(OTHERS_AT_ONCE)),
            configs: 0,
            bytes: 0,
            next: 0,
        }
    }

    /// Who pays for what a scope keeps. Users of the own owner's gateways have limits of their own: the names that other
    /// gateways say cost them nothing.
    fn payer(&self, scope: Scope) -> Scope {
        if self.is_own(scope) { scope } else { scope.payer() }
    }

    fn is_own(&self, scope: Scope) -> bool {
        scope.payer() == self.own
    }

    /// Configurations of others than the own owner.
    fn of_others(&self) -> usize {
        self.payers.iter().filter(|(payer, _)| !self.is_own(**payer)).map(|(_, (count, _))| count).sum()
    }

    /// A configuration that is on disk.
    pub fn load(&mut self, scope: Scope, config: TaskPushNotificationConfig, over: bool) {
        self.insert(scope, config, over);
    }

    /// An event that is on disk; false if nobody is to be told.
    pub fn load_note(&mut self, task: &str, config: &str, entry: Entry) -> bool {
        self.next = self.next.max(entry.seq + 1);
        let Some(held) = self.tasks.get_mut(task).and_then(|of| of.get_mut(config)) else { return false };
        self.bytes += entry.size.unwrap_or(0);
        held.queue.push_back(entry);
        true
    }

    /// Adds a configuration, or replaces the one of its id; gives those that had to go, whose tasks are over.
    pub fn set(&mut self, scope: Scope, config: TaskPushNotificationConfig) -> Result<Vec<(String, String)>, Full> {
        let id = config.id.clone().unwrap_or_default();
        let of_task = self.tasks.get(&config.task_id);
        let known = of_task.is_some_and(|of| of.contains_key(&id));
        let mut gone = Vec::new();
        if !known {
            if of_task.is_some_and(|of| of.len() >= PER_TASK_MAX) {
                return Err(Full { max: PER_TASK_MAX, of: "a task" });
            }
            let payer = self.payer(scope);
            if self.payers.get(&payer).is_some_and(|(count, _)| *count >= PER_PAYER_MAX) {
                let of = Full { max: PER_PAYER_MAX, of: "a caller" };
                gone.push(self.push_out(|held| held.payer == payer).ok_or(of)?);
            }
            if !self.is_own(scope) && self.of_others() >= OTHERS_MAX {
                let (own, of) = (self.own, Full { max: OTHERS_MAX, of: "other owners' callers" });
                gone.push(self.push_out(|held| held.payer.payer() != own).ok_or(of)?);
            }
            if self.configs >= ALL_MAX {
                gone.push(self.push_out(|_| true).ok_or(Full { max: ALL_MAX, of: "all callers" })?);
            }
        }
        self.insert(scope, config, false);
        Ok(gone)
    }

    fn insert(&mut self, scope: Scope, config: TaskPushNotificationConfig, over: bool) {
        let (id, payer) = (config.id.clone().unwrap_or_default(), self.payer(scope));
        let of_task = self.tasks.entry(config.task_id.clone()).or_default();
        if let Some(held) = of_task.get_mut(&id) {
            held.config = Arc::new(config);
            return;
        }
        let held = Held { config: Arc::new(config), payer, queue: VecDeque::new(), sending: false, over };
        of_task.insert(id, held);
        self.configs += 1;
        let lane = || (0, Arc::new(Semaphore::new(PER_PAYER_AT_ONCE)));
        self.payers.entry(payer).or_insert_with(lane).0 += 1;
    }

    /// Removes the first configuration of those whose task is over and to which all was said.
    fn push_out(&mut self, of: impl Fn(&Held) -> bool) -> Option<(String, String)> {
        let said = |held: &Held| held.over && held.queue.is_empty() && of(held);
        let mut all = self.tasks.iter().flat_map(|(task, of)| of.iter().map(move |(id, held)| (task, id, held)));
        let (task, id) = all.find(|(.., held)| said(held)).map(|(task, id, _)| (task.clone(), id.clone()))?;
        self.remove(&task, &id);
        Some((task, id))
    }

    pub fn has(&self, task: &str) -> bool {
        self.tasks.contains_key(task)
    }

    pub fn of_task(&self, task: &str) -> Vec<Arc<TaskPushNotificationConfig>> {
        self.tasks.get(task).into_iter().flat_map(|of| of.values().map(|held| held.config.clone())).collect()
    }

    /// Removes a configuration; gives the events that waited for it.
    pub fn remove(&mut self, task: &str, config: &str) -> Vec<u64> {
        let Some(of_task) = self.tasks.get_mut(task) else { return Vec::new() };
        let Some(held) = of_task.remove(config) else { return Vec::new() };
        if of_task.is_empty() {
            self.tasks.remove(task);
        }
        self.configs -= 1;
        if let Some((count, _)) = self.payers.get_mut(&held.payer) {
            *count -= 1;
            if *count == 0 {
                self.payers.remove(&held.payer);
            }
        }
        self.bytes -= held.queue.iter().filter_map(|entry| entry.size).sum::<usize>();
        held.queue.iter().map(|entry| entry.seq).collect()
    }

    /// Removes the configurations of a task; gives their ids, and the events that waited.
    pub fn forget(&mut self, task: &str) -> (Vec<String>, Vec<u64>) {
        let ids: Vec<String> = self.tasks.get(task).into_iter().flat_map(|of| of.keys().cloned()).collect();
        let seqs = ids.iter().flat_map(|id| self.remove(task, id)).collect();
        (ids, seqs)
    }

    /// What is to be written for an event of `size` bytes, or of none if it is not kept as it is.
    pub fn plan(&mut self, task: &str, size: Option<usize>, made_ms: u64, over: bool) -> Vec<Planned> {
        let Book { own, tasks, bytes, next, .. } = self;
        let Some(of_task) = tasks.get(task) else { return Vec::new() };
        // A task is one caller's, and so are those who are told about it.
        let is_own = of_task.values().any(|held| held.payer.payer() == *own);
        let room = if is_own { BYTES_MAX } else { BYTES_MAX / 2 };
        let full = *bytes + size.unwrap_or(0) * of_task.len() > room;
        let plan = |(config, held): (&String, &Held)| {
            let crowded = full || held.queue.len() >= QUEUE_MAX;
            // What is being sent stays.
            let waiting = held.queue.iter().skip(usize::from(held.sending));
            let replaced = if crowded { waiting.map(|entry| entry.seq).collect() } else { Vec::new() };
            let seq = *next;
            *next += 1;
            let entry = Entry { seq, made_ms, size: size.filter(|_| !crowded), over };
            Planned { config: config.clone(), entry, replaced }
        };
        of_task.iter().map(plan).collect()
    }

    /// Adds an event that is on disk; true if a courier must be sent.
    pub fn commit(&mut self, task: &str, planned: Planned) -> bool {
        let Planned { config, entry, replaced } = planned;
        let Book { tasks, bytes, .. } = self;
        let Some(held) = tasks.get_mut(task).and_then(|of| of.get_mut(&config)) else { return false };
        held.queue.retain(|entry| {
            let stays = !replaced.contains(&entry.seq);
            *bytes -= entry.size.filter(|_| !stays).unwrap_or(0);
            stays
        });
        *bytes += entry.size.unwrap_or(0);
        held.queue.push_back(entry);
        !held.sending
    }

    /// The configurations for which something waits.
    pub fn waiting(&self) -> Vec<(String, String)> {
        let all = self.tasks.iter().flat_map(|(task, of)| of.iter().map(move |(id, held)| (task, id, held)));
        all.filter(|(.., held)| !held.queue.is_empty()).map(|(task, id, _)| (task.clone(), id.clone())).collect()
    }

    /// Begins to send to a configuration; false if a courier is on its way.
    pub fn begin(&mut self, task: &str, config: &str) -> bool {
        let held = self.tasks.get_mut(task).and_then(|of| of.get_mut(config));
        held.is_some_and(|held| !std::mem::replace(&mut held.sending, true))
    }

    /// The next event; without one the courier is done.
    pub fn next(&mut self, task: &str, config: &str) -> Option<Next> {
        let held = self.tasks.get_mut(task)?.get_mut(config)?;
        let Some(entry) = held.queue.front().copied() else {
            held.sending = false;
            return None;
        };
        let lane = self.payers.get(&held.payer)?.1.clone();
        let others = (held.payer.payer() != self.own).then(|| self.others.clone());
        Some(Next { config: held.config.clone(), entry, lane, others })
    }

    /// Puts the task as it is in the place of all that waits, if its last event is there or `is_settled`; gives the events that are
    /// dropped, none if nothing waits behind the first.
    pub fn catch_up(&mut self, task: &str, config: &str, is_settled: bool) -> Vec<u64> {
        let Some(held) = self.tasks.get_mut(task).and_then(|of| of.get_mut(config)) else { return Vec::new() };
        if held.queue.len() < 2 || !(is_settled || held.queue.iter().any(|entry| entry.over)) {
            return Vec::new();
        }
        let Some(mut last) = held.queue.pop_back() else { return Vec::new() };
        let dropped = held.queue.drain(..).collect::<Vec<Entry>>();
        self.bytes -= dropped.iter().chain([&last]).filter_map(|entry| entry.size).sum::<usize>();
        last.size = None;
        held.queue.push_back(last);
        dropped.iter().map(|entry| entry.seq).collect()
    }

    /// The event was delivered, or is given up.
    pub fn done(&mut self, task: &str, config: &str, seq: u64) {
        let Some(held) = self.tasks.get_mut(task).and_then(|of| of.get_mut(config)) else { return };
        if let Some(entry) = held.queue.pop_front_if(|entry| entry.seq == seq) {
            self.bytes -= entry.size.unwrap_or(0);
            held.over |= entry.over;
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::{CallerId, SecretKey};

    use super::*;
    use althing_call::Principal;

    fn scope(node: u8, user: &str) -> Scope {
        Scope::of_call(CallerId::Node(SecretKey::from_seed(&[node; 32]).public()), &[Principal::parse(user)])
    }

    fn config(task: usize) -> TaskPushNotificationConfig {
        let config = serde_json::json!({ "taskId": task.to_string(), "id": "1", "url": "https://receiver.example" });
        serde_json::from_value(config).expect("a configuration")
    }

    #[test]
    fn a_gateway_that_says_many_names_gets_no_more_room_than_one() {
        let mut book = Book::new(scope(1, "local"));
        let said = |task: usize| scope(2, &format!("token:n{task}"));
        for task in 0..PER_PAYER_MAX {
            assert_eq!(book.set(said(task), config(task)), Ok(Vec::new()), "{task}");
        }
        let full = Full { max: PER_PAYER_MAX, of: "a caller" };
        assert_eq!(book.set(said(PER_PAYER_MAX), config(PER_PAYER_MAX)), Err(full));
        let lanes = [0, 1].map(|task: usize| {
            let entry = Entry { seq: task as u64, made_ms: 0, size: None, over: false };
            assert!(book.load_note(&task.to_string(), "1", entry));
            book.next(&task.to_string(), "1").expect("it waits")
        });
        assert!(Arc::ptr_eq(&lanes[0].lane, &lanes[1].lane) && lanes[0].others.is_some(), "they share what is sent");
        // What was on disk counts in the same way.
        let mut again = Book::new(scope(1, "local"));
        (0..PER_PAYER_MAX).for_each(|task| again.load(said(task), config(task), false));
        assert_eq!(again.set(said(PER_PAYER_MAX), config(PER_PAYER_MAX)), Err(full));
    }

    #[test]
    fn the_last_event_takes_the_place_of_what_is_before_it_and_of_nothing_else() {
        let mut book = Book::new(scope(1, "local"));
        book.load(scope(1, "local"), config(1), false);
        let wait = |book: &mut Book, over: bool| {
            for planned in book.plan("1", Some(10), 0, over) {
                book.commit("1", planned);
            }
        };
        wait(&mut book, false);
        assert_eq!(book.catch_up("1", "1", true), [] as [u64; 0], "nothing waits behind it");
        wait(&mut book, false);
        assert_eq!((book.catch_up("1", "1", false), book.bytes), (Vec::new(), 20), "more comes");
        wait(&mut book, true);
        assert_eq!(book.catch_up("1", "1", false).len(), 2);
        let next = book.next("1", "1").expect("the last one");
        assert!(next.entry.over && next.entry.size.is_none() && book.bytes == 0, "{:?}", next.entry);
        book.done("1", "1", next.entry.seq);
        assert!(book.next("1", "1").is_none() && book.bytes == 0);
    }

    #[test]
    fn others_leave_room_for_the_own_owner_whose_users_have_limits_of_their_own() {
        let mut book = Book::new(scope(1, "local"));
        let mut task = 0;
        let mut fill = |book: &mut Book, scope: Scope| {
            let mut kept = 0;
            while book.set(scope, config(task)).is_ok() {
                (task, kept) = (task + 1, kept + 1);
            }
            kept
        };
        let others: usize = (2..8).map(|node| fill(&mut book, scope(node, "local"))).sum();
        assert_eq!(others, OTHERS_MAX);
        for user in ["token:alice", "token:bob"] {
            assert_eq!(fill(&mut book, scope(1, user)), PER_PAYER_MAX, "{user}");
        }
        assert_eq!(book.configs, ALL_MAX);
        assert!(book.load_note(&(task - 1).to_string(), "1", Entry { seq: 1, made_ms: 0, size: None, over: false }));
        assert!(book.next(&(task - 1).to_string(), "1").expect("it waits").others.is_none());
    }
}
