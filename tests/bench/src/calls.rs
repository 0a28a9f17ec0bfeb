//! A signed 1 KiB call over libp2p, against the same two signatures and two verifications over raw TCP. Two processes
//! each, run alternately.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use althing_communication::{
    Answer, Caller, Communication, CommunicationConfig, Entropy, Inbound, Network, Request, StreamLimits, WallClock,
};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::{PublicKey, SecretKey, sign1};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use rand::Rng as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::figures::{Goals, median, percentile, us};

pub const PROTOCOL: &str = "/althing/bench/1";
const BODY: usize = 1_024;
const ROUNDS: usize = 11;
const CALLS: usize = 400;
const IN_FLIGHT: usize = 64;
const BYTES_MAX: usize = 1 << 16;
/// The median time of a call, as a multiple of the floor's. At most 1.2 times the documented figure would be 1.4;
/// what was wanted from the beginning is less.
const P50_RATIO_MAX: f64 = 1.25;
/// The slowest call in a hundred, as a multiple of the floor's: at most 1.2 times the documented figure.
const P99_RATIO_MAX: f64 = 1.37;
/// Calls a second with many in flight, as a share of the floor's: at least 0.8 times the documented figure.
const RATE_RATIO_MIN: f64 = 0.71;

struct Echo;

impl Inbound for Echo {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        futures::future::ready(Answer::Response(request.body)).boxed()
    }
}

pub async fn communication() -> (Communication, PublicKey) {
    let (network, key) = network().await;
    let communication = Communication::start(
        network,
        key.clone(),
        watch::channel(None).1,
        CommunicationConfig::default(),
        WallClock::new(|| 0),
        Entropy::new(|bytes| rand::rng().fill(bytes)),
    );
    (communication, key.public())
}

/// A node's transport, with a key of its own.
pub async fn network() -> (Arc<dyn Network>, SecretKey) {
    let key = SecretKey::from_seed(&rand::rng().random());
    let config = Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        ..Libp2pConfig::new("althing", WallClock::new(|| 0))
    };
    (Arc::new(Libp2pNetwork::start(&key, config).await.expect("a network")), key)
}

/// Child: answers calls over libp2p until it is killed.
pub async fn peer_libp2p() {
    let (communication, key) = communication().await;
    communication.serve(PROTOCOL, StreamLimits::default(), Arc::new(Echo)).expect("nobody else serves it");
    println!("{} {}", key.did(), communication.network().listening()[0]);
    std::future::pending::<()>().await;
}

/// Child: verifies and signs over raw TCP until it is killed.
pub async fn peer_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("- {}", listener.local_addr().expect("an address"));
    let key = SecretKey::from_seed(&rand::rng().random());
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("an option of TCP");
        let key = key.clone();
        tokio::spawn(async move {
            let mut known = None;
            while let Some(bytes) = receive(&mut stream).await {
                let payload = verify(&bytes, &mut known);
                send(&mut stream, &sign1::seal(payload, b"floor", &key)).await;
            }
        });
    }
}

/// Verifies as frames are verified: the peer's key is known from its first message on.
fn verify(bytes: &[u8], known: &mut Option<PublicKey>) -> Vec<u8> {
    let signed = sign1::read_known(bytes, BYTES_MAX, *known).expect("a signed frame");
    *known = Some(signed.signer());
    signed.verify(b"floor").expect("a valid signature").to_vec()
}

/// A connection of the floor.
struct Floor {
    stream: TcpStream,
    known: Option<PublicKey>,
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a short frame");
    stream.write_all(&[&len.to_be_bytes()[..], bytes].concat()).await.expect("a write");
}

async fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let len = stream.read_u32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(len).expect("a short frame").min(BYTES_MAX)];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

pub async fn child(word: &str) -> (Child, String, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(word);
    started(command).await
}

/// A child that prints its key and its address in one line.
pub async fn started(mut command: Command) -> (Child, String, String) {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a child process");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let line = lines.next_line().await.expect("a line").expect("an address");
    let (key, address) = line.split_once(' ').expect("two words");
    (child, key.to_owned(), address.to_owned())
}

/// The payload of the floor: strict CBOR of the same size.
fn payload() -> Vec<u8> {
    let mut bytes = vec![0x59, 0x04, 0x00];
    bytes.extend_from_slice(&[7; BODY]);
    bytes
}

async fn floor_call(floor: &mut Floor, key: &SecretKey) {
    send(&mut floor.stream, &sign1::seal(payload(), b"floor", key)).await;
    let answer = receive(&mut floor.stream).await.expect("an answer");
    assert_eq!(verify(&answer, &mut floor.known).len(), BODY + 3);
}

async fn libp2p_call(communication: &Communication, peer: PublicKey) {
    let request = Request::new("echo", vec![7; BODY]);
    assert_eq!(communication.call(peer, PROTOCOL, request).await.expect("an answer").len(), BODY);
}

/// Calls one after the other; the times of each.
async fn floor_one(floor: &mut Floor, key: &SecretKey) -> Vec<Duration> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        floor_call(floor, key).await;
        times.push(begun.elapsed());
    }
    times
}

async fn libp2p_one(communication: &Communication, peer: PublicKey) -> Vec<Duration> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        libp2p_call(communication, peer).await;
        times.push(begun.elapsed());
    }
    times
}

