//! The messages of `/althing/raft/1`. All are strict CBOR; each begins with its group.

use althing_protocol::cbor;
use althing_protocol::group::{Endorsed, GroupId};
use althing_protocol::limits::BODY_BYTES_MAX;
use althing_protocol::{Digest, PublicKey};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

mod compared;

pub use compared::{Accuse, Accused, Compare, Compared, DIGEST_BYTES, NOTES_MAX};

pub use super::records::{Ballot, EntryRecord, MembersRecord, Payload, Position};
use crate::machine::outcome::Reply;
use crate::service::work::Report;

/// Bytes of entries in one append, and of rows in one part of a snapshot; one more entry or row may follow.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// Rows in one part: small ones must not exceed the data items of one message.
pub const PART_ROWS_MAX: usize = 1_024;
/// Heartbeats in one message: well within the data items of one.
pub const BEATS_MAX: usize = 256;
/// Entries of a group, one after the other: their numbers are below this.
const INDEX_MAX: u64 = u64::MAX / 2;
/// Terms of a group, one election each: they are at most this.
pub(crate) const TERM_MAX: u64 = u64::MAX / 2;
/// How far the term of a message may be above the last one here. A member misses fewer elections than this in ten hours of
/// nothing else, and nobody can use the terms up: that takes 2^47 messages.
pub const TERM_AHEAD_MAX: u64 = 1 << 16;
/// Terms that rise by more than this at once do so once a second: whoever was left behind rises as fast.
const TERM_LEAP: u64 = 1 << 10;

/// Whether a message contradicts itself, or why.
type Checked = Result<(), String>;

/// A leader replicates entries, or says that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Append {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// Who leads.
    #[n(1)]
    pub leader: Ballot,
    /// The entry before these.
    #[n(2)]
    pub previous: Option<Position>,
    /// The last entry that a majority has.
    #[n(3)]
    pub committed: Option<Position>,
    /// The entries, in order.
    #[n(4)]
    pub entries: Vec<EntryRecord>,
}

impl Append {
    /// Whether an elected leader can have sent it: the entries follow each other and the one before them.
    ///
    /// # Errors
    /// What contradicts that.
    pub fn check(&self) -> Checked {
        self.leader.leads()?;
        [self.previous, self.committed].into_iter().flatten().try_for_each(|at| self.leader.made(at))?;
        let mut before = self.previous;
        for entry in &self.entries {
            let (index, term) = before.map_or((0, 0), |at| (at.index + 1, at.term));
            if entry.at.index != index || entry.at.term < term {
                return Err(format!("the entry {} is out of order", entry.at.index));
            }
            self.leader.made(entry.at)?;
            if let Payload::Members(voters, learners) = &entry.payload {
                check_members(voters, learners)?;
            }
            before = Some(entry.at);
        }
        Ok(())
    }
}

impl Ballot {
    /// Whether a member can have reached its term, where the last one that is known is `known`; none: any that others can
    /// follow.
    ///
    /// # Errors
    /// That it is impossible.
    pub(crate) fn reachable(self, known: Option<u64>) -> Checked {
        let most = known.map_or(TERM_MAX, |known| known.saturating_add(TERM_AHEAD_MAX).min(TERM_MAX));
        if self.term <= most {
            return Ok(());
        }
        Err(format!("it names an impossible term: {} is above {most}, the highest that can follow here", self.term))
    }

    /// Whether its term is farther above the last one that is known than a few elections explain.
    pub(crate) fn is_leap(self, known: Option<u64>) -> bool {
        known.map_or(self.term > TERM_MAX, |known| self.term > known.saturating_add(TERM_LEAP))
    }

    fn leads(self) -> Checked {
        if self.elected { Ok(()) } else { Err("its sender says itself that it is not elected".to_owned()) }
    }

    /// Whether a leader of this term, or a candidate for it, can have that entry.
    fn made(self, at: Position) -> Checked {
        if at.term <= self.term && at.index < INDEX_MAX {
            return Ok(());
        }
        Err(format!("the entry {} is of a later term than the message, or has an impossible number", at.index))
    }
}

/// Whether these can be the members of a log: one set of voters, or two while they change; keys in order; learners beside.
fn check_members(voters: &[Vec<PublicKey>], learners: &[PublicKey]) -> Checked {
    let ascends = |keys: &[PublicKey]| keys.is_sorted_by(|one, next| one < next);
    let is_set = |keys: &Vec<PublicKey>| !keys.is_empty() && ascends(keys);
    if !(1..=2).contains(&voters.len()) || !voters.iter().all(is_set) || !ascends(learners) {
        return Err("its members are not one or two sets of voters and one of learners, in order".to_owned());
    }
    if learners.iter().any(|node| voters.iter().any(|set| set.contains(node))) {
        return Err("one of its learners is a voter".to_owned());
    }
    Ok(())
}

