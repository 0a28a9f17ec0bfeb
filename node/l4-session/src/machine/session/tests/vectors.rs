//! The vectors in `protocol/vectors/sessions.json`: made from fixed seeds, run from their JSON alone, compared with the file.
//! `ALTHING_BLESS=1 cargo test -p althing-session vectors` rewrites it on purpose.

mod cases;
mod row_cases;
mod shown;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use cases::Case;
use shown::run;

fn path() -> PathBuf {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    here.join("../../protocol/vectors/sessions.json")
}

/// The cases as the file holds them, each run and found to be what its author said.
fn written(cases: Vec<Case>) -> String {
    let mut names = BTreeSet::new();
    let vector = |case: Case| {
        assert!(names.insert(case.name), "two vectors are called {}", case.name);
        let outcome = run(&case.input);
        assert_eq!(outcome.as_ref().err().map(String::as_str), case.error, "{}", case.name);
        match outcome {
            Ok(decoded) => {
                json!({ "name": case.name, "input": case.input, "verdict": "accept", "decoded": decoded })
            }
            Err(error) => json!({ "name": case.name, "input": case.input, "verdict": "reject", "error": error }),
        }
    };
    let vectors: Vec<Value> = cases.into_iter().map(vector).collect();
    let file = json!({ "format": "althing-vectors/1", "what": "sessions", "vectors": vectors });
    serde_json::to_string_pretty(&file).expect("JSON of strings and numbers") + "\n"
}

/// P-77, P-216, P-217, P-218, P-219, P-220
#[test]
fn vectors_are_those_in_the_file_and_hold_when_read_from_json_alone() {
    let (path, written) = (path(), written(cases::all()));
    if std::env::var_os("ALTHING_BLESS").is_some() {
        std::fs::write(&path, &written).expect("the directory of the vectors can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        kept == written,
        "{}: rows or keys have changed. If that is meant, and SPEC.md says so: ALTHING_BLESS=1 cargo test",
        path.display()
    );
    let file: Value = serde_json::from_str(&kept).expect("the vectors are JSON");
    for vector in file["vectors"].as_array().expect("a list of vectors") {
        let name = &vector["name"];
        match run(&vector["input"]) {
            Ok(decoded) => assert_eq!((&vector["verdict"], &vector["decoded"]), (&json!("accept"), &decoded), "{name}"),
            Err(error) => {
                assert_eq!((&vector["verdict"], &vector["error"]), (&json!("reject"), &json!(error)), "{name}");
            }
        }
    }
}
