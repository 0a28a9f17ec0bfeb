//! The receiving side of `/althing/raft/1`: what other members ask of a replica.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::PublicKey;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, VoteRequest,
};
use tokio::time::Instant;

use super::replica::{Replica, ReplicaError};
use super::types::{Entry, LogId, NodeId, SnapshotMeta, StoredMembership, Types, Vote};
use super::wire::{
    Append, Appended, Ballot, Elect, Elected, EntryRecord, Payload, Position, SnapshotPart, SnapshotTaken, Transfer,
    Transferred,
};
use crate::machine::group::Group;

/// Bytes of one snapshot: values and tasks at their bounds, with what each carries beside its content.
const SNAPSHOT_BYTES_MAX: usize = 512 << 20;

/// Bytes that a row counts beside its own.
const ROW_OVERHEAD: usize = 64;

/// How long the parts of a snapshot are kept for the next one: each may take ten seconds, and be sent again.
const ARRIVING_PATIENCE: Duration = Duration::from_secs(60);

/// A snapshot that arrives in parts.
pub(crate) struct Arriving {
    parts: Mutex<Option<Parts>>,
    bytes_max: usize,
}

impl Default for Arriving {
    fn default() -> Arriving {
        Arriving { parts: Mutex::new(None), bytes_max: SNAPSHOT_BYTES_MAX }
    }
}

struct Parts {
    from: PublicKey,
    term: u64,
    last: Option<Position>,
    /// When a part came last.
    heard: Instant,
    rows: Vec<Vec<u8>>,
    bytes: usize,
}

fn refused(error: &dyn std::fmt::Display) -> ReplicaError {
    ReplicaError::Stopped(error.to_string())
}

/// How long an append waits for what it needs to be applied, before the leader is told to send the rest again.
const APPLY_PATIENCE: Duration = Duration::from_millis(50);

/// Serves [`Append`]. Entries that change the log's members are taken only if the state, which obeys the owners' signatures,
/// says the same: until it does, the entries before them are all that is taken.
pub(crate) async fn append(replica: &Replica, append: Append) -> Result<Appended, ReplicaError> {
    append.check().map_err(ReplicaError::Malformed)?;
    let Append { mut entries, previous, .. } = append;
    let kept = entries.iter().position(|entry| !may_take(replica, entry)).unwrap_or(entries.len());
    let is_cut = kept < entries.len();
    entries.truncate(kept);
    let up_to = entries.last().map_or(previous, |entry| Some(entry.at));
    let entries = entries.into_iter().map(super::wire::EntryRecord::into_entry).collect::<Result<Vec<Entry>, String>>();
    let request = AppendEntriesRequest::<Types> {
        vote: append.leader.into(),
        prev_log_id: previous.map(LogId::from),
        entries: entries.map_err(|why| refused(&why))?,
        leader_commit: in_common(append.committed, up_to).map(LogId::from),
    };
    let mut changes = replica.changes();
    let answer = replica.raft().append_entries(request).await.map_err(|error| refused(&error))?;
    Ok(match answer {
        AppendEntriesResponse::Success if is_cut => {
            let applied =
                async { while replica.applied() < up_to.map(|at| at.index) && changes.changed().await.is_ok() {} };
            // The leader sends the rest again in any case.
            let _ = tokio::time::timeout(APPLY_PATIENCE, applied).await;
            Appended::UpTo(up_to)
        }
        AppendEntriesResponse::Success => Appended::All,
        AppendEntriesResponse::PartialSuccess(at) => Appended::UpTo(at.map(Position::from)),
        AppendEntriesResponse::Conflict => Appended::Conflict,
        AppendEntriesResponse::HigherVote(vote) => Appended::Higher(Ballot::from(&vote)),
    })
}

