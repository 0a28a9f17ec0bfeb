//! The receiving side of `/althing/raft/1`: who may ask what, and which group answers.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request};
use althing_protocol::group::{GroupId, Outline};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use super::Groups;
use super::member::Member;
use super::proofs::{self, Proofs};
use super::reading;
use super::record::Standing;
use super::results;
use crate::consensus::wire::{
    self, Accuse, Append, Appended, Ballot, Barrier, BarrierAnswer, Beat, Beats, BeatsHeard, Compare, Elect, Fetch,
    Heard, ReportTo, Reported, SnapshotPart, Submit, Submitted, Transfer, Unserved,
};
use crate::consensus::{Replica, ReplicaError, Role, serve};
use crate::error::GroupError;
use crate::machine::group::admission;
use crate::machine::outcome::{Refusal, Reply};

/// Serves the members of a node's groups, and who submits batches.
pub struct RaftService(pub Groups);

impl Inbound for RaftService {
    fn call(&self, caller: Caller, mut request: Request) -> BoxFuture<'static, Answer> {
        let groups = RaftService(self.0.clone());
        async move {
            if request.operation != "append" {
                // Only these prove anything.
                request.frame = None;
            }
            match groups.answer(caller, &request).await {
                Ok(body) => Answer::Response(body),
                Err(unserved) => {
                    tracing::debug!(caller = %caller.node, operation = request.operation, %unserved, "not served");
                    Answer::Error(wire::write(&unserved))
                }
            }
        }
        .boxed()
    }

    fn keeps_frames(&self) -> bool {
        true
    }
}

/// How long the answer to heartbeats waits for a replica, so that a slow one does not hold up those of other groups.
const BEAT_PATIENCE: Duration = Duration::from_millis(40);

/// A message of [`wire`], which names its group.
trait ForGroup: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()> {
    fn group(&self) -> GroupId;
}

macro_rules! for_group {
    ($($message:ty),*) => {$(
        impl ForGroup for $message {
            fn group(&self) -> GroupId {
                self.group
            }
        }
    )*};
}

for_group!(Append, Elect, SnapshotPart, Transfer, Submit, Barrier, ReportTo, Fetch, Compare, Accuse);

/// A leader, or a candidate, speaks for itself, and was never proven to have equivocated; and its term is not so far above
/// the one here that it must be made up: one message could otherwise leave no term for an election. Whoever is that far below
/// comes nearer, step by step, and in each second by one step at most, so that others keep up.
async fn leads(member: &Member, replica: &Replica, ballot: Ballot, caller: Caller) -> Result<(), Unserved> {
    if member.is_proven(caller.node) {
        return Err(Unserved::Equivocated);
    }
    if ballot.node != caller.node {
        return Err(Unserved::Malformed("it names another leader or candidate".to_owned()));
    }
    let known = replica.known_term();
    ballot.reachable(None).map_err(Unserved::Malformed)?;
    if !ballot.is_leap(known) {
        return Ok(());
    }
    let may_leap = member.may_leap();
    match ballot.reachable(known) {
        Ok(()) if may_leap => Ok(()),
        Ok(()) => Err(Unserved::Stopped("its term rose far a moment ago".to_owned())),
        Err(why) => {
            if may_leap {
                replica.climb(caller.node).await.map_err(|error| stopped(&error))?;
            }
            Err(Unserved::Malformed(why))
        }
    }
}

/// A leader's heartbeats, which nobody sends for another.
fn read_beats(caller: Caller, body: &[u8]) -> Result<Beats, Unserved> {
    let beats: Beats = wire::read(body).map_err(Unserved::Malformed)?;
    beats.check().map_err(Unserved::Malformed)?;
    if beats.leader != caller.node {
        return Err(Unserved::Malformed("it names another leader".to_owned()));
    }
    Ok(beats)
}

fn stopped(error: &ReplicaError) -> Unserved {
    match error {
        ReplicaError::Malformed(why) => Unserved::Malformed(why.clone()),
        ReplicaError::Busy => Unserved::Busy,
        other => Unserved::Stopped(other.to_string()),
    }
}

