//! A machine that keeps opening connections blocks only itself (threat 14).
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{CommunicationConfig, Network, PeerEvent, Request, WallClock};
use althing_conformance::origins::{by_way_of, socket};
use althing_conformance::world::{Peer, until};
use althing_conformance::{NETWORK, NOW_MS, PROTOCOL, key};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

fn config() -> Libp2pConfig {
    Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        ..Libp2pConfig::new(NETWORK, WallClock::new(|| NOW_MS))
    }
}

async fn node(number: u8, config: Libp2pConfig) -> Arc<dyn Network> {
    Arc::new(Libp2pNetwork::start(&key(number), config).await.expect("a network"))
}

/// How many of them the node has closed by now.
async fn ended(sockets: &mut [TcpStream]) -> usize {
    let mut ended = 0;
    for socket in sockets {
        let mut bytes = [0; 64];
        let end = async { while socket.read(&mut bytes).await.is_ok_and(|len| len > 0) {} };
        ended += usize::from(tokio::time::timeout(Duration::from_millis(1), end).await.is_ok());
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_sockets_of_one_address_end_each_other_and_nobody_else() {
    const PLACES: usize = 8;
    // A silent connection would otherwise stay longer than this test.
    let door = Libp2pConfig { pending_incoming_max: PLACES, dial_timeout: Duration::from_secs(600), ..config() };
    let door = node(1, door).await;
    let at = door.listening().remove(0);
    let silent = async |from: &str| socket(from, &at).await.expect("a connection");
    let mut neighbours = vec![silent("127.0.0.3").await, silent("127.0.0.4").await];
    let mut flood = Vec::new();
    for _ in 0..10 * PLACES {
        flood.push(silent("127.0.0.2").await);
    }
    let newcomer = node(2, config()).await;
    newcomer.dial(Some(door.local()), by_way_of("127.0.0.5", &at).await).await.expect("its first try comes through");
    let wanted = 10 * PLACES + neighbours.len() - PLACES;
    for _ in 0..1_000 {
        if ended(&mut flood).await >= wanted {
            break;
        }
    }
    assert_eq!(ended(&mut neighbours).await, 0, "they are not of that address");
    let left = flood.len() - ended(&mut flood).await;
    assert!((1..=PLACES - neighbours.len()).contains(&left), "{left} of the flood are left");
    // Who is at the same address comes through as well, while more and more come, though perhaps not at once.
    let (unlucky, by_way) = (node(3, config()).await, by_way_of("127.0.0.2", &at).await);
    let coming = async {
        let mut tries = 1;
        while unlucky.dial(Some(door.local()), by_way.clone()).await.is_err() {
            tries += 1;
            assert!(tries < 100, "it never comes through");
        }
    };
    let flooding = async {
        loop {
            flood.push(silent("127.0.0.2").await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = coming => {}
        () = flooding => {}
    }
    // All but those that have a place were ended, by each other.
    for _ in 0..1_000 {
        if flood.len() - ended(&mut flood).await <= PLACES {
            return;
        }
    }
    panic!("there are places for {PLACES} only");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_takes_half_of_the_places_until_others_want_theirs() {
    const PLACES: usize = 16;
    /// The slots of strangers: an eighth is reserved for trusted peers and connections on trial.
    const STRANGERS: usize = 14;
    /// The slots of one address: half of those, and one on trial.
    const HALF: usize = STRANGERS / 2 + 1;
    let door = node(1, Libp2pConfig { incoming_max: PLACES, ..config() }).await;
    let theirs = |of: &str| {
        let here = format!("/ip4/{of}/");
        let peers = door.peers();
        peers.iter().filter(|info| !info.dialled && info.address.starts_with(&here)).count()
    };
    let listening = door.listening().remove(0);
    let (mut crowd, at) = (Vec::new(), by_way_of("127.0.0.2", &listening).await);
    for number in 0..12 {
        let one = node(10 + number, config()).await;
        // A refusal shows only after the handshake.
        let _ = one.dial(Some(door.local()), at.clone()).await;
        crowd.push(one);
    }
    until("half of the places are taken", || theirs("127.0.0.2") == HALF).await;
    for (number, of) in (0..).zip(["127.0.0.3", "127.0.0.4", "127.0.0.5"]) {
        let newcomer = node(100 + number, config()).await;
        let at = by_way_of(of, &listening).await;
        newcomer.dial(Some(door.local()), at).await.expect("it comes through");
        until("it has a place", || theirs(of) == 1).await;
        crowd.push(newcomer);
    }
    assert_eq!(theirs("127.0.0.2"), HALF, "there is room for all of them");
    // The free slots, and those that were lent.
    let mut others: Vec<&str> = vec!["127.0.0.3", "127.0.0.4", "127.0.0.5"];
    let more =
        ["127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9", "127.0.0.10", "127.0.0.11", "127.0.0.12", "127.0.0.13"];
    for (number, of) in (0..).zip(more) {
        let newcomer = node(120 + number, config()).await;
        let at = by_way_of(of, &listening).await;
        newcomer.dial(Some(door.local()), at).await.expect("it comes through");
        until("it has a place", || theirs(of) == 1).await;
        crowd.push(newcomer);
        others.push(of);
    }
    until("what was lent is taken back", || theirs("127.0.0.2") <= STRANGERS - others.len() + 1).await;
    assert!(others.iter().all(|of| theirs(of) == 1));
    // And the flood does not get them back.
    let _ = crowd[0].dial(Some(door.local()), at).await;
    let late = node(150, config()).await;
    let _ = late.dial(Some(door.local()), by_way_of("127.0.0.2", &listening).await).await;
    let last = node(151, config()).await;
    last.dial(Some(door.local()), by_way_of("127.0.0.14", &listening).await).await.expect("it comes through");
    until("it has a place", || theirs("127.0.0.14") == 1).await;
    until("the crowd made room for it", || theirs("127.0.0.2") <= STRANGERS - others.len()).await;
}

/// On a LAN addresses are free, too: whoever has as many as there are places shuts out no node that is trusted, wherever that
/// comes from.
#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_node_comes_through_and_stays_when_strangers_at_many_addresses_have_all_places() {
    const PLACES: usize = 16;
    let network = node(1, Libp2pConfig { incoming_max: PLACES, ..config() }).await;
    let door = Peer::start_on(network, &key(1), CommunicationConfig::default(), None);
    let trusted = key(100).public();
    door.communication.trusts(move |caller| caller.node == trusted);
    let listening = door.network().listening().remove(0);
    let mut crowd = Vec::new();
    let come = async |crowd: &mut Vec<Arc<dyn Network>>, number: u8| {
        let one = node(number, config()).await;
        let from: &'static str = Box::leak(format!("127.0.0.{number}").into_boxed_str());
        // A refusal shows later.
        let _ = one.dial(Some(door.id()), by_way_of(from, &listening).await).await;
        crowd.push(one);
    };
    for number in 10..30 {
        come(&mut crowd, number).await;
    }
    until("all places are taken", || door.network().peers().len() >= PLACES - 1).await;
    let friend = Peer::start_on(node(100, config()).await, &key(100), CommunicationConfig::default(), None);
    friend.network().dial(Some(door.id()), by_way_of("127.0.0.100", &listening).await).await.expect("it comes through");
    until("it is known", || door.network().is_connected(trusted)).await;
    let mut events = door.network().events();
    for number in 30..60 {
        come(&mut crowd, number).await;
    }
    let answer = friend.communication.call(door.id(), PROTOCOL, Request::new("echo", b"hi".to_vec())).await;
    assert_eq!(answer.expect("an answer"), b"hi");
    let lost = std::iter::from_fn(|| events.try_recv().ok()).any(|event| event == PeerEvent::Disconnected(trusted));
    assert!(!lost, "its connection stood all the time");
    // A displaced connection is open for a moment longer. Those that the door dials itself take no places.
    let incoming = || door.network().peers().iter().filter(|info| !info.dialled).count();
    until("no more are there than have places", || incoming() <= PLACES).await;
}