/// The last entry to be executed, where the leader says that `committed` is, and its log is the one here up to `up_to`. Positions
/// in one log ascend: what lies beyond that, and is of an earlier term, contradicts it. openraft would take it, as the lower one
/// of both, for an entry that is here.
fn in_common(committed: Option<Position>, up_to: Option<Position>) -> Option<Position> {
    match (committed, up_to) {
        (Some(said), Some(last)) if said.index > last.index && said.term < last.term => up_to,
        _ => committed,
    }
}

/// By how much the leader's clock may be ahead of this node's.
const AHEAD_MAX_MS: u64 = 120_000;

/// Whether an entry may enter the log now.
fn may_take(replica: &Replica, entry: &EntryRecord) -> bool {
    let (voters, learners) = match &entry.payload {
        Payload::Blank => return true,
        // The group's time never falls: a leader whose clock is ahead must not set it.
        Payload::Batch(at_ms, _) => return *at_ms <= replica.now_ms().saturating_add(AHEAD_MAX_MS),
        Payload::Members(voters, learners) => (voters, learners),
    };
    let voters: Vec<BTreeSet<PublicKey>> = voters.iter().map(|set| set.iter().copied().collect()).collect();
    let view = replica.view();
    let state = view.group();
    if state.charter().is_none() {
        // The founder alone begins; who that is the founding says, which follows.
        return entry.at.index == 0 && learners.is_empty() && matches!(voters.as_slice(), [one] if one.len() == 1);
    }
    let (present, present_learners) = replica.present_members();
    state.members().justify(&voters, &learners.iter().copied().collect(), &present, &present_learners)
}

/// Serves [`Elect`].
pub(crate) async fn elect(replica: &Replica, elect: Elect, is_rehearsal: bool) -> Result<Elected, ReplicaError> {
    elect.check().map_err(ReplicaError::Malformed)?;
    let mut request = VoteRequest::<Types>::new(elect.candidate.into(), elect.last.map(LogId::from));
    request.leadership_transfer = elect.is_transfer;
    let raft = replica.raft();
    let answer = if is_rehearsal { raft.pre_vote(request).await } else { raft.vote(request).await };
    let answer = answer.map_err(|error| refused(&error))?;
    let last = answer.last_log_id.map(Position::from);
    Ok(Elected { ballot: Ballot::from(&answer.vote), granted: answer.vote_granted, last })
}

/// Serves [`Transfer`].
pub(crate) async fn transfer(replica: &Replica, transfer: Transfer) -> Result<Transferred, ReplicaError> {
    transfer.check().map_err(ReplicaError::Malformed)?;
    let last = transfer.last.map(LogId::from);
    let request = TransferLeaderRequest::<Types>::new(transfer.leader.into(), NodeId(transfer.to), last);
    Ok(match replica.raft().handle_transfer_leader(request).await? {
        Ok(()) => Transferred::Accepted,
        Err(TransferLeaderError::VoteChanged { actual, .. }) => Transferred::VoteChanged(Ballot::from(&actual)),
        Err(TransferLeaderError::LogNotFlushed { actual, .. }) => Transferred::Behind(actual.map(Position::from)),
    })
}

/// Serves [`SnapshotPart`].
pub(crate) async fn snapshot(
    replica: &Replica,
    arriving: &Arriving,
    from: PublicKey,
    part: SnapshotPart,
) -> Result<SnapshotTaken, ReplicaError> {
    part.check().map_err(ReplicaError::Malformed)?;
    let (vote, last) = (Vote::from(part.leader), part.last);
    let members = StoredMembership::try_from(part.members.clone()).map_err(|why| refused(&why))?;
    if replica.applied() >= last.map(|at| at.index) && replica.applied().is_some() {
        return Err(refused(&"the snapshot is of nothing that this member lacks"));
    }
    let Some(rows) = arriving.take(from, part)? else { return Ok(SnapshotTaken { ballot: None }) };
    let (rows, members) = check_snapshot(replica, rows, members)?;
    let meta = SnapshotMeta { last_log_id: last.map(LogId::from), last_membership: members };
    let snapshot = openraft::Snapshot { meta, snapshot: Arc::new(rows) };
    let answer = replica.raft().install_full_snapshot(vote, snapshot).await?;
    Ok(SnapshotTaken { ballot: Some(Ballot::from(&answer.vote)) })
}

