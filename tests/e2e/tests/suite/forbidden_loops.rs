//! A control loop is decided on when it is added, when it is started and whenever policies change: nobody calls it, so that nothing of
//! what it does would be.

use std::time::Duration;

use althing_e2e::{Machine, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
/// Stands still.
const IDLE: &str = r#"(module (func (export "turn")))"#;
const ALL: &str = "@id(\"all\") permit(principal, action, resource);\n";

fn file(name: &str) -> String {
    json!({
        "name": name,
        "description": "Stands still",
        "runtime": { "wasm": { "module": "idle.wat" } },
        "contract": {
            "class": { "latency": "hrt", "period_us": 10_000, "deadline_us": 10_000, "budget_us": 500 },
            "placement": { "min_grade": "C" },
        },
    })
    .to_string()
}

fn row(machine: &Machine, name: &str) -> Value {
    let list = machine.json(&["ps"]);
    list["agents"].as_array().expect("a list").iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

/// How many jobs a loop has done since it was started; none where it does not run.
fn jobs(machine: &Machine, name: &str) -> Option<u64> {
    row(machine, name)["hrt"]["jobs"].as_u64()
}

fn goes_on(machine: &Machine, name: &str) {
    let before = jobs(machine, name);
    until(SOON, "it does its jobs", || jobs(machine, name) > before);
}

fn load(machine: &Machine, set: &str) {
    let path = machine.write("set.cedar", set);
    machine.json(&["policy", "load", path.to_str().expect("a plain path")]);
}

fn is_stopped(machine: &Machine, name: &str) -> bool {
    let row = row(machine, name);
    let why = row["why"].as_str().unwrap_or_default();
    row["state"] == "failed" && why.contains("running the control loop \"arm\" is refused") && why.contains("no-arm")
}

#[test]
fn a_control_loop_that_other_policies_forbid_stops_and_runs_again_once_they_permit_it() {
    let machine = Machine::new();
    machine.write("idle.wat", IDLE);
    let node = machine.up_alone(&[]);
    for name in ["arm", "fan"] {
        machine.add(name, &file(name));
        goes_on(&machine, name);
    }
    load(&machine, ALL);
    goes_on(&machine, "arm");
    let forbid = format!(
        "{ALL}@id(\"no-arm\") forbid(principal, action == Action::\"addAgent\", resource)\n\
         when {{ context.input has name && context.input.name == \"arm\" }};\n"
    );
    load(&machine, &forbid);
    until(SOON, "the arm stops, and says why", || is_stopped(&machine, "arm"));
    goes_on(&machine, "fan");
    let doctor = machine.run(&["doctor"]).stdout;
    assert!(doctor.contains("L7  control loop \"arm\" does not run") && doctor.contains("no-arm"), "{doctor}");
    let denials = || {
        let list = machine.json(&["audit", "query", "--action", "addAgent", "--stage", "denied"]);
        list["entries"].as_array().map_or(0, Vec::len)
    };
    until(SOON, "its denial is on record", || denials() == 1);
    node.running.kill();

    let _node = machine.up_alone(&[]);
    until(SOON, "the other one runs again", || jobs(&machine, "fan") > Some(0));
    until(SOON, "after a start it stays where it is", || is_stopped(&machine, "arm"));
    load(&machine, ALL);
    until(SOON, "it runs again by itself", || jobs(&machine, "arm") > Some(0));
}