impl RaftService {
    async fn answer(&self, caller: Caller, request: &Request) -> Result<Vec<u8>, Unserved> {
        let body = request.body.as_slice();
        match request.operation.as_str() {
            "append" => {
                let (member, replica, append) = self.admit::<Append>(caller, body)?;
                leads(&member, &replica, append.leader, caller).await?;
                let entries = append.entries.len();
                let answer = serve::append(&replica, append).await.map_err(|error| stopped(&error))?;
                if !matches!(answer, Appended::Higher(_)) {
                    proofs::keep(&member, request, entries);
                }
                if answer == Appended::All {
                    member.hear();
                }
                Ok(wire::write(&answer))
            }
            "heartbeats" => {
                let Beats { beats, .. } = read_beats(caller, body)?;
                let heard = join_all(beats.into_iter().map(|beat| self.beat(caller, beat))).await;
                Ok(wire::write(&BeatsHeard { heard }))
            }
            operation @ ("vote" | "pre-vote") => {
                let (member, replica, elect) = self.admit::<Elect>(caller, body)?;
                leads(&member, &replica, elect.candidate, caller).await?;
                let answer = serve::elect(&replica, elect, operation == "pre-vote").await;
                Ok(wire::write(&answer.map_err(|error| stopped(&error))?))
            }
            "snapshot" => {
                let (member, replica, part) = self.admit::<SnapshotPart>(caller, body)?;
                leads(&member, &replica, part.leader, caller).await?;
                if part.leader.term < replica.status().term {
                    return Err(Unserved::Malformed("it is of an earlier term".to_owned()));
                }
                let answer = serve::snapshot(&replica, &member.arriving, caller.node, part).await;
                member.hear();
                Ok(wire::write(&answer.map_err(|error| stopped(&error))?))
            }
            "transfer" => {
                let (member, replica, transfer) = self.admit::<Transfer>(caller, body)?;
                leads(&member, &replica, transfer.leader, caller).await?;
                let answer = serve::transfer(&replica, transfer).await.map_err(|error| stopped(&error))?;
                Ok(wire::write(&answer))
            }
            "barrier" => {
                let (_, replica, _) = self.admit::<Barrier>(caller, body)?;
                let answer = match replica.barrier().await {
                    Ok(index) => BarrierAnswer::At(index),
                    Err(ReplicaError::NotLeader(leader)) => BarrierAnswer::NotLeader(leader),
                    Err(ReplicaError::NoMajority) => BarrierAnswer::NoMajority,
                    Err(error) => return Err(stopped(&error)),
                };
                Ok(wire::write(&answer))
            }
            "report" => {
                let (member, replica, told) = self.admit::<ReportTo>(caller, body)?;
                told.report.check().map_err(Unserved::Malformed)?;
                // Nobody else needs it.
                if replica.status().role == Role::Leader {
                    member.take_report(caller.node, told.report);
                }
                Ok(wire::write(&Reported::Taken))
            }
            "fetch" => self.fetch(caller, body).await,
            "compare" => self.compare(caller, body).await,
            "accuse" => self.accuse(caller, body).await,
            "submit" => self.submit(body).await,
            other => Err(Unserved::Malformed(format!("there is no operation {:?}", other.get(..60).unwrap_or("…")))),
        }
    }

    /// What another member was sent, beside what this one was.
    async fn compare(&self, caller: Caller, body: &[u8]) -> Result<Vec<u8>, Unserved> {
        let (member, _, compare) = self.admit::<Compare>(caller, body)?;
        compare.check().map_err(Unserved::Malformed)?;
        Ok(wire::write(&Proofs::of(&self.0).answer(&member, &compare).await))
    }

    /// A proof against a member.
    async fn accuse(&self, caller: Caller, body: &[u8]) -> Result<Vec<u8>, Unserved> {
        let (member, _, accuse) = self.admit::<Accuse>(caller, body)?;
        let kept = Proofs::of(&self.0).accept(&member, accuse.proof).await;
        Ok(wire::write(&kept.map_err(|error| Unserved::Stopped(error.to_string()))?))
    }