/// A snapshot is taken only if its charters and invitations are signed as they must be, and the log's members are those
/// that its state names.
fn check_snapshot(
    replica: &Replica,
    rows: Vec<Vec<u8>>,
    members: StoredMembership,
) -> Result<(Vec<Vec<u8>>, StoredMembership), ReplicaError> {
    let state = replica.read_rows(&rows).map_err(|error| refused(&error))?;
    may_follow(&state, replica.view().group(), replica.now_ms()).map_err(|why| refused(&why))?;
    let keys = |set: &BTreeSet<NodeId>| set.iter().map(|node| node.0).collect::<BTreeSet<PublicKey>>();
    let voters: Vec<BTreeSet<PublicKey>> = members.membership().get_joint_config().iter().map(keys).collect();
    let learners = members.membership().learner_ids().map(|node| node.0).collect();
    if !state.members().justify(&voters, &learners, &[], &BTreeSet::new()) {
        return Err(refused(&"the members of the snapshot are not those that its owners admitted"));
    }
    Ok((rows, members))
}

/// Whether the state of a snapshot may take the place of the one here: a later one of its history, of which the time is one
/// that entries could have set.
fn may_follow(state: &Group, here: &Group, now_ms: u64) -> Result<(), &'static str> {
    if !state.follows(here) {
        return Err("the snapshot is older than the state here, or of another history");
    }
    if state.now_ms > now_ms.saturating_add(AHEAD_MAX_MS) {
        return Err("the time of the snapshot is ahead of the clock here by more than two minutes; set the clocks");
    }
    Ok(())
}

impl Arriving {
    /// Gives up what will not be completed: of a term before this one, or without another part for too long.
    pub(crate) fn give_up(&self, term: u64) {
        let mut arriving = self.parts.lock().expect("no holder of the parts panics");
        let is_over = |parts: &Parts| parts.term < term || parts.heard.elapsed() > ARRIVING_PATIENCE;
        if arriving.as_ref().is_some_and(is_over) {
            *arriving = None;
        }
    }

