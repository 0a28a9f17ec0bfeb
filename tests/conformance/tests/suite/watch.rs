//! Heartbeats as events (SPEC P-75, P-76), in virtual time, between nodes and scripted peers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{Answer, Caller, Communication, CommunicationConfig, Inbound, Request, StreamLimits};
use althing_conformance::mesh::{Node, Owner, Setup, agent, file, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, entropy, key};
use althing_discovery::{DESCRIBE, DiscoveryConfig, LocalAgent, PLACEMENTS, Query};
use althing_protocol::PublicKey;
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_simnet::{LinkConfig, SimNet};
use althing_td::Exposure;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, advance, sleep, timeout};

const OWNER: u8 = 100;
const BEAT: Duration = Duration::from_secs(2);

fn calm() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// The requests to a scripted peer, and the events that it sends.
struct Heard {
    agent: LocalAgent,
    /// Older nodes know no watch.
    old: bool,
    pushes: AtomicUsize,
    watches: AtomicUsize,
    /// The events of the watch that is under way.
    events: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
}

struct Answers(Arc<Heard>);

impl Inbound for Answers {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "placement" => {
                self.0.pushes.fetch_add(1, Ordering::Relaxed);
                Answer::Response(Vec::new())
            }
            "describe" => Answer::Response(self.0.agent.verified.evidence().encode()),
            "watch" if self.0.old => {
                self.0.watches.fetch_add(1, Ordering::Relaxed);
                Answer::Error(br#"{"code":-32601,"message":"there is no operation \"watch\" here"}"#.to_vec())
            }
            "watch" => {
                self.0.watches.fetch_add(1, Ordering::Relaxed);
                let (sender, receiver) = mpsc::channel(1_024);
                *self.0.events.lock().expect("no test panics with it") = Some(sender);
                let events = futures::stream::unfold(receiver, |mut receiver| async move {
                    Some((Ok(receiver.recv().await?), receiver))
                });
                Answer::Events(events.boxed())
            }
            "instance" => Answer::Error(br#"{"code":-32601,"message":"there is no such operation here"}"#.to_vec()),
            other => panic!("asked for {other}"),
        };
        futures::future::ready(answer).boxed()
    }
}

/// A scripted peer.
struct Peer {
    number: u8,
    communication: Communication,
    heard: Arc<Heard>,
    sequence: AtomicU64,
}

impl Peer {
    fn join(net: &SimNet, number: u8) -> Peer {
        Peer::of_age(net, number, false)
    }

    fn of_age(net: &SimNet, number: u8, old: bool) -> Peer {
        let network = net.join(key(number).public());
        let communication = Communication::start(
            network,
            key(number),
            watch::channel(None).1,
            CommunicationConfig::default(),
            net.clock(),
            entropy(u64::from(number)),
        );
        let file = file("actor", "does as it is told", "acting.do", "do", "play");
        let agent = agent(&Owner::new(key(OWNER)), &key(OWNER), key(number).public(), &file, 1, NOW_MS);
        let heard = Heard { agent, old, pushes: 0.into(), watches: 0.into(), events: Mutex::default() };
        let heard = Arc::new(heard);
        for protocol in [PLACEMENTS, DESCRIBE] {
            communication
                .serve(protocol, StreamLimits::default(), Arc::new(Answers(heard.clone())))
                .expect("nobody else serves it");
        }
        Peer { number, communication, heard, sequence: AtomicU64::new(NOW_MS) }
    }

    async fn connect(&self, node: &Node) {
        let network = self.communication.network();
        network.dial(Some(node.id()), node.communication.network().listening()).await.expect("a connection");
    }

    async fn watch(&self, node: &Node) -> althing_communication::Events {
        let asking = self.communication.stream(node.id(), PLACEMENTS, Request::new("watch", Vec::new()));
        asking.await.expect("a stream")
    }

    /// Its next placement, with its agent or without.
    fn placement(&self, net: &SimNet, hosts: bool, load_permille: u16) -> Vec<u8> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        self.placed(net, key(self.number).public(), sequence, hosts, load_permille)
    }

    fn placed(&self, net: &SimNet, node: PublicKey, sequence: u64, hosts: bool, load_permille: u16) -> Vec<u8> {
        let mut placement = Placement::new(node, sequence, net.clock().now_ms(), 6_000);
        let (description, grant) = self.heard.agent.verified.digests();
        let hosted = Hosted { agent: self.heard.agent.verified.agent.clone(), description, grant };
        placement.agents = hosts.then_some(hosted).into_iter().collect();
        placement.load_permille = load_permille;
        object::sign(placement, NETWORK, "", &key(self.number)).expect("a placement").bytes
    }

    async fn push(&self, node: &Node, placement: Vec<u8>) {
        let pushed = self.communication.call(node.id(), PLACEMENTS, Request::new("placement", placement)).await;
        pushed.expect("it is taken");
    }

    fn tell(&self, event: Vec<u8>) -> bool {
        let events = self.heard.events.lock().expect("no test panics with it");
        events.as_ref().is_some_and(|events| events.try_send(event).is_ok())
    }

    fn counts(&self) -> (usize, usize) {
        (self.heard.pushes.load(Ordering::Relaxed), self.heard.watches.load(Ordering::Relaxed))
    }
}

