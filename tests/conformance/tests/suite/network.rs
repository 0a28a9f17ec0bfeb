//! One suite for both implementations of `Network`: the port itself, and calls over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_communication::{
    AcceptError, BoxedStream, CallError, CommunicationConfig, DialError, OpenError, PeerEvent, Priority, Request,
    StreamError, StreamLimits, WallClock,
};
use althing_conformance::mesh::{Owner, membership};
use althing_conformance::probe::EVENT_BYTES;
use althing_conformance::world::{Counting, Peer, World, connect, pair, until};
use althing_conformance::{NOW_MS, PROTOCOL, key};
use althing_protocol::stream::HelloError;
use althing_protocol::{OwnerProof, PublicKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{broadcast, watch};

const BYTES: &str = "/test/bytes/1";
/// A case that takes longer fails.
const HANGS: Duration = Duration::from_secs(60);

/// Each case once on each implementation.
macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod simulated {
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                let world = super::World::simulated();
                tokio::time::timeout(super::HANGS, Box::pin(super::$case(world))).await.expect("no hanging");
            })*
        }
        mod libp2p {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let world = super::World::Libp2p;
                tokio::time::timeout(super::HANGS, Box::pin(super::$case(world))).await.expect("no hanging");
            })*
        }
        mod quic {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let world = super::World::Quic;
                tokio::time::timeout(super::HANGS, Box::pin(super::$case(world))).await.expect("no hanging");
            })*
        }
    };
}

suite![
    streams_carry_bytes_in_order_both_ways,
    a_protocol_is_accepted_once,
    a_dial_finds_the_right_peer_and_no_other,
    opening_says_why_not,
    both_sides_hear_of_connections,
    a_call_is_answered,
    delay_tolerant_calls_take_all_that_is_left_over,
    a_refusal_comes_as_one,
    events_come_in_order_and_end,
    a_producer_waits_for_a_slow_consumer,
    dropping_a_call_stops_it,
    dropping_events_stops_them,
    dropping_unread_events_stops_them,
    cancelling_events_stops_them,
    a_deadline_ends_a_call_on_both_sides,
    more_calls_than_streams_queue,
    streams_beyond_the_limit_are_refused_without_harm,
    calls_reuse_a_stream,
    calls_reuse_a_stream_while_others_come_and_go,
    owners_are_proven_by_memberships,
    a_membership_ends_on_open_streams_too_and_a_new_one_is_shown,
    networks_of_other_names_refuse_each_other,
    a_call_ends_with_its_connection,
];

fn echo(body: &[u8]) -> Request {
    Request::new("echo", body.to_vec())
}

fn ask(operation: &str) -> Request {
    Request::new(operation, b"body".to_vec())
}

async fn streams_carry_bytes_in_order_both_ways(world: World) {
    let (a, b) = (world.join(&key(1)).await, world.join(&key(2)).await);
    let mut incoming = b.accept(BYTES).expect("nobody else accepts");
    connect(&a, &b).await;
    for size in [1, 1_000, 65_536, 3 << 20] {
        let sent: Vec<u8> = (0..size).map(|at: u32| (at / 7 % 251) as u8).collect();
        let there = a.open(b.local(), BYTES).await.expect("a stream");
        let writing = tokio::spawn({
            let sent = sent.clone();
            let mut there: BoxedStream = there;
            async move {
                there.write_all(&sent).await.expect("a write");
                there.flush().await.expect("a flush");
                let mut back = vec![0; sent.len()];
                there.read_exact(&mut back).await.expect("a read");
                back
            }
        });
        let (from, mut here) = incoming.recv().await.expect("a stream");
        assert_eq!(from, a.local());
        let mut got = vec![0; sent.len()];
        here.read_exact(&mut got).await.expect("a read");
        assert!(got == sent, "{size} bytes there");
        here.write_all(&got).await.expect("a write");
        here.flush().await.expect("a flush");
        assert!(writing.await.expect("no panic") == sent, "{size} bytes back");
        assert_eq!(here.read(&mut [0]).await.ok().filter(|read| *read > 0), None, "closed by dropping the other end");
    }
}

