//! Tasks of a group: what commands say about the work that its members share.

use std::collections::BTreeSet;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::WorkId;
use crate::Digest;
use crate::contract::Latency;
use crate::identity::PublicKey;
use crate::label::Label;
use crate::limits::{
    AGENT_NAME_MAX, WORK_ATTEMPTS_MAX, WORK_CONTENT_BYTES_MAX, WORK_DEPENDENCIES_MAX, WORK_LABELS_MAX,
    WORK_LEASE_MAX_MS, WORK_LEASE_MIN_MS, WORK_NAME_BYTES_MAX, WORK_REASON_BYTES_MAX, WORK_REFUSAL_BYTES_MAX,
    WORK_RESOURCES_MAX,
};
use crate::object::ObjectError;

/// Who can do a task.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Target {
    /// A member that hosts an agent with this capability, such as `billing.view`.
    #[n(0)]
    Capability(#[n(0)] String),
    /// A member that hosts the agent of this name.
    #[n(1)]
    Agent(#[n(0)] String),
}

/// What a task needs of the member that does it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Needs {
    /// Who can do it.
    #[n(0)]
    pub target: Target,
    /// Labels that the member must have.
    #[n(1)]
    pub labels: Vec<String>,
    /// Memory, MiB.
    #[n(2)]
    pub memory_mib: Option<u32>,
    /// Processor cores.
    #[n(3)]
    pub cores: Option<u32>,
    /// Disk, MiB.
    #[n(4)]
    pub disk_mib: Option<u32>,
    /// GPUs.
    #[n(5)]
    pub gpus: Option<u32>,
    /// The latency class in which it must run.
    #[n(6)]
    pub class: Option<Latency>,
}

impl Needs {
    /// Only someone who can do it.
    #[must_use]
    pub fn of(target: Target) -> Needs {
        Needs { target, labels: Vec::new(), memory_mib: None, cores: None, disk_mib: None, gpus: None, class: None }
    }
}

/// An input or a result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Content {
    /// The bytes themselves.
    #[n(0)]
    Inline(#[n(0)] ByteVec),
    /// Bytes that a member holds.
    #[n(1)]
    Reference(#[n(0)] Reference),
}

/// Bytes that a member holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Reference {
    /// Their digest.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub digest: Digest,
    /// How many.
    #[n(1)]
    pub bytes: u64,
    /// Their media type.
    #[n(2)]
    pub media_type: String,
    /// Who holds them.
    #[n(3)]
    pub holder: PublicKey,
}

/// How urgent a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Priority {
    /// After all others.
    #[n(0)]
    Low,
    /// As most.
    #[default]
    #[n(1)]
    Normal,
    /// Before most.
    #[n(2)]
    High,
    /// Before all others.
    #[n(3)]
    Critical,
}

/// Submits a task.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Submit {
    /// Its id: random.
    #[n(0)]
    pub task: WorkId,
    /// A second task of the same author with the same key is not submitted: the first one stands for it.
    #[n(1)]
    pub key: Option<ByteVec>,
    /// What it needs.
    #[n(2)]
    pub needs: Needs,
    /// What is to be done.
    #[n(3)]
    pub input: Content,
    /// How urgent it is.
    #[n(4)]
    pub priority: Priority,
    /// When it must have ended, Unix milliseconds.
    #[n(5)]
    pub deadline_ms: Option<u64>,
    /// How often it is attempted, at most.
    #[n(6)]
    pub attempts_max: u8,
    /// For how long a member has it without a sign of life, milliseconds.
    #[n(7)]
    pub lease_ms: u64,
    /// The tasks that must complete before it begins. The group must have them already.
    #[n(8)]
    pub dependencies: Vec<WorkId>,
    /// What only one task may use at a time: names that the submitters agree on.
    #[n(9)]
    pub resources: Vec<String>,
    /// The label of the input; without one, nothing is said of it.
    #[n(10)]
    pub label: Option<Label>,
    /// The way by which the work came, such as `web`, if its submitter tells ways apart: 1 to 63 of the characters a-z, 0-9 and -.
    /// Who does the task is told it.
    #[n(11)]
    pub channel: Option<String>,
}

/// Adds a dependency to a task that has not begun.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Depend {
    /// Which task.
    #[n(0)]
    pub task: WorkId,
    /// The one that must complete before.
    #[n(1)]
    pub on: WorkId,
}

/// Gives a task to a member.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Assign {
    /// Which task.
    #[n(0)]
    pub task: WorkId,
    /// Who gets it.
    #[n(1)]
    pub member: PublicKey,
    /// Which attempt this is.
    #[n(2)]
    pub attempt: u8,
}

/// A task, and the fencing token by which the author has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Claim {
    /// Which task.
    #[n(0)]
    pub task: WorkId,
    /// The token.
    #[n(1)]
    pub token: u64,
}

/// Gives a task back before it began.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Decline {
    /// Which task, by which token.
    #[n(0)]
    pub claim: Claim,
    /// Why.
    #[n(1)]
    pub reason: String,
}

/// Completes a task.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Complete {
    /// Which task, by which token.
    #[n(0)]
    pub claim: Claim,
    /// Its result.
    #[n(1)]
    pub result: Content,
    /// The label of the result; without one, nothing is said of it.
    #[n(2)]
    pub label: Option<Label>,
    /// True if gates of the agent's contract let the result pass; without it, nothing says so.
    #[n(3)]
    pub verified: Option<bool>,
}

/// Ends an attempt without a result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fail {
    /// Which task, by which token.
    #[n(0)]
    pub claim: Claim,
    /// Why.
    #[n(1)]
    pub reason: String,
    /// Whether another attempt may succeed.
    #[n(2)]
    pub retry: bool,
}

