//! What others send makes nobody allocate more than four times as much (threat 15): every entry of the protocol, with what
//! it accepts, with that changed, and with heads that claim more than follows.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::keylog::KeyEvent;
use althing_protocol::keyring::{self, News};
use althing_protocol::object::{self, Description, Grant, Membership, Placement};
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_protocol::{
    AgentId, CallerId, Evidence, Frame, FrameKind, FrameOpener, FrameSealer, Hello, KeyLog, PublicKey, PublisherId,
    SecretKey, StreamBinding, cbor, keylog, sign1,
};
use minicbor::bytes::ByteVec;

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;
/// How much more may be allocated than came.
const TIMES: usize = 4;
/// What is allocated however little comes: keys, names, errors, how deep something is.
const AT_LEAST: usize = 4_096;

/// What an item may take beyond its bytes: an empty one is a byte on the way and three words here. There are at most
/// [`ITEMS_MAX`] (P-8).
const OF_AN_ITEM: usize = 64;
const ITEMS_MAX: usize = 4_096;

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

fn both(one: (usize, bool), other: (usize, bool)) -> (usize, bool) {
    (one.0.max(other.0), one.1 || other.1)
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// The publisher of the vectors.
fn publisher() -> PublisherId {
    let first = keylog::inception(&key(3), [key(4).public(), key(5).public()], NOW_MS - 2 * 3_600_000);
    KeyLog::verify(&[first.bytes]).expect("a good inception").publisher()
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

type Entry = (&'static str, fn(&[u8]) -> (usize, bool));

/// The most that is held, and whether what came was taken.
fn of<T, E>(with: impl FnOnce() -> Result<T, E>) -> (usize, bool) {
    let mut taken = false;
    let most = most(|| with().inspect(|_| taken = true).ok());
    (most, taken)
}

/// Every entry that peers reach, and what it holds at most for some bytes.
const ENTRIES: &[Entry] = &[
    ("the validator", |bytes| of(|| cbor::check(bytes, 2 << 20))),
    ("an envelope", |bytes| of(|| sign1::read(bytes, 2 << 20).and_then(|envelope| envelope.verify(&[])))),
    ("an opening", |bytes| of(|| Hello::decode(bytes, NETWORK))),
    ("proof of an owner", |bytes| {
        let owner = |bytes: &[u8]| Hello::decode(bytes, NETWORK).ok()?.owner;
        of(|| owner(bytes).ok_or(()).and_then(|owner| owner.verify(NETWORK).map_err(drop)))
    }),
    ("a frame", |bytes| {
        let mut opener = FrameOpener::new(&stream(), key(2).public());
        of(|| opener.open(bytes))
    }),
    ("a description", |bytes| of(|| object::open::<Description>(bytes, NETWORK, ""))),
    ("a grant", |bytes| of(|| object::open::<Grant>(bytes, NETWORK, ""))),
    ("a placement", |bytes| of(|| object::open::<Placement>(bytes, NETWORK, ""))),
    ("a key event", |bytes| of(|| object::open::<KeyEvent>(bytes, "", ""))),
    ("a membership", |bytes| of(|| object::open::<Membership>(bytes, NETWORK, ""))),
    ("a contact", |bytes| of(|| object::open::<Contact>(bytes, NETWORK, ""))),
    ("a key log", |bytes| of(|| KeyLog::verify(&[bytes]))),
    ("evidence", |bytes| {
        let agent = AgentId::new(publisher(), "echo").expect("a good name");
        of(|| Evidence::decode(bytes).and_then(|evidence| evidence.verify(NETWORK, &agent, key(6).public(), NOW_MS)))
    }),
    ("a value of the table", |bytes| {
        let under = [RecordKey::contact(NETWORK, key(6).public()), RecordKey::key_log(NETWORK, publisher())];
        under.into_iter().map(|key| of(|| Value::open(key, bytes, NETWORK, NOW_MS))).fold((0, false), both)
    }),
    ("an inquiry", |bytes| of(|| Inquiry::decode(bytes))),
    ("a testimony", |bytes| of(|| Testimony::decode(bytes))),
    ("news of keys", |bytes| of(|| News::decode(bytes))),
    ("what is known of keys", |bytes| of(|| keyring::decode_known(bytes))),
    ("a name", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let did = of(|| PublicKey::from_did(&text));
        let peer_or_agent = both(of(|| PublicKey::from_peer_id(&text)), of(|| text.parse::<AgentId>()));
        let publisher = both(of(|| text.parse::<PublisherId>()), of(|| text.parse::<CallerId>()));
        both(did, both(peer_or_agent, publisher))
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

/// What is large and holds: as long as may be, or of as many small parts.
fn large() -> Vec<Vec<u8>> {
    let frame = |len: usize| {
        let frame = Frame { operation: Some("SendMessage".to_owned()), ..Frame::new(FrameKind::Request, vec![7; len]) };
        FrameSealer::new(&stream(), key(1)).seal(frame).expect("a good frame")
    };
    let bytes = |count: usize, len: usize| vec![ByteVec::from(vec![7; len]); count];
    let parts = |events: usize, len: usize| Evidence {
        key_log: bytes(events, len),
        description: vec![7; 200 << 10].into(),
        grant: vec![7; 1_000].into(),
    };
    let testimony = |count: usize| Testimony { placement: vec![7; 100 << 10].into(), evidence: bytes(count, 500) };
    let contact = |addresses: usize| {
        let address = format!("/ip4/192.0.2.1/tcp/{}", "1".repeat(5));
        let body = Contact::new(key(6).public(), 7, NOW_MS - 1_000, NOW_MS + 1_000, vec![address; addresses]);
        let contact = object::sign(body, NETWORK, "", &key(6)).expect("a good contact");
        [contact.bytes.to_vec(), Value::Contact(contact).encode()]
    };
    let mut all = vec![frame(1 << 10), frame(64 << 10), frame(1 << 20)];
    all.extend([parts(1, 500).encode(), parts(8, 1_000).encode(), testimony(1).encode(), testimony(50).encode()]);
    all.extend([1, 8].into_iter().flat_map(contact));
    let news = |logs: usize, events: usize, len: usize| News {
        logs: vec![bytes(events, len); logs],
        withdrawals: bytes(events, len),
    };
    all.extend(
        [news(1, 4_000, 0), news(3_000, 0, 0), news(16, 8, 500), news(64, 1, 60)]
            .map(|news| minicbor::to_vec(news).expect("it encodes")),
    );
    let digests =
        (0..2_000u64).map(|number| std::array::from_fn(|at| number.to_be_bytes().get(at).copied().unwrap_or(7)));
    all.push(keyring::encode_known(&digests.collect()));
    all.extend([key(1).public().did(), key(1).public().peer_id(), "d".repeat(100_000)].map(String::into_bytes));
    let inquiry = Inquiry { capability: Some("c".repeat(100)), ..Inquiry::default() };
    all.extend([Inquiry::default().encode(), inquiry.encode()]);
    all.extend([parts(4_000, 0).encode(), testimony(0).encode()]);
    all
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

/// The items of CBOR that there are, if it is CBOR.
fn items(bytes: &[u8]) -> usize {
    fn count(value: &ciborium::Value) -> usize {
        match value {
            ciborium::Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            ciborium::Value::Map(members) => {
                1 + members.iter().map(|(key, value)| count(key) + count(value)).sum::<usize>()
            }
            _ => 1,
        }
    }
    ciborium::from_reader(bytes).map_or(0, |value| count(&value)).min(ITEMS_MAX)
}

fn bounded(bytes: &[u8], worst: &mut (f64, String), taken: &mut BTreeMap<&str, usize>) {
    for (what, hold) in ENTRIES {
        let (held, was_taken) = hold(bytes);
        *taken.entry(what).or_default() += usize::from(was_taken);
        let bound = TIMES * bytes.len() + AT_LEAST + OF_AN_ITEM * items(bytes);
        assert!(held <= bound, "{what} holds {held} bytes for {} that came: {bytes:02x?}", bytes.len());
        let times = held.saturating_sub(bound - TIMES * bytes.len()) as f64 / bytes.len().max(1) as f64;
        if times > worst.0 {
            *worst = (times, format!("{what}: {held} bytes for {}", bytes.len()));
        }
    }
}

#[test]
fn nothing_that_comes_takes_more_than_four_times_its_bytes() {
    let (mut worst, mut taken) = ((0.0, String::new()), BTreeMap::new());
    for bytes in bombs().iter().chain(&large()) {
        bounded(bytes, &mut worst, &mut taken);
    }
    let vectors = vectors();
    // Each thread counts its own.
    let halves: Vec<_> = std::thread::scope(|scope| {
        let half = |of: usize| {
            let (mut worst, mut taken) = ((0.0, String::new()), BTreeMap::new());
            let mut seed = 0x416c_7468_696e_6721 + u64::try_from(of).expect("0 or 1");
            for bytes in vectors.iter().skip(of).step_by(2) {
                bounded(bytes, &mut worst, &mut taken);
                for _ in 0..20 {
                    bounded(&changed(bytes, &mut seed), &mut worst, &mut taken);
                }
            }
            (worst, taken)
        };
        let both = [0, 1].map(|of| scope.spawn(move || half(of)));
        both.into_iter().map(|one| one.join().expect("it is bounded")).collect()
    });
    for (worst_there, taken_there) in halves {
        if worst_there.0 > worst.0 {
            worst = worst_there;
        }
        taken_there.into_iter().for_each(|(what, count)| *taken.entry(what).or_default() += count);
    }
    println!("at most {:.1} times and {AT_LEAST} bytes: {}", worst.0, worst.1);
    for (what, _) in ENTRIES {
        // Signed by nobody, no envelope verifies without what it is for.
        println!("{what}: {} taken", taken[what]);
        assert!(taken[what] > 0 || *what == "an envelope", "nothing that came was taken as {what}");
    }
    // The measure measures.
    assert!(most(|| vec![0u8; 100_000]) >= 100_000);
}