async fn a_protocol_is_accepted_once(world: World) {
    let a = world.join(&key(1)).await;
    let _held = a.accept(BYTES).expect("nobody else accepts");
    assert_eq!(a.accept(BYTES).err(), Some(AcceptError::Taken(BYTES)));
}

async fn a_dial_finds_the_right_peer_and_no_other(world: World) {
    let (a, b) = (world.join(&key(1)).await, world.join(&key(2)).await);
    let stranger = key(3).public();
    let wrong = a.dial(Some(stranger), b.listening()).await;
    assert!(matches!(wrong, Err(DialError::Failed(_))), "{wrong:?}");
    for peer in [None, Some(b.local())] {
        let bad = a.dial(peer, vec!["not an address".to_owned()]).await;
        assert_eq!(bad, Err(DialError::Address("not an address".to_owned())));
    }
    assert!(matches!(a.dial(None, Vec::new()).await, Err(DialError::Failed(_))), "nowhere to dial");
    assert!(a.dial(None, a.listening()).await.is_err(), "a node does not connect to itself");
    assert_eq!(a.peers(), []);
    assert_eq!(a.dial(None, b.listening()).await, Ok(b.local()));
    assert_eq!(a.dial(Some(b.local()), Vec::new()).await, Ok(b.local()), "connected already");
    let infos = a.peers();
    assert_eq!(
        infos.iter().map(|info| (info.peer, info.connections, info.dialled)).collect::<Vec<_>>(),
        [(b.local(), 1, true)]
    );
    let c = world.join(&key(4)).await;
    let addresses: Vec<String> = unused(&world).await.into_iter().chain(b.listening()).collect();
    assert_eq!(c.dial(None, addresses.clone()).await, Ok(b.local()), "whoever answers at one of {addresses:?}");
}

/// An address where no node listens.
async fn unused(world: &World) -> Vec<String> {
    match world {
        World::Simulated(_) => vec![format!("sim:{}", key(99).public())],
        World::Libp2p | World::Quic => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("an address").port();
            vec![format!("/ip4/127.0.0.1/tcp/{port}")]
        }
    }
}

async fn opening_says_why_not(world: World) {
    let (a, b) = (world.join(&key(1)).await, world.join(&key(2)).await);
    assert_eq!(a.open(b.local(), BYTES).await.err(), Some(OpenError::NotConnected));
    connect(&a, &b).await;
    assert_eq!(a.open(b.local(), BYTES).await.err(), Some(OpenError::Unsupported(BYTES)));
}

async fn both_sides_hear_of_connections(world: World) {
    let (a, b) = (world.join(&key(1)).await, world.join(&key(2)).await);
    let mut heard = [a.events(), b.events()];
    let ids = [b.local(), a.local()];
    connect(&a, &b).await;
    for (events, other) in heard.iter_mut().zip(ids) {
        assert_eq!(events.recv().await, Ok(PeerEvent::Connected(other)));
    }
    b.disconnect(a.local());
    for (events, other) in heard.iter_mut().zip(ids) {
        assert_eq!(events.recv().await, Ok(PeerEvent::Disconnected(other)));
    }
    assert_eq!((a.peers(), b.peers()), (Vec::new(), Vec::new()));
    connect(&b, &a).await;
    for (events, other) in heard.iter_mut().zip(ids) {
        assert_eq!(events.recv().await, Ok(PeerEvent::Connected(other)), "and again");
    }
}

