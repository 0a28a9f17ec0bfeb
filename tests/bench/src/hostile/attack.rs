//! The attackers: nodes that store forged records, or claim to provide everything, in the table; nodes that send and read
//! very slowly; and useless connections, some of them after the handshake.

use std::time::Duration;

use althing_communication::Network;
use althing_conformance::hostile::{greet_on, request};
use althing_conformance::origins::{by_way_of, socket};
use althing_discovery::PLACEMENTS;
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_protocol::{PublicKey, SecretKey};
use futures::StreamExt as _;
use libp2p::identity::Keypair;
use libp2p::kad::store::{MemoryStore, MemoryStoreConfig};
use libp2p::kad::{self, Quorum};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, noise, ping, tcp, yamux};
use rand::{Rng as _, RngCore as _};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::{ATTACKERS_AT, CROWD, CROWD_AT, HELD, NETWORK, PROVIDERS, SLOW_NODES, SLOW_STREAMS, WRITERS};
use crate::calls::network;

/// Concurrent writes of one node.
const IN_FLIGHT: usize = 64;

/// Child: attacks the node at the given address; prints a line when all attackers are connected, and goes on until it is
/// killed.
pub async fn attack() {
    let words: Vec<String> = std::env::args().collect();
    let peer: PeerId = words[2].parse().expect("a peer");
    let attackers = by_way_of(ATTACKERS_AT, &words[3]).await;
    let address: Multiaddr = attackers[0].parse().expect("an address");
    let victim = PublicKey::from_peer_id(&words[2]).expect("a node's key");
    let (came, mut coming) = mpsc::channel(WRITERS + SLOW_NODES);
    for number in 0..WRITERS {
        tokio::spawn(write(number, peer, address.clone(), came.clone()));
    }
    for _ in 0..SLOW_NODES {
        tokio::spawn(slow(victim, attackers[0].clone(), came.clone()));
    }
    // First those that must get a connection: the others take the slots of later ones.
    for _ in 0..WRITERS + SLOW_NODES {
        coming.recv().await.expect("it comes through");
    }
    for _ in 0..PROVIDERS {
        tokio::spawn(provide(peer, address.clone()));
    }
    let by_way: Multiaddr = by_way_of(CROWD_AT, &words[3]).await[0].parse().expect("an address");
    for _ in 0..CROWD {
        tokio::spawn(crowd(peer, by_way.clone()));
    }
    println!("begun");
    hold(words[3].clone()).await;
}

/// Yields the processor to the node and the honest peer. SCHED_IDLE alone does not: a kernel without high-resolution ticks
/// lets a running attacker continue until the next tick, 4 ms at 250 Hz.
fn give_way() {
    std::thread::yield_now();
}