/// The answer to [`Append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Appended {
    /// All of them are on disk.
    #[n(0)]
    All,
    /// Those up to this one are.
    #[n(1)]
    UpTo(#[n(0)] Option<Position>),
    /// The entry before these is another one here.
    #[n(2)]
    Conflict,
    /// Another leader was voted for.
    #[n(3)]
    Higher(#[n(0)] Ballot),
}

/// A leader's heartbeat in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Beat {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The term that the sender leads.
    #[n(1)]
    pub term: u64,
    /// The last entry that the member is known to have.
    #[n(2)]
    pub previous: Option<Position>,
    /// The last entry that a majority has.
    #[n(3)]
    pub committed: Option<Position>,
}

impl Beat {
    /// The append without entries that it stands for.
    #[must_use]
    pub fn as_append(self, leader: PublicKey) -> Append {
        let leader = Ballot { term: self.term, node: leader, elected: true };
        Append { group: self.group, leader, previous: self.previous, committed: self.committed, entries: Vec::new() }
    }
}

/// Heartbeats of a leader in several groups.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Beats {
    /// Who leads, which is the sender: a message that somebody repeats must not say that he leads.
    #[n(0)]
    pub leader: PublicKey,
    /// One for each group, in the order of the groups.
    #[n(1)]
    pub beats: Vec<Beat>,
}

impl Beats {
    /// Whether the list is one that a member sends. Each heartbeat is checked by itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Checked {
        if !(1..=BEATS_MAX).contains(&self.beats.len()) {
            return Err(format!("a message has 1 to {BEATS_MAX} heartbeats, and not {}", self.beats.len()));
        }
        if !self.beats.is_sorted_by(|one, next| one.group < next.group) {
            return Err("its groups are not in order, or one is there twice".to_owned());
        }
        Ok(())
    }
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Heard {
    /// What an append without entries is answered.
    #[n(0)]
    Taken(#[n(0)] Appended),
    /// The replica has not answered yet.
    #[n(1)]
    Late,
    /// It is not served; an append is told why.
    #[n(2)]
    Unserved,
}

/// The answer to [`Beats`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BeatsHeard {
    /// One for each heartbeat, in their order.
    #[n(0)]
    pub heard: Vec<Heard>,
}

/// A candidate asks for a vote, or whether it would get one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Elect {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The candidate.
    #[n(1)]
    pub candidate: Ballot,
    /// Its last entry.
    #[n(2)]
    pub last: Option<Position>,
    /// The leader asked it to.
    #[n(3)]
    pub is_transfer: bool,
}

impl Elect {
    /// Whether a candidate can have sent it.
    ///
    /// # Errors
    /// What contradicts that.
    pub fn check(&self) -> Checked {
        if self.candidate.elected {
            return Err("its sender asks for a vote, and says that it is elected".to_owned());
        }
        self.last.map_or(Ok(()), |at| self.candidate.made(at))
    }
}

/// The answer to [`Elect`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Elected {
    /// For whom the member voted last.
    #[n(0)]
    pub ballot: Ballot,
    /// Whether the candidate gets its vote.
    #[n(1)]
    pub granted: bool,
    /// The member's last entry.
    #[n(2)]
    pub last: Option<Position>,
}

/// A part of a snapshot. The parts are sent in order; the last one installs it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SnapshotPart {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// Who leads.
    #[n(1)]
    pub leader: Ballot,
    /// The last entry that it covers.
    #[n(2)]
    pub last: Option<Position>,
    /// The members as of that entry.
    #[n(3)]
    pub members: MembersRecord,
    /// Rows that were sent before.
    #[n(4)]
    pub offset: u64,
    /// The rows.
    #[n(5)]
    pub rows: Vec<ByteVec>,
    /// Whether these are the last rows.
    #[n(6)]
    pub is_last: bool,
}

impl SnapshotPart {
    /// Whether an elected leader can have sent it.
    ///
    /// # Errors
    /// What contradicts that.
    pub fn check(&self) -> Checked {
        self.leader.leads()?;
        let Some(last) = self.last else { return Err("it is a snapshot of nothing".to_owned()) };
        self.leader.made(last)?;
        if self.members.at.is_none_or(|at| at > last) {
            return Err("no entry that it covers says who the members of the log are".to_owned());
        }
        if self.rows.len() > PART_ROWS_MAX {
            return Err(format!("a part of a snapshot has at most {PART_ROWS_MAX} rows"));
        }
        check_members(&self.members.voters, &self.members.learners)
    }
}

/// The answer to [`SnapshotPart`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SnapshotTaken {
    /// For whom the member voted last; absent before the last part.
    #[n(0)]
    pub ballot: Option<Ballot>,
}

