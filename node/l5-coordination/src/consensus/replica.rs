//! One member's replica of a group: openraft between the log, the state and the links to the other members.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLockReadGuard};
use std::time::Duration;

use althing_communication::WallClock;
use althing_protocol::group::{Author, Batch, Command, GroupId};
use althing_protocol::{Authored, PublicKey};
use althing_store::Store;
use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::{ClientWriteError, Fatal, LinearizableReadError, RaftError};
use openraft::raft::VoteRequest;
use openraft::{ChangeMembers, Instant as _, Raft, ReadPolicy, ServerState};

use super::agreement;
use super::config::{ReplicaConfig, raft_config};
use super::heartbeats::Heartbeats;
use super::log_store::LogStore;
use super::moves::Moves;
use super::network::{Links, OnUnserved};
use super::pen::Pen;
use super::records::{Ballot, Position};
use super::runtime::apart;
use super::state_store::{self, State, StateStore};
use super::types::{LogId, NodeId, Proposal, Types};
use super::watch;
use super::wire::{TERM_AHEAD_MAX, TERM_MAX};
use crate::machine::group::{Group, admission};
use crate::machine::outcome::Reply;
use crate::machine::replacement::Seen;

/// Why a replica does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// Its data cannot be read, or is damaged.
    #[error("the data of the group cannot be used: {0}")]
    Store(#[from] io::Error),
    /// A message contradicts itself.
    #[error("the message is malformed: {0}")]
    Malformed(String),
    /// It does not lead.
    #[error("another member leads the group")]
    NotLeader(Option<PublicKey>),
    /// It stopped leading meanwhile: nobody knows yet whether the commands are executed.
    #[error("the group's leader changed meanwhile; ask again what became of the commands")]
    Unknown(Option<PublicKey>),
    /// A member that cannot lead yet.
    #[error("the member {0} cannot lead yet: it does not vote, or lacks entries; try again when it does")]
    NotReady(PublicKey),
    /// A member that did not take over.
    #[error("the member {0} did not take the lead; the group elects a leader")]
    NotTaken(PublicKey),
    /// A majority of the voters cannot be reached.
    #[error("a majority of the group's voters cannot be reached")]
    NoMajority,
    /// It takes no snapshot now, since others arrive.
    #[error("the node is taking as much of other snapshots as it can; send this one again later")]
    Busy,
    /// It ended.
    #[error("the replica of the group has stopped: {0}")]
    Stopped(String),
}

impl From<Fatal<Types>> for ReplicaError {
    fn from(error: Fatal<Types>) -> ReplicaError {
        ReplicaError::Stopped(error.to_string())
    }
}

/// What a member does in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Decides the order of commands.
    Leader,
    /// Votes, and follows the leader.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Does not vote.
    Learner,
}

/// How long a member may take to take over the lead.
const TRANSFER: Duration = Duration::from_secs(2);

/// A replica at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What this member does.
    pub role: Role,
    /// Who leads, as far as this member knows.
    pub leader: Option<PublicKey>,
    /// The term.
    pub term: u64,
    /// The last entry of the log here.
    pub last: Option<u64>,
    /// The last entry that was applied here.
    pub applied: Option<u64>,
    /// The last entry that the snapshot here covers.
    pub snapshot: Option<u64>,
    /// At the leader: the last entry that each other member has.
    pub replicated: BTreeMap<PublicKey, Option<u64>>,
    /// Why it stopped.
    pub failure: Option<String>,
}

/// A replica. It runs until it is stopped.
pub struct Replica {
    group: GroupId,
    network: String,
    raft: Raft<Types, StateStore>,
    state: StateStore,
    log: LogStore,
    pen: Arc<Pen>,
    snapshot_entries: u64,
    clock: WallClock,
    /// Whether it stands for election.
    pub(super) stands: AtomicBool,
}

