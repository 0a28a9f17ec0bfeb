//! A node under fire: 100,000 hostile writes to its table, 1,000 connections that say nothing, or noise, ever so slowly;
//! and what an honest peer feels of it.
//!
//! The attackers have the lowest priority of the machine's processors, which they would else take from the node: what is
//! measured is what the node does with what they send.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use althing_communication::Request;
use althing_discovery::PLACEMENTS;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_protocol::{PublicKey, SecretKey};
use futures::StreamExt as _;
use libp2p::identity::Keypair;
use libp2p::kad::store::{MemoryStore, MemoryStoreConfig};
use libp2p::kad::{self, Quorum};
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, noise, tcp, yamux};
use rand::{Rng as _, RngCore as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::calls::communication;
use crate::figures::{percentile, us};
use crate::idle;

const NETWORK: &str = "althing";
/// Hostile writes in all, and by how many nodes.
const WRITES: usize = 100_000;
const WRITERS: usize = 8;
/// What is not written by then is not.
const ATTACK_MAX: Duration = Duration::from_secs(240);
/// Writes of one node that are under way.
const IN_FLIGHT: usize = 64;
/// Connections that are held open.
const HELD: usize = 1_000;
/// Honest calls, and the time between two.
const CALLS: usize = 1_000;
const EVERY: Duration = Duration::from_millis(10);

/// Child: attacks the node at the address that it is given, and says when it is done.
pub async fn attack() {
    let words: Vec<String> = std::env::args().collect();
    let (peer, address): (PeerId, Multiaddr) =
        (words[2].parse().expect("a peer"), words[3].parse().expect("an address"));
    let held = tokio::spawn(hold(words[3].clone()));
    println!("begun");
    let ended = Arc::new(AtomicUsize::new(0));
    let writing = (0..WRITERS).map(|number| tokio::spawn(write(number, peer, address.clone(), ended.clone())));
    // What is not done by then is said.
    let _ = tokio::time::timeout(ATTACK_MAX, futures::future::join_all(writing)).await;
    println!("{}", ended.load(Ordering::Relaxed));
    // Whoever started this ends it.
    let _ = held.await;
}

/// Connections that are never of use: silent ones, and ones that say a byte a second.
async fn hold(address: String) {
    let parts: Vec<&str> = address.split('/').collect();
    let at = format!("{}:{}", parts[2], parts[4]);
    let one = |number: usize| {
        let at = at.clone();
        async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(&at).await {
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

fn swarm(key: &SecretKey) -> Swarm<kad::Behaviour<MemoryStore>> {
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
            let store =
                MemoryStoreConfig { max_records: 1 << 20, max_value_bytes: 1 << 20, ..MemoryStoreConfig::default() };
            kad::Behaviour::with_config(local, MemoryStore::with_config(local, store), kad::Config::new(name))
        })
        .expect("a behaviour")
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(600)))
        .build()
}

/// One of them: noise, others' contacts signed by it, values that are too long, and keys that mean nothing.
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

async fn write(number: usize, peer: PeerId, address: Multiaddr, all: Arc<AtomicUsize>) {
    let key = SecretKey::from_seed(&rand::rng().random());
    let mut swarm = swarm(&key);
    swarm.dial(address.with_p2p(peer).expect("a peer")).expect("a dial");
    loop {
        if let SwarmEvent::ConnectionEstablished { .. } = swarm.select_next_some().await {
            break;
        }
    }
    let (mut begun, mut ended) = (0, 0);
    while ended < WRITES / WRITERS {
        while begun < WRITES / WRITERS && begun - ended < IN_FLIGHT {
            begun += 1;
            let record = bad(begun + number, &key);
            swarm.behaviour_mut().put_record_to(record, std::iter::once(peer), Quorum::One);
        }
        match swarm.select_next_some().await {
            SwarmEvent::Behaviour(kad::Event::OutboundQueryProgressed { .. }) => {
                ended += 1;
                all.fetch_add(1, Ordering::Relaxed);
            }
            SwarmEvent::ConnectionClosed { .. } => {
                // Thrown out: it comes again.
                let _ = swarm.dial(peer);
            }
            _ => {}
        }
    }
}

/// Honest calls: a signed question to the node, and its signed answer.
async fn honest(at: &althing_communication::Communication, node: PublicKey, calls: usize) -> Vec<Duration> {
    let inquiry = Inquiry { capability: Some("nothing.has-this".to_owned()), ..Inquiry::default() }.encode();
    let (mut times, mut next) = (Vec::with_capacity(calls), Instant::now());
    for _ in 0..calls {
        next += EVERY;
        tokio::time::sleep_until(next.into()).await;
        let begun = Instant::now();
        at.call(node, PLACEMENTS, Request::new("find", inquiry.clone())).await.expect("an answer");
        times.push(begun.elapsed());
        next = next.max(Instant::now());
    }
    times
}

async fn attackers(peer: PublicKey, address: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new("nice");
    child.args(["-n", "19"]).arg(program).args(["attack", &peer.peer_id(), address]);
    child.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("attackers")
}

async fn status(program: &PathBuf, folder: &std::path::Path) -> serde_json::Value {
    let mut command = Command::new(program);
    command.args(["--json", "--data"]).arg(folder.join("data")).arg("status").env("XDG_CONFIG_HOME", folder);
    serde_json::from_slice(&command.output().await.expect("a status").stdout).expect("JSON")
}

/// Prints what an honest peer felt, and what the node kept.
pub async fn run() {
    let mut program: PathBuf = std::env::current_exe().expect("this program");
    program.set_file_name("althing");
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _, said) = idle::node_saying(&program, folder.path()).await;
    let did = PublicKey::from_did(said["node"].as_str().expect("a DID")).expect("a DID");
    let address = said["listening"][0].as_str().expect("an address").to_owned();
    let (communication, _) = communication().await;
    communication.network().dial(Some(did), vec![address.clone()]).await.expect("a connection");
    honest(&communication, did, 100).await;
    let mut quiet = honest(&communication, did, CALLS).await;
    let before = idle::resident(&node);
    let mut attack = attackers(did, &address).await;
    let mut lines = BufReader::new(attack.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line");
    let begun = Instant::now();
    let (mut under_fire, mut most) = (Vec::new(), before);
    let mut done = Box::pin(lines.next_line());
    let writes = loop {
        tokio::select! {
            line = &mut done => break line.expect("its output").unwrap_or_default(),
            times = honest(&communication, did, 100) => under_fire.extend(times),
        }
        most = idle::resident(&node).max(most);
    };
    let took = begun.elapsed();
    let table = status(&program, folder.path()).await["layers"]["l2Communication"]["table"].clone();
    let (quiet99, fire99) = (percentile(&mut quiet, 0.99), percentile(&mut under_fire, 0.99));
    println!(
        "a node under fire: {writes} of {WRITES} hostile writes to its table by {WRITERS} nodes, {HELD} idle connections"
    );
    println!(
        "  honest call: quiet p50 {:.0} p99 {:.0} µs; under fire p50 {:.0} p99 {:.0} µs, ratio of p99 {:.2} (wanted: at most 2); {} calls in {:.0} s",
        us(percentile(&mut quiet, 0.5)),
        us(quiet99),
        us(percentile(&mut under_fire, 0.5)),
        us(fire99),
        fire99.as_secs_f64() / quiet99.as_secs_f64(),
        under_fire.len(),
        took.as_secs_f64()
    );
    println!(
        "  resident: {before:.1} MiB before, {most:.1} MiB at most (wanted: less than 32 more); kept {} values (wanted: 0) and {} provider records, refused {}",
        table["values"], table["providers"], table["refused"]
    );
}
