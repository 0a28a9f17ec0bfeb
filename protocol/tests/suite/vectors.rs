//! The vectors in `vectors/`: made from fixed seeds, run from their JSON alone, compared with the files.
//! `ALTHING_BLESS=1 cargo test -p althing-protocol vectors` rewrites the files on purpose.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::vector_cases::{self, Case};
use crate::vector_runner::run;

fn path(what: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"))
        .join("vectors")
        .join(format!("{what}.json"))
}

/// The cases as the file holds them, each run and found to be what its author said.
fn written(what: &str, cases: Vec<Case>) -> String {
    let mut names = BTreeSet::new();
    let vectors: Vec<Value> = cases
        .into_iter()
        .map(|case| {
            assert!(names.insert(case.name.clone()), "two vectors of {what} are called {}", case.name);
            let outcome = run(what, &case.input);
            assert_eq!(outcome.as_ref().err().map(String::as_str), case.error, "{what}: {}", case.name);
            match outcome {
                Ok(decoded) => {
                    json!({ "name": case.name, "input": case.input, "verdict": "accept", "decoded": decoded })
                }
                Err(error) => json!({ "name": case.name, "input": case.input, "verdict": "reject", "error": error }),
            }
        })
        .collect();
    let file = json!({ "format": "althing-vectors/1", "what": what, "vectors": vectors });
    serde_json::to_string_pretty(&file).expect("JSON of strings and numbers") + "\n"
}

#[test]
fn vectors_are_those_in_the_files_and_hold_when_read_from_json_alone() {
    compare();
    read_back();
}

fn compare() {
    for (what, cases) in vector_cases::all() {
        let (path, written) = (path(what), written(what, cases));
        if std::env::var_os("ALTHING_BLESS").is_some() {
            std::fs::write(&path, written).expect("the directory of the vectors can be written");
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            kept == written,
            "{}: bytes on the wire have changed. If that is meant, and SPEC.md says so: ALTHING_BLESS=1 cargo test",
            path.display()
        );
    }
}

fn read_back() {
    for (what, cases) in vector_cases::all() {
        let text = std::fs::read_to_string(path(what)).expect("the vectors are there");
        let file: Value = serde_json::from_str(&text).expect("the vectors are JSON");
        let vectors = file["vectors"].as_array().expect("a list of vectors");
        assert_eq!(vectors.len(), cases.len(), "{what}");
        let mut verdicts = BTreeSet::new();
        for vector in vectors {
            let verdict = vector["verdict"].as_str().expect("a verdict");
            verdicts.insert(verdict);
            match run(what, &vector["input"]) {
                Ok(decoded) => assert_eq!((verdict, &decoded), ("accept", &vector["decoded"]), "{}", vector["name"]),
                Err(error) => {
                    assert_eq!(("reject", vector["error"].as_str()), (verdict, Some(&*error)), "{}", vector["name"])
                }
            }
        }
        assert_eq!(verdicts.len(), 2, "{what} has vectors of both verdicts");
    }
}
