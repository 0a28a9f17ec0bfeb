//! The exchange of placements: which peers get this node's placement, pushed or by subscription, and which nodes this one
//! subscribes to. Decides; sends nothing itself (SPEC P-75, P-76).

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;

use crate::machine::push_set::PushSet;
use crate::machine::rank::Source;

/// A subscription that its publisher ended is not asked for again within this.
const RESUBSCRIBE_MS: u64 = 2_000;
/// Peers whose refusals are remembered.
const REFUSALS_MAX: usize = 64;

/// How a push of this node's placement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushOutcome {
    /// The peer took it.
    Accepted,
    /// The peer has a newer one already: this node's own placements overtook each other.
    Stale,
    /// The peer refused it, and why.
    Refused(String),
    /// The peer did not answer.
    Failed,
}

/// How a subscription to another node's placements ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionEnd {
    /// It ended, or its events were of no use.
    Ended,
    /// The node does not offer one to this node.
    Refused,
}

/// What happens to the exchange.
#[derive(Debug)]
pub enum ExchangeInput {
    /// A peer connected, or turned out to be nearer than it was when it connected.
    Connected {
        /// The peer.
        peer: PublicKey,
        /// What it counts as.
        source: Source,
    },
    /// A peer's connection was lost.
    Disconnected {
        /// The peer.
        peer: PublicKey,
        /// Those who are connected now.
        connected: Vec<(PublicKey, Source)>,
    },
    /// Those who are connected now, and what they count as.
    Reviewed(Vec<(PublicKey, Source)>),
    /// A heartbeat is due, or this node's placement changed.
    HeartbeatDue,
    /// This node leaves: its next heartbeat is the last, and goes to everybody as a push.
    Leaving,
    /// A push of the heartbeat ended, whatever came of it.
    HeartbeatPushEnded(PublicKey),
    /// What came of a push.
    Pushed {
        /// To whom.
        peer: PublicKey,
        /// What came of it.
        outcome: PushOutcome,
    },
    /// A peer asks for a subscription to this node's placements.
    SubscribeRequested(PublicKey),
    /// A subscriber's stream is gone.
    SubscriberGone {
        /// Whose.
        peer: PublicKey,
        /// Of which subscription.
        number: u64,
    },
    /// A node pushed its placement, which is in the catalogue now.
    PlacementTaken(PublicKey),
    /// This node's subscription to another's placements ended.
    SubscriptionEnded {
        /// The publisher.
        node: PublicKey,
        /// Of which subscription.
        number: u64,
        /// Why.
        end: SubscriptionEnd,
    },
    /// A node's placement expired.
    Expired(PublicKey),
}

/// What the exchange wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum ExchangeEffect {
    /// Push this node's placement to a peer that is new in the push set; a failed push is repeated soon.
    PushToNew(PublicKey),
    /// Push this node's placement to these peers, once each.
    Push(Vec<PublicKey>),
    /// Subscribers have something to hear, or their subscriptions ended.
    WakeSubscribers,
    /// The subscription that was asked for exists, under this number.
    Subscribed(u64),
    /// It is refused: the peer is not in the push set.
    SubscriptionRefused,
    /// Subscribe to this node's placements, under this number.
    SubscribeTo {
        /// The publisher.
        node: PublicKey,
        /// The subscription's number.
        number: u64,
    },
    /// The connection to a peer was lost that was used until then: it was no passer-by.
    Lost(PublicKey),
}

/// State of this node's subscription to another's placements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscription {
    /// The one of this number is under way.
    Active(u64),
    /// It ended, and may be asked for again from then on.
    EndedUntil(u64),
    /// The node does not offer one; it pushes.
    Refused,
}

/// The exchange of placements as one node sees it.
#[derive(Debug)]
pub struct Exchange {
    push_set: PushSet,
    /// Peers that a heartbeat's push is on its way to.
    pushing: BTreeSet<PublicKey>,
    /// Peers that refused this node's placement, and why.
    refusals: BTreeMap<PublicKey, String>,
    /// Subscribers to this node's placements, and the numbers of their subscriptions.
    subscribers: BTreeMap<PublicKey, u64>,
    /// This node's subscriptions.
    subscriptions: BTreeMap<PublicKey, Subscription>,
    /// Numbers of subscriptions that were given out.
    numbers: u64,
    /// Counts heartbeats and changes.
    beat: u64,
    leaving: bool,
}

