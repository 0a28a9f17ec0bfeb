//! The work of a group on one node: what the node can do, and what runs its tasks.

use althing_protocol::CallerId;
use althing_protocol::contract::Latency;
use althing_protocol::group::{GroupId, Needs, Priority, WorkId};
use althing_protocol::limits::WORK_NAME_BYTES_MAX;
use futures::future::BoxFuture;
use minicbor::{Decode, Encode};

/// Latency classes in a report.
const CLASSES_MAX: usize = 8;
/// Agents, capabilities and labels in a report.
pub const REPORT_NAMES_MAX: usize = 1_024;

/// What a member can do, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Report {
    /// The names of the agents that it hosts.
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
        self
    }

    /// # Errors
    /// It has too many names, or one that is too long.
    pub(crate) fn check(&self) -> Result<(), String> {
        let all = [&self.agents, &self.capabilities, &self.labels];
        let fits = |names: &&Vec<String>| {
            names.len() <= REPORT_NAMES_MAX && names.iter().all(|name| name.len() <= WORK_NAME_BYTES_MAX)
        };
        if self.classes.len() <= CLASSES_MAX && all.iter().all(fits) {
            return Ok(());
        }
        Err(format!("a report has at most {REPORT_NAMES_MAX} names of {WORK_NAME_BYTES_MAX} bytes of each kind"))
    }
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
    /// Who submitted it: an owner, or the owner of the member that did.
    pub on_behalf_of: CallerId,
    /// What it needs.
    pub needs: Needs,
    /// What is to be done.
    pub input: Vec<u8>,
    /// How urgent it is.
    pub priority: Priority,
    /// When it must have ended, Unix milliseconds.
    pub deadline_ms: Option<u64>,
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFailure {
    /// Why.
    pub reason: String,
    /// Whether another attempt may succeed.
    pub retry: bool,
}

/// Runs tasks on this node.
pub trait Worker: Send + Sync + 'static {
    /// What this node can do now.
    fn report(&self) -> Report;
    /// Whether this node can run a task now.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, task: &Assigned) -> Result<(), String>;
    /// Runs a task. Dropping the future stops it.
    fn run(&self, task: Assigned) -> BoxFuture<'static, Result<Vec<u8>, WorkFailure>>;
}
