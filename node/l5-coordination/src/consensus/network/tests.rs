//! What is made of the answers of members, and for how long that is remembered.

use althing_communication::network::Incoming;
use althing_communication::{
    AcceptError, BoxedStream, Communication, CommunicationConfig, DhtRouting, DialError, Entropy, Network, OpenError,
    PeerEvent, PeerInfo, WallClock,
};
use althing_protocol::SecretKey;
use futures::future::BoxFuture;
use tokio::sync::{broadcast, watch};

use super::super::wire::TERM_MAX;
use super::*;

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

fn ballot(term: u64, of: u8, elected: bool) -> Ballot {
    Ballot { term, node: node(of), elected }
}

/// P-101: seed 2613 of the group simulations
#[test]
fn a_later_ballot_in_the_name_of_who_asks_is_none_for_it() {
    let asked = ballot(2, 1, true);
    let told = |answer| answered(asked, answer, node(2));
    for elected in [false, true] {
        assert_eq!(told(ballot(3, 1, elected)).ok(), Some(ballot(3, 2, false)), "it was not elected in that term");
    }
    for answer in [asked, ballot(2, 1, false), ballot(3, 2, true), ballot(3, 3, false)] {
        assert_eq!(told(answer).ok(), Some(answer), "as it is");
    }
}

/// P-101, SG-3: a learner whose term was driven up asks nobody.
#[test]
fn a_ballot_that_is_too_far_above_is_taken_as_far_as_one_step_reaches() {
    let asked = ballot(2, 1, true);
    let told = |answer| answered(asked, answer, node(2));
    let step = ballot(2 + TERM_AHEAD_MAX, 2, false);
    assert_eq!(told(ballot(2 + TERM_AHEAD_MAX, 3, true)).ok(), Some(ballot(2 + TERM_AHEAD_MAX, 3, true)), "as it is");
    for far in [3 + TERM_AHEAD_MAX, TERM_MAX] {
        for (of, elected) in [(1, true), (3, true), (3, false)] {
            assert_eq!(told(ballot(far, of, elected)).ok(), Some(step), "{far} of {of}: no more than one step");
        }
    }
    assert!(told(ballot(TERM_MAX + 1, 3, false)).is_err(), "no term is left after it");
    let high = ballot(TERM_MAX - 1, 1, true);
    assert_eq!(answered(high, ballot(TERM_MAX, 3, false), node(2)).ok(), Some(ballot(TERM_MAX, 3, false)));
    assert!(answered(high, ballot(TERM_MAX + 1, 3, false), node(2)).is_err(), "though it is less than a step above");
}

#[test]
fn what_a_member_cannot_answer_is_no_answer() {
    let at = |index| Position { term: 1, index };
    let entries = [5, 6].map(|index| EntryRecord { at: at(index), payload: Payload::Blank }).to_vec();
    let group = GroupId::from_digest([3; 32]);
    let asked = Append { group, leader: ballot(2, 1, true), previous: Some(at(4)), committed: None, entries };
    let is_possible = |answer| impossible(&asked, answer).is_none();
    assert!(is_possible(Appended::Conflict) && is_possible(Appended::All));
    assert!([4, 5, 6].into_iter().all(|index| is_possible(Appended::UpTo(Some(at(index))))));
    for other in [None, Some(at(3)), Some(at(7)), Some(Position { term: 2, index: 5 })] {
        assert!(!is_possible(Appended::UpTo(other)), "{other:?}");
    }
    let first = Append { previous: None, ..asked.clone() };
    assert!(impossible(&first, Appended::Conflict).is_some() && impossible(&first, Appended::UpTo(None)).is_none());
}

/// A network on which nobody is reached.
struct Nowhere;

impl Network for Nowhere {
    fn local(&self) -> PublicKey {
        node(1)
    }

    fn open(&self, _: PublicKey, _: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        Box::pin(async { Err(OpenError::NotConnected) })
    }

    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        Err(AcceptError::Taken(protocol))
    }

    fn dial(&self, _: Option<PublicKey>, _: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        Box::pin(async { Err(DialError::Stopped) })
    }

    fn disconnect(&self, _: PublicKey) {}

    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        broadcast::channel(1).1
    }

    fn peers(&self) -> Vec<PeerInfo> {
        Vec::new()
    }

    fn listening(&self) -> Vec<String> {
        Vec::new()
    }

    fn routing(&self) -> &dyn DhtRouting {
        panic!("nobody is looked for")
    }
}

/// Both links to a member, in the order in which openraft makes them when this one begins to lead it.
async fn lead(links: &mut Links, member: PublicKey) -> [Link; 2] {
    let heartbeats = links.new_heartbeat_client(NodeId(member), &()).await;
    [heartbeats, links.new_client(NodeId(member), &()).await]
}

/// Otherwise a member whose log was cut off meanwhile would be taken for one that lost its disk, and be sent nothing any more.
#[tokio::test]
async fn who_leads_again_expects_nothing_that_a_member_had_when_it_led_before() {
    let (clock, entropy) = (WallClock::new(|| 0), Entropy::new(|bytes| bytes.fill(7)));
    let (key, config) = (SecretKey::from_seed(&[1; 32]), CommunicationConfig::default());
    let network: Arc<dyn Network> = Arc::new(Nowhere);
    let communication = Communication::start(network, key, watch::channel(None).1, config, clock, entropy);
    let mut links = Links {
        heartbeats: Heartbeats::new(communication),
        group: GroupId::from_digest([3; 32]),
        on_unserved: Arc::new(|_, _| {}),
        matched: Arc::default(),
    };
    let [heartbeats, entries] = lead(&mut links, node(2)).await;
    heartbeats.matched.raise(Some(9));
    assert!(entries.matched.covers(Some(9)), "what one link is told the other one knows");
    assert!(!entries.matched.covers(Some(10)));
    let [heartbeats, entries] = lead(&mut links, node(2)).await;
    assert!(!heartbeats.matched.covers(Some(5)) && !entries.matched.covers(Some(5)), "it may have less now");
    entries.matched.raise(Some(4));
    assert!(heartbeats.matched.covers(Some(4)) && !heartbeats.matched.covers(Some(5)));
}
