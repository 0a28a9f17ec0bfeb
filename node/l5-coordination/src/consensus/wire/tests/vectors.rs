//! The vectors in `protocol/vectors/replication.json`: made from fixed seeds, run from their JSON alone, compared with the
//! file. `ALTHING_BLESS=1 cargo test -p althing-coordination vectors` rewrites it on purpose.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::cases::{self, Case};
use super::shown::{hex, read_and_show};
use super::*;

/// What a member does not serve, and what it does not read, is malformed; why is a text for people.
const MALFORMED: &str = "Unserved::Malformed";

fn path() -> PathBuf {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    here.join("../../protocol/vectors/replication.json")
}

fn written(cases: &[Case]) -> String {
    let mut names = BTreeSet::new();
    let vector = |case: &Case| {
        assert!(names.insert(case.name), "two vectors are called {}", case.name);
        let input = json!({ "message": case.message, "bytes": hex(&case.bytes) });
        match (read_and_show(case.message, &case.bytes), case.is_good) {
            (Ok(decoded), true) => {
                json!({ "name": case.name, "input": input, "verdict": "accept", "decoded": decoded })
            }
            (Err(_), false) => json!({ "name": case.name, "input": input, "verdict": "reject", "error": MALFORMED }),
            (other, _) => panic!("{}: {other:?}", case.name),
        }
    };
    let vectors: Vec<Value> = cases.iter().map(vector).collect();
    let file = json!({ "format": "althing-vectors/1", "what": "replication", "vectors": vectors });
    serde_json::to_string_pretty(&file).expect("JSON of strings and numbers") + "\n"
}

/// P-100, P-140
#[test]
fn vectors_are_those_in_the_file_and_hold_when_read_from_json_alone() {
    let (path, written) = (path(), written(&cases::all()));
    if std::env::var_os("ALTHING_BLESS").is_some() {
        std::fs::write(&path, &written).expect("the directory of the vectors can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        kept == written,
        "{}: bytes on the wire have changed. If that is meant, and SPEC.md says so: ALTHING_BLESS=1 cargo test",
        path.display()
    );
    let file: Value = serde_json::from_str(&kept).expect("the vectors are JSON");
    for vector in file["vectors"].as_array().expect("a list of vectors") {
        let text = |member: &Value| member.as_str().expect("a text").to_owned();
        let digits = text(&vector["input"]["bytes"]);
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let read = read_and_show(&text(&vector["input"]["message"]), &bytes);
        assert_eq!(read.is_ok(), text(&vector["verdict"]) == "accept", "{}", vector["name"]);
        if let Ok(decoded) = read {
            assert_eq!(decoded, vector["decoded"], "{}", vector["name"]);
        }
    }
}

/// P-150: the vectors are shorter than these.
#[test]
fn as_many_heartbeats_as_a_message_may_have_fit_into_one_and_their_answers_too() {
    let at = Some(Position { term: u64::MAX, index: u64::MAX });
    let beat = |number: usize| {
        let group = GroupId::from_digest([u8::try_from(number).expect("a byte"); 32]);
        Beat { group, term: u64::MAX, previous: at, committed: at }
    };
    let most = Beats { leader: key(1), beats: (0..BEATS_MAX).map(beat).collect() };
    assert_eq!(read::<Beats>(&write(&most)), Ok(most.clone()));
    assert_eq!(most.check(), Ok(()));
    let higher = Ballot { term: u64::MAX, node: key(1), elected: true };
    let most = BeatsHeard { heard: vec![Heard::Taken(Appended::Higher(higher)); BEATS_MAX] };
    assert_eq!(read::<BeatsHeard>(&write(&most)), Ok(most));
}

/// P-100: the vectors are shorter than this.
#[test]
fn a_message_has_at_most_a_mebibyte() {
    let of = |bytes: usize| map(&[(0, bstr(&[3; 32])), (1, bstr(&vec![7; bytes]))]);
    let beside = of(1 << 19).len() - (1 << 19);
    let most = of(BODY_BYTES_MAX - beside);
    assert_eq!(most.len(), BODY_BYTES_MAX);
    assert!(read::<Submit>(&most).is_ok());
    let refused = read::<Submit>(&of(BODY_BYTES_MAX - beside + 1)).expect_err("one byte too many");
    assert!(refused.contains("1048577"), "{refused}");
}
