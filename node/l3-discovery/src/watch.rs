//! Heartbeats that are not answered: whoever was told where this node's agents are asks once to be told on, and then hears
//! an event with each heartbeat, an empty one as long as nothing changed (SPEC P-75, P-76).

use std::pin::pin;
use std::time::Duration;

use althing_communication::{Answer, CallError, Request};
use althing_protocol::PublicKey;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::sleep;

use crate::PLACEMENTS;
use crate::service::Discovery;

/// Between two events of one peer that are looked at: whoever sends more of them fills its own stream.
const GAP: Duration = Duration::from_millis(20);

/// What became of the wish to watch a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    /// It is under way.
    On,
    /// The node does not offer it; it pushes, then.
    Refused,
}

impl Discovery {
    /// One of those who are told asks to be told on.
    pub(crate) fn tell_on(&self, peer: PublicKey) -> Result<Answer, String> {
        let number = {
            let mut state = self.lock();
            if !state.audience.members().contains(&peer) {
                return Err("this node tells others; ask it for what you look for".to_owned());
            }
            state.watches += 1;
            let number = state.watches;
            // An older watch of the same peer ends with its next event.
            state.watchers.insert(peer, number);
            number
        };
        let telling = Telling { discovery: self.clone(), peer, number, beat: 0, last: None };
        let events = stream::unfold(telling, |mut telling| async move { Some((Ok(telling.next().await?), telling)) });
        Ok(Answer::Events(events.boxed()))
    }

    /// Asks a node that pushed its placement to be told on, unless that was done.
    pub(crate) fn watch(&self, node: PublicKey) {
        let mut state = self.lock();
        // Who is not believed, or has just said goodbye, is not asked.
        if state.watching.contains_key(&node) || state.catalogue.node(node).is_none() {
            return;
        }
        state.watching.insert(node, Watching::On);
        drop(state);
        let discovery = self.clone();
        tokio::spawn(async move {
            let outcome = discovery.listen(node).await;
            tracing::debug!(%node, ?outcome, "watch is over");
            let mut state = discovery.lock();
            match outcome {
                Err(CallError::Refused { .. }) => {
                    state.watching.entry(node).and_modify(|watching| *watching = Watching::Refused);
                }
                // It pushes again when it knows, and is then asked again.
                _ => drop(state.watching.remove(&node)),
            }
        });
    }

    /// Takes what `node` tells, until one of both has enough.
    async fn listen(&self, node: PublicKey) -> Result<(), CallError> {
        let mut events = self.shared.communication.stream(node, PLACEMENTS, Request::new("watch", Vec::new())).await?;
        while let Some(event) = events.next().await? {
            if !self.heed_event(node, &event) {
                // What it said before is not known here, or not believed: it is to say so whole, and hear why not.
                events.cancel().await;
                return Ok(());
            }
            sleep(GAP).await;
        }
        Ok(())
    }
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
        let trusted = (self.discovery.shared.trusts)(self.peer);
        let mut state = self.discovery.lock();
        self.beat = state.beat;
        if state.watchers.get(&self.peer) != Some(&self.number) {
            return None;
        }
        if self.last.is_none_or(|(was_trusted, _)| was_trusted != trusted) {
            self.discovery.say(&mut state, trusted, true);
        }
        let told = &state.told[usize::from(trusted)];
        let last = self.last.replace((trusted, told.version));
        Some(if last == self.last { Vec::new() } else { told.bytes.clone() })
    }
}

impl Telling {
    /// Waits for a heartbeat that it has not heard.
    async fn beat(&self) {
        loop {
            let mut beaten = pin!(self.discovery.shared.beaten.notified());
            // From here on none is missed.
            beaten.as_mut().enable();
            if self.discovery.lock().beat > self.beat {
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
