//! The calling side of `/althing/raft/1`: openraft's requests, as signed calls.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use althing_communication::{CallError, Priority, Request};
use althing_protocol::limits::CBOR_ITEMS_MAX;
use althing_protocol::{GroupId, PublicKey};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RaftNetworkFactory, RaftNetworkV2};

use super::heartbeats::Heartbeats;
use super::image::Image;
use super::records::encode;
use super::types::{LogId, NodeId, Types, Vote};
use super::wire::{
    self, Append, Appended, Ballot, Beat, Elect, Elected, EntryRecord, Heard, PART_BYTES_MAX, PART_ROWS_MAX, Payload,
    Position, SnapshotPart, SnapshotTaken, TERM_AHEAD_MAX, Transfer, Transferred, Unserved,
};
use crate::RAFT;

type Rpc<T> = Result<T, RPCError<Types>>;
type Snapshot = openraft::alias::SnapshotOf<Types, Arc<Image>>;

/// Before a member that could not be reached is tried again.
const BACKOFF: Duration = Duration::from_millis(50);
/// How long one part of a snapshot may take.
const PART_PATIENCE: Duration = Duration::from_secs(10);
/// Before a snapshot is sent again to a member that did not take it: for each attempt all of it is read from disk.
const UNSERVED_PAUSE: Duration = Duration::from_secs(5);

/// Hears why a member did not serve a message.
pub(crate) type OnUnserved = Arc<dyn Fn(PublicKey, Unserved) + Send + Sync>;

/// The links of one group's member to the others.
#[derive(Clone)]
pub(crate) struct Links {
    pub heartbeats: Arc<Heartbeats>,
    pub group: GroupId,
    pub on_unserved: OnUnserved,
    /// What each member that this one leads said it has.
    pub matched: Arc<Mutex<BTreeMap<PublicKey, Matched>>>,
}

/// The last entry that a member said it has, to whichever of its two links.
#[derive(Clone, Default)]
pub(crate) struct Matched(Arc<Mutex<Option<u64>>>);

impl Matched {
    fn raise(&self, to: Option<u64>) {
        let mut matched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *matched = (*matched).max(to);
    }

    /// Did it say that it has the entry `before` the first that is sent?
    fn covers(&self, before: Option<u64>) -> bool {
        let matched = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matched.is_some() && before <= matched
    }
}

/// The link to one member.
pub(crate) struct Link {
    links: Links,
    to: PublicKey,
    heartbeats: bool,
    matched: Matched,
}

impl Links {
    fn members(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, Matched>> {
        self.matched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftNetworkFactory<Types> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: NodeId, (): &()) -> Link {
        let matched = self.members().entry(target.0).or_default().clone();
        Link { links: self.clone(), to: target.0, heartbeats: false, matched }
    }

    // openraft makes it whenever it begins to lead a member, just before the link for entries.
    async fn new_heartbeat_client(&mut self, target: NodeId, (): &()) -> Link {
        let matched = Matched::default();
        self.members().insert(target.0, matched.clone());
        Link { links: self.clone(), to: target.0, heartbeats: true, matched }
    }
}

/// The ballot in the answer of a member to `asked`. One of an impossible term is no answer: openraft would follow it. One that
/// is only too far above is taken as far as one step reaches, not elected, as that of the member itself: a learner, whose term
/// somebody drove up, asks nobody, so that whoever leads comes to its term, by an election for each step. Nor does openraft give
/// up a leader, or a candidate, that is told of a later ballot in its own name, which only another program with its key, or a
/// liar, can have asked for: it would go on in the earlier term, and hold up every election. So that counts as one for the
/// member that says so.
fn answered(asked: Ballot, answer: Ballot, by: PublicKey) -> Rpc<Ballot> {
    answer.reachable(None).map_err(|why| RPCError::from(NetworkError::from_string(why)))?;
    if answer.reachable(Some(asked.term)).is_err() {
        return Ok(Ballot { term: asked.term.saturating_add(TERM_AHEAD_MAX), node: by, elected: false });
    }
    if answer.node == asked.node && answer.term > asked.term {
        return Ok(Ballot { node: by, elected: false, ..answer });
    }
    Ok(answer)
}

impl Link {
    async fn ask<Q, A>(&self, operation: &str, question: &Q, deadline: Duration, priority: Priority) -> Rpc<A>
    where
        Q: minicbor::Encode<()>,
        A: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
    {
        // A peer that does not answer is not asked again at once.
        self.call(operation, question, deadline, priority).await?.map_err(|unserved| Unreachable::new(&unserved).into())
    }