impl Exchange {
    /// An exchange without peers, which pushes to at most `push_peers_max`.
    #[must_use]
    pub fn new(push_peers_max: usize) -> Exchange {
        Exchange {
            push_set: PushSet::new(push_peers_max),
            pushing: BTreeSet::new(),
            refusals: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            numbers: 0,
            beat: 0,
            leaving: false,
        }
    }

    /// Does that peer get this node's placements?
    #[must_use]
    pub fn pushes_to(&self, peer: PublicKey) -> bool {
        self.push_set.contains(peer)
    }

    /// How many heartbeats and changes there were.
    #[must_use]
    pub fn beat(&self) -> u64 {
        self.beat
    }

    /// Is that subscription of a peer under way?
    #[must_use]
    pub fn has_subscriber(&self, peer: PublicKey, number: u64) -> bool {
        self.subscribers.get(&peer) == Some(&number)
    }

    /// Peers that refused this node's placement, and why.
    #[must_use]
    pub fn refusals(&self) -> Vec<(PublicKey, String)> {
        self.refusals.iter().map(|(peer, why)| (*peer, why.clone())).collect()
    }

    /// Takes what happened; gives what is to be done, in order.
    pub fn handle(&mut self, now_ms: u64, input: ExchangeInput) -> Vec<ExchangeEffect> {
        match input {
            ExchangeInput::Connected { peer, source } => self.connected(peer, source),
            ExchangeInput::Disconnected { peer, connected } => self.disconnected(peer, &connected),
            ExchangeInput::Reviewed(connected) => self.reviewed(&connected),
            ExchangeInput::HeartbeatDue => self.heartbeat(),
            ExchangeInput::Leaving => {
                self.leaving = true;
                // Whatever is on its way: the last placement goes to everybody, and is to be answered.
                self.pushing.clear();
                self.subscribers.clear();
                Vec::new()
            }
            ExchangeInput::HeartbeatPushEnded(peer) => {
                self.pushing.remove(&peer);
                Vec::new()
            }
            ExchangeInput::Pushed { peer, outcome } => {
                self.pushed(peer, outcome);
                Vec::new()
            }
            ExchangeInput::SubscribeRequested(peer) => self.subscribe_requested(peer),
            ExchangeInput::SubscriberGone { peer, number } => {
                if self.has_subscriber(peer, number) {
                    self.subscribers.remove(&peer);
                }
                Vec::new()
            }
            ExchangeInput::PlacementTaken(node) => self.placement_taken(node, now_ms),
            ExchangeInput::SubscriptionEnded { node, number, end } => {
                self.subscription_ended(node, number, end, now_ms);
                Vec::new()
            }
            ExchangeInput::Expired(node) => {
                self.subscriptions.remove(&node);
                Vec::new()
            }
        }
    }

    fn connected(&mut self, peer: PublicKey, source: Source) -> Vec<ExchangeEffect> {
        let joined = self.push_set.joined(peer, source);
        let mut effects = self.end_subscribers();
        effects.extend(joined.then_some(ExchangeEffect::PushToNew(peer)));
        effects
    }

    fn disconnected(&mut self, peer: PublicKey, connected: &[(PublicKey, Source)]) -> Vec<ExchangeEffect> {
        self.refusals.remove(&peer);
        if !connected.iter().any(|(other, _)| *other == peer) {
            self.subscriptions.remove(&peer);
        }
        let left = self.push_set.left(peer);
        let lost = left.then_some(ExchangeEffect::Lost(peer));
        lost.into_iter().chain(self.reviewed(connected)).collect()
    }

    fn reviewed(&mut self, connected: &[(PublicKey, Source)]) -> Vec<ExchangeEffect> {
        // Those whose disconnection is not reported yet, or was missed.
        let is_gone = |member: &PublicKey| !connected.iter().any(|(peer, _)| peer == member);
        let mut effects: Vec<ExchangeEffect> =
            self.push_set.members().filter(is_gone).map(ExchangeEffect::Lost).collect();
        let new = self.push_set.review(connected);
        effects.extend(self.end_subscribers());
        effects.extend(new.into_iter().map(ExchangeEffect::PushToNew));
        effects
    }

    /// Ends the subscriptions of those who had to make room for others.
    fn end_subscribers(&mut self) -> Vec<ExchangeEffect> {
        let before = self.subscribers.len();
        self.subscribers.retain(|peer, _| self.push_set.contains(*peer));
        if self.subscribers.len() < before { vec![ExchangeEffect::WakeSubscribers] } else { Vec::new() }
    }

