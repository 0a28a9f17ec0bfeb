//! Limits of streams: frame sizes, timeouts, and their number. In virtual time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_communication::{BoxedStream, CallError, CommunicationConfig, Network, Request, StreamLimits};
use althing_conformance::hostile::{greet, read, request, write};
use althing_conformance::world::{Counting, Peer, World, connect};
use althing_conformance::{PROTOCOL, key};
use althing_protocol::limits::FRAME_BYTES_MAX;
use althing_protocol::{Frame, FrameKind, FrameSealer};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

/// A node, and a raw stream to it.
async fn by_hand(world: &World) -> (Peer, Arc<dyn Network>, BoxedStream, FrameSealer) {
    let victim = Peer::start(world, &key(1), CommunicationConfig::default()).await;
    let here = world.join(&key(2)).await;
    connect(&here, victim.network()).await;
    let mut raw = here.open(victim.id(), PROTOCOL).await.expect("a stream");
    let sealer = greet(&mut raw, here.local(), victim.id(), &key(2)).await;
    (victim, here, raw, sealer)
}

/// P-19: not when its time is over.
#[tokio::test(start_paused = true)]
async fn a_frame_one_byte_too_long_is_refused_before_its_bytes_are_awaited() {
    let (_victim, _here, mut raw, _sealer) = by_hand(&World::simulated()).await;
    let begun = Instant::now();
    let len = u32::try_from(FRAME_BYTES_MAX + 1).expect("a length");
    let _ = raw.write_all(&len.to_be_bytes()).await;
    let _ = raw.flush().await;
    assert_eq!(read(&mut raw).await, None);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// P-34: it is of no use for another call.
#[tokio::test(start_paused = true)]
async fn a_cancel_closes_its_stream_at_once() {
    let (victim, _here, mut raw, mut sealer) = by_hand(&World::simulated()).await;
    write(&mut raw, &sealer.seal(request("stuck")).expect("a frame")).await;
    victim.probe.asked(1).await;
    let begun = Instant::now();
    write(&mut raw, &sealer.seal(Frame::new(FrameKind::Cancel, Vec::new())).expect("a frame")).await;
    assert_eq!(read(&mut raw).await, None, "without an answer");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    victim.probe.dropped(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_borrows_is_closed_long_before_the_other_side_would() {
    let world = World::simulated();
    let counting = Counting::new(world.join(&key(1)).await);
    let a = Peer::start_on(counting.clone(), &key(1), CommunicationConfig::default(), None);
    let b = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    connect(a.network(), b.network()).await;
    for (waits, opened) in [(0, 1), (10, 1), (28, 2)] {
        tokio::time::sleep(Duration::from_secs(waits)).await;
        let answer = a.communication.call(b.id(), PROTOCOL, Request::new("echo", b"hi".to_vec())).await;
        assert_eq!(answer.expect("an answer"), b"hi");
        assert_eq!(counting.opened.load(Ordering::Relaxed), opened, "after {waits} s");
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_answers_count_among_the_streams_to_a_peer_until_they_are_dropped() {
    let world = World::simulated();
    let few = CommunicationConfig {
        streams: StreamLimits { per_peer_max: 4, ..StreamLimits::default() },
        ..CommunicationConfig::default()
    };
    let a = Peer::start(&world, &key(1), few).await;
    let b = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    connect(a.network(), b.network()).await;
    let watch = async || {
        let deadline = Some(Duration::from_secs(1));
        let request = Request { deadline, ..Request::new("stuck-stream", Vec::new()) };
        a.communication.stream(b.id(), PROTOCOL, request).await
    };
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(watch().await.expect("a stream"));
    }
    let fifth = watch().await.err();
    assert!(matches!(fifth, Some(CallError::Deadline { .. })), "{fifth:?}");
    held.pop();
    assert!(watch().await.is_ok(), "one was dropped");
}

#[tokio::test(start_paused = true)]
async fn calls_that_take_all_their_streams_delay_no_other_protocol() {
    const OTHER: &str = "/test/other/1";
    let limits = StreamLimits { per_peer_max: 4, total_max: 4, idle_max: 1 };
    let few = CommunicationConfig { streams: limits, ..CommunicationConfig::default() };
    let world = World::simulated();
    let a = Peer::start(&world, &key(1), few.clone()).await;
    let b = Peer::start(&world, &key(2), few).await;
    connect(a.network(), b.network()).await;
    for peer in [&a, &b] {
        peer.communication.serve(OTHER, limits, Arc::new(peer.probe.clone())).expect("nobody else serves it");
    }
    let call = |protocol, operation| {
        let (communication, to) = (a.communication.clone(), b.id());
        let deadline = Some(Duration::from_secs(5));
        let request = Request { deadline, ..Request::new(operation, b"hi".to_vec()) };
        async move { communication.call(to, protocol, request).await }
    };
    for _ in 0..4 {
        tokio::spawn(call(PROTOCOL, "gate"));
    }
    b.probe.asked(4).await;
    assert!(matches!(call(PROTOCOL, "echo").await, Err(CallError::Deadline { .. })), "all its streams are taken");
    assert_eq!(call(OTHER, "echo").await.expect("no stream of this protocol is taken"), b"hi");
}
