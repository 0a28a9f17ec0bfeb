//! Commands to a group: signed here, executed where its leader is, wherever that moves.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_protocol::group::{Author, Batch, Command, GroupId};
use althing_protocol::{PublicKey, SecretKey, object};
use tokio::time::Instant;

use super::member::Member;
use super::serve::submitted;
use super::{Groups, Shared};
use crate::RAFT;
use crate::consensus::wire::{self, Barrier, BarrierAnswer, Submit, Submitted, Unserved};
use crate::error::GroupError;
use crate::machine::outcome::{Outcome, Refusal, Reply};

/// Before a leader is looked for again.
const PAUSE: Duration = Duration::from_millis(25);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A batch on its way.
pub(super) struct Sending<'a> {
    author: Author,
    key: &'a SecretKey,
    epoch: u64,
    session: u64,
    sequence: u64,
    commands: Vec<Command>,
    until: Instant,
    /// Whom to ask next; the leader, as far as it is known here, otherwise.
    to: Option<PublicKey>,
    /// Whom to ask when no leader is known.
    first: Option<PublicKey>,
    why: String,
    /// An attempt may have been executed though nobody said so.
    in_doubt: bool,
}

/// What one attempt came to.
enum Attempt {
    Done(Reply),
    Again(String),
}

impl Groups {
    /// Executes commands of `author`, whose key this is. Returns what became of each; none if an earlier attempt of this
    /// call was executed, so that only the state tells what became of them.
    ///
    /// # Errors
    /// [`GroupError::Refused`] if the batch was refused; [`GroupError::NoAnswer`] if no leader answered in time: it may have
    /// been executed.
    pub async fn submit(
        &self,
        group: GroupId,
        author: Author,
        key: &SecretKey,
        commands: Vec<Command>,
    ) -> Result<Option<Vec<Outcome>>, GroupError> {
        let member = self.active(group)?;
        let epoch = member.look(crate::machine::group::Group::epoch)?;
        self.send(&member, author, key, epoch, commands, None).await
    }

    /// As [`Groups::submit`], to `first` and as of `epoch` if the state is not here yet.
    pub(super) async fn send(
        &self,
        member: &Arc<Member>,
        author: Author,
        key: &SecretKey,
        epoch: u64,
        commands: Vec<Command>,
        first: Option<PublicKey>,
    ) -> Result<Option<Vec<Outcome>>, GroupError> {
        let mut sending = Sending::new(member, author, key, epoch, commands);
        self.deliver(member, &mut sending, first).await
    }