async fn a_call_is_answered(world: World) {
    let (a, b) = pair(&world).await;
    for size in [0, 1, 100_000, 1 << 20] {
        let body = vec![5; size];
        let answer = a.communication.call(b.id(), PROTOCOL, echo(&body)).await.expect("an answer");
        assert!(answer == body, "{size} bytes");
    }
    assert_eq!(b.communication.call(a.id(), PROTOCOL, echo(b"back")).await.expect("an answer"), b"back");
    let long = a.communication.call(b.id(), PROTOCOL, echo(&vec![5; (1 << 20) + 1])).await;
    assert!(long.is_err(), "a body beyond the limit is not sent");
    assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(b"on")).await.expect("an answer"), b"on");
    assert_eq!((a.communication.refused(), b.communication.refused()), (0, 0));
}

/// What was sent is told: else each 16 KiB of the 32 MiB would wait for its whole patience, 250 ms.
async fn delay_tolerant_calls_take_all_that_is_left_over(world: World) {
    let (a, b) = pair(&world).await;
    for _ in 0..4 {
        let calls = (0..8).map(|_| {
            let request = Request { priority: Priority::Bulk, ..echo(&vec![5; 1 << 20]) };
            a.communication.call(b.id(), PROTOCOL, request)
        });
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.expect("an answer").len(), 1 << 20);
        }
    }
}

async fn a_refusal_comes_as_one(world: World) {
    let (a, b) = pair(&world).await;
    let refused = a.communication.call(b.id(), PROTOCOL, ask("refuse")).await;
    assert!(matches!(&refused, Err(CallError::Refused { peer, body }) if *peer == b.id() && body == b"body"));
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("refuse")).await.expect("a stream");
    assert!(matches!(events.next().await, Err(CallError::Refused { body, .. }) if body == b"body"));
    let nowhere = a.communication.call(key(9).public(), PROTOCOL, ask("echo")).await;
    assert!(matches!(nowhere, Err(CallError::Unreachable { reason: OpenError::NotConnected, .. })));
}

async fn events_come_in_order_and_end(world: World) {
    let (a, b) = pair(&world).await;
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("three")).await.expect("a stream");
    for number in [1, 2, 3] {
        assert_eq!(events.next().await.expect("an event"), Some(vec![number]));
    }
    assert_eq!(events.next().await.expect("the end"), None);
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("breaks")).await.expect("a stream");
    assert_eq!(events.next().await.expect("an event"), Some(b"one".to_vec()));
    assert!(matches!(events.next().await, Err(CallError::Refused { body, .. }) if body == b"why"));
}

/// Bytes that may lie between a producer and a consumer that reads nothing: windows and buffers of both sides.
const BETWEEN: usize = 4 << 20;

/// Waits until `b` makes no more events for `a`, which takes none: many calls pass by and it does nothing.
async fn at_rest(a: &Peer, b: &Peer) -> usize {
    let mut made = 0;
    loop {
        for _ in 0..50 {
            a.communication.call(b.id(), PROTOCOL, echo(b"meanwhile")).await.expect("an answer");
        }
        let now = b.probe.made.load(Ordering::SeqCst);
        if now == made {
            return made;
        }
        made = now;
        assert!(made * EVENT_BYTES < BETWEEN, "{made} events were made for a consumer that takes none");
    }
}

async fn a_producer_waits_for_a_slow_consumer(world: World) {
    let (a, b) = pair(&world).await;
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("endless")).await.expect("a stream");
    events.next().await.expect("an event");
    let made = at_rest(&a, &b).await;
    for _ in 0..made + 10 {
        events.next().await.expect("an event");
    }
    assert!(b.probe.made.load(Ordering::SeqCst) >= made + 10, "it goes on when its events are taken");
}

async fn dropping_a_call_stops_it(world: World) {
    let (a, b) = pair(&world).await;
    let call = {
        let (communication, to) = (a.communication.clone(), b.id());
        tokio::spawn(async move { communication.call(to, PROTOCOL, ask("stuck")).await })
    };
    b.probe.asked(1).await;
    assert_eq!(*b.probe.dropped.borrow(), 0);
    call.abort();
    // P-34
    b.probe.dropped(1).await;
}