    /// An event to all subscribers, a push to the others of the push set. A peer that has not answered the last push is left
    /// out: where everybody is busy, more pushes would only make it worse.
    fn heartbeat(&mut self) -> Vec<ExchangeEffect> {
        let others = self.push_set.members().filter(|peer| !self.subscribers.contains_key(peer));
        let peers: Vec<PublicKey> = others.filter(|peer| self.pushing.insert(*peer)).collect();
        self.beat += 1;
        vec![ExchangeEffect::Push(peers), ExchangeEffect::WakeSubscribers]
    }

    fn pushed(&mut self, peer: PublicKey, outcome: PushOutcome) {
        match outcome {
            PushOutcome::Accepted => drop(self.refusals.remove(&peer)),
            PushOutcome::Refused(why) if self.refusals.len() < REFUSALS_MAX => {
                self.refusals.insert(peer, why);
            }
            PushOutcome::Refused(_) | PushOutcome::Stale | PushOutcome::Failed => {}
        }
    }

    fn subscribe_requested(&mut self, peer: PublicKey) -> Vec<ExchangeEffect> {
        if self.leaving || !self.push_set.contains(peer) {
            return vec![ExchangeEffect::SubscriptionRefused];
        }
        let number = self.next_number();
        // An older subscription of the same peer is over.
        self.subscribers.insert(peer, number);
        vec![ExchangeEffect::Subscribed(number), ExchangeEffect::WakeSubscribers]
    }

    fn placement_taken(&mut self, node: PublicKey, now_ms: u64) -> Vec<ExchangeEffect> {
        match self.subscriptions.get(&node) {
            Some(Subscription::Active(_) | Subscription::Refused) => return Vec::new(),
            Some(Subscription::EndedUntil(again_ms)) if *again_ms > now_ms => return Vec::new(),
            Some(Subscription::EndedUntil(_)) | None => {}
        }
        let number = self.next_number();
        self.subscriptions.insert(node, Subscription::Active(number));
        vec![ExchangeEffect::SubscribeTo { node, number }]
    }

