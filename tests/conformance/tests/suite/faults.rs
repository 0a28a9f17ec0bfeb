//! The fault model of the simulated network: the effects of loss, reordering, cuts and crashes on calls, all decided by the seed.

use std::time::Duration;

use althing_communication::{CallError, CommunicationConfig, DialError, PeerEvent, Request};
use althing_conformance::world::{Peer, World, connect, pair};
use althing_conformance::{PROTOCOL, key};
use althing_simnet::{LinkConfig, SimNet};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

const BYTES: &str = "/test/bytes/1";

fn world(seed: u64, link: LinkConfig) -> (World, SimNet) {
    let net = SimNet::new(seed, link);
    (World::Simulated(net.clone()), net)
}

fn stormy() -> LinkConfig {
    LinkConfig { jitter: Duration::from_millis(40), loss: 0.1, ..LinkConfig::default() }
}

fn echo(body: &[u8]) -> Request {
    Request::new("echo", body.to_vec())
}

/// What happened, and when: calls between three nodes over lossy links, one of which is cut for a while.
async fn story(seed: u64) -> Vec<String> {
    let begun = Instant::now();
    let (world, net) = world(seed, stormy());
    let mut peers = Vec::new();
    for number in 1..=3 {
        peers.push(Peer::start(&world, &key(number), CommunicationConfig::default()).await);
    }
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        connect(peers[a].network(), peers[b].network()).await;
    }
    let mut told = vec![format!("connected {:?}", begun.elapsed())];
    let mut calls = FuturesUnordered::new();
    for number in 0..30u8 {
        let (from, to) = (usize::from(number) % 3, usize::from(number / 3) % 3);
        if from != to {
            let (from, to) = (&peers[from], peers[to].id());
            calls.push(async move { (number, from.communication.call(to, PROTOCOL, echo(&[number; 40_000])).await) });
        }
    }
    net.cut(peers[0].id(), peers[1].id());
    let healing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        net.heal(peers[0].id(), peers[1].id());
    };
    let telling = async {
        while let Some((number, answer)) = calls.next().await {
            told.push(format!("{number} {:?} {:?}", answer.map(|body| body.len()), begun.elapsed()));
        }
    };
    tokio::join!(telling, healing);
    told
}

fn told(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(story(seed))
}

#[test]
fn a_seed_decides_everything() {
    let all: Vec<Vec<String>> = (0..20).map(told).collect();
    for (seed, first) in (0..20).zip(&all) {
        assert_eq!(&told(seed), first, "seed {seed} told two stories");
    }
    let different: std::collections::BTreeSet<&Vec<String>> = all.iter().collect();
    assert_eq!(different.len(), 20, "every seed has its own");
}