async fn dropping_events_stops_them(world: World) {
    let (a, b) = pair(&world).await;
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("stuck-stream")).await.expect("a stream");
    events.next().await.expect("an event");
    assert_eq!(*b.probe.dropped.borrow(), 0);
    drop(events);
    // P-34
    b.probe.dropped(1).await;
}

async fn dropping_unread_events_stops_them(world: World) {
    let (a, b) = pair(&world).await;
    let events = a.communication.stream(b.id(), PROTOCOL, ask("endless")).await.expect("a stream");
    // The windows are full: the producer waits in the middle of a write.
    assert!(at_rest(&a, &b).await > 1);
    let before = *b.probe.dropped.borrow();
    drop(events);
    b.probe.dropped(before + 1).await;
}

async fn cancelling_events_stops_them(world: World) {
    let (a, b) = pair(&world).await;
    let mut events = a.communication.stream(b.id(), PROTOCOL, ask("stuck-stream")).await.expect("a stream");
    events.next().await.expect("an event");
    events.cancel().await;
    // P-34
    b.probe.dropped(1).await;
    assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(b"on")).await.expect("an answer"), b"on");
    assert_eq!(b.communication.refused(), 0, "a cancel is no offence");
}

async fn a_deadline_ends_a_call_on_both_sides(world: World) {
    let (a, b) = pair(&world).await;
    let request = Request { deadline: Some(Duration::from_millis(300)), ..ask("stuck") };
    let late = a.communication.call(b.id(), PROTOCOL, request).await;
    assert!(matches!(late, Err(CallError::Deadline { peer, after_ms: 300 }) if peer == b.id()), "{late:?}");
    b.probe.dropped(1).await;
}

async fn more_calls_than_streams_queue(world: World) {
    const CALLS: usize = 300;
    const MOST: usize = 256;
    let (a, b) = pair(&world).await;
    let calls = (0..CALLS).map(|number| {
        let (communication, to) = (a.communication.clone(), b.id());
        let request = Request::new("gate", number.to_be_bytes().to_vec());
        tokio::spawn(async move { communication.call(to, PROTOCOL, request).await })
    });
    let calls: Vec<_> = calls.collect();
    b.probe.asked(MOST).await;
    // A call beyond the limit would come while these are made in the other direction.
    for _ in 0..20 {
        b.communication.call(a.id(), PROTOCOL, echo(b"back")).await.expect("the other direction is free");
    }
    assert_eq!(*b.probe.asked.borrow(), MOST, "the rest waits");
    b.probe.gate.add_permits(CALLS);
    for (number, call) in calls.into_iter().enumerate() {
        let answer = call.await.expect("no panic");
        assert_eq!(answer.expect("an answer"), number.to_be_bytes());
    }
}

async fn streams_beyond_the_limit_are_refused_without_harm(world: World) {
    let few = CommunicationConfig {
        streams: StreamLimits { per_peer_max: 4, ..StreamLimits::default() },
        ..CommunicationConfig::default()
    };
    let b = Peer::start(&world, &key(2), few).await;
    let a = Peer::start(&world, &key(1), CommunicationConfig::default()).await;
    let c = Peer::start(&world, &key(3), CommunicationConfig::default()).await;
    connect(a.network(), b.network()).await;
    connect(c.network(), b.network()).await;
    let held: Vec<_> = (0..4)
        .map(|_| {
            let (communication, to) = (a.communication.clone(), b.id());
            tokio::spawn(async move { communication.call(to, PROTOCOL, ask("gate")).await })
        })
        .collect();
    b.probe.asked(4).await;
    let fifth = a.communication.call(b.id(), PROTOCOL, echo(b"one too many")).await;
    assert!(matches!(fifth, Err(CallError::Broken { .. })), "{fifth:?}");
    assert_eq!(c.communication.call(b.id(), PROTOCOL, echo(b"c")).await.expect("an answer"), b"c");
    b.probe.gate.add_permits(4);
    for call in held {
        assert_eq!(call.await.expect("no panic").expect("an answer"), b"body");
    }
    assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(b"again")).await.expect("an answer"), b"again");
}

