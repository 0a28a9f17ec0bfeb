//! Clients: they write and read values, submit and cancel tasks, through any member that runs, and note what they saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_coordination::GroupError;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::machine::work::State;
use althing_protocol::group::{Command, Content, GroupId, Needs, Priority, Set, Submit, Target, WorkId};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::evidence::{Books, Deed, Operation, Phase};
use super::member::Running;
use super::worker::{CAPABILITY, Order, token_of};

/// Values that clients write.
pub const KEYS: u8 = 2;
/// Tasks of one run, so that all histories can be judged.
const TASKS_MAX: u32 = 8;
/// The lease of tasks: the shortest one.
const LEASE_MS: u64 = 1_000;
/// How often a task is attempted.
const ATTEMPTS: u8 = 8;

/// What all clients of a run have in common.
pub struct Office {
    pub group: GroupId,
    /// What is seen.
    pub books: Books,
    /// The members that run, by number from 0.
    pub running: Mutex<Vec<Option<Running>>>,
    /// Clients end what they do, and stop.
    pub is_closing: AtomicBool,
    /// Whether reads wait for what was acknowledged before.
    pub reads_wait: bool,
    /// The last value and the last task that were given out.
    pub values: AtomicU32,
    /// See `values`.
    pub tasks: AtomicU32,
}

pub struct Client {
    office: Arc<Office>,
    number: u32,
    rng: StdRng,
    /// What it read of each key: the value, and its version.
    read: BTreeMap<u8, (Option<u64>, u64)>,
    /// The tasks that it submitted.
    submitted: Vec<u32>,
}

/// The id of the task of a number.
#[must_use]
pub fn task_id(number: u32) -> WorkId {
    WorkId::from_bytes(u128::from(number).to_be_bytes())
}

/// The number of a task's id.
#[must_use]
pub fn task_number(id: WorkId) -> u32 {
    u32::try_from(u128::from_be_bytes(*id.as_bytes())).unwrap_or(u32::MAX)
}

/// The key of a number.
#[must_use]
pub fn key_name(key: u8) -> String {
    format!("key-{key}")
}