/// A leader asks another member to take over.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Transfer {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// Who leads.
    #[n(1)]
    pub leader: Ballot,
    /// To whom.
    #[n(2)]
    pub to: PublicKey,
    /// The leader's last entry.
    #[n(3)]
    pub last: Option<Position>,
}

impl Transfer {
    /// Whether an elected leader can have sent it.
    ///
    /// # Errors
    /// What contradicts that.
    pub fn check(&self) -> Checked {
        self.leader.leads()?;
        self.last.map_or(Ok(()), |at| self.leader.made(at))
    }
}

/// The answer to [`Transfer`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Transferred {
    /// It will try.
    #[n(0)]
    Accepted,
    /// Another leader was voted for.
    #[n(1)]
    VoteChanged(#[n(0)] Ballot),
    /// Its log is behind.
    #[n(2)]
    Behind(#[n(0)] Option<Position>),
}

/// A batch of commands for the leader.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Submit {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The signed batch.
    #[n(1)]
    pub batch: ByteVec,
}

/// The answer to [`Submit`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Submitted {
    /// The leader executed it.
    #[n(0)]
    Done(#[n(0)] Reply),
    /// Another member leads, which can be dialled there; or none that is known.
    #[n(1)]
    NotLeader(#[n(0)] Option<PublicKey>, #[n(1)] Vec<String>),
    /// The leader changed meanwhile, so that nobody knows yet whether it is executed. The same batch may be sent again.
    #[n(2)]
    Unknown,
}

/// A member asks the leader for an entry that covers everything acknowledged so far.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Barrier {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
}

/// The answer to [`Barrier`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum BarrierAnswer {
    /// The entry's index.
    #[n(0)]
    At(#[n(0)] u64),
    /// Another member leads, or none that is known.
    #[n(1)]
    NotLeader(#[n(0)] Option<PublicKey>),
    /// The leader cannot reach a majority.
    #[n(2)]
    NoMajority,
}

/// A member tells the leader what it can do.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReportTo {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// What it can do.
    #[n(1)]
    pub report: Report,
}

/// The answer to [`ReportTo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reported {
    /// It was read.
    #[n(0)]
    Taken,
}

/// A member reads a part of a result that another one holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fetch {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The digest of the result.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub digest: Digest,
    /// Which part, counted from 0.
    #[n(2)]
    pub part: u32,
}

/// The answer to [`Fetch`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Fetched {
    /// Its bytes.
    #[n(0)]
    Part(#[n(0)] ByteVec),
    /// There is no such part here.
    #[n(1)]
    NotHeld,
}

/// Why a message was not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum Unserved {
    /// The message is malformed.
    #[n(0)]
    #[error("the message is malformed: {0}")]
    Malformed(#[n(0)] String),
    /// The group is not on this node.
    #[n(1)]
    #[error("this node is no member of the group")]
    NoSuchGroup,
    /// The caller is no member.
    #[n(2)]
    #[error("the caller is no member of the group")]
    NotAMember,
    /// The group ended, as its owners signed.
    #[n(3)]
    #[error("the group was dissolved")]
    Dissolved(#[n(0)] Endorsed),
    /// The replica does not run.
    #[n(4)]
    #[error("the replica of the group does not run: {0}")]
    Stopped(#[n(0)] String),
    /// The caller led the group, and equivocated.
    #[n(5)]
    #[error("the caller gave members of the group different entries, as it signed itself")]
    Equivocated,
    /// The charter leaves reading to the owners, and what was asked for is not the caller's own.
    #[n(6)]
    #[error("the group's charter lets only its owners read this, and the caller is no node of an owner")]
    OnlyOwnersRead,
    /// The node takes as much of other snapshots as it can.
    #[n(7)]
    #[error("the member is taking other snapshots; this one may be sent again later")]
    Busy,
    /// The caller is no member by a state that began with another member's snapshot, or never was one.
    #[n(8)]
    #[error(
        "the caller is no member of the group here, and this member did not see it leave; if the owners did expel it, have it \
         forget the group, and join anew"
    )]
    Unshown,
}

/// The value in these bytes.
///
/// # Errors
/// What is wrong with them.
pub fn read<'b, T: Decode<'b, ()> + Encode<()>>(bytes: &'b [u8]) -> Result<T, String> {
    cbor::check(bytes, BODY_BYTES_MAX).map_err(|error| error.to_string())?;
    let value: T = minicbor::decode(bytes).map_err(|error| error.to_string())?;
    if write(&value) != bytes {
        return Err("members that this version does not know".to_owned());
    }
    Ok(value)
}

/// The bytes of a value.
#[must_use]
pub fn write<T: Encode<()>>(value: &T) -> Vec<u8> {
    super::records::encode(value)
}

#[cfg(test)]
mod tests;