/// Takes a task that another member has not begun.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Steal {
    /// Which task.
    #[n(0)]
    pub task: WorkId,
    /// From whom.
    #[n(1)]
    pub from: PublicKey,
}

/// Gives a task back that this member must not do: its agent does not answer the submitter, or refuses.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Refuse {
    /// Which task, by which token.
    #[n(0)]
    pub claim: Claim,
    /// Why.
    #[n(1)]
    pub reason: String,
}

/// Ends a task that no member may do.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Abandon {
    /// Which task.
    #[n(0)]
    pub task: WorkId,
    /// Why.
    #[n(1)]
    pub reason: String,
}

/// Which of the tasks that want a resource gets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ConflictRule {
    /// The one that was submitted first.
    #[default]
    #[n(0)]
    First,
    /// The one with most votes, once a majority of the members voted.
    #[n(1)]
    Vote,
    /// The most urgent one, and of these the first.
    #[n(2)]
    Priority,
    /// The one that an owner chooses.
    #[n(3)]
    Human,
}

/// Sets the rule of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Define {
    /// Which resource.
    #[n(0)]
    pub resource: String,
    /// The rule.
    #[n(1)]
    pub rule: ConflictRule,
}

/// Chooses the task that gets a resource next.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Choice {
    /// Which resource.
    #[n(0)]
    pub resource: String,
    /// Which task.
    #[n(1)]
    pub task: WorkId,
}

pub(super) fn shape(what: String) -> Result<(), ObjectError> {
    Err(ObjectError::Shape(what))
}

pub(super) fn named(what: &str, name: &str) -> Result<(), ObjectError> {
    if (1..=WORK_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    shape(format!("{what} has 1 to {WORK_NAME_BYTES_MAX} bytes"))
}

pub(super) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=AGENT_NAME_MAX).contains(&text.len()) && text.chars().all(allowed)
}

pub(super) fn explained(reason: &str) -> Result<(), ObjectError> {
    if reason.len() <= WORK_REASON_BYTES_MAX {
        return Ok(());
    }
    shape(format!("the reason why a task ended has at most {WORK_REASON_BYTES_MAX} bytes"))
}

fn once<T: Ord>(what: &str, all: &[T], max: usize) -> Result<(), ObjectError> {
    if all.len() <= max && all.iter().collect::<BTreeSet<_>>().len() == all.len() {
        return Ok(());
    }
    shape(format!("a task has at most {max} {what}, each once"))
}

impl Content {
    fn check(&self) -> Result<(), ObjectError> {
        match self {
            Content::Inline(bytes) if bytes.len() > WORK_CONTENT_BYTES_MAX => shape(format!(
                "an input or result has at most {WORK_CONTENT_BYTES_MAX} bytes; let the agent fetch a larger input, and refer to \
                 a larger result by its digest"
            )),
            Content::Inline(_) => Ok(()),
            Content::Reference(reference) => named("a media type", &reference.media_type),
        }
    }
}

impl Needs {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        match &self.target {
            Target::Capability(capability) => named("a capability", capability)?,
            Target::Agent(name) if (1..=AGENT_NAME_MAX).contains(&name.len()) => {}
            Target::Agent(_) => return shape(format!("an agent's name has 1 to {AGENT_NAME_MAX} characters")),
        }
        once("labels", &self.labels, WORK_LABELS_MAX)?;
        self.labels.iter().try_for_each(|label| named("a label", label))
    }
}

impl Submit {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        if self.key.as_ref().is_some_and(|key| !(1..=WORK_NAME_BYTES_MAX).contains(&key.len())) {
            return shape(format!("an idempotency key has 1 to {WORK_NAME_BYTES_MAX} bytes"));
        }
        if !(1..=WORK_ATTEMPTS_MAX).contains(&self.attempts_max) {
            return shape(format!("a task has 1 to {WORK_ATTEMPTS_MAX} attempts"));
        }
        if !(WORK_LEASE_MIN_MS..=WORK_LEASE_MAX_MS).contains(&self.lease_ms) {
            return shape(format!("a lease takes {WORK_LEASE_MIN_MS} to {WORK_LEASE_MAX_MS} milliseconds"));
        }
        once("dependencies", &self.dependencies, WORK_DEPENDENCIES_MAX)?;
        once("resources", &self.resources, WORK_RESOURCES_MAX)?;
        self.resources.iter().try_for_each(|resource| named("a resource's name", resource))?;
        if self.channel.as_deref().is_some_and(|channel| !is_name(channel)) {
            return shape("a channel has 1 to 63 of the characters a-z, 0-9 and -".to_owned());
        }
        self.needs.check()?;
        self.input.check()
    }

    /// Data items of the command's encoding, at most.
    pub(super) fn items_max(&self) -> usize {
        62 + self.needs.labels.len() + self.dependencies.len() + self.resources.len()
    }
}

impl Decline {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        explained(&self.reason)
    }
}

impl Complete {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        if self.verified == Some(false) {
            return shape("of a result that is not verified nothing is said".to_owned());
        }
        self.result.check()
    }
}

impl Fail {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        explained(&self.reason)
    }
}

impl Refuse {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        if self.reason.len() <= WORK_REFUSAL_BYTES_MAX {
            return Ok(());
        }
        shape(format!("the reason why a member refuses a task has at most {WORK_REFUSAL_BYTES_MAX} bytes"))
    }
}

impl Abandon {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        explained(&self.reason)
    }
}

impl Define {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        named("a resource's name", &self.resource)
    }
}

impl Choice {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        named("a resource's name", &self.resource)
    }
}

#[cfg(test)]
mod tests;