    fn subscription_ended(&mut self, node: PublicKey, number: u64, end: SubscriptionEnd, now_ms: u64) {
        if let Some(known) = self.subscriptions.get_mut(&node).filter(|known| **known == Subscription::Active(number)) {
            *known = match end {
                SubscriptionEnd::Refused => Subscription::Refused,
                SubscriptionEnd::Ended => Subscription::EndedUntil(now_ms + RESUBSCRIBE_MS),
            };
        }
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;
    use crate::machine::exchange::ExchangeEffect::{
        Lost, Push, PushToNew, SubscribeTo, Subscribed, SubscriptionRefused, WakeSubscribers,
    };
    use crate::machine::exchange::ExchangeInput as Input;

    fn peers<const N: usize>() -> [PublicKey; N] {
        std::array::from_fn(|number| SecretKey::from_seed(&[u8::try_from(number).expect("few"); 32]).public())
    }

    fn connected(peer: PublicKey) -> Input {
        Input::Connected { peer, source: Source::stranger(peer) }
    }

    #[test]
    fn a_heartbeat_is_pushed_to_those_who_have_answered_and_told_to_subscribers() {
        let [a, b] = peers();
        let mut exchange = Exchange::new(8);
        assert_eq!(exchange.handle(0, connected(a)), [PushToNew(a)]);
        assert_eq!(exchange.handle(0, connected(b)), [PushToNew(b)]);
        assert_eq!(exchange.handle(1, Input::HeartbeatDue), [Push(vec![a, b]), WakeSubscribers]);
        exchange.handle(2, Input::HeartbeatPushEnded(a));
        assert_eq!(exchange.handle(3, Input::HeartbeatDue), [Push(vec![a]), WakeSubscribers], "b has not answered");
        assert_eq!(exchange.handle(4, Input::SubscribeRequested(a)), [Subscribed(1), WakeSubscribers]);
        exchange.handle(5, Input::HeartbeatPushEnded(b));
        assert_eq!(exchange.handle(6, Input::HeartbeatDue), [Push(vec![b]), WakeSubscribers], "a has subscribed");
        assert_eq!(exchange.beat(), 3);
    }

    #[test]
    fn only_those_of_the_push_set_may_subscribe_and_nobody_once_the_node_leaves() {
        let [a, b] = peers();
        let mut exchange = Exchange::new(1);
        exchange.handle(0, connected(a));
        assert_eq!(exchange.handle(0, connected(b)), [], "there is no room");
        assert_eq!(exchange.handle(0, Input::SubscribeRequested(b)), [SubscriptionRefused]);
        exchange.handle(0, Input::SubscribeRequested(a));
        exchange.handle(0, Input::Leaving);
        assert!(!exchange.has_subscriber(a, 1));
        assert_eq!(exchange.handle(0, Input::HeartbeatDue), [Push(vec![a]), WakeSubscribers], "the last one is pushed");
        assert_eq!(exchange.handle(0, Input::SubscribeRequested(a)), [SubscriptionRefused]);
    }

    #[test]
    fn only_a_peer_that_was_pushed_to_is_lost() {
        let [a, b] = peers();
        let mut exchange = Exchange::new(1);
        exchange.handle(0, connected(a));
        exchange.handle(0, connected(b));
        let gone = |peer, others: &[PublicKey]| {
            let connected = others.iter().map(|other| (*other, Source::stranger(*other))).collect();
            Input::Disconnected { peer, connected }
        };
        assert_eq!(exchange.handle(1, gone(b, &[a])), [], "nothing was said on its connection");
        assert_eq!(exchange.handle(1, gone(a, &[])), [Lost(a)], "whoever had dialled");
        exchange.handle(2, connected(a));
        assert_eq!(exchange.handle(3, Input::Reviewed(Vec::new())), [Lost(a)], "it is seen before it is reported");
        assert_eq!(exchange.handle(4, gone(a, &[])), []);
    }

    #[test]
    fn who_makes_room_loses_its_subscription() {
        let [a, b, c] = peers();
        let mut exchange = Exchange::new(1);
        exchange.handle(0, connected(a));
        exchange.handle(0, Input::SubscribeRequested(a));
        let near = Source { rank: crate::machine::rank::Rank::Own, ..Source::stranger(b) };
        let nearer = Input::Connected { peer: b, source: near };
        assert_eq!(exchange.handle(0, nearer), [WakeSubscribers, PushToNew(b)]);
        assert!(!exchange.has_subscriber(a, 1));
        assert_eq!(exchange.handle(0, Input::Reviewed(vec![(c, Source::stranger(c))])), [Lost(b), PushToNew(c)]);
    }

    #[test]
    fn a_publisher_is_subscribed_to_once_and_again_after_a_while() {
        let [a] = peers();
        let mut exchange = Exchange::new(8);
        let taken = || Input::PlacementTaken(a);
        assert_eq!(exchange.handle(0, taken()), [SubscribeTo { node: a, number: 1 }]);
        assert_eq!(exchange.handle(0, taken()), []);
        let ended = |number, end| Input::SubscriptionEnded { node: a, number, end };
        exchange.handle(5, ended(1, SubscriptionEnd::Ended));
        assert_eq!(exchange.handle(2_004, taken()), []);
        assert_eq!(exchange.handle(2_005, taken()), [SubscribeTo { node: a, number: 2 }]);
        exchange.handle(2_006, ended(1, SubscriptionEnd::Refused));
        assert_eq!(exchange.subscriptions.get(&a), Some(&Subscription::Active(2)), "the first one is over for long");
        exchange.handle(2_006, ended(2, SubscriptionEnd::Refused));
        assert_eq!(exchange.handle(9_999, taken()), [], "it does not offer one");
        exchange.handle(9_999, Input::Expired(a));
        assert_eq!(exchange.handle(9_999, taken()), [SubscribeTo { node: a, number: 3 }]);
    }

    #[test]
    fn refusals_are_remembered_until_a_push_is_accepted_and_not_without_bound() {
        let all: [PublicKey; REFUSALS_MAX + 1] = peers();
        let mut exchange = Exchange::new(8);
        for peer in all {
            let outcome = PushOutcome::Refused("no".to_owned());
            exchange.handle(0, Input::Pushed { peer, outcome });
        }
        assert_eq!(exchange.refusals().len(), REFUSALS_MAX);
        exchange.handle(0, Input::Pushed { peer: all[0], outcome: PushOutcome::Stale });
        assert_eq!(exchange.refusals().len(), REFUSALS_MAX, "that says nothing");
        exchange.handle(0, Input::Pushed { peer: all[0], outcome: PushOutcome::Accepted });
        assert_eq!(exchange.refusals().len(), REFUSALS_MAX - 1);
    }
}