async fn calls_reuse_a_stream(world: World) {
    let counting = Counting::new(world.join(&key(1)).await);
    let a = Peer::start_on(counting.clone(), &key(1), CommunicationConfig::default(), None);
    let b = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    connect(a.network(), b.network()).await;
    for number in 0..20u8 {
        // P-33: once its answer came, a stream carries the next request.
        assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(&[number])).await.expect("an answer"), [number]);
        a.communication.call(b.id(), PROTOCOL, ask("refuse")).await.expect_err("a refusal");
    }
    assert_eq!(counting.opened.load(Ordering::Relaxed), 1);
}

/// The next event of a peer. The DHT may lead others to each other meanwhile.
async fn next_of(events: &mut broadcast::Receiver<PeerEvent>, peer: PublicKey) -> PeerEvent {
    loop {
        let event = events.recv().await.expect("events go on");
        let (PeerEvent::Connected(of) | PeerEvent::Moved(of) | PeerEvent::Disconnected(of)) = event;
        if of == peer {
            return event;
        }
    }
}

async fn calls_reuse_a_stream_while_others_come_and_go(world: World) {
    let counting = Counting::new(world.join(&key(1)).await);
    let a = Peer::start_on(counting.clone(), &key(1), CommunicationConfig::default(), None);
    let b = Peer::start(&world, &key(2), CommunicationConfig::default()).await;
    let c = world.join(&key(3)).await;
    connect(a.network(), b.network()).await;
    let mut heard = [a.network().events(), c.events()];
    for number in 1..=10 {
        let call = {
            let (communication, to) = (a.communication.clone(), b.id());
            tokio::spawn(async move { communication.call(to, PROTOCOL, ask("gate")).await })
        };
        b.probe.asked(number).await;
        connect(&c, a.network()).await;
        // Until both have heard of it, dialling finds the old connection.
        for (events, other) in heard.iter_mut().zip([c.local(), a.id()]) {
            assert_eq!(next_of(events, other).await, PeerEvent::Connected(other));
        }
        c.disconnect(a.id());
        for (events, other) in heard.iter_mut().zip([c.local(), a.id()]) {
            assert_eq!(next_of(events, other).await, PeerEvent::Disconnected(other));
        }
        b.probe.gate.add_permits(1);
        assert_eq!(call.await.expect("no panic").expect("an answer"), b"body");
    }
    assert_eq!(counting.opened.load(Ordering::Relaxed), 1, "of all the calls from one peer to another");
}

async fn owners_are_proven_by_memberships(world: World) {
    let node = |number: u8| key(number).public();
    let owner = |number: u8| Owner::new(key(number)).id();
    let nonsense = OwnerProof { membership: b"nonsense".to_vec().into(), inception: Vec::new().into() };
    let shown = [
        (1, Some(membership(&Owner::new(key(50)), node(1), NOW_MS)), Some(owner(50))),
        (2, Some(membership(&Owner::new(key(51)), node(2), NOW_MS)), Some(owner(51))),
        (3, Some(membership(&Owner::new(key(50)), node(1), NOW_MS)), None),
        (4, Some(membership(&Owner::new(key(50)), node(4), NOW_MS - 7_200_000)), None),
        (5, Some(Arc::new(nonsense)), None),
        (6, None, None),
    ];
    let mut peers = Vec::new();
    for (number, shows, owner) in shown {
        let network = world.join(&key(number)).await;
        peers.push((Peer::start_on(network, &key(number), CommunicationConfig::default(), shows), owner));
    }
    let (first, owner) = (&peers[0].0, peers[0].1);
    for (other, expected) in &peers[1..] {
        connect(first.network(), other.network()).await;
        // P-24
        let said = first.communication.call(other.id(), PROTOCOL, ask("who")).await.expect("an answer");
        assert_eq!(said, owner.expect("it has one").to_string().into_bytes());
        assert_eq!(first.communication.owner(other.id()), *expected);
        assert_eq!(other.communication.owner(first.id()), owner);
        let said = other.communication.call(first.id(), PROTOCOL, ask("who")).await.expect("an answer");
        assert_eq!(said, expected.map(|owner| owner.to_string()).unwrap_or_default().into_bytes());
    }
    let second = &peers[1].0;
    first.network().disconnect(second.id());
    until("what a peer proved ends with its connection", || first.communication.owner(second.id()).is_none()).await;
}

