//! The DHT, on both networks: stored records are found, invalid ones are refused, and the newest wins.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Network, RoutingError};
use althing_conformance::world::{World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_protocol::{KeyLog, PublicKey, SecretKey, keylog};
use tokio::sync::mpsc;

/// A number of nodes, of which each knows the first.
async fn nodes(world: &World, count: u8) -> Vec<Arc<dyn Network>> {
    let mut nodes = Vec::new();
    for number in 1..=count {
        nodes.push(world.join(&key(number)).await);
        if number > 1 {
            connect(&nodes[usize::from(number) - 1], &nodes[0]).await;
        }
    }
    for node in &nodes {
        let enough = usize::from(count - 1).min(5);
        until("the node knows others", || node.routing().nodes().len() >= enough).await;
    }
    nodes
}

fn capability(id: &str) -> RecordKey {
    RecordKey::capability(NETWORK, id)
}

async fn providers(node: &Arc<dyn Network>, key: RecordKey) -> Vec<PublicKey> {
    let (found, mut heard) = mpsc::channel(64);
    let looked = node.routing().providers(key, found).await;
    assert!(looked.is_ok() || looked == Err(RoutingError::Alone), "{looked:?}");
    let mut providers = Vec::new();
    while let Ok(provider) = heard.try_recv() {
        assert!(!provider.addresses.is_empty(), "{provider:?} cannot be dialled");
        providers.push(provider.node);
    }
    providers.sort_unstable();
    providers
}

async fn values(node: &Arc<dyn Network>, key: RecordKey) -> Vec<Vec<u8>> {
    let (found, mut heard) = mpsc::channel(64);
    node.routing().get(key, found).await.expect("a look-up");
    std::iter::from_fn(|| heard.try_recv().ok()).collect()
}

fn contact(of: &SecretKey, sequence: u64) -> (RecordKey, Vec<u8>) {
    let addresses = vec!["/ip4/192.0.2.7/tcp/7421".to_owned()];
    let body = Contact::new(of.public(), sequence, NOW_MS, NOW_MS + 3_600_000, addresses);
    let contact = object::sign(body, NETWORK, "", of).expect("a contact");
    (RecordKey::contact(NETWORK, of.public()), Value::Contact(contact).encode())
}

/// Runs a case on both networks.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod simulated {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(super::World::simulated()).await;
            })*
        }
        mod libp2p {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::World::Libp2p).await;
            })*
        }
    };
}

on_both! {
    who_provides_something_is_found_by_those_who_never_met_it
    what_does_not_hold_is_not_kept
    the_newest_value_wins
    a_node_alone_says_so
}

/// Tells it again while nobody answers in time, as on a busy machine.
async fn told<T, F: Future<Output = Result<T, RoutingError>>>(tell: impl Fn() -> F) -> T {
    for _ in 0..20 {
        match tell().await {
            Err(RoutingError::Unanswered) => {}
            told => return told.expect("somebody to tell"),
        }
    }
    panic!("nobody ever answers");
}

async fn who_provides_something_is_found_by_those_who_never_met_it(world: World) {
    let nodes = nodes(&world, 8).await;
    for provider in [2, 5] {
        told(|| nodes[provider].routing().provide(capability("billing.view"))).await;
    }
    let mut expected = vec![nodes[2].local(), nodes[5].local()];
    expected.sort_unstable();
    for seeker in [1, 3, 7] {
        assert_eq!(providers(&nodes[seeker], capability("billing.view")).await, expected, "node {seeker}");
        assert_eq!(providers(&nodes[seeker], capability("billing.pay")).await, []);
    }
    let kept = || nodes.iter().map(|node| node.routing().stats().providers).sum::<usize>();
    until("others keep it", || kept() >= 2).await;
}

async fn what_does_not_hold_is_not_kept(world: World) {
    let nodes = nodes(&world, 4).await;
    let (own, good) = contact(&key(200), 7);
    let (_, strangers) = contact(&key(201), 7);
    let mut bent = good.clone();
    *bent.last_mut().expect("not empty") ^= 1;
    for bad in [strangers, bent, b"nonsense".to_vec(), vec![0; 11 << 10]] {
        // What the storing nodes answer does not matter.
        let _ = nodes[1].routing().put(own, bad).await;
    }
    until("all of it was refused", || nodes[0].routing().stats().refused >= 4).await;
    for node in &nodes {
        assert_eq!(node.routing().stats().values, 0);
    }
    told(|| nodes[1].routing().put(own, good.clone())).await;
    until("it is kept", || nodes[0].routing().stats().values == 1).await;
    assert!(values(&nodes[3], own).await.contains(&good));
}

async fn the_newest_value_wins(world: World) {
    let nodes = nodes(&world, 4).await;
    let somebody = key(200);
    let (under, newest) = contact(&somebody, 9);
    told(|| nodes[1].routing().put(under, newest.clone())).await;
    until("it is kept", || nodes[0].routing().stats().values == 1).await;
    for sequence in 1..=8 {
        told(|| nodes[2].routing().put(under, contact(&somebody, sequence).1)).await;
    }
    until("the older ones are refused", || nodes[0].routing().stats().refused >= 8).await;
    assert_eq!(values(&nodes[3], under).await.iter().filter(|value| **value != newest).count(), 0);
    // A longer key log replaces its prefix.
    let event = keylog::inception(&somebody, [key(201).public(), key(202).public()], NOW_MS);
    let short = KeyLog::verify(&[event.bytes]).expect("a key log");
    let long = short.rotate(&key(201), key(203).public(), NOW_MS, 0).expect("the next key");
    let under = RecordKey::key_log(NETWORK, short.publisher());
    let value = Value::KeyLog(short).encode();
    told(|| nodes[1].routing().put(under, value.clone())).await;
    let long = Value::KeyLog(long).encode();
    // Whoever keeps the key has kept the short log before, or hears of it late: in the end it is the long one everywhere. It is
    // said again and again, as nodes say what they want kept: who has much to verify of one sender drops what comes then, and
    // what is under way on one of two connections is lost with that.
    let mut found = Vec::new();
    for _ in 0..500 {
        told(|| nodes[2].routing().put(under, long.clone())).await;
        found = values(&nodes[3], under).await;
        if found.len() == nodes.len() && found.iter().all(|value| *value == long) {
            return;
        }
    }
    panic!(
        "{} logs are found, {} of them the long one",
        found.len(),
        found.iter().filter(|value| **value == long).count()
    );
}

async fn a_node_alone_says_so(world: World) {
    let alone = world.join(&key(1)).await;
    assert_eq!(alone.routing().provide(capability("a")).await, Err(RoutingError::Alone));
    assert_eq!(providers(&alone, capability("a")).await, []);
    // A record stored while the node was alone is found by later nodes.
    let other = world.join(&key(2)).await;
    connect(&other, &alone).await;
    until("they know each other", || !other.routing().nodes().is_empty()).await;
    assert_eq!(providers(&other, capability("a")).await, [alone.local()]);
    alone.routing().stop_providing(capability("a"));
    let mut left = vec![alone.local()];
    for _ in 0..100 {
        left = providers(&other, capability("a")).await;
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(left, []);
}