impl Replica {
    /// Starts the replica of `group` from what is on disk.
    ///
    /// # Errors
    /// [`ReplicaError::Store`] or [`ReplicaError::Stopped`].
    pub(crate) async fn start(
        group: GroupId,
        network: &str,
        config: &ReplicaConfig,
        store: Arc<dyn Store>,
        heartbeats: Arc<Heartbeats>,
        on_unserved: OnUnserved,
        clock: WallClock,
    ) -> Result<Replica, ReplicaError> {
        let (pen, network, snapshot_entries) = (Pen::new(store), network.to_owned(), config.snapshot_entries);
        let log = LogStore::open(group, pen.clone())?;
        let opening = (network.clone(), pen.clone(), config.snapshot_bytes);
        let state = apart(move || StateStore::open(group, &opening.0, opening.1, opening.2)).await??.by(clock.clone());
        let node = NodeId(heartbeats.communication().network().local());
        let links = Links { heartbeats, group, on_unserved, matched: Arc::default() };
        let raft = Raft::new(node, Arc::new(raft_config(group, config)), links, log.clone(), state.clone()).await;
        if raft.is_err() {
            // What it began to write must not come after what the next attempt writes.
            pen.put_down().await;
        }
        let stands = AtomicBool::new(false);
        Ok(Replica { group, network, raft: raft?, state, log, pen, snapshot_entries, clock, stands })
    }

    /// Begins the group with this node as its only voter. Once for each group.
    ///
    /// # Errors
    /// [`ReplicaError::Stopped`].
    pub async fn initialise(&self) -> Result<(), ReplicaError> {
        let node = *self.raft.node_id();
        match self.raft.initialize(BTreeMap::from([(node, ())])).await {
            // It was initialised before.
            Ok(()) | Err(RaftError::APIError(_)) => Ok(()),
            Err(RaftError::Fatal(error)) => Err(error.into()),
        }
    }

    /// The last ballot here.
    pub(crate) fn ballot(&self) -> Ballot {
        Ballot::from(&self.raft.metrics().borrow_watched().vote)
    }

    /// Takes a later term, nearer to one that is too far above to be believed at once, with a vote for `candidate` that nobody is
    /// told of: members whose terms somebody drove apart meet again.
    ///
    /// # Errors
    /// [`ReplicaError::Stopped`].
    pub(crate) async fn climb(&self, candidate: PublicKey) -> Result<(), ReplicaError> {
        let term = self.ballot().term.saturating_add(TERM_AHEAD_MAX).min(TERM_MAX);
        let ballot = Ballot { term, node: candidate, elected: false };
        let mut request = VoteRequest::<Types>::new(ballot.into(), self.log.last());
        // Whether it is led or not.
        request.leadership_transfer = true;
        let taken = self.raft.vote(request).await.map_err(|error| ReplicaError::Stopped(error.to_string()))?;
        tracing::debug!(group = %self.group, term, is_taken = taken.vote_granted, "the term here is far below another one");
        Ok(())
    }

    /// The node that this is.
    pub(crate) fn here(&self) -> PublicKey {
        self.raft.node_id().0
    }

    /// The last entry that is applied here.
    #[must_use]
    pub fn applied(&self) -> Option<u64> {
        self.state.view().applied.as_ref().map(|id| id.index)
    }

    /// Whether the entry of this index is committed here, once openraft has taken what it was told before.
    ///
    /// # Errors
    /// [`ReplicaError::Stopped`].
    pub(crate) async fn has_committed(&self, index: u64) -> Result<bool, ReplicaError> {
        let committed = self.raft.with_raft_state(|state| state.local_committed().map(|id| id.index)).await?;
        Ok(committed >= Some(index))
    }

    /// The term of an entry of the log here, if it is kept.
    pub(crate) fn term_at(&self, index: u64) -> io::Result<Option<u64>> {
        self.log.term_at(index)
    }

