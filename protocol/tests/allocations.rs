//! What others send makes nobody allocate more than four times as much (threat 15): every entry of the protocol, with what
//! it accepts, with that changed, and with heads that claim more than follows.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::keylog::KeyEvent;
use althing_protocol::keyring::{self, News};
use althing_protocol::object::{self, Description, Grant, Membership, Placement};
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_protocol::{
    AgentId, Evidence, Frame, FrameKind, FrameOpener, FrameSealer, Hello, KeyLog, PublicKey, SecretKey, StreamBinding,
    cbor, sign1,
};

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;
/// How much more may be allocated than came.
const TIMES: usize = 4;
/// What is allocated however little comes: keys, names, errors, how deep something is.
const AT_LEAST: usize = 4_096;

/// The system's allocator, which counts what each thread holds.
struct Counting;

thread_local! {
    /// Bytes that this thread holds, and the most that it held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(bytes: isize) {
    let (held, most) = HELD.get();
    HELD.set((held + bytes, most.max(held + bytes)));
}

#[expect(unsafe_code, reason = "that is what an allocator is; it adds numbers to the system's")]
// SAFETY: everything is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size().cast_signed());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(-layout.size().cast_signed());
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that is held beyond what was before, while `with` runs.
fn most<T>(with: impl FnOnce() -> T) -> usize {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    let outcome = with();
    let (_, most) = HELD.get();
    drop(outcome);
    (most - before).cast_unsigned()
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// The stream of `protocol/vectors/frames.json`.
fn stream() -> StreamBinding {
    StreamBinding {
        network: NETWORK.to_owned(),
        protocol: "/althing/call/1".to_owned(),
        opener: key(1).public(),
        acceptor: key(2).public(),
        opener_challenge: [0xa0; 32],
        acceptor_challenge: [0xb0; 32],
    }
}

type Entry = (&'static str, fn(&[u8]) -> usize);

/// Every entry that peers reach, and what it holds at most for some bytes.
const ENTRIES: &[Entry] = &[
    ("the validator", |bytes| most(|| cbor::check(bytes, 2 << 20))),
    ("an envelope", |bytes| most(|| sign1::read(bytes, 2 << 20).and_then(|envelope| envelope.verify(&[])))),
    ("an opening", |bytes| most(|| Hello::decode(bytes, NETWORK))),
    ("a frame", |bytes| {
        let mut opener = FrameOpener::new(&stream(), key(2).public());
        most(|| opener.open(bytes))
    }),
    ("a description", |bytes| most(|| object::open::<Description>(bytes, NETWORK, ""))),
    ("a grant", |bytes| most(|| object::open::<Grant>(bytes, NETWORK, ""))),
    ("a placement", |bytes| most(|| object::open::<Placement>(bytes, NETWORK, ""))),
    ("a key event", |bytes| most(|| object::open::<KeyEvent>(bytes, "", ""))),
    ("a membership", |bytes| most(|| object::open::<Membership>(bytes, NETWORK, ""))),
    ("a contact", |bytes| most(|| object::open::<Contact>(bytes, NETWORK, ""))),
    ("a key log", |bytes| most(|| KeyLog::verify(&[bytes]))),
    ("evidence", |bytes| {
        let agent = AgentId::new(key(3).public(), "echo").expect("a good name");
        most(|| Evidence::decode(bytes).map(|evidence| evidence.verify(NETWORK, &agent, key(6).public(), NOW_MS)))
    }),
    ("a value of the table", |bytes| {
        let under = [RecordKey::contact(NETWORK, key(6).public()), RecordKey::key_log(NETWORK, key(3).public())];
        under.into_iter().map(|key| most(|| Value::open(key, bytes, NETWORK, NOW_MS))).max().unwrap_or(0)
    }),
    ("an inquiry", |bytes| most(|| Inquiry::decode(bytes))),
    ("a testimony", |bytes| most(|| Testimony::decode(bytes))),
    ("news of keys", |bytes| most(|| News::decode(bytes))),
    ("what is known of keys", |bytes| most(|| keyring::decode_known(bytes))),
    ("a name", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        most(|| (PublicKey::from_did(&text), PublicKey::from_peer_id(&text), text.parse::<AgentId>()))
    }),
];

/// The bytes in every vector of the protocol.
fn vectors() -> Vec<Vec<u8>> {
    fn collect(value: &serde_json::Value, into: &mut Vec<Vec<u8>>) {
        match value {
            serde_json::Value::String(text) if text.len() >= 2 && text.len().is_multiple_of(2) => {
                let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
                into.extend(bytes.collect::<Option<Vec<u8>>>());
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
            serde_json::Value::Object(members) => members.values().for_each(|value| collect(value, into)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")).expect("vectors") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(path).expect("it can be read");
            collect(&serde_json::from_str(&text).expect("JSON"), &mut all);
        }
    }
    assert!(all.len() > 500, "{} vectors", all.len());
    all
}

/// A head of CBOR.
fn head(major: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![major << 5 | 27];
    bytes.extend(value.to_be_bytes());
    bytes
}

/// What claims to be more than it is, and what is as much as may be in as few bytes as may be.
fn bombs() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for major in 2..6 {
        for claims in [1 << 12, 1 << 20, 1 << 32, u64::MAX] {
            all.push(head(major, claims));
            all.push([head(major, claims), vec![0; 4_000]].concat());
        }
    }
    all.push([vec![0x81; 31], vec![0x80]].concat());
    for item in [0x00, 0x60, 0x40, 0x80, 0xa0, 0xf6] {
        all.push([vec![0x99, 0x0f, 0xff], vec![item; 4_095]].concat());
    }
    all.push(vec![0x40; 1 << 20]);
    all
}

/// What is large and holds: frames as long as may be.
fn large() -> Vec<Vec<u8>> {
    [1usize << 10, 64 << 10, 1 << 20]
        .into_iter()
        .filter_map(|len| {
            let frame =
                Frame { operation: Some("SendMessage".to_owned()), ..Frame::new(FrameKind::Request, vec![7; len]) };
            FrameSealer::new(&stream(), key(1)).seal(frame).ok()
        })
        .collect()
}

/// Changes a few bytes, where a seed says.
fn changed(bytes: &[u8], seed: &mut u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut draw = |below: usize| {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        usize::try_from(*seed >> 16).unwrap_or(0) % below.max(1)
    };
    for _ in 0..=draw(3) {
        let at = draw(bytes.len());
        match draw(4) {
            0 if !bytes.is_empty() => bytes[at] = u8::try_from(draw(256)).unwrap_or(0),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, head(u8::try_from(draw(6)).unwrap_or(0), 1 << draw(40)))),
            _ => drop(bytes.splice(at..at, bytes.clone().into_iter().take(draw(512)))),
        }
    }
    bytes
}

fn bounded(bytes: &[u8], worst: &mut (f64, String)) {
    for (what, hold) in ENTRIES {
        let held = hold(bytes);
        let bound = TIMES * bytes.len() + AT_LEAST;
        assert!(held <= bound, "{what} holds {held} bytes for {} that came: {bytes:02x?}", bytes.len());
        let times = held.saturating_sub(AT_LEAST) as f64 / bytes.len().max(1) as f64;
        if times > worst.0 {
            *worst = (times, format!("{what}: {held} bytes for {}", bytes.len()));
        }
    }
}

#[test]
fn nothing_that_comes_takes_more_than_four_times_its_bytes() {
    let mut worst = (0.0, String::new());
    for bytes in bombs().iter().chain(&large()) {
        bounded(bytes, &mut worst);
    }
    let mut seed = 0x416c_7468_696e_6721;
    for bytes in &vectors() {
        bounded(bytes, &mut worst);
        for _ in 0..20 {
            bounded(&changed(bytes, &mut seed), &mut worst);
        }
    }
    println!("at most {:.1} times and {AT_LEAST} bytes: {}", worst.0, worst.1);
    // The measure measures.
    assert!(most(|| vec![0u8; 100_000]) >= 100_000);
}
