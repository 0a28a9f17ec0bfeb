//! All requests of a stranger are served, at a bounded rate; those of trusted peers are not delayed, nor by strangers. In virtual
//! time.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Communication, CommunicationConfig, Request};
use althing_conformance::world::{Peer, World, connect};
use althing_conformance::{PROTOCOL, key};
use althing_protocol::PublicKey;
use futures::StreamExt as _;
use tokio::time::Instant;

const RATE: u32 = 200;
const REQUESTS: u32 = 2_000;

/// How long so many requests take, a hundred at a time.
async fn ask(from: &Communication, to: PublicKey, requests: u32) -> Duration {
    let begun = Instant::now();
    let calls =
        futures::stream::iter(0..requests).map(|_| from.call(to, PROTOCOL, Request::new("echo", b"hi".to_vec())));
    calls.buffer_unordered(100).for_each(|answer| async { assert_eq!(answer.expect("all are served"), b"hi") }).await;
    begun.elapsed()
}

struct Scene {
    node: Peer,
    friend: Peer,
    stranger: Arc<Peer>,
}

async fn scene(rate: u32) -> Scene {
    let world = World::simulated();
    let config = CommunicationConfig { stranger_rate: rate, ..CommunicationConfig::default() };
    let node = Peer::start(&world, &key(1), config).await;
    let friend = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    let stranger = Arc::new(Peer::start(&world, &key(3), CommunicationConfig::default()).await);
    connect(friend.network(), node.network()).await;
    connect(stranger.network(), node.network()).await;
    let trusted = friend.id();
    node.communication.trusts(move |caller| caller.node == trusted);
    Scene { node, friend, stranger }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_waits_and_nobody_else_does() {
    let Scene { node, friend, stranger } = scene(RATE).await;
    let quick = ask(&friend.communication, node.id(), REQUESTS).await;
    // The burst is twice the rate.
    let slow = Duration::from_secs(u64::from(REQUESTS / RATE - 2));
    assert!(quick < slow / 2, "{quick:?}");
    let flooding = tokio::spawn({
        let (stranger, to) = (stranger.clone(), node.id());
        async move { ask(&stranger.communication, to, REQUESTS).await }
    });
    let beside = ask(&friend.communication, node.id(), REQUESTS).await;
    assert!(beside < 2 * quick, "{beside:?} beside a flood, {quick:?} alone");
    let took = flooding.await.expect("no panic");
    assert!(took >= slow && took < slow + Duration::from_secs(2), "{took:?} for {REQUESTS} requests");
}

#[tokio::test(start_paused = true)]
async fn openings_are_counted_too() {
    let Scene { node, friend, stranger } = scene(RATE).await;
    // Each of them has a stream of its own: an opening and a request.
    const STREAMS: u32 = REQUESTS / 2;
    let open = async |from: &Communication| {
        let begun = Instant::now();
        for _ in 0..STREAMS {
            let mut events =
                from.stream(node.id(), PROTOCOL, Request::new("three", Vec::new())).await.expect("a stream");
            assert!(events.next().await.expect("an event").is_some());
        }
        begun.elapsed()
    };
    let quick = open(&friend.communication).await;
    let took = open(&stranger.communication).await;
    // The burst is twice the rate.
    let slow = Duration::from_secs(u64::from(2 * STREAMS / RATE - 2));
    assert!(took >= slow && took < slow + quick + Duration::from_secs(2), "{took:?}; a friend {quick:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_nobody_waits() {
    let Scene { node, stranger, .. } = scene(0).await;
    assert!(ask(&stranger.communication, node.id(), REQUESTS).await < Duration::from_secs(5));
}