    /// Asks; the answer, or what the member says instead of one.
    async fn call<Q, A>(
        &self,
        operation: &str,
        question: &Q,
        deadline: Duration,
        priority: Priority,
    ) -> Rpc<Result<A, Unserved>>
    where
        Q: minicbor::Encode<()>,
        A: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
    {
        let request = Request { deadline: Some(deadline), priority, ..Request::new(operation, encode(question)) };
        let error = match self.links.heartbeats.communication().call(self.to, RAFT, request).await {
            Ok(body) => return wire::read(&body).map(Ok).map_err(|why| NetworkError::from_string(why).into()),
            Err(error) => error,
        };
        if let CallError::Refused { body, .. } = &error
            && let Some(unserved) = self.unserved(body)
        {
            return Ok(Err(unserved));
        }
        Err(match &error {
            CallError::Refused { .. } | CallError::Unreachable { .. } => Unreachable::new(&error).into(),
            CallError::Broken { .. } | CallError::Deadline { .. } | CallError::Request(_) => {
                NetworkError::new(&error).into()
            }
        })
    }

    /// Why the member does not serve a message, which others hear too.
    fn unserved(&self, body: &[u8]) -> Option<Unserved> {
        let unserved = wire::read::<Unserved>(body).ok()?;
        (self.links.on_unserved)(self.to, unserved.clone());
        Some(unserved)
    }

    /// Sends a heartbeat, with those of other groups to the same member.
    async fn beat(&self, heartbeat: &Append, deadline: Duration) -> Rpc<Appended> {
        let Append { group, leader, previous, committed, .. } = *heartbeat;
        let beat = Beat { group, term: leader.term, previous, committed };
        match self.links.heartbeats.send(self.to, beat, deadline).await? {
            Heard::Taken(appended) => Ok(appended),
            Heard::Late => Err(NetworkError::from_string("its replica did not answer in time").into()),
            // What it says then, this group must know.
            Heard::Unserved => self.ask("append", heartbeat, deadline, Priority::Urgent).await,
        }
    }

    async fn elect(&self, operation: &str, rpc: VoteRequest<Types>, option: RPCOption) -> Rpc<VoteResponse<Types>> {
        let question = Elect {
            group: self.links.group,
            candidate: Ballot::from(&rpc.vote),
            last: rpc.last_log_id.map(Position::from),
            is_transfer: rpc.leadership_transfer,
        };
        let elected: Elected = self.ask(operation, &question, option.soft_ttl(), Priority::Urgent).await?;
        let vote: Vote = answered(question.candidate, elected.ballot, self.to)?.into();
        Ok(VoteResponse::new(vote, elected.last.map(LogId::from), elected.granted))
    }

