//! Leaves as people read them.

use althing_protocol::AgentId;
use althing_protocol::audit::{AuditLeaf, AuditOutcome, AuditStage, BodyRole, OpenBody};

use super::rows::LeafId;

/// A body of a leaf, as far as it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordBody {
    /// It is there.
    Whole(OpenBody),
    /// It was too large to be kept: whoever has it shows with the salt that it is the one.
    Salt {
        /// What it is of the leaf.
        role: BodyRole,
        /// What was hashed before it.
        salt: [u8; 32],
        /// How large it was.
        bytes: u64,
    },
    /// It was erased with its subject, or is older than bodies are kept.
    Absent(BodyRole),
}

/// A leaf with its place and its bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The leaf's own.
    pub id: LeafId,
    /// Which of the node's logs, from 1.
    pub log: u32,
    /// Which entry of it.
    pub index: u64,
    /// What happened.
    pub leaf: AuditLeaf,
    /// In the order of the leaf's commitments. Empty in lists.
    pub bodies: Vec<RecordBody>,
}

/// Which leaves are listed: all that each member which is there fits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of an agent.
    pub agent: Option<AgentId>,
    /// Those of a stage.
    pub stage: Option<AuditStage>,
    /// Those with an outcome.
    pub outcome: Option<AuditOutcome>,
    /// Those whose action begins so.
    pub action: Option<String>,
    /// Those of somebody: among the principals, or accountable.
    pub person: Option<String>,
    /// Those made then or later, Unix milliseconds.
    pub from_ms: Option<u64>,
    /// Those made earlier, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Those before this place: a log and an entry of it. The end of one page is the beginning of the next.
    pub before: Option<(u32, u64)>,
}

impl AuditFilter {
    /// Whether a leaf is one of those, wherever it is.
    #[must_use]
    pub fn fits(&self, leaf: &AuditLeaf) -> bool {
        let of = |person: &String| leaf.principals.contains(person) || leaf.accountable.as_ref() == Some(person);
        let begins = |start: &String| leaf.action.as_ref().is_some_and(|action| action.starts_with(start.as_str()));
        self.agent.as_ref().is_none_or(|agent| leaf.agent.as_ref() == Some(agent))
            && self.stage.is_none_or(|stage| leaf.stage == stage)
            && self.outcome.is_none_or(|outcome| leaf.outcome == Some(outcome))
            && self.action.as_ref().is_none_or(begins)
            && self.person.as_ref().is_none_or(of)
            && self.from_ms.is_none_or(|from_ms| leaf.at_ms >= from_ms)
            && self.until_ms.is_none_or(|until_ms| leaf.at_ms < until_ms)
    }
}

/// Leaves, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Without their bodies.
    pub records: Vec<AuditRecord>,
    /// Where the next page begins, for [`AuditFilter::before`]; none where there is nothing before.
    pub next: Option<(u32, u64)>,
}
