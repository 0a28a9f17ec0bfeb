//! The log of a registry: entries, checkpoints, proofs and growth, by hand. What is built here shares no code with
//! the crate but SHA-256.

use althing_protocol::object::Kind;
use althing_protocol::registry::{Entry, EntryKind};
use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKey, NoteKeyKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer as _;

use crate::names::reason;
use crate::support::*;
use crate::vector_runner::hex;

pub const ORIGIN: &str = "registry.example/log";
/// Who signs checkpoints, and who cosigns them, by the byte that fills the seed.
pub const REGISTRY: u8 = 0x21;
pub const WITNESS: u8 = 0x22;

pub type Hash = [u8; 32];

// -- by hand: RFC 6962 §2.1, and C2SP's signed-note, tlog-checkpoint, tlog-cosignature and tlog-proof

pub fn entry(kind: u64, at_ms: u64, statement: &[u8]) -> Vec<u8> {
    map(&[(0, uint(kind)), (1, uint(at_ms)), (2, bstr(&althing_protocol::digest(statement)))])
}

fn leaf(entry: &[u8]) -> Hash {
    althing_protocol::digest(&[&[0], entry].concat())
}

/// The root of these entries.
pub fn root(entries: &[Vec<u8>]) -> Hash {
    match entries {
        [] => althing_protocol::digest(b""),
        [one] => leaf(one),
        many => {
            let (left, right) = many.split_at(many.len().next_power_of_two() / 2);
            althing_protocol::digest(&[&[1][..], &root(left), &root(right)].concat())
        }
    }
}

/// The hashes that lead from an entry to the root (RFC 6962 §2.1.1).
pub fn path(entries: &[Vec<u8>], index: usize) -> Vec<Hash> {
    if entries.len() == 1 {
        return Vec::new();
    }
    let half = entries.len().next_power_of_two() / 2;
    let (left, right) = entries.split_at(half);
    let (mut below, other) =
        if index < half { (path(left, index), root(right)) } else { (path(right, index - half), root(left)) };
    below.push(other);
    below
}

/// The hashes that show that all entries go on from the first `old` (RFC 6962 §2.1.2).
pub fn growth(entries: &[Vec<u8>], old: usize, is_whole: bool) -> Vec<Hash> {
    if old == entries.len() {
        return if is_whole { Vec::new() } else { vec![root(entries)] };
    }
    let half = entries.len().next_power_of_two() / 2;
    let (left, right) = entries.split_at(half);
    let (mut below, other) = if old <= half {
        (growth(left, old, is_whole), root(right))
    } else {
        (growth(right, old - half, false), root(left))
    };
    below.push(other);
    below
}

/// The key of a log (type 1) or of a witness (type 4), as it is written.
pub fn note_key(name: &str, kind: u8, seed: u8) -> String {
    let typed = [&[kind][..], public(seed).as_bytes()].concat();
    format!("{name}+{}+{}", hex(&key_id(name, kind, seed)), STANDARD.encode(typed))
}

fn key_id(name: &str, kind: u8, seed: u8) -> [u8; 4] {
    let hash = althing_protocol::digest(&[name.as_bytes(), b"\n", &[kind], public(seed).as_bytes()].concat());
    [hash[0], hash[1], hash[2], hash[3]]
}

pub fn line(name: &str, kind: u8, seed: u8, signature: &[u8]) -> String {
    let bytes = [&key_id(name, kind, seed)[..], signature].concat();
    format!("\u{2014} {name} {}\n", STANDARD.encode(bytes))
}

pub fn sign(seed: u8, text: &str) -> Vec<u8> {
    key(seed).signing_key().sign(text.as_bytes()).to_bytes().to_vec()
}

pub fn head_text(origin: &str, size: u64, root: &Hash) -> String {
    format!("{origin}\n{size}\n{}\n", STANDARD.encode(root))
}

/// Any text, signed as a note by the registry.
pub fn note(text: &str) -> String {
    format!("{text}\n{}", line(ORIGIN, 1, REGISTRY, &sign(REGISTRY, text)))
}

/// The checkpoint over these entries.
pub fn checkpoint(entries: &[Vec<u8>]) -> String {
    note(&head_text(ORIGIN, entries.len() as u64, &root(entries)))
}

pub fn cosigned(entries: &[Vec<u8>], time: u64) -> String {
    let text = head_text(ORIGIN, entries.len() as u64, &root(entries));
    let signature = sign(WITNESS, &format!("cosignature/v1\ntime {time}\n{text}"));
    let timed = [&time.to_be_bytes()[..], &signature].concat();
    format!("{}{}", checkpoint(entries), line("witness.example", 4, WITNESS, &timed))
}

pub fn proof_with(index: u64, hashes: &[Hash], checkpoint: &str) -> String {
    let lines: String = hashes.iter().map(|hash| STANDARD.encode(hash) + "\n").collect();
    format!("c2sp.org/tlog-proof@v1\nindex {index}\n{lines}\n{checkpoint}")
}

/// The proof that the log of these entries has that one.
pub fn proof_of(entries: &[Vec<u8>], index: usize) -> String {
    proof_with(index as u64, &path(entries, index), &checkpoint(entries))
}

/// Seven entries: a tree with a ragged edge.
pub fn entries() -> Vec<Vec<u8>> {
    (0..7u64).map(|index| entry(15 + index % 2, NOW_MS + index, &index.to_be_bytes())).collect()
}

