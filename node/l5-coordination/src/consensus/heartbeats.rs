//! Heartbeats of all groups that this node leads, to each other member: those of a moment travel in one message.
//!
//! The first one is sent at once, so that a group that is alone waits for nothing; those that come within [`PAUSE`] after it
//! are sent together when that is over. openraft gives a heartbeat 200 ms in all, so that it may not wait for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_communication::{CallError, Communication, Priority, Request};
use althing_protocol::PublicKey;
use althing_protocol::group::GroupId;
use openraft::errors::{NetworkError, RPCError, Unreachable};
use tokio::sync::oneshot;

use super::records::encode;
use super::types::Types;
use super::wire::{self, BEATS_MAX, Beat, Beats, BeatsHeard, Heard};
use crate::RAFT;

/// Between two messages of heartbeats to one member, at least.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of a heartbeat.
type Outcome = Result<Heard, RPCError<Types>>;

/// Sends the heartbeats of all groups of this node.
pub(crate) struct Heartbeats {
    communication: Communication,
    /// By member, what waits for the next message to it. A member is here as long as something is sent to it.
    peers: Mutex<BTreeMap<PublicKey, BTreeMap<GroupId, Waiting>>>,
}

/// A heartbeat that waits: one for each group.
struct Waiting {
    beat: Beat,
    deadline: Duration,
    answer: oneshot::Sender<Outcome>,
}

impl Heartbeats {
    pub fn new(communication: Communication) -> Arc<Heartbeats> {
        Arc::new(Heartbeats { communication, peers: Mutex::default() })
    }

    pub fn communication(&self) -> &Communication {
        &self.communication
    }

    /// Sends a heartbeat to a member, with those of other groups. A later one of the same group takes its place while it waits.
    /// `deadline` is what the answer may take after it is sent.
    ///
    /// # Errors
    /// The message could not be sent, or was not answered.
    pub async fn send(self: &Arc<Heartbeats>, to: PublicKey, beat: Beat, deadline: Duration) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        let is_first = {
            let mut peers = self.peers();
            let is_first = !peers.contains_key(&to);
            peers.entry(to).or_default().insert(beat.group, Waiting { beat, deadline, answer });
            is_first
        };
        if is_first {
            tokio::spawn(self.clone().deliver(to));
        }
        outcome.await.unwrap_or_else(|_| Err(NetworkError::from_string("a later heartbeat took its place").into()))
    }

    /// Sends what waits for a member, until nothing does.
    async fn deliver(self: Arc<Heartbeats>, to: PublicKey) {
        loop {
            let mut waiting = {
                let mut peers = self.peers();
                match peers.get_mut(&to).map(std::mem::take) {
                    Some(waiting) if !waiting.is_empty() => waiting.into_values(),
                    _ => {
                        peers.remove(&to);
                        return;
                    }
                }
            };
            loop {
                let message: Vec<Waiting> = waiting.by_ref().take(BEATS_MAX).collect();
                if message.is_empty() {
                    break;
                }
                // The next one does not wait for the answer: the way to the member may be long.
                tokio::spawn(exchange(self.communication.clone(), to, message));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<PublicKey, BTreeMap<GroupId, Waiting>>> {
        self.peers.lock().expect("no holder of the heartbeats panics")
    }
}

/// Sends one message, and hands out what its answer says of each heartbeat.
async fn exchange(communication: Communication, to: PublicKey, message: Vec<Waiting>) {
    let deadline = message.iter().map(|waiting| waiting.deadline).max();
    let (beats, answers): (Vec<Beat>, Vec<_>) = message.into_iter().map(|one| (one.beat, one.answer)).unzip();
    let body = encode(&Beats { leader: communication.network().local(), beats });
    let request = Request { deadline, priority: Priority::Urgent, ..Request::new("heartbeats", body) };
    let answered = communication.call(to, RAFT, request).await;
    let read = answered.map(|body| match wire::read::<BeatsHeard>(&body) {
        Ok(heard) if heard.heard.len() == answers.len() => Ok(heard.heard),
        Ok(_) => Err("it answered another number of heartbeats than it was sent".to_owned()),
        Err(why) => Err(why),
    });
    match read {
        // Whoever gave it up does not hear it.
        Ok(Ok(heard)) => answers.into_iter().zip(heard).for_each(|(answer, heard)| drop(answer.send(Ok(heard)))),
        Ok(Err(why)) => answers.into_iter().for_each(|answer| {
            drop(answer.send(Err(NetworkError::from_string(&why).into())));
        }),
        Err(error) => answers.into_iter().for_each(|answer| drop(answer.send(unsent(&error)))),
    }
}

/// What becomes of each heartbeat when the message as a whole is not answered.
fn unsent(error: &CallError) -> Outcome {
    match error {
        // Alone, each is told why.
        CallError::Refused { .. } => Ok(Heard::Unserved),
        CallError::Unreachable { .. } => Err(Unreachable::new(error).into()),
        CallError::Broken { .. } | CallError::Deadline { .. } | CallError::Request(_) => {
            Err(NetworkError::new(error).into())
        }
    }
}