async fn a_membership_ends_on_open_streams_too_and_a_new_one_is_shown(world: World) {
    let now_ms = Arc::new(AtomicU64::new(NOW_MS));
    let clock = || {
        let now_ms = now_ms.clone();
        WallClock::new(move || now_ms.load(Ordering::SeqCst))
    };
    let (show, shown) = watch::channel(Some(membership(&Owner::new(key(50)), key(1).public(), NOW_MS)));
    let (one, two) = (world.join(&key(1)).await, world.join(&key(2)).await);
    let a = Peer::start_at(one, &key(1), CommunicationConfig::default(), shown, clock());
    let b = Peer::start_at(two, &key(2), CommunicationConfig::default(), watch::channel(None).1, clock());
    connect(a.network(), b.network()).await;
    let who = async || a.communication.call(b.id(), PROTOCOL, ask("who")).await.expect("an answer");
    let owner = Owner::new(key(50)).id().to_string().into_bytes();
    assert_eq!(who().await, owner);
    now_ms.fetch_add(2 * 3_600_000, Ordering::SeqCst);
    // P-24: the same stream, whose membership is over.
    assert_eq!((who().await, b.communication.owner(a.id())), (Vec::new(), None));
    show.send_replace(Some(membership(&Owner::new(key(50)), key(1).public(), now_ms.load(Ordering::SeqCst))));
    assert_eq!(who().await, owner);
}

async fn networks_of_other_names_refuse_each_other(world: World) {
    let other = CommunicationConfig { network: "other".to_owned(), ..CommunicationConfig::default() };
    let a = Peer::start(&world, &key(1), CommunicationConfig::default()).await;
    let b = Peer::start(&world, &key(2), other).await;
    connect(a.network(), b.network()).await;
    for (from, to) in [(&a, &b), (&b, &a)] {
        let refused = from.communication.call(to.id(), PROTOCOL, echo(b"hi")).await;
        let Err(CallError::Broken { reason: StreamError::Hello(HelloError::Network { theirs, ours }), .. }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_ne!(theirs, ours);
    }
    assert_eq!((*a.probe.asked.borrow(), *b.probe.asked.borrow()), (0, 0));
    until("both count it", || a.communication.refused() >= 1 && b.communication.refused() >= 1).await;
}

async fn a_call_ends_with_its_connection(world: World) {
    let (a, b) = pair(&world).await;
    let call = {
        let (communication, to) = (a.communication.clone(), b.id());
        tokio::spawn(async move { communication.call(to, PROTOCOL, ask("stuck")).await })
    };
    b.probe.asked(1).await;
    let mut heard = [a.network().events(), b.network().events()];
    b.network().disconnect(a.id());
    let broken = call.await.expect("no panic");
    assert!(matches!(broken, Err(CallError::Broken { .. })), "{broken:?}");
    b.probe.dropped(1).await;
    // Until both have heard of it, dialling finds the old connection.
    for (events, other) in heard.iter_mut().zip([b.id(), a.id()]) {
        assert_eq!(events.recv().await, Ok(PeerEvent::Disconnected(other)));
    }
    connect(a.network(), b.network()).await;
    assert_eq!(a.communication.call(b.id(), PROTOCOL, echo(b"on")).await.expect("an answer"), b"on");
}