/// A node that misuses its streams: half of them send a frame byte by byte, the others send requests and never read an
/// answer.
async fn slow(victim: PublicKey, address: String, came: mpsc::Sender<()>) {
    let (network, key) = network().await;
    network.dial(Some(victim), vec![address]).await.expect("a connection");
    let _ = came.send(()).await;
    let one = |number: usize| {
        let (network, key) = (&network, &key);
        async move {
            loop {
                // Refused or disconnected: it connects again.
                let _ = misuse(&**network, key, victim, number.is_multiple_of(2)).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    futures::future::join_all((0..SLOW_STREAMS).map(one)).await;
}

async fn misuse(network: &dyn Network, key: &SecretKey, victim: PublicKey, writes: bool) -> Option<()> {
    let mut raw = network.open(victim, PLACEMENTS).await.ok()?;
    let mut sealer = greet_on(&mut raw, (NETWORK, PLACEMENTS), (key.public(), victim), key).await?;
    loop {
        let frame = sealer.seal(request("find")).ok()?;
        let len = u32::try_from(frame.len()).ok()?.to_be_bytes();
        let bytes = [&len[..], &frame].concat();
        if !writes {
            raw.write_all(&bytes).await.ok()?;
            give_way();
            continue;
        }
        for byte in bytes {
            raw.write_all(&[byte]).await.ok()?;
            raw.flush().await.ok()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Useless connections: silent ones, and ones that send one byte a second.
async fn hold(address: String) {
    let one = |number: usize| {
        let address = address.clone();
        async move {
            loop {
                if let Ok(mut stream) = socket(CROWD_AT, &address).await {
                    while !number.is_multiple_of(2) && stream.write_all(&[0x41]).await.is_ok() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    if number.is_multiple_of(2) {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    futures::future::join_all((0..HELD).map(one)).await;
}

/// An attacker's use of a connection: it answers pings, since it would be disconnected otherwise.
#[derive(NetworkBehaviour)]
struct Hostile {
    kad: kad::Behaviour<MemoryStore>,
    ping: ping::Behaviour,
}

fn swarm(key: &SecretKey) -> Swarm<Hostile> {
    let mut seed = key.seed();
    let keypair = Keypair::ed25519_from_bytes(&mut seed).expect("a key");
    let digest = althing_protocol::hex(&althing_protocol::digest(NETWORK.as_bytes())[..8]);
    let name = StreamProtocol::try_from_owned(format!("/althing/kad/1/{digest}")).expect("a name");
    libp2p::SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .expect("a transport")
        .with_behaviour(|key| {
            let local = key.public().to_peer_id();
            let store = MemoryStoreConfig {
                max_records: 1 << 20,
                max_value_bytes: 1 << 20,
                max_provided_keys: usize::MAX,
                ..MemoryStoreConfig::default()
            };
            let store = MemoryStore::with_config(local, store);
            Hostile {
                kad: kad::Behaviour::with_config(local, store, kad::Config::new(name)),
                ping: ping::Behaviour::default(),
            }
        })
        .expect("a behaviour")
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(600)))
        .build()
}

/// A forged record: random bytes, another node's contact signed by the attacker, an oversized value, or a meaningless key.
fn bad(number: usize, key: &SecretKey) -> kad::Record {
    let mut rng = rand::rng();
    let victim = SecretKey::from_seed(&rng.random()).public();
    let under = RecordKey::contact(NETWORK, victim).to_multihash();
    let noise = |len: usize| {
        let mut bytes = vec![0; len];
        rand::rng().fill_bytes(&mut bytes);
        bytes
    };
    match number % 4 {
        0 => kad::Record::new(under, noise(300)),
        1 => {
            let now_ms = 1_900_000_000_000;
            let body = Contact::new(victim, u64::MAX, now_ms, now_ms + 1_000, vec!["/ip4/127.0.0.1/tcp/1".to_owned()]);
            let forged = object::sign(body, NETWORK, "", key).expect("a good shape");
            kad::Record::new(under, Value::Contact(forged).encode())
        }
        2 => kad::Record::new(under, noise(13 << 10)),
        _ => kad::Record::new(noise(40), noise(100)),
    }
}

/// One more connection that is silent after the handshake.
async fn crowd(peer: PeerId, address: Multiaddr) {
    loop {
        let key = SecretKey::from_seed(&rand::rng().random());
        let mut swarm = swarm(&key);
        swarm.dial(address.clone().with_p2p(peer).expect("a peer")).expect("a dial");
        while !matches!(
            swarm.select_next_some().await,
            SwarmEvent::OutgoingConnectionError { .. } | SwarmEvent::ConnectionClosed { .. }
        ) {}
        // A handshake costs an attacker as much as the node.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// Adds one provider record after the other. That is not an offence: the number that is kept is bounded.
async fn provide(peer: PeerId, address: Multiaddr) {
    loop {
        let mut swarm = swarm(&SecretKey::from_seed(&rand::rng().random()));
        swarm.add_external_address("/ip4/127.0.0.1/tcp/1".parse().expect("an address"));
        swarm.behaviour_mut().kad.add_address(&peer, address.clone());
        let mut under_way = 0;
        loop {
            while under_way < IN_FLIGHT {
                let what = RecordKey::capability(NETWORK, &rand::rng().random::<u64>().to_string());
                let _ = swarm.behaviour_mut().kad.start_providing(what.to_multihash().into());
                under_way += 1;
            }
            let event = swarm.select_next_some().await;
            give_way();
            match event {
                SwarmEvent::Behaviour(HostileEvent::Kad(kad::Event::OutboundQueryProgressed { .. })) => under_way -= 1,
                SwarmEvent::ConnectionClosed { .. } => break,
                _ => {}
            }
        }
    }
}

/// Writes forged records. Once banned, it continues with another identity.
async fn write(number: usize, peer: PeerId, address: Multiaddr, came: mpsc::Sender<()>) {
    loop {
        write_as_one(number, peer, address.clone(), &came).await;
    }
}

/// The writes of one identity, until it is banned.
async fn write_as_one(number: usize, peer: PeerId, address: Multiaddr, came: &mpsc::Sender<()>) {
    let key = SecretKey::from_seed(&rand::rng().random());
    let mut swarm = swarm(&key);
    swarm.dial(address.with_p2p(peer).expect("a peer")).expect("a dial");
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::ConnectionEstablished { .. } => break,
            SwarmEvent::OutgoingConnectionError { .. } => return,
            _ => {}
        }
    }
    // Later ones are not waited for.
    let _ = came.try_send(());
    let (mut begun, mut ended) = (0, 0);
    loop {
        while begun - ended < IN_FLIGHT {
            begun += 1;
            let record = bad(begun + number, &key);
            swarm.behaviour_mut().kad.put_record_to(record, std::iter::once(peer), Quorum::One);
        }
        let event = swarm.select_next_some().await;
        give_way();
        match event {
            SwarmEvent::Behaviour(HostileEvent::Kad(kad::Event::OutboundQueryProgressed { .. })) => ended += 1,
            SwarmEvent::ConnectionClosed { .. } => return,
            _ => {}
        }
    }
}
