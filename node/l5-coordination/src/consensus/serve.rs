//! The receiving side of `/althing/raft/1`: what other members ask of a replica.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_protocol::PublicKey;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, VoteRequest,
};

use super::agreement;
use super::arriving::{Arriving, PartError};
use super::image::Image;
use super::replica::{Replica, ReplicaError, executed};
use super::runtime::apart;
use super::state_store::{self, StateStore};
use super::types::{Entry, LogId, NodeId, SnapshotMeta, StoredMembership, Types, Vote};
use super::wire::{
    Append, Appended, Ballot, Elect, Elected, EntryRecord, Payload, Position, SnapshotPart, SnapshotTaken, Transfer,
    Transferred,
};
use crate::machine::group::Group;
use crate::machine::successor;

fn refused(error: &dyn std::fmt::Display) -> ReplicaError {
    ReplicaError::Stopped(error.to_string())
}

/// How long an append waits for what it needs to be applied, before the leader is told to send the rest again.
const APPLY_PATIENCE: Duration = Duration::from_millis(50);

/// Serves [`Append`]. Entries that change the log's members are taken only if the state, which obeys the owners' signatures,
/// says the same: until it does, the entries before them are all that is taken.
pub(crate) async fn append(replica: &Replica, append: Append) -> Result<Appended, ReplicaError> {
    append.check().map_err(ReplicaError::Malformed)?;
    agreement::check(&append, executed(replica)?, |index| replica.term_at(index))?.map_err(ReplicaError::Malformed)?;
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
    // openraft's own switch does not hold for this.
    if !replica.stands.load(Ordering::Relaxed) {
        return Err(ReplicaError::Malformed("this node is joining, and does not take over the lead".to_owned()));
    }
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
    let covers = |executed: Position| last.is_none_or(|last| executed.index >= last.index);
    if executed(replica)?.is_some_and(covers) {
        return Ok(SnapshotTaken { ballot: Some(replica.ballot()) });
    }
    let taken = arriving.take(from, part).map_err(|error| match error {
        PartError::Room => ReplicaError::Busy,
        PartError::Order | PartError::Size => refused(&error),
    });
    let Some(arrived) = taken? else { return Ok(SnapshotTaken { ballot: None }) };
    let meta = SnapshotMeta { last_log_id: last.map(LogId::from), last_membership: members.clone() };
    let (turn, state) = (arriving.turn().await, replica.state().clone());
    let (here, now_ms) = (replica.here(), replica.now_ms());
    let checking = move || {
        // Until it is done, though whoever waited for it may have gone.
        let _turn = turn;
        let group = check_snapshot(&state, &arrived.rows, &members, here, now_ms)?;
        Ok::<_, ReplicaError>(Image::checked(arrived.rows, group, arrived.share))
    };
    let snapshot = openraft::Snapshot { meta, snapshot: apart(checking).await?? };
    // That took a while. openraft panics at a snapshot that says something else of what is committed by now.
    if let Some(last) = last
        && replica.has_committed(last.index).await?
    {
        return Ok(SnapshotTaken { ballot: Some(replica.ballot()) });
    }
    let answer = replica.raft().install_full_snapshot(vote, snapshot).await?;
    Ok(SnapshotTaken { ballot: Some(Ballot::from(&answer.vote)) })
}

/// A snapshot is taken only if its charters and invitations are signed as they must be, and the log's members are those
/// that its state names. The state that it is of. It takes up to seconds.
fn check_snapshot(
    here: &StateStore,
    rows: &[Vec<u8>],
    members: &StoredMembership,
    node: PublicKey,
    now_ms: u64,
) -> Result<Group, ReplicaError> {
    let state = here.restore(rows).map_err(|error| refused(&error))?;
    may_follow(&state, &here.view().group, node, now_ms).map_err(|why| refused(&why))?;
    let learners = members.membership().learner_ids().map(|node| node.0).collect();
    if !state.members().justify(&state_store::voters(members), &learners, &[], &BTreeSet::new()) {
        return Err(refused(&"the members of the snapshot are not those that its owners admitted"));
    }
    here.check_log(members).map_err(|why| refused(&format!("the snapshot is refused: {why}")))?;
    Ok(state)
}

/// Whether the state of a snapshot may take the place of the one here, and its time is one that entries could have set.
fn may_follow(state: &Group, here: &Group, node: PublicKey, now_ms: u64) -> Result<(), String> {
    successor::check(state, here, node).map_err(|why| format!("the snapshot is refused: {why}"))?;
    if state.now_ms > now_ms.saturating_add(AHEAD_MAX_MS) {
        return Err(
            "the time of the snapshot is ahead of the clock here by more than two minutes; set the clocks".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use althing_protocol::{GroupId, SecretKey};

    use super::*;

    /// P-105
    #[test]
    fn a_snapshot_does_not_set_the_time_of_the_group_far_ahead() {
        let node = SecretKey::from_seed(&[1; 32]).public();
        let here = Group::new(GroupId::from_digest([3; 32]), "test");
        let at = |now_ms: u64| Group { now_ms, ..here.clone() };
        assert_eq!(may_follow(&at(1_000 + AHEAD_MAX_MS), &here, node, 1_000), Ok(()));
        assert!(may_follow(&at(1_001 + AHEAD_MAX_MS), &here, node, 1_000).is_err_and(|why| why.contains("clock")));
        assert!(may_follow(&here, &at(1_000), node, 1_000).is_err_and(|why| why.contains("older")));
    }
}
