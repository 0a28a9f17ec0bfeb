//! Protocol violations, on both implementations of `Network`: the stream is closed and counted, and later honest calls work.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{BoxedStream, CommunicationConfig, Network, Request};
use althing_conformance::hostile::{greet, read, request, write};
use althing_conformance::world::{Peer, World, connect, until};
use althing_conformance::{PROTOCOL, key};
use tokio::io::AsyncWriteExt as _;

/// A case that takes longer fails.
const HANGS: Duration = Duration::from_secs(60);

struct Scene {
    victim: Peer,
    honest: Peer,
    stranger: Arc<dyn Network>,
}

async fn scene(world: &World) -> Scene {
    let config = CommunicationConfig { frame_timeout: Duration::from_millis(300), ..CommunicationConfig::default() };
    let victim = Peer::start(world, &key(1), config).await;
    let honest = Peer::start(world, &key(3), CommunicationConfig::default()).await;
    let stranger = world.join(&key(2)).await;
    connect(honest.network(), victim.network()).await;
    connect(&stranger, victim.network()).await;
    Scene { victim, honest, stranger }
}

impl Scene {
    async fn open(&self) -> BoxedStream {
        self.stranger.open(self.victim.id(), PROTOCOL).await.expect("a stream")
    }

    /// The stream is closed and counted, nothing on it was executed, and honest calls work.
    async fn closed(&self, what: &str, mut raw: BoxedStream, refused: u64, asked: usize) {
        while read(&mut raw).await.is_some() {}
        until(what, || self.victim.communication.refused() == refused).await;
        assert_eq!(*self.victim.probe.asked.borrow(), asked, "{what}");
        let hi = Request::new("echo", b"hi".to_vec());
        let answer = self.honest.communication.call(self.victim.id(), PROTOCOL, hi).await;
        assert_eq!(answer.expect(what), b"hi");
    }
}

async fn every_offence(world: World) {
    let scene = scene(&world).await;
    let (me, victim) = (scene.stranger.local(), scene.victim.id());

    let mut raw = scene.open().await;
    let _ = raw.write_all(&[0xab; 300]).await;
    let _ = raw.flush().await;
    scene.closed("garbage", raw, 1, 0).await;

    // P-19: a length beyond the limit, of an opening and of a frame
    let mut raw = scene.open().await;
    let _ = raw.write_all(&2_049u32.to_be_bytes()).await;
    let _ = raw.flush().await;
    scene.closed("an opening that is announced too long", raw, 2, 1).await;

    let mut raw = scene.open().await;
    greet(&mut raw, me, victim, &key(2)).await;
    let _ = raw.write_all(&u32::MAX.to_be_bytes()).await;
    let _ = raw.flush().await;
    scene.closed("a frame that is announced too long", raw, 3, 2).await;

    let mut raw = scene.open().await;
    let mut sealer = greet(&mut raw, me, victim, &key(2)).await;
    let frame = sealer.seal(request("echo")).expect("a frame");
    write(&mut raw, &frame[..frame.len() - 1]).await;
    scene.closed("a frame whose bytes end early", raw, 4, 3).await;

    let mut raw = scene.open().await;
    let mut sealer = greet(&mut raw, me, victim, &key(2)).await;
    let frame = sealer.seal(request("echo")).expect("a frame");
    let _ = raw.write_all(&u32::try_from(frame.len()).expect("a length").to_be_bytes()).await;
    let _ = raw.write_all(&frame[..frame.len() / 2]).await;
    let _ = raw.flush().await;
    scene.closed("a frame that is never finished", raw, 5, 4).await;

    // P-20: the victim says hello although the opener says nothing.
    let mut raw = scene.open().await;
    assert!(read(&mut raw).await.is_some());
    scene.closed("a silent opener", raw, 6, 5).await;

    let mut raw = scene.open().await;
    let mut sealer = greet(&mut raw, key(4).public(), victim, &key(4)).await;
    write(&mut raw, &sealer.seal(request("echo")).expect("a frame")).await;
    scene.closed("a frame by another key", raw, 7, 6).await;

    // The captured frame was valid on its own stream.
    let mut first = scene.open().await;
    let mut sealer = greet(&mut first, me, victim, &key(2)).await;
    let frame = sealer.seal(request("echo")).expect("a frame");
    write(&mut first, &frame).await;
    assert!(read(&mut first).await.is_some(), "its answer");
    let mut raw = scene.open().await;
    greet(&mut raw, me, victim, &key(2)).await;
    write(&mut raw, &frame).await;
    scene.closed("a frame replayed on another stream", raw, 8, 8).await;
    write(&mut first, &frame).await;
    scene.closed("a frame replayed on its own stream", first, 9, 9).await;

    // P-33: a second request while the first is being answered
    let mut raw = scene.open().await;
    let mut sealer = greet(&mut raw, me, victim, &key(2)).await;
    write(&mut raw, &sealer.seal(request("stuck")).expect("a frame")).await;
    scene.victim.probe.asked(11).await;
    write(&mut raw, &sealer.seal(request("echo")).expect("a frame")).await;
    scene.closed("two calls at a time", raw, 10, 11).await;
    let stays = scene.stranger.peers().iter().any(|info| info.peer == victim);
    assert!(stays, "the connection stays: the other streams are not to blame");
}

#[tokio::test(start_paused = true)]
async fn every_offence_closes_its_stream_and_no_other_simulated() {
    let running = Box::pin(every_offence(World::simulated()));
    tokio::time::timeout(HANGS, running).await.expect("no hanging");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_offence_closes_its_stream_and_no_other_libp2p() {
    let running = Box::pin(every_offence(World::Libp2p));
    tokio::time::timeout(HANGS, running).await.expect("no hanging");
}