/// The median time of a signed call between two processes.
pub async fn signed_call() -> Duration {
    let (_child, did, address) = child("peer-libp2p").await;
    let peer = PublicKey::from_did(&did).expect("a DID");
    let (communication, _) = communication().await;
    communication.network().dial(Some(peer), vec![address]).await.expect("a connection");
    libp2p_one(&communication, peer).await; // warming up
    percentile(&mut libp2p_one(&communication, peer).await, 0.5)
}

/// Calls a second with many in flight.
async fn floor_many(floors: &mut [Floor], key: &SecretKey) -> f64 {
    let begun = Instant::now();
    let each = CALLS * 4 / floors.len();
    let all = floors.iter_mut().map(|floor| async move {
        for _ in 0..each {
            floor_call(floor, key).await;
        }
    });
    // As many tasks as the other side has: both use both cores.
    futures::stream::iter(all).buffer_unordered(IN_FLIGHT).collect::<Vec<()>>().await;
    rate(each * floors.len(), begun)
}

async fn libp2p_many(communication: &Communication, peer: PublicKey) -> f64 {
    let begun = Instant::now();
    let each = CALLS * 4 / IN_FLIGHT;
    let all = (0..IN_FLIGHT).map(|_| async move {
        for _ in 0..each {
            libp2p_call(communication, peer).await;
        }
    });
    futures::stream::iter(all).buffer_unordered(IN_FLIGHT).collect::<Vec<()>>().await;
    rate(each * IN_FLIGHT, begun)
}

fn rate(calls: usize, begun: Instant) -> f64 {
    let calls = u32::try_from(calls).expect("a few thousand calls");
    f64::from(calls) / begun.elapsed().as_secs_f64()
}

/// What the rounds gave, ours and the floor's.
#[derive(Default)]
struct Measured {
    ours: Vec<Duration>,
    floors: Vec<Duration>,
    p50_ratios: Vec<f64>,
    our_rates: Vec<f64>,
    floor_rates: Vec<f64>,
    rate_ratios: Vec<f64>,
}

/// Prints the ratios; true if they meet their goals.
pub async fn run() -> bool {
    let (_libp2p_child, did, address) = child("peer-libp2p").await;
    let (_tcp_child, _, tcp) = child("peer-tcp").await;
    let peer = PublicKey::from_did(&did).expect("a DID");
    let (communication, _) = communication().await;
    communication.network().dial(Some(peer), vec![address]).await.expect("a connection");
    let key = SecretKey::from_seed(&rand::rng().random());
    let mut streams = Vec::new();
    for _ in 0..IN_FLIGHT {
        let stream = TcpStream::connect(&tcp).await.expect("a connection");
        stream.set_nodelay(true).expect("an option of TCP");
        streams.push(Floor { stream, known: None });
    }
    let mut measured = Measured::default();
    for round in 0..=ROUNDS {
        // In spawned tasks, as a node's calls are: the runtime's main thread would need a wake-up by another thread each time.
        let (mut first, signs) = (streams.swap_remove(0), key.clone());
        let floor = tokio::spawn(async move { (floor_one(&mut first, &signs).await, first) });
        let (mut floor, first) = floor.await.expect("no panic");
        streams.push(first);
        let calling = communication.clone();
        let libp2p = tokio::spawn(async move { libp2p_one(&calling, peer).await });
        let mut libp2p = libp2p.await.expect("no panic");
        let floor_rate = floor_many(&mut streams, &key).await;
        let libp2p_rate = libp2p_many(&communication, peer).await;
        if round == 0 {
            continue; // warming up
        }
        measured.p50_ratios.push(us(percentile(&mut libp2p, 0.5)) / us(percentile(&mut floor, 0.5)));
        measured.rate_ratios.push(libp2p_rate / floor_rate);
        measured.ours.append(&mut libp2p);
        measured.floors.append(&mut floor);
        measured.our_rates.push(libp2p_rate);
        measured.floor_rates.push(floor_rate);
    }
    told(measured)
}

/// Prints them; true if they meet their goals.
fn told(measured: Measured) -> bool {
    let Measured { mut ours, mut floors, p50_ratios, our_rates, floor_rates, rate_ratios } = measured;
    let mut goals = Goals::default();
    println!(
        "signed 1 KiB call over libp2p, against sign → TCP → verify → sign → TCP → verify ({ROUNDS} rounds, alternating)"
    );
    let (p50, floor_p50) = (us(percentile(&mut ours, 0.5)), us(percentile(&mut floors, 0.5)));
    let (p99, floor_p99) = (us(percentile(&mut ours, 0.99)), us(percentile(&mut floors, 0.99)));
    let (p50_ratio, p99_ratio) = (median(p50_ratios), p99 / floor_p99);
    println!(
        "  one in flight:  p50 {p50:.0} µs, floor {floor_p50:.0} µs, ratio {p50_ratio:.2} {}",
        goals.at_most(p50_ratio, P50_RATIO_MAX)
    );
    println!(
        "                  p99 {p99:.0} µs, floor {floor_p99:.0} µs, ratio {p99_ratio:.2} {}",
        goals.at_most(p99_ratio, P99_RATIO_MAX)
    );
    let (rate, floor_rate, rate_ratio) = (median(our_rates), median(floor_rates), median(rate_ratios));
    println!(
        "  {IN_FLIGHT} in flight:  {rate:.0}/s, floor {floor_rate:.0}/s, ratio {rate_ratio:.2} {}",
        goals.at_least(rate_ratio, RATE_RATIO_MIN)
    );
    goals.are_met()
}
