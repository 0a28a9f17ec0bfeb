//! A peer that stores malformed records in the DHT is banned; other peers and their records are not affected.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Network, WallClock};
use althing_conformance::world::{World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use tokio::time::Instant;

/// The offences of one peer that the node tolerates.
const TOLERATED: usize = 64;

fn contact(of: u8, sequence: u64) -> (RecordKey, Vec<u8>) {
    let node = key(of).public();
    let now_ms = WallClock::new(|| NOW_MS).now_ms();
    let body = Contact::new(node, sequence, now_ms, now_ms + 1_000_000, vec!["/ip4/192.0.2.1/tcp/1".to_owned()]);
    let value = Value::Contact(object::sign(body, NETWORK, "", &key(of)).expect("a good contact"));
    (RecordKey::contact(NETWORK, node), value.encode())
}

async fn knows(from: &Arc<dyn Network>, to: &Arc<dyn Network>) {
    connect(from, to).await;
    until("both are in each other's table", || {
        from.routing().nodes().contains(&to.local()) && to.routing().nodes().contains(&from.local())
    })
    .await;
}

/// Stores malformed records until the node bans it.
async fn write_until_out(node: &Arc<dyn Network>, hostile: &Arc<dyn Network>) {
    let (under, _) = contact(9, 1);
    let there = || node.peers().iter().any(|info| info.peer == hostile.local());
    for _ in 0..4 * TOLERATED {
        if !there() {
            return;
        }
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
    }
    until("it is banned", || !there()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_peer_may_connect_again_after_the_ban() {
    let world = World::Libp2p;
    let ban_duration = Duration::from_secs(4);
    let config = Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        ban_duration,
        ..Libp2pConfig::new(NETWORK, WallClock::new(|| NOW_MS))
    };
    let node: Arc<dyn Network> = Arc::new(Libp2pNetwork::start(&key(1), config).await.expect("a network"));
    let hostile = world.join(&key(3)).await;
    knows(&hostile, &node).await;
    let _calls = node.accept("/test/door/1").expect("nobody else does");
    write_until_out(&node, &hostile).await;
    let begun = Instant::now();
    let mut refused = 0;
    loop {
        let patience = Duration::from_secs(20);
        let dialling = hostile.dial(Some(node.local()), node.listening());
        let _ = tokio::time::timeout(patience, dialling).await.expect("a dial ends");
        let opening = hostile.open(node.local(), "/test/door/1");
        // A connection may end while a stream is being opened on it.
        if tokio::time::timeout(patience, opening).await.expect("an opening ends").is_ok() {
            break;
        }
        refused += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "the ban never ends");
    }
    // The ban was noticed a moment later.
    assert!(refused > 0 && begun.elapsed() >= ban_duration / 2, "{refused} times, {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_stores_malformed_records_is_banned() {
    let world = World::Libp2p;
    let (node, honest, hostile) = (world.join(&key(1)).await, world.join(&key(2)).await, world.join(&key(3)).await);
    knows(&honest, &node).await;
    knows(&hostile, &node).await;
    let there = |who: &Arc<dyn Network>| node.peers().iter().any(|info| info.peer == who.local());

    // A few are tolerated: a clock may be wrong.
    let (under, _) = contact(9, 1);
    for _ in 0..TOLERATED / 2 {
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
    }
    assert!(there(&hostile));
    let mut written = TOLERATED / 2;
    while there(&hostile) && written < 4 * TOLERATED {
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
        written += 1;
    }
    until("it is banned", || !there(&hostile)).await;
    assert!(written >= TOLERATED, "after {written}");
    // It cannot reconnect: its dials may succeed, but no connection is usable.
    let _calls = node.accept("/test/door/1").expect("nobody else does");
    for _ in 0..20 {
        let _ = hostile.dial(Some(node.local()), node.listening()).await;
        assert!(hostile.open(node.local(), "/test/door/1").await.is_err());
        assert!(!there(&hostile));
    }
    until("nor is it recommended to others", || !node.routing().nodes().contains(&hostile.local())).await;
    assert!(honest.open(node.local(), "/test/door/1").await.is_ok());

    assert!(there(&honest));
    let (under, value) = contact(2, 1);
    honest.routing().put(under, value).await.expect("it is kept");
    until("an honest peer's contact is kept", || node.routing().stats().values == 1).await;
}