/// A value as it is stored.
#[must_use]
pub fn to_bytes(value: u64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A value as it was stored; none if no client wrote it.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn value_of(state: &Group, key: u8) -> (Option<u64>, u64) {
    let found = state.values().get(&key_name(key));
    found.map_or((None, 0), |value| (Some(of_bytes(&value.bytes).unwrap_or(u64::MAX)), value.version))
}

/// All tasks, in the order of their submission.
fn tasks_of(state: &Group) -> Vec<(u32, Phase)> {
    let mut tasks: Vec<_> = state.work().tasks().iter().collect();
    tasks.sort_by_key(|task| task.number);
    let phase = |task: &althing_coordination::machine::work::WorkItem| match (task.state, &task.result) {
        (State::Completed, Some(Content::Inline(result))) => Phase::Completed(token_of(result)),
        (State::Completed, _) => Phase::Completed(0),
        (State::Canceled, _) => Phase::Canceled,
        (state, _) if state.is_finished() => Phase::Failed,
        _ => Phase::Open,
    };
    tasks.into_iter().map(|task| (task_number(task.id()), phase(task))).collect()
}

/// The task of a number.
#[must_use]
pub fn task(number: u32, order: Order) -> Submit {
    Submit {
        task: task_id(number),
        key: None,
        needs: Needs::of(Target::Capability(CAPABILITY.to_owned())),
        input: Content::Inline(order.to_input().into()),
        priority: Priority::Normal,
        deadline_ms: None,
        attempts_max: ATTEMPTS,
        lease_ms: LEASE_MS,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    }
}

impl Office {
    /// One of the members, if that runs.
    ///
    /// # Panics
    /// If somebody panicked in it.
    #[must_use]
    pub fn any(&self, drawn: u32) -> Option<Running> {
        let running = self.running.lock().expect("nobody panics with it");
        running.get(usize::try_from(drawn).unwrap_or(0) % running.len().max(1)).cloned().flatten()
    }

    /// Writes a value through one member, and notes it; whether it was acknowledged.
    pub async fn write(&self, client: u32, through: &Running, key: u8) -> bool {
        let value = u64::from(self.values.fetch_add(1, Ordering::Relaxed) + 1);
        let set = Set { key: key_name(key), value: to_bytes(value).into(), if_version: None };
        let called = self.books.event();
        let done = through.command(self.group, Command::Set(set)).await;
        let version = done.ok().flatten();
        self.note(client, called, version.is_some(), Deed::Write { key, value, version });
        version.is_some()
    }

    /// Reads a value through one member, and notes it.
    pub async fn read(&self, client: u32, through: &Running, key: u8) -> Option<(Option<u64>, u64)> {
        let called = self.books.event();
        let read = through.read(self.group, self.reads_wait, |state| value_of(state, key)).await?;
        self.note(client, called, true, Deed::Read { key, value: read.0 });
        Some(read)
    }

    /// Looks at all tasks through one member, and notes it.
    pub async fn look(&self, client: u32, through: &Running) -> Option<Vec<(u32, Phase)>> {
        let called = self.books.event();
        let tasks = through.read(self.group, self.reads_wait, tasks_of).await?;
        self.note(client, called, true, Deed::Look { tasks: tasks.clone() });
        Some(tasks)
    }

    fn note(&self, client: u32, called: i64, is_known: bool, deed: Deed) {
        let returned = is_known.then(|| self.books.event());
        self.books.note(format_args!("client {client}: {deed:?}{}", if is_known { "" } else { ", unknown" }));
        self.books.open().history.push(Operation { client, called, returned, deed });
    }
}

impl Client {
    /// A client of a number.
    #[must_use]
    pub fn new(office: Arc<Office>, number: u32, seed: u64) -> Client {
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(u64::from(number)));
        Client { office, number, rng, read: BTreeMap::new(), submitted: Vec::new() }
    }

    /// Works until the office closes.
    pub async fn work(mut self) {
        while !self.office.is_closing.load(Ordering::Relaxed) {
            let pause = self.rng.random_range(20..300);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let through = self.office.any(self.rng.random());
            let key = self.rng.random_range(0..KEYS);
            let what = self.rng.random_range(0..20);
            let Some(through) = through else { continue };
            match what {
                0..=5 => drop(self.office.write(self.number, &through, key).await),
                6..=11 => {
                    if let Some(read) = self.office.read(self.number, &through, key).await {
                        self.read.insert(key, read);
                    }
                }
                12..=13 => self.replace(&through, key).await,
                14..=16 => self.submit(&through).await,
                17 => self.cancel(&through).await,
                _ => drop(self.office.look(self.number, &through).await),
            }
        }
    }

    async fn replace(&mut self, through: &Running, key: u8) {
        let Some((expected, version)) = self.read.get(&key).copied() else { return };
        let office = &self.office;
        let value = u64::from(office.values.fetch_add(1, Ordering::Relaxed) + 1);
        let set = Set { key: key_name(key), value: to_bytes(value).into(), if_version: Some(version) };
        let called = office.books.event();
        let done = match through.command(office.group, Command::Set(set)).await {
            Ok(version) => Some(version),
            Err(Some(GroupError::Refused(Refusal::Version(_)))) => Some(None),
            Err(_) => None,
        };
        office.note(self.number, called, done.is_some(), Deed::Replace { key, expected, value, done });
    }

    async fn submit(&mut self, through: &Running) {
        let office = &self.office;
        let number = office.tasks.fetch_add(1, Ordering::Relaxed) + 1;
        if number > TASKS_MAX {
            return;
        }
        let takes_ms = [3, 150, 700, 1_700][self.rng.random_range(0..4)];
        let order = Order { takes_ms, is_flaky: self.rng.random_bool(0.2) };
        let called = office.books.event();
        let done = through.command(office.group, Command::Submit(Box::new(task(number, order)))).await;
        let done = done.ok().flatten();
        if done.is_some() {
            self.submitted.push(number);
        }
        office.note(self.number, called, done.is_some(), Deed::Submit { task: number, number: done });
    }

    async fn cancel(&mut self, through: &Running) {
        if self.submitted.is_empty() {
            return;
        }
        let task = self.submitted.remove(self.rng.random_range(0..self.submitted.len()));
        let office = &self.office;
        let called = office.books.event();
        let done = match through.command(office.group, Command::Cancel(task_id(task))).await {
            Ok(_) => Some(true),
            Err(Some(GroupError::Refused(Refusal::TaskState { .. }))) => Some(false),
            Err(_) => None,
        };
        office.note(self.number, called, done.is_some(), Deed::Cancel { task, done });
    }
}
