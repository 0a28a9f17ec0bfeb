//! Inspect, which nobody here wrote, reads the files of cases, and its scorers say of the same outputs what a test says.

use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python_with_inspect;
use althing_e2e::{Machine, Outcome, Running, cast, http, text};
use serde_json::Value;

const SCRIPT: &str = include_str!("../../python/inspect_cases.py");
const CASES: usize = 500;
/// It imports far more than it needs here.
const SCRIPT_MAX: Duration = Duration::from_secs(120);

/// What the script prints.
fn said(machine: &Machine, python: &Path, arguments: &[&str]) -> String {
    let mut command = machine.command(python);
    let Outcome { code, stdout, stderr } =
        Running::start(command.args(["-B", "inspect_cases.py"]).args(arguments)).end(SCRIPT_MAX);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    stdout
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn inspect_reads_our_cases_and_its_scorers_give_our_verdicts() {
    let Some(python) = python_with_inspect() else { return };
    let machine = Machine::new();
    machine.write("inspect_cases.py", SCRIPT);
    // The table by which the scorers are tested.
    said(&machine, python, &["check"]);
    let node = machine.up_alone(&[]);
    // What it says is what a case has as its input.
    machine.add("echo", &cast::echo("echo", "own"));
    let file = machine.write("cases.jsonl", &said(&machine, python, &["make", &CASES.to_string()]));
    let path = file.to_str().expect("a plain path");
    let task = http::ask(&node.gateway(), "echo", "SendMessage", &http::says("It is 42, not 24."))["task"].take();
    let added = machine.run(&["case", "add", &text(&task["id"]), "--to", path]);
    assert_eq!(added.code, 0, "{added:?}");

    let written = std::fs::read_to_string(&file).expect("it was written");
    let read = said(&machine, python, &["read", path]);
    assert_eq!((written.lines().count(), read.lines().count()), (CASES + 1, CASES + 1));
    for (line, read) in written.lines().zip(read.lines()) {
        let (ours, theirs) = (json_of(line), json_of(read));
        for member in ["id", "input", "target"] {
            assert_eq!(theirs[member], ours[member], "{member} of {line}");
        }
        if ours.get("metadata").is_some() {
            assert_eq!(theirs["metadata"], ours["metadata"], "{line}");
        }
    }

    let theirs = json_of(&said(&machine, python, &["score", path]));
    let scorers = theirs.as_object().expect("an object");
    assert_eq!(scorers.len(), 5, "{scorers:?}");
    for (scorer, right) in scorers {
        let tested = machine.run(&["--json", "test", "echo", "--cases", path, "--scorer", scorer]);
        // Some are wrong.
        assert_eq!(tested.code, 1, "{tested:?}");
        let report = json_of(&tested.stdout);
        let cases = report["cases"].as_array().expect("a list");
        assert_eq!(cases.len(), CASES + 1, "{scorer}");
        let mut passed = 0;
        for case in cases {
            let (ours, id) = (case["verdict"] == "pass", text(&case["id"]));
            assert_eq!(Some(ours), right[&id].as_bool(), "{scorer}: {case}");
            passed += usize::from(ours);
        }
        assert!((1..CASES).contains(&passed), "{scorer}: there are both: {passed}");
    }
}
