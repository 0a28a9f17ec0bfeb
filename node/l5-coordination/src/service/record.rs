//! What a node keeps of each of its groups beside the log: that it belongs to it, and whom it believes before it has the
//! group's state.

use althing_protocol::PublicKey;
use althing_protocol::group::{Endorsed, GroupId, Invitation, RULES};
use althing_store::{Batch, Durability, Family, Range, Store};
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};

use crate::consensus::{RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE};
use crate::error::GroupError;
use crate::machine::group::Group;
use crate::machine::successor;

/// The groups of a node: a group's 32 bytes.
pub const GROUPS: Family = Family("althing.groups");
/// Groups of one node, ended ones included.
pub const GROUPS_MAX: usize = 1_024;
/// Rows that are deleted at once.
const SWEEP_ROWS: usize = 1_024;

/// How a node stands to a group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Standing {
    /// It is a member, or is becoming one.
    #[n(0)]
    Member,
    /// It left, or was removed.
    #[n(1)]
    Gone,
    /// The group ended: its owners' signatures, for members that have not heard of it.
    #[n(2)]
    Dissolved(#[n(0)] Endorsed),
}

/// A row of [`GROUPS`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Record {
    /// Its name, for people.
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub standing: Standing,
    /// Members that are believed until this node is one by its own state: those of the ticket, and the leader that admitted it.
    /// None from then on.
    #[n(2)]
    pub sponsors: Vec<PublicKey>,
    /// The group's epoch when this node was invited. What the log says of it in earlier epochs is of an earlier membership.
    #[n(3)]
    pub since_epoch: u64,
    /// The version of the rules that this node knew when it took part first (P-198). None if its build had none: then the log and
    /// the snapshots here are executed to another state by the rules of today.
    #[n(4)]
    pub rules: Option<u32>,
    /// The random member of the invitation by which this node joins. Only the membership that came by it counts: the log may have
    /// earlier ones of this node. None for a founder, and where an earlier build wrote it.
    #[n(5)]
    pub nonce: Option<ByteArray<16>>,
}

impl Record {
    /// The record of a founder.
    pub fn founder(name: &str) -> Record {
        let standing = Standing::Member;
        Record {
            name: name.to_owned(),
            standing,
            sponsors: Vec::new(),
            since_epoch: 0,
            rules: Some(RULES),
            nonce: None,
        }
    }

    /// The record of who joins by an invitation, and believes the nodes of its ticket.
    pub fn guest(name: &str, sponsors: Vec<PublicKey>, invitation: &Invitation) -> Record {
        let (since_epoch, nonce) = (invitation.epoch, Some(invitation.nonce.into()));
        Record { sponsors, since_epoch, nonce, ..Record::founder(name) }
    }

    /// Whether the state has come to where `here` joined.
    pub fn has_joined(&self, group: &Group, here: PublicKey) -> bool {
        let Some(member) = group.members().get(&here) else { return false };
        match &self.nonce {
            Some(nonce) => successor::invitation(group, member).is_some_and(|invitation| invitation.nonce == **nonce),
            None => group.epoch() >= self.since_epoch,
        }
    }

    /// Whether this node is on its way into the group: what is executed here may be of an earlier membership, and the voters of the
    /// log here may be those of a time when it was the only one.
    pub fn is_joining(&self) -> bool {
        !self.sponsors.is_empty()
    }
}

/// All records.
pub(crate) fn all(store: &dyn Store) -> Result<Vec<(GroupId, Record)>, GroupError> {
    let rows = store.scan(GROUPS, Range::all(GROUPS_MAX + 1))?;
    let record = |(key, value): (Vec<u8>, Vec<u8>)| {
        let digest = key.as_slice().try_into().unwrap_or_default();
        let group = GroupId::from_digest(digest);
        match minicbor::decode(&value) {
            Ok(record) => Some((group, record)),
            Err(error) => {
                // It must not keep the node, and its other groups, from starting.
                let damaged = GroupError::Damaged { group, why: error.to_string() };
                tracing::error!(%group, error = %damaged, "a group is left out");
                None
            }
        }
    };
    Ok(rows.into_iter().filter_map(record).collect())
}

/// Writes a record; it is on disk afterwards.
pub(crate) async fn write(store: &dyn Store, group: GroupId, record: &Record) -> Result<(), GroupError> {
    let mut batch = Batch::new();
    batch.put(GROUPS, group.as_bytes().as_slice(), crate::consensus::wire::write(record));
    Ok(store.write(batch, Durability::Synced).await?)
}

/// Deletes the log, the votes, the snapshots and the results of a group. The replica must have stopped.
pub(crate) async fn delete_data(store: &dyn Store, group: GroupId) -> Result<(), GroupError> {
    for family in [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS] {
        loop {
            let keys = store.keys(family, Range::prefix(group.as_bytes().as_slice(), SWEEP_ROWS))?;
            if keys.is_empty() {
                break;
            }
            let mut batch = Batch::new();
            for key in keys {
                batch.delete(family, key);
            }
            store.write(batch, Durability::Buffered).await?;
        }
    }
    super::results::delete_all(store, group).await
}

/// Deletes everything of a group, the record too.
pub(crate) async fn forget(store: &dyn Store, group: GroupId) -> Result<(), GroupError> {
    delete_data(store, group).await?;
    let mut batch = Batch::new();
    batch.delete(GROUPS, group.as_bytes().as_slice());
    Ok(store.write(batch, Durability::Synced).await?)
}
