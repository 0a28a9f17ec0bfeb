//! How entries, votes and memberships are encoded, on disk and on the wire.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_protocol::PublicKey;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use openraft::entry::RaftEntry as _;
use openraft::{EntryPayload, StoredMembership as Stored};

use super::types::{Entry, LogId, Membership, NodeId, Proposal, StoredMembership, Vote};

/// The position of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(array)]
pub struct Position {
    /// The term of the leader that made it.
    #[n(0)]
    pub term: u64,
    /// Its number.
    #[n(1)]
    pub index: u64,
}

/// A vote: a node that a member follows, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Ballot {
    /// The term.
    #[n(0)]
    pub term: u64,
    /// The candidate.
    #[n(1)]
    pub node: PublicKey,
    /// Whether a majority elected it.
    #[n(2)]
    pub elected: bool,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct EntryRecord {
    /// Its position.
    #[n(0)]
    pub at: Position,
    /// What it holds.
    #[n(1)]
    pub payload: Payload,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Payload {
    /// Nothing: a leader begins its term with it.
    #[n(0)]
    Blank,
    /// A signed batch of commands, and the leader's time in Unix milliseconds.
    #[n(1)]
    Batch(#[n(0)] u64, #[n(1)] ByteVec),
    /// The members: each list is a set of voters, of which a majority must agree; and those that do not vote.
    #[n(2)]
    Members(#[n(0)] Vec<Vec<PublicKey>>, #[n(1)] Vec<PublicKey>),
}

/// Members, and where the log says so.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MembersRecord {
    /// The entry.
    #[n(0)]
    pub at: Option<Position>,
    /// As in [`Payload::Members`].
    #[n(1)]
    pub voters: Vec<Vec<PublicKey>>,
    /// As in [`Payload::Members`].
    #[n(2)]
    pub learners: Vec<PublicKey>,
}

/// The value in bytes.
pub(crate) fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    minicbor::to_vec(value).expect("writing to a vector cannot fail")
}

impl From<LogId> for Position {
    fn from(id: LogId) -> Position {
        Position { term: id.leader_id.term, index: id.index }
    }
}

impl From<Position> for LogId {
    fn from(at: Position) -> LogId {
        LogId::new(at.term.into(), at.index)
    }
}

impl From<&Vote> for Ballot {
    fn from(vote: &Vote) -> Ballot {
        Ballot { term: vote.leader_id.term, node: vote.leader_id.voted_for.0, elected: vote.committed }
    }
}

impl From<Ballot> for Vote {
    fn from(ballot: Ballot) -> Vote {
        let vote = if ballot.elected { Vote::new_committed } else { Vote::new };
        vote(ballot.term, NodeId(ballot.node))
    }
}

fn of_membership(membership: &Membership) -> (Vec<Vec<PublicKey>>, Vec<PublicKey>) {
    let keys = |set: &BTreeSet<NodeId>| set.iter().map(|node| node.0).collect();
    let voters = membership.get_joint_config().iter().map(keys).collect();
    (voters, membership.learner_ids().map(|node| node.0).collect())
}

/// The membership, if it has voters at all.
fn to_membership(voters: Vec<Vec<PublicKey>>, learners: Vec<PublicKey>) -> Result<Membership, String> {
    let sets: Vec<BTreeSet<NodeId>> = voters.into_iter().map(|set| set.into_iter().map(NodeId).collect()).collect();
    let learners: BTreeSet<NodeId> = learners.into_iter().map(NodeId).collect();
    let nodes: BTreeSet<NodeId> = sets.iter().flatten().copied().chain(learners).collect();
    Membership::new(sets, nodes.into_iter().map(|node| (node, ())).collect::<std::collections::BTreeMap<_, _>>())
        .map_err(|error| error.to_string())
}

impl EntryRecord {
    /// The record of an entry.
    pub(crate) fn of(entry: &Entry) -> EntryRecord {
        let payload = match &entry.payload {
            EntryPayload::Blank => Payload::Blank,
            EntryPayload::Normal(proposal) => Payload::Batch(proposal.at_ms, proposal.batch.to_vec().into()),
            EntryPayload::Membership(membership) => {
                let (voters, learners) = of_membership(membership);
                Payload::Members(voters, learners)
            }
        };
        EntryRecord { at: entry.log_id().into(), payload }
    }
}

impl EntryRecord {
    pub(crate) fn into_entry(self) -> Result<Entry, String> {
        let payload = match self.payload {
            Payload::Blank => EntryPayload::Blank,
            Payload::Batch(at_ms, batch) => {
                EntryPayload::Normal(Proposal { at_ms, batch: Arc::from(batch.as_slice()) })
            }
            Payload::Members(voters, learners) => EntryPayload::Membership(to_membership(voters, learners)?),
        };
        Ok(Entry::new(self.at.into(), payload))
    }
}

impl From<&StoredMembership> for MembersRecord {
    fn from(stored: &StoredMembership) -> MembersRecord {
        let (voters, learners) = of_membership(stored.membership());
        MembersRecord { at: stored.log_id().as_ref().map(|id| (*id).into()), voters, learners }
    }
}

impl TryFrom<MembersRecord> for StoredMembership {
    type Error = String;

    fn try_from(record: MembersRecord) -> Result<StoredMembership, String> {
        if record.at.is_none() && record.voters.is_empty() {
            return Ok(StoredMembership::default());
        }
        Ok(Stored::new(record.at.map(LogId::from), to_membership(record.voters, record.learners)?))
    }
}
