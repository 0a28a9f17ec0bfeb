//! Two nodes that dial each other at once keep exactly one connection, the same on both sides: 200 times.
#![expect(clippy::disallowed_methods, reason = "real sockets live in real time")]

use std::time::{Duration, Instant};

use althing_communication::{Network, PeerInfo, WallClock};
use althing_conformance::{NETWORK, NOW_MS};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::SecretKey;

/// Pairs that dial at the same time, and how often that is done.
const PAIRS: u8 = 20;
const ROUNDS: u8 = 10;
/// The time in which a pair must settle.
const SETTLED: Duration = Duration::from_secs(20);

async fn node(seed: [u8; 3]) -> Libp2pNetwork {
    let mut whole = [0; 32];
    whole[..3].copy_from_slice(&seed);
    let config = Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        ..Libp2pConfig::new(NETWORK, WallClock::new(|| NOW_MS))
    };
    Libp2pNetwork::start(&SecretKey::from_seed(&whole), config).await.expect("a network")
}

fn to(from: &Libp2pNetwork, peer: &Libp2pNetwork) -> Option<PeerInfo> {
    from.peers().into_iter().find(|info| info.peer == peer.local())
}

/// One connection on both sides, dialled by exactly one of them.
fn settled(a: &Libp2pNetwork, b: &Libp2pNetwork) -> bool {
    match (to(a, b), to(b, a)) {
        (Some(ab), Some(ba)) => ab.connections == 1 && ba.connections == 1 && ab.dialled != ba.dialled,
        _ => false,
    }
}

async fn pair(round: u8, number: u8) {
    let (a, b) = (node([round, number, 1]).await, node([round, number, 2]).await);
    let (to_a, to_b) = (a.listening(), b.listening());
    // Either dial may lose against the other's connection: what counts is what is left.
    let _ = tokio::join!(a.dial(Some(b.local()), to_b), b.dial(Some(a.local()), to_a));
    let begun = Instant::now();
    let mut since = None;
    while begun.elapsed() < SETTLED {
        // Settled for a while: a connection that is still being closed must not pass for the last word.
        match (settled(&a, &b), since) {
            (true, None) => since = Some(Instant::now()),
            (true, Some(at)) if at.elapsed() > Duration::from_millis(100) => return,
            (true, Some(_)) => {}
            (false, _) => since = None,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("round {round}, pair {number}: {:?} and {:?}", to(&a, &b), to(&b, &a));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_simultaneous_dials_leave_one_connection_each() {
    for round in 0..ROUNDS {
        futures::future::join_all((0..PAIRS).map(|number| pair(round, number))).await;
    }
}
