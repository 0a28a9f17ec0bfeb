//! The examples stay what the code makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use althing_td::{AgentFile, Description, Strictness, describe, validate_as};

/// Set to write the descriptions anew instead of comparing them.
const WRITE: &str = "ALTHING_WRITE_EXAMPLES";
/// A publisher's id: what names SHA-256 of `an example`.
const PUBLISHER: &str = "zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw";

fn agent_files() -> Vec<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("examples");
    let entries = fs::read_dir(dir).expect("the examples are in the crate");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    paths.sort();
    paths
}

#[test]
fn each_example_has_the_description_that_the_code_makes() {
    let files = agent_files();
    assert_eq!(files.len(), 3);
    for path in files {
        let text = fs::read_to_string(&path).expect("a readable file");
        let file = AgentFile::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let made = describe(&file, &format!("urn:althing:{PUBLISHER}:{}", file.name));
        let made = serde_json::to_string_pretty(&made.value()).expect("a value is JSON") + "\n";
        let beside = path.with_extension("td.json");
        if std::env::var_os(WRITE).is_some() {
            fs::write(&beside, &made).expect("a writable folder");
        }
        let written = fs::read_to_string(&beside).expect("each example has its description beside it");
        assert!(written == made, "{} is not what the code makes; set {WRITE}=1 to write it anew", beside.display());
        let report = validate_as(written.as_bytes(), Strictness::Own);
        assert!(report.findings.is_empty(), "{}: {report}", beside.display());
    }
}

/// Agent files of a folder and of those below it.
fn agents_below(folder: &Path, found: &mut Vec<AgentFile>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            agents_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let text = fs::read_to_string(&path).expect("a readable file");
            found.extend(AgentFile::parse(&text).ok());
        }
    }
}

/// A signed description is a promise: an affordance that nothing serves must not be in it. Nothing serves any now.
#[test]
fn no_description_that_this_code_makes_names_an_affordance_that_nothing_serves() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let mut files = Vec::new();
    for folder in [here.join("examples"), here.join("../examples")] {
        agents_below(&folder, &mut files);
    }
    assert!(files.len() >= 8, "only {} agent files were found", files.len());
    for builtin in ["echo", "counter", "knowledge"] {
        let text =
            format!("name: {builtin}\ndescription: Is built in.\nruntime: {{ native: {{ builtin: {builtin} }} }}\n");
        files.push(AgentFile::parse(&text).expect("an agent file"));
    }
    for file in files {
        let made = describe(&file, &format!("urn:althing:{PUBLISHER}:{}", file.name));
        assert_eq!(made.affordances(), [""; 0], "{}", file.name);
        let value = made.value();
        for member in ["properties", "actions", "events", "forms", "links"] {
            assert_eq!(value.get(member), None, "{}: {member}", file.name);
        }
    }
}

#[test]
fn what_is_local_is_in_no_description() {
    for path in agent_files() {
        let file = AgentFile::parse(&fs::read_to_string(&path).expect("a readable file")).expect("a good example");
        let made = describe(&file, "urn:althing:z6Mk:example");
        let text = String::from_utf8_lossy(made.bytes());
        for local in ["callers", "exposure", "runtime", "builtin", "command", "startup"] {
            assert!(!text.contains(local), "{}: {local:?} is in the description", path.display());
        }
        assert!(Description::parse(made.bytes()).is_ok());
    }
}