#[tokio::test(start_paused = true)]
async fn loss_delays_and_loses_nothing() {
    let (fine, _) = world(1, LinkConfig::default());
    let (lossy, _) = world(1, LinkConfig { loss: 0.3, ..LinkConfig::default() });
    let mut took = Vec::new();
    for world in [fine, lossy] {
        let (a, b) = pair(&world).await;
        let begun = Instant::now();
        for number in 0..100u8 {
            let answer = a.communication.call(b.id(), PROTOCOL, echo(&[number; 50_000])).await;
            assert!(answer.expect("an answer") == [number; 50_000], "{number}");
        }
        took.push(begun.elapsed());
    }
    assert!(took[1] > took[0] * 5, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_loses_everything_still_ends() {
    let (world, _) = world(1, LinkConfig { loss: 1.0, ..LinkConfig::default() });
    let (a, b) = pair(&world).await;
    let late = Request { deadline: Some(Duration::from_secs(2)), ..echo(b"hi") };
    assert!(a.communication.call(b.id(), PROTOCOL, late).await.is_err(), "nothing comes through in 2 s");
}

#[tokio::test(start_paused = true)]
async fn streams_overtake_each_other_and_bytes_do_not() {
    let (world, _) = world(3, LinkConfig { jitter: Duration::from_millis(500), ..LinkConfig::default() });
    let (a, b) = (world.join(&key(1)).await, world.join(&key(2)).await);
    let mut incoming = b.accept(BYTES).expect("nobody else accepts");
    connect(&a, &b).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let there = a.open(b.local(), BYTES).await.expect("a stream");
        streams.push((there, incoming.recv().await.expect("a stream").1));
    }
    let mut arrived = FuturesUnordered::new();
    let mut kept = Vec::new();
    for (number, (mut there, mut here)) in (0..20u8).zip(streams) {
        there.write_all(&[number]).await.expect("a write");
        for at in 0..=200u8 {
            there.write_all(&[at]).await.expect("a write");
        }
        there.flush().await.expect("a flush");
        kept.push(there);
        arrived.push(async move {
            let mut got = vec![0; 202];
            here.read_exact(&mut got).await.expect("a read");
            got
        });
    }
    let mut order = Vec::new();
    while let Some(got) = arrived.next().await {
        order.push(got[0]);
        assert!(got[1..].iter().copied().eq(0..=200), "bytes of one stream keep their order");
    }
    assert!(!order.is_sorted(), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_cut_holds_what_is_under_way() {
    let (world, net) = world(1, LinkConfig::default());
    let (a, b) = pair(&world).await;
    a.communication.call(b.id(), PROTOCOL, echo(b"warm")).await.expect("an answer");
    net.cut(a.id(), b.id());
    let begun = Instant::now();
    let calling = a.communication.call(b.id(), PROTOCOL, echo(b"held"));
    let healing = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(*b.probe.asked.borrow(), 1, "nothing passes a cut link");
        net.heal(a.id(), b.id());
    };
    let (answer, ()) = tokio::join!(calling, healing);
    assert_eq!(answer.expect("an answer"), b"held");
    assert!(begun.elapsed() < Duration::from_millis(5_100), "{:?}", begun.elapsed());
    assert_eq!(a.network().peers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_cut_ends_the_connection() {
    let (world, net) = world(1, LinkConfig::default());
    let (a, b) = pair(&world).await;
    let mut heard = [a.network().events(), b.network().events()];
    net.cut(a.id(), b.id());
    let begun = Instant::now();
    let broken = a.communication.call(b.id(), PROTOCOL, echo(b"lost")).await;
    assert!(matches!(broken, Err(CallError::Broken { .. } | CallError::Unreachable { .. })), "{broken:?}");
    assert_eq!(begun.elapsed().as_secs(), 6);
    for (events, other) in heard.iter_mut().zip([b.id(), a.id()]) {
        assert_eq!(events.recv().await, Ok(PeerEvent::Disconnected(other)));
    }
    let dialled = a.network().dial(Some(b.id()), b.network().listening()).await;
    assert!(matches!(dialled, Err(DialError::Failed(_))), "{dialled:?}");
    net.heal(a.id(), b.id());
    connect(a.network(), b.network()).await;
    assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(b"on")).await.expect("an answer"), b"on");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_node_is_gone_until_it_starts_again() {
    let (world, net) = world(1, LinkConfig::default());
    let (a, b) = pair(&world).await;
    let mut heard = a.network().events();
    let call = {
        let (communication, to) = (a.communication.clone(), b.id());
        tokio::spawn(async move { communication.call(to, PROTOCOL, Request::new("stuck", Vec::new())).await })
    };
    b.probe.asked(1).await;
    net.crash(b.id());
    assert!(matches!(call.await.expect("no panic"), Err(CallError::Broken { .. })));
    assert_eq!(heard.recv().await, Ok(PeerEvent::Disconnected(b.id())));
    let gone = a.communication.call(b.id(), PROTOCOL, echo(b"hi")).await;
    assert!(matches!(gone, Err(CallError::Unreachable { .. })), "{gone:?}");
    assert!(a.network().dial(Some(b.id()), b.network().listening()).await.is_err());
    let again = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    connect(a.network(), again.network()).await;
    assert_eq!(a.communication.call(again.id(), PROTOCOL, echo(b"on")).await.expect("an answer"), b"on");
}

#[tokio::test(start_paused = true)]
async fn a_partition_parts_two_sides_and_leaves_each_whole() {
    let (world, net) = world(1, LinkConfig::default());
    let mut peers = Vec::new();
    for number in 1..=4 {
        peers.push(Peer::start(&world, &key(number), CommunicationConfig::default()).await);
    }
    for (at, from) in peers.iter().enumerate() {
        for to in &peers[at + 1..] {
            connect(from.network(), to.network()).await;
        }
    }
    for left in &peers[..2] {
        for right in &peers[2..] {
            net.cut(left.id(), right.id());
        }
    }
    tokio::time::sleep(Duration::from_secs(7)).await;
    for (at, from) in peers.iter().enumerate() {
        for (other, to) in peers.iter().enumerate().filter(|(other, _)| *other != at) {
            let answer = from.communication.call(to.id(), PROTOCOL, echo(b"hi")).await;
            assert_eq!(answer.is_ok(), (at < 2) == (other < 2), "{at} to {other}: {answer:?}");
        }
    }
}
