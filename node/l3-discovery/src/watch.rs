//! Heartbeats that are not answered: whoever was told where this node's agents are asks once to be told on, and then hears
//! an event with each heartbeat, an empty one as long as nothing changed (SPEC P-75, P-76).

use std::pin::pin;
use std::time::Duration;

use althing_communication::{Answer, CallError, Request};
use althing_protocol::PublicKey;
use althing_protocol::object::Health;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::sleep;

use crate::PLACEMENTS;
use crate::service::Discovery;

/// Between two events of one peer that are looked at: whoever sends more of them fills its own stream.
const GAP: Duration = Duration::from_millis(20);

/// A node is not asked again to tell on within this, when it ended that.
const AGAIN_MS: u64 = 2_000;

/// What became of the wish to watch a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    /// The watch of this number is under way.
    On(u64),
    /// It is over, and may be asked for again from then on.
    Over(u64),
    /// The node does not offer it; it pushes, then.
    Refused,
}

impl Discovery {
    /// One of those who are told asks to be told on.
    pub(crate) fn tell_on(&self, peer: PublicKey) -> Result<Answer, String> {
        self.hear(peer);
        let number = {
            let mut state = self.lock();
            // The last word is pushed.
            if state.health == Health::Leaving || !state.audience.contains(peer) {
                return Err("this node tells others; ask it for what you look for".to_owned());
            }
            state.watches += 1;
            let number = state.watches;
            state.watchers.insert(peer, number);
            number
        };
        // An older watch of the same peer is over.
        self.shared.beaten.notify_waiters();
        let telling = Telling { discovery: self.clone(), peer, number, beat: 0, last: None };
        let events = stream::unfold(telling, |mut telling| async move { Some((Ok(telling.next().await?), telling)) });
        Ok(Answer::Events(events.boxed()))
    }

    /// Asks a node that pushed its placement to be told on, unless that was done.
    pub(crate) fn watch(&self, node: PublicKey) {
        let now_ms = self.now().monotonic_ms;
        let mut state = self.lock();
        let asked = match state.watching.get(&node) {
            None => false,
            Some(Watching::Over(again_ms)) => *again_ms > now_ms,
            Some(Watching::On(_) | Watching::Refused) => true,
        };
        // Who is not believed, or has just said goodbye, is not asked either.
        if asked || state.catalogue.node(node).is_none() {
            return;
        }
        state.watches += 1;
        let number = state.watches;
        state.watching.insert(node, Watching::On(number));
        drop(state);
        let discovery = self.clone();
        tokio::spawn(async move {
            let mut outcome = discovery.listen(node).await;
            // Whose node this is has changed: that is shown when a stream is opened.
            while let Ok(Listened::Outdated) = outcome {
                outcome = discovery.listen(node).await;
            }
            tracing::debug!(%node, ?outcome, "watch is over");
            let over = Watching::Over(discovery.now().monotonic_ms + AGAIN_MS);
            let end = if matches!(outcome, Err(CallError::Refused { .. })) { Watching::Refused } else { over };
            let mut state = discovery.lock();
            if let Some(watching) = state.watching.get_mut(&node).filter(|known| **known == Watching::On(number)) {
                *watching = end;
            }
        });
    }

    /// Takes what `node` tells, until one of both has enough.
    async fn listen(&self, node: PublicKey) -> Result<Listened, CallError> {
        let communication = &self.shared.communication;
        let mut events = communication.stream(node, PLACEMENTS, Request::new("watch", Vec::new())).await?;
        while let Some(event) = events.next().await? {
            let holds = self.heed_event(node, &event);
            if !holds || !communication.is_current(&events) {
                events.cancel().await;
                // What is not known here, or not believed, it is to say whole, and to hear why not.
                return Ok(if holds { Listened::Outdated } else { Listened::Over });
            }
            sleep(GAP).await;
        }
        Ok(Listened::Over)
    }
}

/// Why a node is not listened to any more.
#[derive(Debug)]
enum Listened {
    /// It ended, or said what is of no use.
    Over,
    /// It does not know whose node this is now.
    Outdated,
}

/// What one peer that watches was told.
struct Telling {
    discovery: Discovery,
    peer: PublicKey,
    number: u64,
    /// The heartbeat that it heard last.
    beat: u64,
    /// Which of both kinds of placement, and its version.
    last: Option<(bool, u64)>,
}

impl Telling {
    /// The next event: at once the first time, then with each heartbeat and change.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if self.last.is_some() {
            self.beat().await;
        }
        let trusted = self.discovery.trusts(self.peer);
        let mut state = self.discovery.lock();
        self.beat = state.beat;
        if state.watchers.get(&self.peer) != Some(&self.number) {
            return None;
        }
        if self.last.is_none_or(|(was_trusted, _)| was_trusted != trusted) {
            // The other kind may have been signed later: it is to be newer than that.
            self.discovery.say(&mut state, trusted, true);
        }
        let told = &state.told[usize::from(trusted)];
        let last = self.last.replace((trusted, told.version));
        Some(if last == self.last { Vec::new() } else { told.bytes.clone() })
    }
}

impl Telling {
    /// Is there a heartbeat that it has not heard, or is it over?
    fn is_due(&self) -> bool {
        let state = self.discovery.lock();
        state.beat > self.beat || state.watchers.get(&self.peer) != Some(&self.number)
    }

    /// Waits until it is due.
    async fn beat(&self) {
        loop {
            let mut beaten = pin!(self.discovery.shared.beaten.notified());
            // From here on none is missed.
            beaten.as_mut().enable();
            if self.is_due() {
                return;
            }
            beaten.await;
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let mut state = self.discovery.lock();
        if state.watchers.get(&self.peer) == Some(&self.number) {
            state.watchers.remove(&self.peer);
        }
    }
}
