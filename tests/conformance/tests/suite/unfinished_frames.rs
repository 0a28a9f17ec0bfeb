//! Incomplete frames: their bytes and duration are bounded, and others still have room. In virtual time.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_communication::{BoxedStream, CommunicationConfig, Network, Request};
use althing_conformance::hostile::{greet, read, request, write};
use althing_conformance::world::{Injecting, Peer, World, connect};
use althing_conformance::{NETWORK, NOW_MS, PROTOCOL, key};
use althing_protocol::limits::FRAME_BYTES_MAX;
use althing_simnet::{LinkConfig, SimNet};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

/// Bytes of a frame in the stream's buffer that are not read yet.
const PIPE: usize = 1 << 10;
/// Uncounted bytes that each stream may hold.
const OF_EACH: usize = 4 << 10;

/// Sends the beginning of a frame.
async fn begin(raw: &mut BoxedStream) {
    raw.write_all(&1_000u32.to_be_bytes()).await.expect("it is taken");
    raw.write_all(&[0; 10]).await.expect("it is taken");
    raw.flush().await.expect("it is taken");
}

/// Before the first answer, and between the events of one.
#[tokio::test(start_paused = true)]
async fn a_frame_that_begins_while_a_call_is_answered_is_finished_in_time_or_its_stream_ends() {
    let world = World::simulated();
    let victim = Peer::start(&world, &key(1), CommunicationConfig::default()).await;
    let stranger = world.join(&key(2)).await;
    connect(&stranger, victim.network()).await;
    for (number, operation) in (1..).zip(["stuck", "stuck-stream", "ticks"]) {
        let mut raw = stranger.open(victim.id(), PROTOCOL).await.expect("a stream");
        let mut sealer = greet(&mut raw, stranger.local(), victim.id(), &key(2)).await;
        write(&mut raw, &sealer.seal(request(operation)).expect("a frame")).await;
        victim.probe.asked(number).await;
        let begun = Instant::now();
        begin(&mut raw).await;
        let ended = timeout(Duration::from_secs(60), async { while read(&mut raw).await.is_some() {} }).await;
        assert!(ended.is_ok(), "{operation}: its stream stays open");
        let (took, limit) = (begun.elapsed(), CommunicationConfig::default().frame_timeout);
        assert!(took >= limit && took < limit + Duration::from_secs(1), "{operation}: {took:?}");
        victim.probe.dropped(number).await;
        assert_eq!(victim.communication.refused(), u64::try_from(number).expect("small"), "{operation}");
    }
}

/// A cancel is short: what is announced to be long is refused before its bytes are awaited (P-19, P-33).
#[tokio::test(start_paused = true)]
async fn a_long_frame_has_no_place_while_a_call_is_answered() {
    let world = World::simulated();
    let victim = Peer::start(&world, &key(1), CommunicationConfig::default()).await;
    let stranger = world.join(&key(2)).await;
    connect(&stranger, victim.network()).await;
    let mut raw = stranger.open(victim.id(), PROTOCOL).await.expect("a stream");
    let mut sealer = greet(&mut raw, stranger.local(), victim.id(), &key(2)).await;
    write(&mut raw, &sealer.seal(request("stuck")).expect("a frame")).await;
    victim.probe.asked(1).await;
    let begun = Instant::now();
    let _ = raw.write_all(&u32::try_from(FRAME_BYTES_MAX).expect("a length").to_be_bytes()).await;
    let _ = raw.flush().await;
    assert_eq!(read(&mut raw).await, None);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// A node that trusts one peer, and strangers that send a frame of the maximum length, but for its last twelve bytes, on as many
/// streams as each may have.
struct Scene {
    net: SimNet,
    victim: Peer,
    friend: Peer,
    /// Bytes that were written and taken.
    written: Arc<AtomicUsize>,
    streams: usize,
}

const STRANGERS: u8 = 2;
const STREAMS: usize = 256;

async fn scene() -> Scene {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let injecting = Injecting::new(net.join(key(1).public()));
    let config = CommunicationConfig { stranger_rate: 0, ..CommunicationConfig::default() };
    let victim = Peer::start_on(injecting.clone(), &key(1), config.clone(), None);
    let friend = Peer::start_on(net.join(key(2).public()), &key(2), config, None);
    let trusted = friend.id();
    victim.communication.trusts(move |caller| caller.node == trusted);
    connect(friend.network(), victim.network()).await;
    let written = Arc::new(AtomicUsize::new(0));
    for number in 10..10 + STRANGERS {
        let here: Arc<dyn Network> = net.join_at(key(number).public(), Some(IpAddr::from([9, 9, number, 1])));
        connect(&here, victim.network()).await;
        for _ in 0..STREAMS {
            let raw = injecting.open_as(here.local(), PIPE).await;
            tokio::spawn(leave_unfinished(raw, number, victim.id(), written.clone(), here.clone()));
        }
    }
    Scene { net, victim, friend, written, streams: usize::from(STRANGERS) * STREAMS }
}

async fn leave_unfinished(
    mut raw: BoxedStream,
    number: u8,
    to: althing_protocol::PublicKey,
    written: Arc<AtomicUsize>,
    _here: Arc<dyn Network>,
) {
    greet(&mut raw, key(number).public(), to, &key(number)).await;
    let mut frame = u32::try_from(FRAME_BYTES_MAX).expect("a length").to_be_bytes().to_vec();
    frame.resize(FRAME_BYTES_MAX - 12, 7);
    for chunk in frame.chunks(PIPE) {
        if raw.write_all(chunk).await.is_err() {
            return;
        }
        written.fetch_add(chunk.len(), Ordering::Relaxed);
    }
    // Waits until it is closed.
    let _ = read(&mut raw).await;
}

#[tokio::test(start_paused = true)]
async fn two_strangers_hold_a_bounded_number_of_bytes_in_frames_that_they_leave_unfinished() {
    let scene = scene().await;
    // By then all acceptable bytes were read, and no timeout has passed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let limits = CommunicationConfig::default().frame_bytes;
    let most = usize::from(STRANGERS) * limits.per_stranger + scene.streams * (OF_EACH + PIPE);
    let written = scene.written.load(Ordering::Relaxed);
    assert!(written <= most, "{written} bytes lie there, of {most} at most");
    assert!(written >= usize::from(STRANGERS) << 20, "each has one under way, {written} bytes in all");
    let held = scene.victim.communication.frame_bytes_held();
    assert!(held <= usize::from(STRANGERS) * limits.per_stranger, "{held} bytes are counted");
    // All bytes are freed.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(scene.victim.communication.frame_bytes_held(), 0);
}

#[tokio::test(start_paused = true)]
async fn long_calls_of_others_are_answered_beside_frames_that_strangers_leave_unfinished() {
    let scene = scene().await;
    let config = CommunicationConfig::default();
    let network = scene.net.join_at(key(5).public(), Some(IpAddr::from([9, 8, 7, 6])));
    let honest = Peer::start_on(network, &key(5), config, None);
    connect(honest.network(), scene.victim.network()).await;
    for peer in [&scene.friend, &honest] {
        let begun = Instant::now();
        let calls = (0..8).map(|_| {
            let long = Request::new("echo", vec![5; 1 << 20]);
            peer.communication.call(scene.victim.id(), PROTOCOL, long)
        });
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.expect("an answer").len(), 1 << 20);
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
