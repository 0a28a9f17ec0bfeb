//! A peer that wants rubbish kept in the table is shut out; others, and what they want kept, are not.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Network, WallClock};
use althing_conformance::world::{World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use tokio::time::Instant;

/// What the node bears of one peer.
const BORNE: usize = 64;

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

/// Writes rubbish until the node has enough of it.
async fn write_until_out(node: &Arc<dyn Network>, hostile: &Arc<dyn Network>) {
    let (under, _) = contact(9, 1);
    let there = || node.peers().iter().any(|info| info.peer == hostile.local());
    for _ in 0..4 * BORNE {
        if !there() {
            return;
        }
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
    }
    until("it is shut out", || !there()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_shut_out_may_come_again_when_its_time_is_over() {
    let world = World::Libp2p;
    let shut_out = Duration::from_secs(4);
    let config = Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        shut_out,
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
        // A connection may end at the very moment at which a stream is wanted on it.
        if tokio::time::timeout(patience, opening).await.expect("an opening ends").is_ok() {
            break;
        }
        refused += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "it is out for ever");
    }
    // That it was out was noticed a moment later.
    assert!(refused > 0 && begun.elapsed() >= shut_out / 2, "{refused} times, {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_rubbish_is_shut_out() {
    let world = World::Libp2p;
    let (node, honest, hostile) = (world.join(&key(1)).await, world.join(&key(2)).await, world.join(&key(3)).await);
    knows(&honest, &node).await;
    knows(&hostile, &node).await;
    let there = |who: &Arc<dyn Network>| node.peers().iter().any(|info| info.peer == who.local());

    // A few are borne: a clock may be wrong.
    let (under, _) = contact(9, 1);
    for _ in 0..BORNE / 2 {
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
    }
    assert!(there(&hostile));
    let mut written = BORNE / 2;
    while there(&hostile) && written < 4 * BORNE {
        let _ = hostile.routing().put(under, vec![0xff; 100]).await;
        written += 1;
    }
    until("it is shut out", || !there(&hostile)).await;
    assert!(written >= BORNE, "after {written}");
    // It does not come in again: whatever its dials tell it, no connection is of any use.
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
    until("an honest peer's contact is kept", || node.routing().kept().values == 1).await;
}
