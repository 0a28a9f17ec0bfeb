//! Thousands of malformed streams, frames and objects against a real node: each is refused, and the node is as well
//! afterwards as before.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use althing_communication::{BoxedStream, CallError, Communication, CommunicationConfig, Entropy, Network, WallClock};
use althing_e2e::{Machine, Node, cast};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object::{self, Placement};
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{Frame, FrameKind, FrameSealer, Hello, PublicKey, SecretKey, StreamBinding};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

const NETWORK: &str = "althing";
const CALL: &str = "/althing/call/1";
const PLACEMENTS: &str = "/althing/placements/1";
const DESCRIBE: &str = "/althing/describe/1";
/// Malformed streams, and malformed objects in honest frames, of each kind.
const STREAMS: u64 = 2_500;
const OBJECTS: u64 = 1_500;
/// Growth of the node's memory that is allowed over the whole attack. All of it comes on one connection, one stream
/// after the other, in frames of a few KiB, and nothing of it stays but a span, in a ring of 4 MiB. The allocator may
/// keep as much.
const GROWTH_KIB_MAX: u64 = 8 << 10;
/// Growth over the second half of it: what a node takes once it has then, but for the rest of the ring.
const LATER_KIB_MAX: u64 = 5 << 10;
/// Nothing that is refused is held open for longer.
const ANSWERED: Duration = Duration::from_secs(30);

/// xorshift64: the same attack every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("64 bits") % limit
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256).to_le_bytes()[0]).collect()
    }

    /// One to four bytes of `good` changed, cut off or added.
    fn spoil(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bad = good.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bad.len().max(1)).min(bad.len().saturating_sub(1));
            match self.below(4) {
                0 if !bad.is_empty() => bad.truncate(at),
                1 => bad.insert(at, self.below(256).to_le_bytes()[0]),
                _ if !bad.is_empty() => bad[at] ^= 1 << self.below(8),
                _ => bad.push(0),
            }
        }
        if bad == good { self.spoil(good) } else { bad }
    }
}

struct Attacker {
    network: std::sync::Arc<dyn Network>,
    key: SecretKey,
    victim: PublicKey,
}

fn prefixed(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("a length").to_be_bytes(), bytes].concat()
}

/// The next message; `None` once the stream is closed.
async fn read(raw: &mut BoxedStream) -> Option<Vec<u8>> {
    let len = raw.read_u32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(len).expect("a length")];
    raw.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

impl Attacker {
    /// Opens a stream and says hello on it honestly.
    async fn greeted(&self) -> (BoxedStream, FrameSealer) {
        let mut raw = self.network.open(self.victim, CALL).await.expect("a stream");
        let hello = Hello { version: FRAME_VERSION, challenge: [9; 32], network: NETWORK.to_owned(), owner: None };
        raw.write_all(&prefixed(&hello.encode())).await.expect("a write");
        raw.flush().await.expect("a flush");
        let theirs = read(&mut raw).await.expect("their hello");
        let theirs = Hello::decode(&theirs, NETWORK).expect("a hello");
        let binding = StreamBinding {
            network: NETWORK.to_owned(),
            protocol: CALL.to_owned(),
            opener: self.key.public(),
            acceptor: self.victim,
            opener_challenge: [9; 32],
            acceptor_challenge: theirs.challenge,
        };
        (raw, FrameSealer::new(&binding, self.key.clone()))
    }