/// The loads that a node's agents are found with.
fn loads(node: &Node) -> Vec<u16> {
    node.discovery.find(&Query::default()).0.iter().map(|found| found.load_permille).collect()
}

fn sequence(event: &[u8]) -> u64 {
    object::open::<Placement>(event, NETWORK, "").expect("a placement").body.sequence
}

/// P-75: the first event is the placement, later ones are empty until it changes; meanwhile nothing is pushed.
#[tokio::test(start_paused = true)]
async fn who_watches_is_told_by_events_and_nothing_is_pushed_to_it() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(&net, 2);
    peer.connect(&node).await;
    until("it was pushed to", || peer.counts().0 >= 2).await;
    let mut events = peer.watch(&node).await;
    let first = events.next().await.expect("an event").expect("it goes on");
    let pushed = peer.counts().0;
    for _ in 0..10 {
        let event = timeout(BEAT + Duration::from_millis(100), events.next()).await.expect("one each heartbeat");
        assert_eq!(event.expect("an event").expect("it goes on"), Vec::<u8>::new());
    }
    assert_eq!(peer.counts().0, pushed, "nothing was pushed");
    // Two changes at once are one event, or two.
    let begun = Instant::now();
    for name in ["one", "two"] {
        node.host(&file(name, "does as it is told", "acting.do", "do", "play")).await;
    }
    let mut last = sequence(&first);
    loop {
        let event = events.next().await.expect("an event").expect("it goes on");
        assert!(sequence(&event) > last);
        last = sequence(&event);
        if object::open::<Placement>(&event, NETWORK, "").expect("a placement").body.agents.len() == 2 {
            break;
        }
    }
    assert!(begun.elapsed() < Duration::from_millis(500), "at once, not with the heartbeat");
    // Another watch takes its place.
    let mut newer = peer.watch(&node).await;
    assert!(sequence(&newer.next().await.expect("an event").expect("it goes on")) >= last);
    assert_eq!(events.next().await.expect("no error"), None, "the older one is over");
    newer.cancel().await;
    until("it is pushed to again", || peer.counts().0 > pushed).await;
}

/// What a node does decides what it says: its load, and from four fifths on that it is busy, each change with the next
/// heartbeat; on the way down too.
#[tokio::test(start_paused = true)]
async fn a_load_that_changes_is_told_and_a_node_is_busy_while_it_is() {
    let net = calm();
    let setup = Setup::new(&net, 1, u32::from(OWNER));
    let load = setup.load_permille.clone();
    let host = Node::assemble(&net, setup, store()).await;
    let seeker = Node::start(&net, 2, OWNER, &[], store()).await;
    seeker.connect(&host).await;
    host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    let sees = |permille: u16, health: Health| {
        let (found, _) = seeker.discovery.find(&Query::default());
        found.iter().any(|found| (found.load_permille, found.health) == (permille, health))
    };
    until("it is found idle", || sees(0, Health::Healthy)).await;
    sleep(5 * BEAT).await;
    for (permille, health) in
        [(799, Health::Healthy), (800, Health::Busy), (1_000, Health::Busy), (10, Health::Healthy)]
    {
        load.store(permille, Ordering::Relaxed);
        let begun = Instant::now();
        until("the change is told", || sees(permille, health)).await;
        assert!(begun.elapsed() <= BEAT + Duration::from_millis(200), "{:?}", begun.elapsed());
    }
    host.discovery.leave().await;
    until("leaving is more than being busy", || seeker.discovery.find(&Query::default()).0.is_empty()).await;
}