pub fn registry_key() -> NoteKey {
    NoteKey::new(ORIGIN, NoteKeyKind::Note, public(REGISTRY)).expect("a good name")
}

fn head_of(entries: &[Vec<u8>]) -> Head {
    Head { size: entries.len() as u64, root: root(entries) }
}

#[test]
fn an_entry_built_by_hand_is_what_the_crate_builds() {
    // P-171
    for (kind, number) in [
        (EntryKind::Signed(Kind::KeyEvent), 4),
        (Kind::Release.into(), 15),
        (Kind::Mark.into(), 16),
        (Kind::Roster.into(), 17),
        (Kind::Attestation.into(), 18),
        (EntryKind::Thing, 64),
        (EntryKind::ThingDeleted, 65),
        (EntryKind::DomainFinding, 66),
        (EntryKind::Purge, 67),
        (EntryKind::Quarantine, 68),
    ] {
        let built = entry(number, NOW_MS, b"statement");
        assert_eq!(Entry::of(kind, b"statement", NOW_MS).encode(), built, "{number}");
        assert_eq!(Entry::decode(&built), Some(Entry::of(kind, b"statement", NOW_MS)));
    }
    // P-190: 128 more, and the digest of the salt and the statement.
    let built = entry(128 + 15, NOW_MS, b"sixteen bytes ..statement");
    assert_eq!(Entry::salted(Kind::Release, b"statement", b"sixteen bytes ..", NOW_MS).encode(), built);
}

#[test]
fn a_log_built_by_hand_is_what_the_crate_verifies() {
    // P-172, P-173, P-174
    let entries = entries();
    let signed = Checkpoint::sign(ORIGIN, head_of(&entries), &key(REGISTRY)).expect("a good name");
    assert_eq!(signed.note(), checkpoint(&entries));
    assert_eq!(registry_key().to_string(), note_key(ORIGIN, 1, REGISTRY));
    let cosignature = signed.cosign("witness.example", 1_700_000_000, &key(WITNESS)).expect("a good name");
    let witness: NoteKey = note_key("witness.example", 4, WITNESS).parse().expect("a good key");
    let with = signed.with_cosignature(&cosignature, &witness).expect("its own");
    assert_eq!(with.note(), cosigned(&entries, 1_700_000_000));
    for size in 1..=entries.len() {
        let grown = &entries[..size];
        for index in 0..size {
            let read: LogProof = proof_of(grown, index).parse().expect("a proof");
            let shown = read.check(&grown[index], &registry_key(), &[], 0).expect("it holds");
            assert_eq!(shown.head, head_of(grown));
            assert_eq!(read.to_string(), proof_of(grown, index));
            for other in (0..size).filter(|other| *other != index) {
                let refused = read.check(&grown[other], &registry_key(), &[], 0);
                assert_eq!(reason(refused), "LogProofError::Tree(TreeError::Root)");
            }
        }
        for old in 1..=size {
            let hashes = growth(grown, old, true);
            assert_eq!(head_of(grown).check_extends(&head_of(&grown[..old]), &hashes), Ok(()), "{old} to {size}");
        }
    }
}

#[test]
fn no_log_takes_back_what_it_showed() {
    // P-175: a smaller log, another one of the same size, and one that goes on from another.
    let (mine, mut other) = (entries(), entries());
    other[2] = entry(15, NOW_MS, b"another");
    let (old, new) = (head_of(&mine[..4]), head_of(&mine));
    assert_eq!(new.check_extends(&old, &growth(&mine, 4, true)), Ok(()));
    assert_eq!(reason(old.check_extends(&new, &[])), "TreeError::Smaller");
    assert_eq!(reason(head_of(&other[..4]).check_extends(&old, &[])), "TreeError::Root");
    assert_eq!(reason(head_of(&other).check_extends(&old, &growth(&other, 4, true))), "TreeError::Root");
    assert_eq!(reason(head_of(&other).check_extends(&old, &growth(&mine, 4, true))), "TreeError::Root");
    assert_eq!(new.check_extends(&Head::default(), &[]), Ok(()), "every log goes on from the empty one");
    let forged = Head { size: 0, root: [0; 32] };
    assert_eq!(reason(new.check_extends(&forged, &[])), "TreeError::Root", "which has one root");
}

#[test]
fn no_text_of_one_format_is_signed_as_another() {
    // P-172: the first lines differ, so that neither signature is one of the other format, nor of a COSE structure or frame.
    let text = head_text(ORIGIN, 7, &root(&entries()));
    let as_log = line("witness.example", 4, WITNESS, &sign(WITNESS, &text));
    let checkpoint = Checkpoint::sign(ORIGIN, head_of(&entries()), &key(REGISTRY)).expect("a good name");
    let witness: NoteKey = note_key("witness.example", 4, WITNESS).parse().expect("a good key");
    assert!(checkpoint.with_cosignature(&as_log, &witness).is_err());
    let claimed = format!("cosignature/v1\ntime 1\n{text}");
    let as_cosignature = format!("{text}\n{}", line(ORIGIN, 1, REGISTRY, &sign(REGISTRY, &claimed)));
    assert!(Checkpoint::open(&as_cosignature, &registry_key()).is_err());
    for bytes in [text.as_bytes(), claimed.as_bytes()] {
        assert!(althing_protocol::cbor::check(bytes, 1 << 20).is_err(), "no Sig_structure begins like it");
    }
    assert_eq!(to_be_signed(&[], &[], &[])[..2], [0x84, 0x6a], "an array of four, and text of ten bytes");
}