    /// One malformed stream; what comes back must be the end of it, or a typed refusal.
    async fn stream(&self, number: u64, chance: &mut Chance) {
        let bad: Vec<u8>;
        let mut raw;
        if number.is_multiple_of(4) {
            raw = self.network.open(self.victim, CALL).await.expect("a stream");
            let hello = Hello { version: FRAME_VERSION, challenge: [7; 32], network: NETWORK.to_owned(), owner: None };
            bad = match number % 3 {
                0 => chance.bytes(400),
                1 => prefixed(&chance.spoil(&hello.encode())),
                _ => prefixed(&chance.bytes(2_000)),
            };
        } else {
            let (greeted, mut sealer) = self.greeted().await;
            raw = greeted;
            let operation = Some("SendMessage".to_owned());
            let frame = Frame { operation, ..Frame::new(FrameKind::Request, chance.bytes(2_000)) };
            let good = sealer.seal(frame).expect("a frame");
            bad = match number % 3 {
                0 => prefixed(&chance.bytes(4_000)),
                1 => prefixed(&chance.spoil(&good)),
                // Announced longer or shorter than it is.
                _ => {
                    let mut bad = prefixed(&good);
                    bad[chance.below(4)] ^= 1 << chance.below(8);
                    bad
                }
            };
        }
        // It may be refused before all of it is written.
        let _ = raw.write_all(&bad).await;
        let _ = raw.flush().await;
        let _ = raw.shutdown().await;
        let ended = async { while read(&mut raw).await.is_some() {} };
        let ended = tokio::time::timeout(ANSWERED, ended).await;
        assert!(ended.is_ok(), "stream {number} is held open: {bad:02x?}");
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("64 bits")
}

/// Honest frames around malformed bodies: each is refused with a reason.
async fn objects(
    communication: &Communication,
    key: &SecretKey,
    victim: PublicKey,
    numbers: Range<u64>,
    chance: &mut Chance,
) {
    for number in numbers {
        let mut placement = Placement::new(key.public(), number, now_ms(), 6_000);
        placement.load_permille = 10;
        let good = object::sign(placement, NETWORK, "", key).expect("a placement").bytes;
        let (protocol, operation, body) = match number % 3 {
            0 => (PLACEMENTS, "placement", chance.spoil(&good)),
            1 => (PLACEMENTS, "placement", chance.bytes(3_000)),
            _ => (DESCRIBE, "describe", chance.bytes(1_000)),
        };
        let request = althing_communication::Request::new(operation, body.clone());
        match communication.call(victim, protocol, request).await {
            Err(CallError::Refused { body, .. }) => {
                let text = String::from_utf8(body).expect("JSON");
                assert!(text.contains("\"code\":-32602") || text.contains("AGENT_NOT_HERE"), "{text}");
            }
            other => panic!("object {number}: {other:?}: {body:02x?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::await_holding_lock, reason = "it holds the machine to its end, on a thread of its own")]
async fn thousands_of_malformed_streams_frames_and_objects() {
    let _alone = crate::alone();
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let victim = PublicKey::from_did(&node.did()).expect("a key");
    let key = SecretKey::from_seed(&[42; 32]);
    let config = Libp2pConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
        ..Libp2pConfig::new(NETWORK, WallClock::new(|| 0))
    };
    let network: std::sync::Arc<dyn Network> =
        std::sync::Arc::new(Libp2pNetwork::start(&key, config).await.expect("a network"));
    network.dial(Some(victim), vec![node.address("/ip4/127.0.0.1")]).await.expect("a connection");
    let next = AtomicU64::new(1);
    let entropy = Entropy::new(move |bytes| bytes.fill(next.fetch_add(1, Ordering::Relaxed).to_le_bytes()[0]));
    let config = CommunicationConfig::default();
    let communication = Communication::start(
        network.clone(),
        key.clone(),
        watch::channel(None).1,
        config,
        WallClock::new(now_ms),
        entropy,
    );
    let attacker = Attacker { network, key: key.clone(), victim };
    let mut chance = Chance(0x0dd_ba11);
    for number in 0..100 {
        attacker.stream(number, &mut chance).await;
    }
    let mut memory = vec![node.memory_kib()];
    for half in 0..2 {
        let of = |count: u64| half * count / 2..(half + 1) * count / 2;
        for number in of(STREAMS) {
            attacker.stream(number, &mut chance).await;
        }
        objects(&communication, &key, victim, of(OBJECTS), &mut chance).await;
        memory.push(node.memory_kib());
    }
    println!("measured: {STREAMS} malformed streams and {OBJECTS} objects; KiB before, halfway, after: {memory:?}");
    assert!(memory[2] < memory[0] + GROWTH_KIB_MAX, "memory grew: {memory:?}");
    assert!(memory[2] < memory[1] + LATER_KIB_MAX, "memory goes on growing: {memory:?}");
    alive(&machine, &node);
}

fn alive(machine: &Machine, node: &Node) {
    let said = althing_e2e::http::ask(&node.gateway(), "echo", "SendMessage", &althing_e2e::http::says("still there?"));
    assert_eq!(said["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{said}");
    let refused = &machine.json(&["status"])["layers"];
    println!("layers: {refused}");
}
