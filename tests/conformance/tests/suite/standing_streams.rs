//! Streams that strangers hold open, of any protocol and number, prevent no trusted peer's call, no key news, and no share of another
//! origin's strangers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::{BoxedStream, CommunicationConfig, KEYS, Network, Request, StreamLimits};
use althing_conformance::hostile::{greet_on, read, request, write};
use althing_conformance::mesh::{Owner, membership};
use althing_conformance::world::{Peer, World, connect};
use althing_conformance::{NETWORK, NOW_MS, PROTOCOL, key};
use althing_protocol::{FrameSealer, KeyLog, PublicKey, keylog};
use althing_simnet::SimNet;
use tokio::time::{Instant, timeout};

/// A case that takes longer fails.
const HANGS: Duration = Duration::from_secs(60);
/// Stream slots of all peers, and of each.
const PLACES: usize = 8;
const EACH: usize = 4;

fn few() -> CommunicationConfig {
    CommunicationConfig {
        streams: StreamLimits { per_peer_max: EACH, total_max: PLACES, ..StreamLimits::default() },
        // Without a rate limit.
        stranger_rate: 0,
        ..CommunicationConfig::default()
    }
}

fn echo() -> Request {
    Request::new("echo", b"hi".to_vec())
}

/// A node that trusts the node of one key.
async fn node(network: Arc<dyn Network>, trusted: PublicKey) -> Peer {
    let shown = membership(&Owner::new(key(50)), network.local(), NOW_MS);
    let node = Peer::start_on(network, &key(1), few(), Some(shown));
    let own = Owner::new(key(50)).id();
    node.communication.trusts(move |caller| caller.node == trusted || caller.owner == Some(own));
    node
}

/// A program with a key of its own that is connected to the node.
struct Stranger {
    number: u8,
    network: Arc<dyn Network>,
    to: PublicKey,
}

impl Stranger {
    async fn join(world: &World, number: u8, node: &Peer) -> Stranger {
        Stranger::on(world.join(&key(number)).await, number, node).await
    }

    async fn at(net: &SimNet, number: u8, ip: [u8; 4], node: &Peer) -> Stranger {
        Stranger::on(net.join_at(key(number).public(), Some(IpAddr::from(ip))), number, node).await
    }

    async fn on(network: Arc<dyn Network>, number: u8, node: &Peer) -> Stranger {
        connect(&network, node.network()).await;
        Stranger { number, network, to: node.id() }
    }

    /// A stream after both hellos.
    async fn open(&self, protocol: &'static str) -> Option<(BoxedStream, FrameSealer)> {
        let mut raw = self.network.open(self.to, protocol).await.expect("a stream");
        let ends = (self.network.local(), self.to);
        let sealer = greet_on(&mut raw, (NETWORK, protocol), ends, &key(self.number)).await?;
        Some((raw, sealer))
    }

    async fn hold(&self, protocol: &'static str, count: usize) -> Vec<(BoxedStream, FrameSealer)> {
        let mut held = Vec::new();
        for _ in 0..count {
            held.extend(self.open(protocol).await);
        }
        held
    }
}

/// How many of them are still open. A closed stream shows by the time that a call is answered.
async fn open(held: &mut [(BoxedStream, FrameSealer)]) -> usize {
    let mut open = 0;
    for (raw, _) in held {
        open += usize::from(timeout(Duration::from_millis(50), read(raw)).await.is_err());
    }
    open
}

async fn a_trusted_peers_call_is_answered(world: World) {
    let friend = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    let node = node(world.join(&key(1)).await, friend.id()).await;
    let (mut strangers, mut held) = (Vec::new(), Vec::new());
    for number in [10, 11] {
        let stranger = Stranger::join(&world, number, &node).await;
        held.extend(stranger.hold(PROTOCOL, EACH).await);
        strangers.push(stranger);
    }
    assert_eq!(held.len(), PLACES);
    connect(friend.network(), node.network()).await;
    let answer = friend.communication.call(node.id(), PROTOCOL, echo()).await;
    assert_eq!(answer.expect("strangers' idle streams make room"), b"hi");
    assert_eq!(open(&mut held).await, PLACES - 1, "one of them, and no more");
    assert_eq!(node.communication.refused(), 0, "to be in the way is no offence");
}

