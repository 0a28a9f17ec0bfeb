//! Subscriptions to placements: a peer that got a placement subscribes once and then gets an event with each heartbeat, an
//! empty one as long as nothing changed (SPEC P-75, P-76). Heartbeats are not acknowledged.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Answer, CallError, Request};
use althing_protocol::PublicKey;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::sleep;

use crate::PLACEMENTS;
use crate::intake::{EventRecord, Intake};
use crate::machine::exchange::{ExchangeInput, SubscriptionEnd};
use crate::machine::rank::TrustRelation;
use crate::state::Shared;

/// Between two events of one publisher that are read: whoever sends more fills its own stream.
const EVENT_GAP: Duration = Duration::from_millis(20);

/// The events for the subscriber of that number.
pub(crate) fn events(shared: Arc<Shared>, peer: PublicKey, number: u64) -> Answer {
    let subscriber = Subscriber { shared, peer, number, beat: 0, last: None };
    let events =
        stream::unfold(subscriber, |mut subscriber| async move { Some((Ok(subscriber.next().await?), subscriber)) });
    Answer::Events(events.boxed())
}

/// Subscribes to a node's placements, and takes them until the subscription ends.
pub(crate) async fn follow(shared: Arc<Shared>, node: PublicKey, number: u64) {
    let intake = Intake(shared.clone());
    let mut outcome = listen(&intake, node).await;
    // Whose node this is has changed: the peer is told that when a stream is opened.
    while let Ok(Listened::Outdated) = outcome {
        outcome = listen(&intake, node).await;
    }
    tracing::debug!(%node, ?outcome, "subscription ended");
    let refused = matches!(outcome, Err(CallError::Refused { .. }));
    let end = if refused { SubscriptionEnd::Refused } else { SubscriptionEnd::Ended };
    shared.exchange(ExchangeInput::SubscriptionEnded { node, number, end });
}

/// Why a stream of events ended.
#[derive(Debug)]
enum Listened {
    /// The node ended it, or sent an event of no use.
    Over,
    /// The stream was opened before this node's owner was known to the peer.
    Outdated,
}

/// Takes the events of one stream until it ends.
async fn listen(intake: &Intake, node: PublicKey) -> Result<Listened, CallError> {
    let communication = &intake.0.communication;
    let mut events = communication.stream(node, PLACEMENTS, Request::new("watch", Vec::new())).await?;
    let mut said = EventRecord::default();
    while let Some(event) = events.next().await? {
        let holds = intake.handle_event(node, &event, &mut said);
        if !holds || !communication.is_current(&events) {
            events.cancel().await;
            // The node then pushes its whole placement, and hears why it is refused.
            return Ok(if holds { Listened::Outdated } else { Listened::Over });
        }
        sleep(EVENT_GAP).await;
    }
    Ok(Listened::Over)
}

/// One subscriber's stream of events.
struct Subscriber {
    shared: Arc<Shared>,
    peer: PublicKey,
    number: u64,
    /// The last heartbeat that it got.
    beat: u64,
    /// The relation whose placement it got last, and that one's version.
    last: Option<(TrustRelation, u64)>,
}

impl Subscriber {
    /// The next event: at once the first time, then with each heartbeat and change.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if self.last.is_some() {
            self.wait_for_beat().await;
        }
        let relation = self.shared.relation(self.peer);
        let mut state = self.shared.lock();
        self.beat = state.exchange.beat();
        if !state.exchange.has_subscriber(self.peer, self.number) {
            return None;
        }
        if self.last.is_none_or(|(was, _)| was != relation) {
            // Another placement may have been signed later: this one needs a higher sequence.
            self.shared.publish(&mut state, relation);
        }
        let published = &state.published[relation.place()];
        let last = self.last.replace((relation, published.version));
        Some(if last == self.last { Vec::new() } else { published.bytes.clone() })
    }

    /// Is there a heartbeat that it has not got, or is the subscription over?
    fn is_due(&self) -> bool {
        let state = self.shared.lock();
        state.exchange.beat() > self.beat || !state.exchange.has_subscriber(self.peer, self.number)
    }

    async fn wait_for_beat(&self) {
        loop {
            let mut woken = pin!(self.shared.subscribers.notified());
            // From here on no notification is missed.
            woken.as_mut().enable();
            if self.is_due() {
                return;
            }
            woken.await;
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.exchange(ExchangeInput::SubscriberGone { peer: self.peer, number: self.number });
    }
}