    /// Sends a batch until somebody says what became of it, to `first` first. It may have been sent to another before: it has
    /// the same number, so that it is executed once.
    pub(super) async fn deliver(
        &self,
        member: &Arc<Member>,
        sending: &mut Sending<'_>,
        first: Option<PublicKey>,
    ) -> Result<Option<Vec<Outcome>>, GroupError> {
        (sending.to, sending.first) = (first, first);
        sending.until = Instant::now() + self.shared.config.patience;
        loop {
            match sending.attempt(&self.shared, member).await? {
                Attempt::Done(Reply::Executed(outcomes)) => return Ok(Some(outcomes)),
                Attempt::Done(Reply::Duplicate) => return Ok(None),
                // Signed for no epoch that this node does not know itself, unless it is only joining.
                Attempt::Done(Reply::Refused(Refusal::Epoch { current, .. })) if current != sending.epoch => {
                    let known = member.look(|state| state.charter().map(|_| state.epoch())).ok().flatten();
                    sending.epoch = known.unwrap_or(current);
                    if known.is_some_and(|known| known != current) {
                        sending.why = "the epoch of the group has not arrived here".to_owned();
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                Attempt::Done(Reply::Refused(Refusal::SessionEnded)) if !sending.in_doubt => {
                    // Nothing of the old session was executed, so that the commands may be sent in another.
                    member.new_session(self.shared.new_session());
                    tokio::time::sleep(PAUSE).await;
                    (sending.session, sending.sequence) = member.next_number();
                }
                Attempt::Done(Reply::Refused(refusal)) => return Err(refusal.into()),
                Attempt::Again(why) => {
                    sending.in_doubt = true;
                    sending.why = why;
                    tokio::time::sleep(PAUSE).await;
                }
            }
            if Instant::now() >= sending.until || member.stop.is_cancelled() {
                let seconds = self.shared.config.patience.as_secs();
                return Err(GroupError::NoAnswer { group: member.id, seconds, why: sending.why.clone() });
            }
        }
    }
}

impl<'a> Sending<'a> {
    /// A batch with the next number of this node.
    pub(super) fn new(
        member: &Member,
        author: Author,
        key: &'a SecretKey,
        epoch: u64,
        commands: Vec<Command>,
    ) -> Sending<'a> {
        let (session, sequence) = member.next_number();
        let (until, why) = (Instant::now(), "no leader is known".to_owned());
        let (to, first, in_doubt) = (None, None, false);
        Sending { author, key, epoch, session, sequence, commands, until, to, first, why, in_doubt }
    }

    async fn attempt(&mut self, shared: &Shared, member: &Arc<Member>) -> Result<Attempt, GroupError> {
        let sending = self;
        let commands = sending.commands.clone();
        let batch = Batch::new(sending.epoch, sending.author, sending.session, sending.sequence, commands);
        let signed = object::sign(batch, &shared.config.network, &Batch::scope(member.id), sending.key)?;
        let here = shared.here();
        let leader = member.replica().ok().and_then(|replica| replica.status().leader);
        let Some(to) = sending.to.take().or(leader).or(sending.first) else {
            return Ok(Attempt::Again("no leader is known".to_owned()));
        };
        if to == here {
            let replica = member.replica()?;
            let proposed = tokio::time::timeout(ATTEMPT, replica.propose(&signed.bytes)).await;
            let Ok(proposed) = proposed else { return Ok(Attempt::Again("no majority has answered yet".to_owned())) };
            return Ok(match submitted(&replica, proposed) {
                Ok(submitted) => sending.follow(shared, member, submitted).await,
                Err(unserved) => Attempt::Again(unserved.to_string()),
            });
        }
        let submit = Submit { group: member.id, batch: signed.bytes.into() };
        match shared.ask::<_, Submitted>(to, "submit", &submit).await {
            Ok(submitted) => Ok(sending.follow(shared, member, submitted).await),
            Err(Asked::Unserved(Unserved::Dissolved(_))) => Err(GroupError::Dissolved(member.id)),
            Err(why) => Ok(Attempt::Again(format!("{to}: {why}"))),
        }
    }

    async fn follow(&mut self, shared: &Shared, member: &Member, submitted: Submitted) -> Attempt {
        match submitted {
            Submitted::Done(reply) => Attempt::Done(reply),
            Submitted::NotLeader(Some(leader), addresses) => {
                if self.first.is_some() {
                    // Whoever joins believes the members of its ticket, also in who leads.
                    member.record.lock().expect("no panic").sponsors.push(leader);
                }
                shared.reach(leader, addresses).await;
                self.to = Some(leader);
                Attempt::Again(format!("{leader} should lead, and has not answered yet"))
            }
            Submitted::NotLeader(None, _) => Attempt::Again("no member leads".to_owned()),
            Submitted::Unknown => Attempt::Again("the leader changed while the commands were under way".to_owned()),
        }
    }
}

impl Groups {
    /// Waits until the state here includes everything that was acknowledged before this call.
    ///
    /// # Errors
    /// [`GroupError::NoAnswer`] if there is no leader that reaches a majority.
    pub async fn catch_up(&self, group: GroupId) -> Result<(), GroupError> {
        let member = self.active(group)?;
        let until = Instant::now() + self.shared.config.patience;
        loop {
            let why = match barrier(&self.shared, &member).await? {
                Ok(index) => return applied(&self.shared, &member, index, until).await,
                Err(why) => why,
            };
            if Instant::now() >= until {
                return Err(GroupError::NoAnswer { group, seconds: self.shared.config.patience.as_secs(), why });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Shared {
    pub(super) async fn ask<Q, A>(&self, to: PublicKey, operation: &str, question: &Q) -> Result<A, Asked>
    where
        Q: minicbor::Encode<()>,
        A: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>,
    {
        let request = Request { deadline: Some(ATTEMPT), ..Request::new(operation, wire::write(question)) };
        match self.communication.call(to, RAFT, request).await {
            Ok(body) => wire::read(&body).map_err(Asked::Malformed),
            Err(CallError::Refused { body, .. }) => {
                Err(wire::read(&body).map_or_else(Asked::Malformed, Asked::Unserved))
            }
            Err(error) => Err(Asked::Failed(error.to_string())),
        }
    }
}

/// Why a member could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Asked {
    #[error("{0}")]
    Unserved(Unserved),
    #[error("{0}")]
    Failed(String),
    #[error("its answer cannot be read: {0}")]
    Malformed(String),
}

/// An entry that includes everything that was acknowledged; or why there is none now.
async fn barrier(shared: &Shared, member: &Arc<Member>) -> Result<Result<u64, String>, GroupError> {
    let replica = member.replica()?;
    let Some(leader) = replica.status().leader else { return Ok(Err("no leader is known".to_owned())) };
    if leader == shared.here() {
        return Ok(replica.barrier().await.map_err(|error| error.to_string()));
    }
    Ok(match shared.ask::<_, BarrierAnswer>(leader, "barrier", &Barrier { group: member.id }).await {
        Ok(BarrierAnswer::At(index)) => Ok(index),
        Ok(BarrierAnswer::NotLeader(_)) => Err("no member leads".to_owned()),
        Ok(BarrierAnswer::NoMajority) => Err("the leader reaches no majority".to_owned()),
        Err(why) => Err(why.to_string()),
    })
}

/// Waits until an entry is applied here.
async fn applied(shared: &Shared, member: &Arc<Member>, index: u64, until: Instant) -> Result<(), GroupError> {
    let replica = member.replica()?;
    let mut changes = replica.changes();
    while replica.applied() < Some(index) {
        if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
            let seconds = shared.config.patience.as_secs();
            let why = format!("entry {index} has not arrived here");
            return Err(GroupError::NoAnswer { group: member.id, seconds, why });
        }
    }
    Ok(())
}
