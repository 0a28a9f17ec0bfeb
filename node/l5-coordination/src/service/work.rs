//! The work of a group on one node: what the node can do, and what runs its tasks.

use std::collections::BTreeSet;

use althing_protocol::contract::Latency;
use althing_protocol::group::{Author, Deployment, GroupId, Needs, Priority, WorkId};
use althing_protocol::limits::WORK_NAME_BYTES_MAX;
use althing_protocol::{AnswerAttributes, CallerId, Label, PublisherId};
use futures::future::BoxFuture;
use minicbor::{Decode, Encode};

pub use crate::machine::assignment::Answering;

/// Latency classes in a report.
const CLASSES_MAX: usize = 8;
/// Agents, capabilities and labels in a report.
pub const REPORT_NAMES_MAX: usize = 1_024;
/// Sets of agents in a report that answer only some, and owners of each.
pub const REPORT_ANSWERING_MAX: usize = 16;
/// Agents and capabilities in all these sets.
pub const ANSWERING_NAMES_MAX: usize = 512;

/// What a member can do, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Report {
    /// The names of the agents that it hosts and that answer each owner in the group.
    #[n(0)]
    pub agents: Vec<String>,
    /// Their capabilities.
    #[n(1)]
    pub capabilities: Vec<String>,
    /// Its labels.
    #[n(2)]
    pub labels: Vec<String>,
    /// Memory that is free, MiB.
    #[n(3)]
    pub memory_mib: u32,
    /// Processor cores.
    #[n(4)]
    pub cores: u32,
    /// Disk that is free, MiB.
    #[n(5)]
    pub disk_mib: u32,
    /// GPUs.
    #[n(6)]
    pub gpus: u32,
    /// The latency classes in which it runs agents.
    #[n(7)]
    pub classes: Vec<Latency>,
    /// Its load, thousandths.
    #[n(8)]
    pub load_permille: u16,
    /// Tasks of groups that it runs at once.
    #[n(9)]
    pub slots: u32,
    /// The agents that answer only some of the owners in the group; those that answer none are in no list.
    #[n(10)]
    pub answering: Option<Vec<Answering>>,
}

impl Report {
    /// Each name once, and no more than a report may have.
    #[must_use]
    pub fn bounded(mut self) -> Report {
        for names in [&mut self.agents, &mut self.capabilities, &mut self.labels] {
            names.sort_unstable();
            names.dedup();
            names.retain(|name| name.len() <= WORK_NAME_BYTES_MAX);
            names.truncate(REPORT_NAMES_MAX);
        }
        self.answering = self.answering.map(bounded).filter(|some| !some.is_empty());
        self
    }

    /// The names of all agents in it, whomever they answer.
    pub(crate) fn hosted(&self) -> Vec<String> {
        let some = self.answering.iter().flatten().flat_map(|some| &some.agents);
        self.agents.iter().chain(some).cloned().collect()
    }

    /// # Errors
    /// It has too many names, or one that is too long.
    pub(crate) fn check(&self) -> Result<(), String> {
        let all = [&self.agents, &self.capabilities, &self.labels];
        let fits = |names: &&Vec<String>| {
            names.len() <= REPORT_NAMES_MAX && names.iter().all(|name| name.len() <= WORK_NAME_BYTES_MAX)
        };
        let some = self.answering.as_deref().unwrap_or_default();
        let names = || some.iter().flat_map(|some| some.agents.iter().chain(&some.capabilities));
        let few =
            some.len() <= REPORT_ANSWERING_MAX && some.iter().all(|some| some.owners.len() <= REPORT_ANSWERING_MAX);
        if !few || names().count() > ANSWERING_NAMES_MAX || names().any(|name| name.len() > WORK_NAME_BYTES_MAX) {
            return Err(format!(
                "a report has at most {REPORT_ANSWERING_MAX} sets of agents that answer some, with {REPORT_ANSWERING_MAX} \
                 owners each and {ANSWERING_NAMES_MAX} names of {WORK_NAME_BYTES_MAX} bytes in all"
            ));
        }
        if self.classes.len() <= CLASSES_MAX && all.iter().all(fits) {
            return Ok(());
        }
        Err(format!("a report has at most {REPORT_NAMES_MAX} names of {WORK_NAME_BYTES_MAX} bytes of each kind"))
    }
}