    /// The group's state, as this member has applied it.
    pub fn view(&self) -> View<'_> {
        View(self.state.view())
    }

    /// Follows changes of the state.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes()
    }

    /// Follows who leads and how far the log is.
    #[must_use]
    pub fn moves(&self) -> Moves {
        Moves::of(self.raft.metrics())
    }

    /// Executes a signed batch, if this member leads. Commands that would be refused now do not enter the log.
    ///
    /// # Errors
    /// See [`ReplicaError`].
    pub async fn propose(&self, batch: &[u8]) -> Result<Reply, ReplicaError> {
        let opened = state_store::open(&self.network, self.group, batch);
        let checked = match &opened {
            Ok(Authored { body, signer, .. }) => admission::check(self.view().group(), body, *signer),
            Err(error) => Err(crate::machine::outcome::Refusal::Invalid(error.to_string())),
        };
        if let Err(refusal) = checked {
            // Only the leader knows the present state.
            return if self.raft.is_leader() { Ok(Reply::Refused(refusal)) } else { Err(self.not_leader()) };
        }
        if opened.as_ref().is_ok_and(|batch| is_too_early(self, &batch.body)) {
            return Err(ReplicaError::Unknown(None));
        }
        let proposal = Proposal { at_ms: self.clock.now_ms(), batch: batch.into() };
        match self.raft.client_write(proposal).await {
            Ok(written) => written.data.0.ok_or_else(|| ReplicaError::Stopped("an entry had no answer".to_owned())),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Err(ReplicaError::NotLeader(to.leader_id.map(|node| node.0)))
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(to))) => {
                Err(ReplicaError::Unknown(to.leader_id.map(|node| node.0)))
            }
            Err(RaftError::APIError(error)) => Err(ReplicaError::Stopped(error.to_string())),
            Err(RaftError::Fatal(error)) => Err(error.into()),
        }
    }

    fn not_leader(&self) -> ReplicaError {
        ReplicaError::NotLeader(self.raft.metrics().borrow_watched().current_leader.map(|node| node.0))
    }

    /// At the leader: an entry that covers everything that was acknowledged before this call, applied here.
    ///
    /// # Errors
    /// See [`ReplicaError`].
    pub async fn barrier(&self) -> Result<u64, ReplicaError> {
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(read) => Ok(read.index()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(ReplicaError::NotLeader(to.leader_id.map(|node| node.0)))
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(ReplicaError::NoMajority),
            Err(RaftError::Fatal(error)) => Err(error.into()),
        }
    }

    /// At the leader: hands the lead to `node`. Nothing happens if that leads already.
    ///
    /// # Errors
    /// [`ReplicaError::NotReady`]; [`ReplicaError::NotTaken`]: this replica accepts no commands any more, and must be started
    /// again.
    pub async fn transfer(&self, node: PublicKey) -> Result<(), ReplicaError> {
        if node == self.raft.node_id().0 {
            return Ok(());
        }
        let mut metrics = self.raft.metrics();
        let (sets, _) = self.present_members();
        let status = self.status();
        let has = status.replicated.get(&node).copied().flatten();
        if sets.len() != 1 || !sets[0].contains(&node) || has < status.last {
            return Err(ReplicaError::NotReady(node));
        }
        self.raft.trigger().transfer_leader(NodeId(node)).await?;
        // openraft's leader takes no commands from then on, whether the other one takes over or not.
        let taken = async {
            while metrics.borrow_watched().state == ServerState::Leader {
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(TRANSFER, taken).await.map_err(|_| ReplicaError::NotTaken(node))
    }

    /// From now on this member stands for election where no leader is heard. Whoever is on its way into the group must not: the log
    /// begins with its founder as the only voter, who would elect itself there if it left later and joins anew.
    pub(crate) fn may_stand(&self) {
        self.stands.store(true, Ordering::Relaxed);
        self.raft.runtime_config().elect(true);
    }

    /// Stands for election now, whoever leads, if it may.
    pub async fn stand(&self) {
        if !self.stands.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.raft.trigger().elect(false).await {
            tracing::debug!(group = %self.group, %error, "this member could not stand for election");
        }
    }

    /// At the leader: one step that makes the members of the log those of the state. True when there is nothing to do.
    ///
    /// # Errors
    /// See [`ReplicaError`].
    pub async fn reconcile(&self) -> Result<bool, ReplicaError> {
        let (wanted, voters) = {
            let view = self.view();
            let members = view.group().members();
            let wanted: BTreeSet<NodeId> = members.iter().map(|(node, _)| NodeId(*node)).collect();
            (wanted, members.voters().iter().map(|node| NodeId(*node)).collect::<BTreeSet<_>>())
        };
        let metrics = self.raft.metrics().borrow_watched().clone();
        if metrics.state != ServerState::Leader || wanted.is_empty() {
            return Ok(true);
        }
        let stored = metrics.membership_config.membership();
        let present: BTreeSet<NodeId> = stored.nodes().map(|(node, ())| *node).collect();
        let voting: BTreeSet<NodeId> = stored.voter_ids().collect();
        let missing: BTreeMap<NodeId, ()> = wanted.difference(&present).map(|node| (*node, ())).collect();
        let gone: BTreeSet<NodeId> = present.difference(&wanted).copied().collect();
        let last = metrics.last_log_index.unwrap_or(0);
        let replication = metrics.replication.unwrap_or_default();
        let has = |node: &NodeId| replication.get(node).and_then(|at| at.as_ref().map(|id| id.index));
        let leaving: BTreeSet<NodeId> = gone.difference(&voting).copied().collect();
        if leaving.is_empty() && missing.is_empty() && voting == voters {
            return Ok(gone.is_empty());
        }
        // Not while a command is under way that changes the members again.
        if metrics.last_applied.as_ref().map(|id| id.index) != metrics.last_log_index {
            return Ok(false);
        }
        let change = if !leaving.is_empty() {
            ChangeMembers::RemoveNodes(leaving)
        } else if !missing.is_empty() {
            ChangeMembers::AddNodes(missing)
        } else if voting != voters && may_vote(&voters, &voting, has, last) {
            ChangeMembers::ReplaceAllVoters(voters)
        } else {
            return Ok(voting == voters && gone.is_empty());
        };
        match self.raft.change_membership(change, true).await {
            Ok(_) => Ok(false),
            Err(RaftError::APIError(error)) => {
                tracing::debug!(group = %self.group, %error, "the members of the log were not changed");
                Ok(false)
            }
            Err(RaftError::Fatal(error)) => Err(error.into()),
        }
    }

    /// A replica at a glance.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let role = match metrics.state {
            ServerState::Leader => Role::Leader,
            ServerState::Candidate => Role::Candidate,
            ServerState::Follower => Role::Follower,
            ServerState::Learner | ServerState::Shutdown => Role::Learner,
        };
        let replicated = metrics.replication.iter().flatten().map(|(node, at)| (node.0, index(at)));
        Status {
            role,
            leader: metrics.current_leader.map(|node| node.0),
            term: metrics.current_term,
            last: metrics.last_log_index,
            applied: index(&metrics.last_applied),
            snapshot: index(&metrics.snapshot),
            replicated: replicated.collect(),
            failure: metrics.running_state.err().map(|error| error.to_string()),
        }
    }

    /// The term; none before the group's founding is executed here: what term the group is in is not known yet.
    pub(crate) fn known_term(&self) -> Option<u64> {
        let is_founded = self.view().group().charter().is_some();
        is_founded.then(|| self.raft.metrics().borrow_watched().current_term)
    }

    /// At the leader: how long ago it sent what a majority of the voters acknowledged last; none before they did.
    #[must_use]
    pub fn acknowledged(&self) -> Option<Duration> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let voters: BTreeSet<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        if voters == BTreeSet::from([*self.raft.node_id()]) {
            // It asks nobody.
            return Some(Duration::ZERO);
        }
        metrics.last_quorum_acked.map(|at| at.elapsed())
    }

    /// Whether whoever leads here, or has just been elected, heard that its own name was given a vote in a later term: its key
    /// was used elsewhere, or its disk was set back. openraft keeps such a leader (only leaders have something replicated), which
    /// nobody obeys any more. For a moment it is so after each election.
    #[must_use]
    pub fn is_outvoted_by_itself(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.replication.is_some() && !metrics.vote.committed
    }

    /// At the leader: for how long each other member has not been heard, and whether it has almost the whole log. Those that
    /// were never heard are left out.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<PublicKey, Seen> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let (last, replication) = (metrics.last_log_index.unwrap_or(0), metrics.replication.unwrap_or_default());
        let has = |node: &NodeId| replication.get(node).and_then(|at| at.as_ref().map(|id| id.index));
        let heard = metrics.heartbeat.unwrap_or_default();
        let seen = heard.into_iter().filter_map(|(node, at)| {
            let silence_ms = u64::try_from(at?.elapsed().as_millis()).unwrap_or(u64::MAX);
            let is_current = has(&node).is_some_and(|index| index + READY_BEHIND >= last);
            Some((node.0, Seen { silence_ms, is_current }))
        });
        seen.collect()
    }

    /// Whether this node votes by the log's members.
    #[must_use]
    pub fn votes_in_log(&self) -> bool {
        let here = self.raft.node_id().0;
        self.present_members().0.iter().any(|set| set.contains(&here))
    }

    /// Whether these are a majority of each set of the log's voters.
    #[must_use]
    pub fn is_majority(&self, nodes: &BTreeSet<PublicKey>) -> bool {
        let (sets, _) = self.present_members();
        !sets.is_empty() && sets.iter().all(|set| set.intersection(nodes).count() * 2 > set.len())
    }

    /// The sets of voters of the log now, and its other members.
    pub(crate) fn present_members(&self) -> (Vec<BTreeSet<PublicKey>>, BTreeSet<PublicKey>) {
        let members = self.raft.metrics().borrow_watched().membership_config.clone();
        let keys = |set: &BTreeSet<NodeId>| set.iter().map(|node| node.0).collect();
        let voters = members.membership().get_joint_config().iter().map(keys).collect();
        (voters, members.membership().learner_ids().map(|node| node.0).collect())
    }

    /// The time of day, Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    pub(crate) fn state(&self) -> &StateStore {
        &self.state
    }

    pub(crate) fn raft(&self) -> &Raft<Types, StateStore> {
        &self.raft
    }

    /// Whether `node` belongs to the group, as far as this member's state and log say.
    #[must_use]
    pub fn knows(&self, node: PublicKey) -> bool {
        self.view().group().members().get(&node).is_some()
            || self.raft.metrics().borrow_watched().membership_config.get_node(&NodeId(node)).is_some()
    }

    /// Whether an entry that was executed here removed `node`, which is no member since.
    pub(crate) fn has_removed(&self, node: PublicKey) -> bool {
        self.state.view().leavers.contains(&node)
    }

    /// Keeps the log short: has a snapshot made when much was executed since the last one, and those entries deleted that it
    /// covers and that are too many, or too large, to be kept for members that lack them.
    ///
    /// # Errors
    /// [`ReplicaError::Stopped`].
    pub async fn shorten_log(&self) -> Result<(), ReplicaError> {
        let (is_due, superfluous) = {
            let tally = self.state.tally();
            (tally.is_due(), tally.superfluous())
        };
        if is_due {
            self.raft.trigger().snapshot().await?;
        }
        let (covered, applied, purged) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (index(&metrics.snapshot), index(&metrics.last_applied), index(&metrics.purged))
        };
        // Nothing that may yet be being executed (openraft issue 2116).
        let Some(covered) = covered.min(applied) else { return Ok(()) };
        let by_bytes = superfluous.map(|last| last.min(covered));
        let up_to = covered.checked_sub(self.snapshot_entries).max(by_bytes);
        if let Some(up_to) = up_to.filter(|_| up_to > purged) {
            self.raft.trigger().purge_log(up_to).await?;
        }
        Ok(())
    }

    /// Stops it. What it acknowledged is on disk, and nothing is written any more.
    pub async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(group = %self.group, %error, "the replica of the group did not stop in order");
        }
        self.pen.put_down().await;
    }
}