    /// Adds a part; all rows after the last one.
    fn take(&self, from: PublicKey, part: SnapshotPart) -> Result<Option<Vec<Vec<u8>>>, ReplicaError> {
        let (term, heard) = (part.leader.term, Instant::now());
        self.give_up(term);
        let mut arriving = self.parts.lock().expect("no holder of the parts panics");
        if part.offset == 0 {
            *arriving = Some(Parts { from, term, last: part.last, heard, rows: Vec::new(), bytes: 0 });
        }
        let expected = |parts: &&mut Parts| {
            (parts.from, parts.term, parts.last) == (from, term, part.last) && parts.rows.len() as u64 == part.offset
        };
        let Some(parts) = arriving.as_mut().filter(expected) else {
            return Err(refused(&"a part of a snapshot came out of order"));
        };
        parts.heard = heard;
        // A row counts more than its bytes, so that empty ones are bounded too.
        parts.bytes += part.rows.iter().map(|row| row.len() + ROW_OVERHEAD).sum::<usize>();
        if parts.bytes > self.bytes_max {
            *arriving = None;
            return Err(refused(&"the snapshot is too large"));
        }
        parts.rows.extend(part.rows.into_iter().map(Vec::from));
        Ok(if part.is_last { arriving.take().map(|parts| parts.rows) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::GroupId;
    use althing_protocol::SecretKey;

    use super::super::wire::MembersRecord;
    use super::*;

    fn node(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn part(offset: u64, rows: &[&[u8]], index: u64, is_last: bool) -> SnapshotPart {
        SnapshotPart {
            group: GroupId::from_digest([3; 32]),
            leader: Ballot { term: 1, node: node(1), elected: true },
            last: Some(Position { term: 1, index }),
            members: MembersRecord { at: None, voters: Vec::new(), learners: Vec::new() },
            offset,
            rows: rows.iter().map(|row| row.to_vec().into()).collect(),
            is_last,
        }
    }

    /// P-104
    #[test]
    fn parts_of_a_snapshot_come_in_order_from_one_member() {
        let arriving = Arriving::default();
        assert_eq!(arriving.take(node(1), part(0, &[b"a", b"b"], 9, false)).expect("the first"), None);
        assert!(arriving.take(node(1), part(3, &[b"d"], 9, true)).is_err(), "one is missing");
        assert!(arriving.take(node(2), part(2, &[b"c"], 9, true)).is_err(), "of another member");
        assert!(arriving.take(node(1), part(2, &[b"c"], 8, true)).is_err(), "of another snapshot");
        let rows = arriving.take(node(1), part(2, &[b"c"], 9, true)).expect("the last");
        assert_eq!(rows, Some(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]));
        assert!(arriving.take(node(1), part(3, &[], 9, true)).is_err(), "it was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_nothing_follows_are_given_up() {
        let begun = || {
            let arriving = Arriving::default();
            assert_eq!(arriving.take(node(1), part(0, &[b"a"], 9, false)).expect("the first"), None);
            arriving
        };
        let is_kept = |arriving: &Arriving| arriving.parts.lock().expect("nobody panics").is_some();
        let arriving = begun();
        tokio::time::advance(ARRIVING_PATIENCE).await;
        arriving.give_up(1);
        assert!(is_kept(&arriving), "the next part may come");
        assert_eq!(arriving.take(node(1), part(1, &[b"b"], 9, false)).expect("the second"), None);
        tokio::time::advance(ARRIVING_PATIENCE).await;
        arriving.give_up(1);
        assert!(is_kept(&arriving), "each part begins to wait anew");
        tokio::time::advance(Duration::from_millis(1)).await;
        arriving.give_up(1);
        assert!(!is_kept(&arriving), "nothing came");
        let arriving = begun();
        arriving.give_up(2);
        assert!(!is_kept(&arriving), "another one leads");
        let (arriving, mut later) = (begun(), part(1, &[b"b"], 9, false));
        later.leader.term = 2;
        assert!(arriving.take(node(1), later).is_err() && !is_kept(&arriving), "of another term");
    }

    /// P-105
    #[test]
    fn a_snapshot_does_not_set_the_time_of_the_group_far_ahead() {
        let here = Group::new(GroupId::from_digest([3; 32]), "test");
        let at = |now_ms: u64| Group { now_ms, ..here.clone() };
        assert_eq!(may_follow(&at(1_000 + AHEAD_MAX_MS), &here, 1_000), Ok(()));
        assert!(may_follow(&at(1_001 + AHEAD_MAX_MS), &here, 1_000).is_err_and(|why| why.contains("clock")));
        assert!(may_follow(&here, &at(1_000), 1_000).is_err_and(|why| why.contains("older")));
    }

    /// P-104
    #[test]
    fn a_snapshot_has_a_largest_size() {
        let row = vec![0; 1 << 10];
        let arriving = Arriving { bytes_max: 1 << 20, ..Arriving::default() };
        let rows = |count: usize| (0..count).map(|_| row.as_slice()).collect::<Vec<_>>();
        let most = arriving.bytes_max / (row.len() + ROW_OVERHEAD);
        assert!(arriving.take(node(1), part(0, &rows(most), 9, false)).is_ok());
        assert!(arriving.take(node(1), part(most as u64, &[&row], 9, true)).is_err());
        // What was taken of it is given up.
        assert!(arriving.take(node(1), part(most as u64, &[], 9, true)).is_err());
    }
}