/// P-75: it need not be offered to those who are not pushed to.
#[tokio::test(start_paused = true)]
async fn who_is_not_told_may_not_watch() {
    let net = calm();
    let mut setup = Setup::new(&net, 1, u32::from(OWNER));
    setup.discovery = DiscoveryConfig { push_peers_max: 1, ..DiscoveryConfig::default() };
    let node = Node::assemble(&net, setup, store()).await;
    let (first, second) = (Peer::join(&net, 2), Peer::join(&net, 3));
    first.connect(&node).await;
    until("the first was pushed to", || first.counts().0 >= 1).await;
    second.connect(&node).await;
    assert!(second.watch(&node).await.next().await.is_err());
    assert!(first.watch(&node).await.next().await.is_ok());
    assert_eq!(second.counts().0, 0);
}

/// Strangers who were there first, as many as are told, keep no own node from being pushed to and from watching.
#[tokio::test(start_paused = true)]
async fn an_own_node_is_told_although_32_strangers_were_there_first() {
    const STRANGERS: u8 = 32;
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    assert_eq!(DiscoveryConfig::default().push_peers_max, usize::from(STRANGERS));
    let mut strangers = Vec::new();
    for number in 2..2 + STRANGERS {
        let stranger = Peer::join(&net, number);
        stranger.connect(&node).await;
        strangers.push(stranger);
    }
    until("all of them are pushed to", || strangers.iter().all(|stranger| stranger.counts().0 >= 1)).await;
    let mut watches = Vec::new();
    for stranger in &strangers {
        watches.push(stranger.watch(&node).await);
    }
    let own = Node::start(&net, 60, OWNER, &[], store()).await;
    own.connect(&node).await;
    let id = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    until("it is told", || !own.discovery.hosts(&id).is_empty()).await;
    sleep(5 * BEAT).await;
    assert_eq!(own.discovery.hosts(&id), [node.id()], "and goes on to be told");
    // One of the strangers made room: its watch ended, and it may not begin another.
    let over = strangers.iter().zip(&mut watches).map(|(stranger, watch)| async move {
        loop {
            match timeout(2 * BEAT, watch.next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(_) => return Some(stranger),
                Err(_) => return None,
            }
        }
    });
    // Those that go on never end: so all are looked at for as long.
    let over =
        timeout(10 * BEAT, futures::future::select_ok(over.map(|over| Box::pin(over.map(|over| over.ok_or(()))))))
            .await;
    let (gone, _) = over.expect("in time").expect("one watch is over");
    assert!(gone.watch(&node).await.next().await.is_err());
}

/// P-76: an empty event keeps what is believed, for the ttl; it brings nothing back; a stale placement says no more than
/// an empty one.
#[tokio::test(start_paused = true)]
async fn what_was_said_last_holds_as_long_as_events_come() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(&net, 2);
    peer.connect(&node).await;
    let stale = peer.placement(&net, true, 9);
    peer.push(&node, peer.placement(&net, true, 7)).await;
    until("it is found, and watched", || loads(&node) == [7] && peer.counts().1 == 1).await;
    for turn in 0..20 {
        sleep(BEAT).await;
        assert!(peer.tell(if turn % 5 == 4 { stale.clone() } else { Vec::new() }));
        assert_eq!(loads(&node), [7], "{turn}");
    }
    // P-76: it says now that it hosts nothing, and what is believed came later, as if from another node with its key.
    let other = peer.placement(&net, false, 8);
    peer.push(&node, peer.placement(&net, true, 7)).await;
    peer.tell(other);
    until("nothing of that watch is listened to", || !peer.tell(Vec::new())).await;
    sleep(Duration::from_secs(3)).await;
    peer.push(&node, peer.placement(&net, true, 7)).await;
    until("it is watched again", || peer.counts().1 == 2).await;
    peer.tell(peer.placement(&net, true, 8));
    until("the change is taken", || loads(&node) == [8]).await;
    let silent = Instant::now();
    until("it is gone", || loads(&node).is_empty()).await;
    assert!(silent.elapsed() > Duration::from_secs(5) && silent.elapsed() < Duration::from_secs(8));
    peer.tell(Vec::new());
    until("the watch is over", || !peer.tell(Vec::new())).await;
    assert_eq!(loads(&node), Vec::<u16>::new(), "nothing came back");
    // It says so whole, and is watched anew.
    peer.push(&node, peer.placement(&net, true, 9)).await;
    until("it is found, and watched", || loads(&node) == [9] && peer.counts().1 == 3).await;
}

