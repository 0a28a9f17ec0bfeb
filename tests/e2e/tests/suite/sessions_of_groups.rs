//! The node of a group's worker is killed while its agent is at work on a task of the group: the task goes on under the token that
//! it had, also where its agent is started only once the node is ready, and nothing is done twice.

use althing_e2e::sessions::{SOON, STEPS, Station, Teller};
use althing_e2e::{Machine, text, until};
use serde_json::{Value, json};

/// Longer than a restart takes, seconds.
const LEASE: &str = "120";

/// What the group says of a task.
fn shown(machine: &Machine, task: &str) -> Value {
    let shown = machine.run(&["--json", "task", "show", "team", task]);
    serde_json::from_str(&shown.stdout).unwrap_or_default()
}

/// The node is killed while `held` keeps the turn waiting, and starts again. Gives the station, where all was called.
fn killed_while(run: &str, effect: Option<&str>, held: &str) -> Station {
    let station = Station::new();
    let teller = Teller::of(run);
    let machine = &teller.machine;
    let node = teller.begin(&station, effect);
    machine.json(&["group", "create", "team"]);
    station.hold(held);
    let input = format!("{run} {STEPS}");
    let submit = ["task", "submit", "team", "--agent", "teller", "--lease", LEASE, input.as_str()];
    let task = text(&machine.json(&submit)["task"]);
    let is_there = || if held == "hold-tool" { !station.calls(run).is_empty() } else { station.was_asked(run) };
    until(SOON, "its agent works on it", is_there);
    let before = shown(machine, &task);
    assert_eq!((&before["state"], &before["attempt"]), (&json!("working"), &json!(1)), "{before}");
    node.running.kill();
    station.release(held);

    let _node = machine.up_alone(&[]);
    let mut after = Value::Null;
    until(SOON * 2, "the task ends", || {
        after = shown(machine, &task);
        ["completed", "failed"].contains(&after["state"].as_str().unwrap_or_default())
    });
    assert_eq!((&after["state"], &after["attempt"]), (&json!("completed"), &json!(1)), "{after}");
    assert_eq!(after["fencingToken"], before["fencingToken"], "under its token: {after}");
    station
}

#[test]
fn a_final_call_of_a_groups_task_is_made_once_though_its_node_was_killed_before_it() {
    let station = killed_while("asked", None, "hold-model");
    assert_eq!(station.counts("asked"), [1; STEPS]);
}

#[test]
fn a_keyed_call_of_a_groups_task_takes_effect_once_though_its_node_was_killed_during_it() {
    let station = killed_while("called", Some("keyed"), "hold-tool");
    let calls = station.calls("called");
    let effects = |step: usize| calls.iter().filter(|call| call["step"] == step && call["effect"] == true).count();
    assert_eq!((effects(1), effects(2)), (1, 1), "{calls:?}");
    assert_eq!(station.counts("called"), [2, 1], "the call that was cut off is made again, under its key: {calls:?}");
}
