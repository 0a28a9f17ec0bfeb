//! The vectors of a registry's log: keys, entries, checkpoints, proofs and growth.

use althing_protocol::registry::{Entry, EntryKind};
use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKey, NoteKeyKind, SIZE_MAX, TreeError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::names::Name as _;
use crate::registry_log::*;
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{Outcome, bytes, hex, list, number, text, unhex};

pub fn vectors() -> Vec<Case> {
    [entry_cases(), keys(), checkpoints(), cosignatures(), proofs(), growths()].into_iter().flatten().collect()
}

fn entry_cases() -> Vec<Case> {
    let of = |name: &str, bytes: Vec<u8>, is_good: bool| {
        case(name, json!({ "document": "entry", "bytes": hex(&bytes) }), (!is_good).then_some("Entry"))
    };
    let good = entry(15, NOW_MS, b"signed");
    let digest = bstr(&[7; 32]);
    let with = |members: &[(u64, Vec<u8>)]| map(members);
    let null = vec![0xf6];
    vec![
        of("an entry of a release", good.clone(), true),
        of("an entry of a key event", entry(4, NOW_MS, b"signed"), true),
        of("an entry of a mark", entry(16, NOW_MS, b"signed"), true),
        of("an entry of a Thing", entry(64, NOW_MS, b"{}"), true),
        of("an entry of a Thing that was deleted", entry(65, NOW_MS, b"{}"), true),
        of("an entry of a finding about a domain", entry(66, NOW_MS, b"found"), true),
        of("an entry of a kind that there is not", entry(63, NOW_MS, b"signed"), false),
        of("an entry of kind 0", entry(0, NOW_MS, b"signed"), false),
        of("an entry of a quarantine", entry(68, NOW_MS, b"hidden"), true),
        of("an entry of kind 69", entry(69, NOW_MS, b"signed"), false),
        of("an entry without a time", with(&[(0, uint(15)), (2, digest.clone())]), false),
        of("an entry whose time is null", with(&[(0, uint(15)), (1, null), (2, digest.clone())]), false),
        of("an entry with a digest of 31 bytes", with(&[(0, uint(15)), (1, uint(1)), (2, bstr(&[7; 31]))]), false),
        of("an entry with a fourth member", with(&[(0, uint(15)), (1, uint(1)), (2, digest), (3, uint(0))]), false),
        of("an entry and a byte", [&good[..], &[0]].concat(), false),
        of("an entry cut short", good[..good.len() - 1].to_vec(), false),
    ]
}

fn keys() -> Vec<Case> {
    let of = |name: &str, key: &str, error: Option<&'static str>| {
        case(name, json!({ "document": "key", "key": key }), error)
    };
    let good = note_key(ORIGIN, 1, REGISTRY);
    let (name, typed) = (ORIGIN, STANDARD.encode([&[1][..], &[2; 32]].concat()));
    let no_point = format!("{name}+00000000+{typed}");
    vec![
        of("the key of a log", &good, None),
        of("the key of a witness", &note_key("witness.example", 4, WITNESS), None),
        of("a key of a type that there is not", &note_key(ORIGIN, 2, REGISTRY), Some("NoteKeyError::Key")),
        of("a key under another name", &good.replacen("registry", "register", 1), Some("NoteKeyError::Hash")),
        of("a key whose name has a space", &note_key("my log", 1, REGISTRY), Some("NoteKeyError::Name")),
        of("a key without a name", &note_key("", 1, REGISTRY), Some("NoteKeyError::Name")),
        of("a key that is no point", &no_point, Some("NoteKeyError::Key")),
        of("a name alone", ORIGIN, Some("NoteKeyError::Shape")),
    ]
}