/// P-76: what was sent before a push, and arrives after it, ends no watch if the next event is newer.
#[tokio::test(start_paused = true)]
async fn an_event_that_was_overtaken_costs_no_watch() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(&net, 2);
    peer.connect(&node).await;
    peer.push(&node, peer.placement(&net, true, 7)).await;
    until("it is found, and watched", || loads(&node) == [7] && peer.counts().1 == 1).await;
    for load in 10..14 {
        let overtaken = peer.placement(&net, false, 1);
        peer.push(&node, peer.placement(&net, true, load)).await;
        assert!(peer.tell(overtaken) && peer.tell(peer.placement(&net, true, 10 * load)));
        until("the next event is taken", || loads(&node) == [10 * load]).await;
        // An empty one says that the last list still holds.
        peer.push(&node, peer.placement(&net, false, 1)).await;
        assert!(peer.tell(Vec::new()) && peer.tell(peer.placement(&net, true, load)));
        until("the next event is taken", || loads(&node) == [load]).await;
    }
    assert_eq!(peer.counts().1, 1, "it is one watch");
}

/// P-76: an event is verified as a push is.
#[tokio::test(start_paused = true)]
async fn what_does_not_hold_is_refused_and_ends_the_watch() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(&net, 2);
    peer.connect(&node).await;
    let forged = [
        peer.placed(&net, key(3).public(), NOW_MS * 2, true, 1),
        peer.placed(&net, node.id(), NOW_MS * 2, true, 1),
        vec![0; 40],
    ];
    for (refused, forged) in (1..).zip(forged) {
        peer.push(&node, peer.placement(&net, true, 7)).await;
        let watches = usize::try_from(refused).expect("few");
        until("it is found, and watched", || loads(&node) == [7] && peer.counts().1 == watches).await;
        peer.tell(forged);
        until("it is refused", || node.discovery.status().refused == refused).await;
        until("the watch is over", || !peer.tell(Vec::new())).await;
        // It is not asked again at once.
        peer.push(&node, peer.placement(&net, true, 7)).await;
        sleep(BEAT).await;
        assert_eq!(peer.counts().1, watches);
    }
    assert_eq!(node.discovery.status().nodes, 2);
}

/// A peer that sends events too often is read slowly.
#[tokio::test(start_paused = true)]
async fn who_tells_without_a_pause_is_read_slowly() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(&net, 2);
    peer.connect(&node).await;
    peer.push(&node, peer.placement(&net, true, 0)).await;
    until("it is watched", || peer.counts().1 == 1).await;
    (1..=500).for_each(|load| assert!(peer.tell(peer.placement(&net, true, load))));
    for _ in 0..100 {
        advance(Duration::from_millis(10)).await;
    }
    let load = loads(&node)[0];
    assert!((10..=60).contains(&load), "{load} in a second");
}

/// A node that knows no watch is asked once, and goes on pushing.
#[tokio::test(start_paused = true)]
async fn an_older_node_is_heard_by_its_pushes() {
    let net = calm();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let peer = Peer::of_age(&net, 2, true);
    peer.connect(&node).await;
    for turn in 0..20 {
        peer.push(&node, peer.placement(&net, true, turn)).await;
        until("it is found", || loads(&node) == [turn]).await;
        sleep(BEAT).await;
    }
    assert_eq!(peer.counts().1, 1, "asked once");
}

/// Whose node somebody is is shown when a stream is opened: a watch is begun anew when that changes, so that what only
/// those of its owner may see goes on to be seen.
#[tokio::test(start_paused = true)]
async fn who_has_another_membership_shows_it_although_nothing_is_pushed() {
    let net = calm();
    let mut host = Node::start(&net, 1, OWNER, &[], store()).await;
    let mut others = Vec::new();
    for number in 2..12 {
        let other = Node::start(&net, number, OWNER, &[], store()).await;
        other.connect(&host).await;
        others.push(other);
    }
    let file = file("actor", "does as it is told", "acting.do", "do", "play");
    let publish = |host: &Node, sequence: u64| {
        let now_ms = host.clock.now_ms();
        let local = agent(&host.owner, &host.owner.key, host.id(), &file, sequence, now_ms);
        host.discovery.host(LocalAgent { exposure: Exposure::Trusted, ..local });
    };
    let sees = |node: &Node, sequence: u64| {
        let (found, _) = node.discovery.find(&Query::default());
        found.iter().any(|found| found.candidate.verified.description.body.sequence == sequence)
    };
    publish(&host, 1);
    until("all see it", || others.iter().all(|node| sees(node, 1))).await;
    sleep(5 * BEAT).await;
    let owner = host.owner.rotated(host.clock.now_ms());
    host.rekey(owner.clone());
    others.iter_mut().for_each(|node| node.rekey(owner.clone()));
    publish(&host, 2);
    let begun = Instant::now();
    until("all see it again", || others.iter().all(|node| sees(node, 2))).await;
    assert!(begun.elapsed() < 3 * BEAT, "{:?}", begun.elapsed());
}