    async fn send_snapshot(&self, vote: Vote, snapshot: &Snapshot) -> Result<SnapshotResponse<Types>, RPCError<Types>> {
        let all = snapshot.snapshot.rows();
        let (mut offset, total) = (0, all.len());
        loop {
            let mut bytes = 0;
            let rows = all[offset..].iter().take_while(|row| {
                let fits = bytes < PART_BYTES_MAX;
                bytes += row.len();
                fits
            });
            let rows: Vec<_> = rows.take(PART_ROWS_MAX).map(|row| row.clone().into()).collect();
            let is_last = offset + rows.len() == total;
            let part = SnapshotPart {
                group: self.links.group,
                leader: Ballot::from(&vote),
                last: snapshot.meta.last_log_id.map(Position::from),
                members: (&snapshot.meta.last_membership).into(),
                offset: offset as u64,
                rows,
                is_last,
            };
            let taken: SnapshotTaken = match self.call("snapshot", &part, PART_PATIENCE, Priority::Bulk).await? {
                Ok(taken) => taken,
                Err(unserved) => {
                    tokio::time::sleep(UNSERVED_PAUSE).await;
                    return Err(Unreachable::new(&unserved).into());
                }
            };
            offset += part.rows.len();
            // It may lack nothing of it any more before all has come.
            if let Some(ballot) = taken.ballot {
                return Ok(SnapshotResponse::new(answered(part.leader, ballot, self.to)?.into()));
            }
            if is_last {
                return Err(NetworkError::from_string("it did not say what it did with the snapshot").into());
            }
        }
    }
}

/// Data items of the entries in one append, so that it stays within those of one message.
const ITEMS_MAX: usize = CBOR_ITEMS_MAX - 256;

/// Why that cannot be an answer, if so. openraft would end what replicates to the member.
fn impossible(asked: &Append, answer: Appended) -> Option<String> {
    let has = |at| asked.previous == at || asked.entries.iter().any(|entry| Some(entry.at) == at);
    match answer {
        Appended::Conflict if asked.previous.is_none() => Some("it says that no entry is another one there".to_owned()),
        Appended::UpTo(at) if !has(at) => Some("it says that it took what it was not sent".to_owned()),
        Appended::All | Appended::UpTo(_) | Appended::Conflict | Appended::Higher(_) => None,
    }
}

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = Arc<Image>;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Rpc<AppendEntriesResponse<Types>> {
        let (mut bytes, mut items) = (0, 0);
        let all = rpc.entries.len();
        let fits = |record: &EntryRecord| {
            let before = (bytes, items);
            bytes += if let Payload::Batch(_, batch) = &record.payload { batch.len() } else { 0 };
            items += match &record.payload {
                Payload::Members(voters, learners) => 16 + voters.iter().map(Vec::len).sum::<usize>() + learners.len(),
                Payload::Blank | Payload::Batch(..) => 10,
            };
            before == (0, 0) || bytes <= PART_BYTES_MAX && items <= ITEMS_MAX
        };
        let entries: Vec<EntryRecord> = rpc.entries.iter().map(EntryRecord::of).take_while(fits).collect();
        let (sent, last) = (entries.len(), entries.last().map(|entry| entry.at));
        let question = Append {
            group: self.links.group,
            leader: Ballot::from(&rpc.vote),
            previous: rpc.prev_log_id.map(Position::from),
            committed: rpc.leader_commit.map(Position::from),
            entries,
        };
        // Entries need time on a slow link; that a heartbeat is late must be noticed soon.
        let deadline = if question.entries.is_empty() { option.soft_ttl() } else { PART_PATIENCE };
        let before = question.previous.map(|at| at.index);
        let answer = if self.heartbeats && question.entries.is_empty() {
            self.beat(&question, deadline).await?
        } else {
            self.ask("append", &question, deadline, Priority::Interactive).await?
        };
        if let Some(why) = impossible(&question, answer) {
            return Err(NetworkError::from_string(why).into());
        }
        match answer {
            Appended::All => self.matched.raise(last.map(|at| at.index).or(before)),
            Appended::UpTo(at) => self.matched.raise(at.map(|at| at.index)),
            // openraft ends the leader when a member lacks what it had: one that lost its disk must not do that.
            Appended::Conflict if self.matched.covers(before) => {
                return Err(Unreachable::from_string("it lacks entries that it had: its disk was lost").into());
            }
            Appended::Conflict | Appended::Higher(_) => {}
        }
        Ok(match answer {
            Appended::All if sent < all => AppendEntriesResponse::PartialSuccess(last.map(LogId::from)),
            Appended::All => AppendEntriesResponse::Success,
            Appended::UpTo(at) => AppendEntriesResponse::PartialSuccess(at.map(LogId::from)),
            Appended::Conflict => AppendEntriesResponse::Conflict,
            Appended::Higher(ballot) => {
                AppendEntriesResponse::HigherVote(answered(question.leader, ballot, self.to)?.into())
            }
        })
    }

    async fn vote(&mut self, rpc: VoteRequest<Types>, option: RPCOption) -> Rpc<VoteResponse<Types>> {
        self.elect("vote", rpc, option).await
    }

    // openraft's own answer would be yes.
    async fn pre_vote(&mut self, rpc: VoteRequest<Types>, option: RPCOption) -> Rpc<VoteResponse<Types>> {
        self.elect("pre-vote", rpc, option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            sent = self.send_snapshot(vote, &snapshot) => sent.map_err(|error| match error {
                RPCError::Unreachable(error) => error.into(),
                RPCError::Network(error) => error.into(),
                RPCError::Timeout(error) => error.into(),
                RPCError::RemoteError(error) => match error.source {},
            }),
        }
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Rpc<TransferLeaderResponse<Types>> {
        let question = Transfer {
            group: self.links.group,
            leader: Ballot::from(rpc.from_leader()),
            to: rpc.to_node_id().0,
            last: rpc.last_log_id().cloned().map(Position::from),
        };
        Ok(match self.ask("transfer", &question, option.soft_ttl(), Priority::Urgent).await? {
            Transferred::Accepted => Ok(()),
            Transferred::VoteChanged(ballot) => {
                let actual = answered(question.leader, ballot, self.to)?.into();
                Err(TransferLeaderError::VoteChanged { expected: *rpc.from_leader(), actual })
            }
            Transferred::Behind(last) => Err(TransferLeaderError::LogNotFlushed {
                expected: rpc.last_log_id().cloned(),
                actual: last.map(LogId::from),
            }),
        })
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(BACKOFF)))
    }
}

#[cfg(test)]
mod tests;