mod idle_streams_of_strangers_make_room {
    #[tokio::test(start_paused = true)]
    async fn simulated() {
        super::a_trusted_peers_call_is_answered(super::World::simulated()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn libp2p() {
        let running = super::a_trusted_peers_call_is_answered(super::World::Libp2p);
        tokio::time::timeout(super::HANGS, running).await.expect("no hanging");
    }
}

/// Calls that never end, as those who watch something make them.
#[tokio::test(start_paused = true)]
async fn calls_of_strangers_that_never_end_make_room_for_own_nodes_and_trusted_ones() {
    let world = World::simulated();
    let friend = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    let node = node(world.join(&key(1)).await, friend.id()).await;
    let shown = membership(&Owner::new(key(50)), key(3).public(), NOW_MS);
    let own = Peer::start_on(world.join(&key(3)).await, &key(3), CommunicationConfig::default(), Some(shown));
    let mut held = Vec::new();
    for number in [10, 11] {
        let stranger = Stranger::join(&world, number, &node).await;
        for (mut raw, mut sealer) in stranger.hold(PROTOCOL, EACH).await {
            write(&mut raw, &sealer.seal(request("stuck-stream")).expect("a frame")).await;
            assert!(read(&mut raw).await.is_some(), "its first event");
            held.push((raw, sealer));
        }
    }
    assert_eq!(held.len(), PLACES);
    for peer in [&friend, &own] {
        connect(peer.network(), node.network()).await;
        // Its owner is proved on the stream itself.
        let answer = peer.communication.call(node.id(), PROTOCOL, echo()).await;
        assert_eq!(answer.expect("it is nearer"), b"hi");
    }
    assert_eq!(open(&mut held).await, PLACES - 2);
}

/// Keys are free, addresses are not: sixteen keys at one address have one share.
#[tokio::test(start_paused = true)]
async fn a_stranger_of_another_origin_has_its_share_beside_sixteen_keys_at_one_address() {
    let net = match World::simulated() {
        World::Simulated(net) => net,
        World::Libp2p | World::Quic => unreachable!("it was asked for"),
    };
    let node = node(net.join_at(key(1).public(), None), key(2).public()).await;
    let mut held = Vec::new();
    for number in 10..26 {
        held.extend(Stranger::at(&net, number, [9, 9, 9, number], &node).await.hold(PROTOCOL, EACH).await);
    }
    assert_eq!(open(&mut held).await, PLACES);
    let theirs = held.len();
    let honest = Stranger::at(&net, 100, [9, 9, 8, 1], &node).await;
    for _ in 0..EACH {
        let (mut raw, mut sealer) = honest.open(PROTOCOL).await.expect("a place");
        write(&mut raw, &sealer.seal(request("echo")).expect("a frame")).await;
        assert!(read(&mut raw).await.is_some(), "its answer");
        held.push((raw, sealer));
    }
    assert_eq!(open(&mut held).await, PLACES);
    assert_eq!(open(&mut held[theirs..]).await, EACH, "as many as one may have");
}

/// P-70: revocations are heard within 10 s (threat row 20).
#[tokio::test(start_paused = true)]
async fn news_of_keys_are_heard_while_strangers_hold_all_the_streams_that_they_can() {
    let world = World::simulated();
    let friend = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    let node = node(world.join(&key(1)).await, key(2).public()).await;
    let mut held = Vec::new();
    for number in 10..30 {
        let stranger = Stranger::join(&world, number, &node).await;
        for protocol in [PROTOCOL, KEYS] {
            held.extend(stranger.hold(protocol, 16).await);
        }
    }
    connect(friend.network(), node.network()).await;
    let event = keylog::inception(&key(60), [key(61).public(), key(62).public()], NOW_MS);
    let log = KeyLog::verify(&[event.bytes]).expect("an inception");
    let revoked = log.revoke(&key(61), NOW_MS).expect("the next key");
    let publisher = revoked.publisher();
    for peer in [&node, &friend] {
        peer.communication.keys().watch([publisher]);
    }
    // Not with what is asked at the beginning.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let begun = Instant::now();
    friend.communication.keys().learn(revoked).expect("it is news");
    let mut changes = node.communication.keys().changes();
    while node.communication.keys().log(publisher).is_none() {
        timeout(HANGS, changes.changed()).await.expect("it is heard").expect("the node lives");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_strangers_stream_without_a_call_ends_sooner_than_a_trusted_peers() {
    let world = World::simulated();
    let node = node(world.join(&key(1)).await, key(2).public()).await;
    let config = CommunicationConfig::default();
    for (number, expected) in [(10, config.stranger_idle_timeout), (2, config.idle_timeout)] {
        let peer = Stranger::join(&world, number, &node).await;
        let (mut raw, _sealer) = peer.open(PROTOCOL).await.expect("a place");
        let begun = Instant::now();
        assert_eq!(read(&mut raw).await, None);
        let stood = begun.elapsed();
        assert!(stood >= expected && stood < expected + Duration::from_secs(1), "{stood:?} instead of {expected:?}");
    }
}