/// As many of these sets as a report may have: what is left out is not assigned here.
fn bounded(mut all: Vec<Answering>) -> Vec<Answering> {
    all.truncate(REPORT_ANSWERING_MAX);
    let mut room = ANSWERING_NAMES_MAX;
    for some in &mut all {
        some.owners.truncate(REPORT_ANSWERING_MAX);
        for names in [&mut some.agents, &mut some.capabilities] {
            names.sort_unstable();
            names.dedup();
            names.retain(|name| name.len() <= WORK_NAME_BYTES_MAX);
            names.truncate(room);
            room -= names.len();
        }
    }
    all
}

/// A task that this node runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Of which group.
    pub group: GroupId,
    /// Which task.
    pub task: WorkId,
    /// The fencing token: higher than that of each earlier attempt.
    pub token: u64,
    /// Which attempt this is.
    pub attempt: u8,
    /// Who submitted it: the member, or an owner, whichever of its nodes that was.
    pub author: Author,
    /// In whose name it is done: the owner's that submitted it, or that of the member which did.
    pub on_behalf_of: CallerId,
    /// What it needs.
    pub needs: Needs,
    /// What is to be done.
    pub input: Vec<u8>,
    /// How urgent it is.
    pub priority: Priority,
    /// The channel by which it came, as its submitter said it.
    pub channel: Option<String>,
    /// When it must have ended, Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// Its result is read by the steps of a workflow: it must be the text that was asked for, in no envelope.
    pub is_step: bool,
    /// The label of the input, as its submitter said it.
    pub label: Option<Label>,
    /// Where whoever does it adds the label of its result.
    pub answer: AnswerAttributes,
    /// The steps of its run whose results are in the input, and are not verified.
    pub unverified: Vec<String>,
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFailure {
    /// Why.
    pub reason: String,
    /// Who may try again.
    pub again: Again,
}

/// Who may try a task again that was not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Any member, also this one.
    Any,
    /// Any other member: here it is not permitted, and that does not change by itself.
    Others,
    /// Nobody: another attempt would end in the same way.
    Nobody,
}

/// Runs tasks on this node.
pub trait Worker: Send + Sync + 'static {
    /// What this node can do now for these owners.
    fn report(&self, askers: &BTreeSet<PublisherId>) -> Report;
    /// Whether this node can run a task now. Completes without anybody being asked.
    ///
    /// # Errors
    /// Why not, and whether it can later.
    fn admit<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, Result<(), WorkFailure>>;
    /// Whether results of whoever does a task here have passed gates when they are given.
    fn verifies<'a>(&'a self, _task: &'a Assigned) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
    /// Runs a task. Dropping the future stops it.
    fn run(&self, task: Assigned) -> BoxFuture<'static, Result<Vec<u8>, WorkFailure>>;
    /// Whether an attempt that this node began before it ended goes on here: what became of it by then is known here still. It is
    /// run once more then, under the token that it had, if the group says that this still counts. Completes as soon as that is
    /// known: a node that has just started may have to start its agents first.
    fn goes_on<'a>(&'a self, _task: &'a Assigned) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
    /// A task was taken from this node: what was begun here by lower tokens than this one must do nothing more. It may run on
    /// for a while, since dropping what [`Worker::run`] returned may not stop all of it at once.
    fn supersede(&self, _group: GroupId, _task: WorkId, _token: u64) {}
    /// Which agents of a group this node hosts from now on, as their owner, who is the node's too, signed it. A node on which
    /// nothing can be started ignores it.
    fn host(&self, _group: GroupId, _agents: Vec<Deployment>) {}
}