fn checkpoints() -> Vec<Case> {
    let of = |name: &str, note: &str, error: Option<&'static str>| {
        let key = note_key(ORIGIN, 1, REGISTRY);
        case(name, json!({ "document": "checkpoint", "note": note, "key": key, "seed": hex(&[REGISTRY; 32]) }), error)
    };
    let entries = entries();
    let good = checkpoint(&entries);
    let root = root(&entries);
    let strangers = head_text(ORIGIN, 7, &root);
    let strangers = format!("{strangers}\n{}", line(ORIGIN, 1, STRANGER, &sign(STRANGER, &strangers)));
    let sized = |size: &str| note(&format!("{ORIGIN}\n{size}\n{}\n", STANDARD.encode(root)));
    let (forged, shape) = (Some("CheckpointError::Note(NoteError::Forged)"), Some("CheckpointError::Shape"));
    let twice = format!("{good}{}", line(ORIGIN, 1, REGISTRY, &[0; 64]));
    vec![
        of("a checkpoint", &good, None),
        of("the checkpoint of an empty log", &checkpoint(&[]), None),
        of("a checkpoint with more lines", &note(&format!("{}more\n", head_text(ORIGIN, 7, &root))), None),
        of("a checkpoint that a witness cosigned", &cosigned(&entries, 1), None),
        of("a checkpoint of 2^48 entries", &sized(&SIZE_MAX.to_string()), None),
        of("a checkpoint of more", &sized(&(SIZE_MAX + 1).to_string()), shape),
        of("a checkpoint whose size has a leading zero", &sized("07"), shape),
        of("a checkpoint whose size has a sign", &sized("+7"), shape),
        of(
            "a checkpoint whose root has 31 bytes",
            &note(&format!("{ORIGIN}\n7\n{}\n", STANDARD.encode([7; 31]))),
            shape,
        ),
        of("a checkpoint of two lines", &note(&format!("{ORIGIN}\n7\n")), shape),
        of(
            "a checkpoint of another log",
            &note(&head_text("other.example/log", 7, &root)),
            Some("CheckpointError::Origin"),
        ),
        of("a checkpoint whose size was changed", &good.replacen("\n7\n", "\n8\n", 1), forged),
        of("a checkpoint with a second signature that is wrong", &twice, forged),
        of("a checkpoint that a stranger signed", &strangers, Some("CheckpointError::Note(NoteError::Unsigned)")),
        of(
            "a checkpoint without a signature",
            &head_text(ORIGIN, 7, &root),
            Some("CheckpointError::Note(NoteError::Shape)"),
        ),
        of(
            "a checkpoint with Windows' lines",
            &good.replace('\n', "\r\n"),
            Some("CheckpointError::Note(NoteError::Shape)"),
        ),
    ]
}

fn cosignatures() -> Vec<Case> {
    let of = |name: &str, note: &str, error: Option<&'static str>| {
        let (key, witness) = (note_key(ORIGIN, 1, REGISTRY), note_key("witness.example", 4, WITNESS));
        let input = json!({ "document": "cosignature", "note": note, "key": key, "witness": witness });
        case(name, input, error)
    };
    let entries = entries();
    let plain = checkpoint(&entries);
    let another = cosigned(&entries[..6], 1);
    let of_another = &another[another.rfind("\u{2014} witness").expect("its line")..];
    let text = head_text(ORIGIN, 7, &root(&entries));
    let untimed = line("witness.example", 4, WITNESS, &sign(WITNESS, &text));
    vec![
        of("a cosignature", &cosigned(&entries, 1_700_000_000), None),
        of("no cosignature", &plain, Some("NoteError::Unsigned")),
        of("the cosignature of another checkpoint", &format!("{plain}{of_another}"), Some("NoteError::Forged")),
        of("a witness's signature without a time", &format!("{plain}{untimed}"), Some("NoteError::Forged")),
    ]
}

fn proofs() -> Vec<Case> {
    let of = |name: &str, shown: &str, entry: &[u8], error: Option<&'static str>| {
        let key = note_key(ORIGIN, 1, REGISTRY);
        case(name, json!({ "document": "proof", "proof": shown, "key": key, "entry": hex(entry) }), error)
    };
    let entries = entries();
    let (good, third) = (proof_of(&entries, 2), &entries[2]);
    let (hashes, note) = (path(&entries, 2), checkpoint(&entries));
    let (wrong, shape) = (Some("LogProofError::Tree(TreeError::Root)"), Some("LogProofError::Shape"));
    let many = vec![[0; 32]; 65];
    vec![
        of("a proof", &good, third, None),
        of("the proof of the last entry", &proof_of(&entries, 6), &entries[6], None),
        of("the proof of the only entry", &proof_of(&entries[..1], 0), &entries[0], None),
        of("a proof with what an application added", &good.replacen("index", "extra AAAA\nindex", 1), third, None),
        of("the proof of another entry", &good, &entries[3], wrong),
        of("a proof at another place", &proof_with(3, &hashes, &note), third, wrong),
        of(
            "a proof without its last hash",
            &proof_with(2, &hashes[..2], &note),
            third,
            Some("LogProofError::Tree(TreeError::Hashes)"),
        ),
        of(
            "a proof beyond the log",
            &proof_with(7, &hashes, &note),
            third,
            Some("LogProofError::Tree(TreeError::Index)"),
        ),
        of("a proof under another checkpoint", &proof_with(2, &hashes, &checkpoint(&entries[..6])), third, wrong),
        of("a proof with 65 hashes", &proof_with(2, &many, &note), third, shape),
        of("a proof of version 2", &good.replacen("@v1", "@v2", 1), third, shape),
        of("a proof whose index has a leading zero", &good.replacen("index 2", "index 02", 1), third, shape),
        of("a proof without a checkpoint", good.split_once("\n\n").expect("two parts").0, third, shape),
        of(
            "a proof under a forged checkpoint",
            &good.replacen("\n7\n", "\n8\n", 1),
            third,
            Some("LogProofError::Checkpoint(CheckpointError::Note(NoteError::Forged))"),
        ),
    ]
}