/// Whether a node joins anew that the log's members still include from before: what it had then, it may have lost.
fn is_too_early(replica: &Replica, batch: &Batch) -> bool {
    let (Author::Node(node), [Command::Join(_)]) = (batch.author, batch.commands.as_slice()) else { return false };
    let is_present = replica.raft.metrics().borrow_watched().membership_config.get_node(&NodeId(node)).is_some();
    is_present && replica.view().group().members().get(&node).is_none()
}

fn index(id: &Option<LogId>) -> Option<u64> {
    id.as_ref().map(|id| id.index)
}

/// The last entry that is executed here, or will be, since it is committed: openraft goes by that. No lock on the state is
/// taken for it, which is held while a batch is executed.
pub(super) fn executed(replica: &Replica) -> io::Result<Option<Position>> {
    let metrics = replica.raft.metrics();
    let (applied, committed) = {
        let metrics = metrics.borrow_watched();
        (metrics.last_applied, metrics.local_committed)
    };
    let committed = [committed, replica.log.committed()].map(|id| id.map(Position::from));
    agreement::executed(applied.map(Position::from), committed, |index| replica.log.term_at(index))
}

/// Entries that a learner may lack when it becomes a voter.
const READY_BEHIND: u64 = 64;

/// Whether all of these may vote now: a learner does once it has almost the whole log, so that no majority waits for it.
fn may_vote(
    voters: &BTreeSet<NodeId>,
    voting: &BTreeSet<NodeId>,
    has: impl Fn(&NodeId) -> Option<u64>,
    last: u64,
) -> bool {
    let is_ready = |node: &NodeId| voting.contains(node) || has(node).is_some_and(|index| index + READY_BEHIND >= last);
    voters.iter().all(is_ready)
}

/// The group's state while it is looked at: nothing is applied meanwhile.
pub struct View<'a>(RwLockReadGuard<'a, State>);

impl View<'_> {
    /// The state.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.0.group
    }
}

#[cfg(test)]
mod tests;