    /// A batch: its author's signature decides, not who brings it.
    async fn submit(&self, body: &[u8]) -> Result<Vec<u8>, Unserved> {
        let submit: Submit = wire::read(body).map_err(Unserved::Malformed)?;
        let (_, replica) = self.find(submit.group)?;
        let proposed = match sifted(&replica, &submit.batch) {
            Ok(()) => replica.propose(&submit.batch).await,
            Err(refusal) => {
                let status = replica.status();
                // Only the leader knows the present state.
                let leads = status.role == Role::Leader;
                if leads { Ok(Reply::Refused(refusal)) } else { Err(ReplicaError::NotLeader(status.leader)) }
            }
        };
        Ok(wire::write(&submitted(&replica, proposed)?))
    }

    /// A part of a large result, for a member that may read it.
    async fn fetch(&self, caller: Caller, body: &[u8]) -> Result<Vec<u8>, Unserved> {
        let (member, _, fetch) = self.admit::<Fetch>(caller, body)?;
        let failed = |error: GroupError| Unserved::Stopped(error.to_string());
        if !reading::is_shown(&self.0, &member, caller.node, &fetch.digest).await.map_err(failed)? {
            return Err(Unserved::OnlyOwnersRead);
        }
        let part = results::part(self.0.shared.store.as_ref(), fetch.group, &fetch.digest, fetch.part);
        Ok(wire::write(&part.map_err(failed)?))
    }

    /// One of several heartbeats, of which each stands for an append without entries.
    async fn beat(&self, caller: Caller, beat: Beat) -> Heard {
        let append = beat.as_append(caller.node);
        let Ok((member, replica)) = self.find(beat.group) else { return Heard::Unserved };
        if !member.admits(self.0.shared.here(), caller.node)
            || leads(&member, &replica, append.leader, caller).await.is_err()
        {
            return Heard::Unserved;
        }
        match tokio::time::timeout(BEAT_PATIENCE, serve::append(&replica, append)).await {
            Ok(Ok(appended)) => {
                if appended == Appended::All {
                    member.hear();
                }
                Heard::Taken(appended)
            }
            Ok(Err(_)) => Heard::Unserved,
            Err(_) => Heard::Late,
        }
    }

    /// The message of a member to another, and the replica that it is for.
    fn admit<T: ForGroup>(&self, caller: Caller, body: &[u8]) -> Result<(Arc<Member>, Arc<Replica>, T), Unserved> {
        let message: T = wire::read(body).map_err(Unserved::Malformed)?;
        let (member, replica) = self.find(message.group())?;
        if member.admits(self.0.shared.here(), caller.node) {
            return Ok((member, replica, message));
        }
        // From a majority it believes that it was removed, and deletes what it has.
        Err(if replica.has_removed(caller.node) { Unserved::NotAMember } else { Unserved::Unshown })
    }

    fn find(&self, group: GroupId) -> Result<(Arc<Member>, Arc<Replica>), Unserved> {
        let member = self.0.member(group).map_err(|_| Unserved::NoSuchGroup)?;
        match &member.record.lock().expect("no panic").standing {
            Standing::Member => {}
            Standing::Gone => return Err(Unserved::NoSuchGroup),
            Standing::Dissolved(proof) => return Err(Unserved::Dissolved(proof.clone())),
        }
        let replica = member.replica().map_err(|error| Unserved::Stopped(error.to_string()))?;
        Ok((member, replica))
    }
}

/// Whether a batch is worth verifying: whoever brings it may be anybody, and signatures cost more than to look up who made them.
fn sifted(replica: &Replica, batch: &[u8]) -> Result<(), Refusal> {
    let outline = Outline::read(batch).map_err(|error| Refusal::Invalid(error.to_string()))?;
    admission::sift(replica.view().group(), &outline)
}

/// What a replica says to a submitted batch.
pub(super) fn submitted(replica: &Replica, result: Result<Reply, ReplicaError>) -> Result<Submitted, Unserved> {
    match result {
        Ok(reply) => Ok(Submitted::Done(reply)),
        Err(ReplicaError::NotLeader(leader)) => {
            let view = replica.view();
            let member = leader.and_then(|leader| view.group().members().get(&leader));
            Ok(Submitted::NotLeader(leader, member.map(|member| member.addresses.clone()).unwrap_or_default()))
        }
        Err(ReplicaError::Unknown(_)) => Ok(Submitted::Unknown),
        Err(error) => Err(stopped(&error)),
    }
}