fn growths() -> Vec<Case> {
    let of = |name: &str, old: &[Vec<u8>], new: &[Vec<u8>], hashes: &[Hash], error: Option<&'static str>| {
        let head = |entries: &[Vec<u8>]| json!({ "size": entries.len(), "root": hex(&root(entries)) });
        let hashes: Vec<String> = hashes.iter().map(|hash| hex(hash)).collect();
        case(name, json!({ "document": "growth", "old": head(old), "new": head(new), "hashes": hashes }), error)
    };
    let (mine, mut other) = (entries(), entries());
    other[2] = entry(15, NOW_MS, b"another");
    let hashes = growth(&mine, 4, true);
    let wrong = Some("TreeError::Root");
    vec![
        of("a log that grew", &mine[..4], &mine, &hashes, None),
        of("a log that grew from a ragged edge", &mine[..3], &mine, &growth(&mine, 3, true), None),
        of("a log that began", &[], &mine, &[], None),
        of("a log as it was", &mine, &mine, &[], None),
        of("a log that is smaller than before", &mine, &mine[..4], &[], Some("TreeError::Smaller")),
        of("another log of the same size", &mine, &other, &[], wrong),
        of("a log that goes on from another one", &mine[..4], &other, &growth(&other, 4, true), wrong),
        of(
            "a log that grew, with a hash too many",
            &mine[..4],
            &mine,
            &[&hashes[..], &[[0; 32]]].concat(),
            Some("TreeError::Hashes"),
        ),
    ]
}

/// What is made of a document of the log, by its JSON alone; none if it is none.
pub fn run(input: &Value) -> Option<Outcome> {
    let key = |member: &str| text(input, member).parse::<NoteKey>().expect("a vector's context holds a good key");
    Some(match text(input, "document") {
        "entry" => Entry::decode(&bytes(input, "bytes")).ok_or_else(|| "Entry".to_owned()).map(|it| {
            let number = match it.kind {
                EntryKind::Signed(kind) => kind as u8 + 1,
                EntryKind::Thing => 64,
                EntryKind::ThingDeleted => 65,
                EntryKind::DomainFinding => 66,
                EntryKind::Purge => 67,
                EntryKind::Quarantine => 68,
                EntryKind::Salted(kind) => 128 + kind as u8 + 1,
            };
            json!({ "kind": number, "at_ms": it.at_ms, "statement": hex(&it.statement) })
        }),
        "key" => text(input, "key").parse::<NoteKey>().map_err(|error| error.name()).map(|it| {
            let kind = if it.kind() == NoteKeyKind::Note { 1 } else { 4 };
            json!({ "name": it.name(), "type": kind, "key": hex(it.key().as_bytes()) })
        }),
        "checkpoint" => Checkpoint::open(text(input, "note"), &key("key"))
            .map_err(|error| error.name())
            .map(|it| json!({ "size": it.head.size, "root": hex(&it.head.root) })),
        "cosignature" => {
            let checkpoint = Checkpoint::open(text(input, "note"), &key("key")).expect("the log signed it");
            let read = checkpoint.cosignature(&key("witness")).map_err(|error| error.name());
            read.map(|it| json!({ "witness": it.witness, "time": it.time }))
        }
        "proof" => {
            let read = text(input, "proof").parse::<LogProof>();
            let checked = read.and_then(|it| Ok((it.index, it.check(&bytes(input, "entry"), &key("key"), &[], 0)?)));
            checked.map_err(|error| error.name()).map(|(index, it)| json!({ "index": index, "size": it.head.size }))
        }
        "growth" => {
            let head = |it: &Value| Head { size: number(it, "size"), root: hash(&unhex(text(it, "root"))) };
            let hashes: Vec<Hash> = list(input, "hashes").iter().map(|it| hash(it)).collect();
            let grown = head(&input["new"]).check_extends(&head(&input["old"]), &hashes);
            grown.map_err(|error: TreeError| error.name()).map(|()| json!({}))
        }
        _ => return None,
    })
}

fn hash(bytes: &[u8]) -> Hash {
    bytes.try_into().expect("32 bytes")
}
