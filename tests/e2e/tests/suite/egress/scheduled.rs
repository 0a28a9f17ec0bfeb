//! A schedule has an agent ask a host with a secret, while nobody sits anywhere: the host has it, and nobody else does.

use std::time::Duration;

use althing_e2e::sandbox::{has_namespaces, interpreter};
use althing_e2e::until;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Origin, SECRET, SOON, Scene, TALKATIVE, is_kept_once, with_header};

/// A schedule begins within a minute.
const DUE: Duration = Duration::from_secs(90);

#[test]
fn a_schedule_reaches_a_host_with_the_secret_and_nobody_else_has_it() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let origin = Origin::start();
    let scene = Scene::start(&python, TALKATIVE, |machine| machine.up_alone(&[]));
    scene.add("sandbox", with_header(&origin));
    scene.machine.json(&["group", "create", "team"]);
    let call =
        json!({ "tool": "asks", "arguments": { "variable": "ORIGIN_URL", "path": "/chat", "times": 1 } }).to_string();
    let add = ["schedule", "add", "team", "minutely", "* * * * *", "--cap", "reaching.ask", &call];
    scene.machine.json(&add);
    let shown = || scene.machine.json(&["schedule", "show", "team", "minutely"]);
    until(DUE, "it is time", || !shown()["lastRun"].is_null());
    let run = shown()["lastRun"].as_str().expect("its id").to_owned();
    let shown = || scene.machine.json(&["workflow", "show", "team", &run]);
    until(SOON, "the run has ended", || shown()["state"] == "completed");
    let first = origin.asked().first().cloned().unwrap_or_default();
    assert!(first.starts_with("GET /v1/chat ") && first.contains(&format!(": Bearer {SECRET}")), "{first}");
    let result = shown();
    let masked = format!("heard: Bearer {}", "*".repeat(SECRET.len()));
    assert!(result.to_string().contains(&masked), "the answer came to the run: {result}");

    assert_eq!(scene.found(), [""; 0], "the program has it");
    is_kept_once(&scene.machine);
    let mut said = scene.traces();
    let commands: [&[&str]; 8] = [
        &["ps"],
        &["--json", "ps"],
        &["logs", "reaching"],
        &["doctor"],
        &["workflow", "show", "team", &run],
        &["workflow", "list", "team", "--all"],
        &["schedule", "list", "team"],
        &["task", "list", "team", "--all"],
    ];
    for command in commands {
        let outcome = scene.machine.run(command);
        said.extend([outcome.stdout, outcome.stderr]);
    }
    said.extend(
        [result, scene.machine.json(&["schedule", "show", "team", "minutely"])].map(|told: Value| told.to_string()),
    );
    scene.node.running.signal(Signal::SIGTERM);
    let Scene { node, machine, .. } = scene;
    let ended = node.running.end(SOON);
    assert!(ended.stderr.contains("egress"), "the log tells of it: {ended:?}");
    said.extend([ended.stdout, ended.stderr]);
    for text in said {
        assert!(!text.contains(SECRET), "{text}");
    }
    // What was still in memory is in files now: of the group's too.
    is_kept_once(&machine);
}
