//! The types that openraft is used with.

use std::fmt;
use std::sync::Arc;

use althing_protocol::PublicKey;

use super::runtime::Runtime;
use crate::machine::outcome::Reply;

openraft::declare_raft_types!(
    pub Types:
        D = Proposal,
        R = Applied,
        NodeId = NodeId,
        Node = (),
        Term = u64,
        // At most one leader in a term, as in the paper on Raft.
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, NodeId>,
        AsyncRuntime = Runtime,
);

pub type LogId = openraft::alias::LogIdOf<Types>;
pub type Vote = openraft::alias::VoteOf<Types>;
pub type Entry = openraft::alias::EntryOf<Types>;
pub type Membership = openraft::Membership<NodeId, ()>;
pub type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub type EntryPayload = openraft::alias::EntryPayloadOf<Types>;
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;

/// A batch of commands in the log.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The time of the leader that accepted it, Unix milliseconds.
    pub at_ms: u64,
    /// The signed batch.
    pub batch: Arc<[u8]>,
}

/// What became of an entry; none for those that hold no commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied(pub Option<Reply>);

/// A node's key, as openraft wants it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub PublicKey);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} ms", self.batch.len(), self.at_ms)
    }
}

/// openraft's own suite of tests numbers its nodes.
#[cfg(test)]
impl From<u64> for NodeId {
    fn from(number: u64) -> NodeId {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        NodeId(althing_protocol::SecretKey::from_seed(&seed).public())
    }
}
