//! Instances of an agent that a group of real processes starts while there is more for it to do.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_e2e::desk::{self, Desk};
use althing_e2e::{text, until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(90);

const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];
/// The most instances of the agent, of five members that could host one.
const MOST: usize = 4;

const ECHO: &str = "name: echo\ndescription: Repeats\nskills: [{ id: echo.say, name: Say, description: Says }]\n\
                    runtime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\n";
const APP: &str = "name: busy\ngroup: team\nagents:\n  - { file: echo.yaml, instances: 1, instances_max: 4 }\n\
                   workflows:\n  - { file: waits.yaml }\n  - { file: spreads.yaml }\n";
/// A step with six branches, for which no member has the label yet.
const WAITS: &str = "name: waits\nsteps:\n  - { id: plan, agent: echo, input: '[\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]' }\n  \
                     - { id: work, for_each: plan, agent: echo, input: \"{{item}}\", needs: { labels: [later] } }\n";
/// A step with eight branches.
const SPREADS: &str = "name: spreads\nsteps:\n  - { id: plan, agent: echo, input: '[1, 2, 3, 4, 5, 6, 7, 8]' }\n  \
                       - { id: work, for_each: plan, agent: echo, input: \"{{item}}\" }\n";

/// The nodes on which the group placed the agent: never more than it may.
fn placed(desk: &Desk) -> BTreeSet<String> {
    let shown = desk.json("one", &["app", "show", "team", "busy"]);
    let placed: BTreeSet<String> = shown["agents"][0]["placed"].as_array().expect("a list").iter().map(text).collect();
    assert!(placed.len() <= MOST, "{shown}");
    placed
}

/// The nodes on which a node of that name finds the agent.
fn found(desk: &Desk, by: &str) -> BTreeSet<String> {
    let outcome = desk.run(by, &["find"]);
    assert!(outcome.code == 0 || outcome.code == 4, "{outcome:?}");
    let list: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let rows = list["agents"].as_array().expect("a list").iter();
    rows.filter(|row| row["name"] == "echo").map(|row| text(&row["node"])).collect()
}

/// The turns of the agent on the node of that name, if it runs there.
fn turns(desk: &Desk, name: &str) -> Option<u64> {
    let list = desk.json(name, &["ps"]);
    let mut rows = list["agents"].as_array().expect("a list").iter();
    let row = rows.find(|row| row["name"] == "echo" && row["state"] == "ready")?;
    row["turnsTotal"].as_u64()
}

/// Waits until the agent runs on so many nodes, each of which all nodes find.
fn runs_on(desk: &Desk, count: usize) {
    until(SOON, &format!("it runs on {count} nodes, and all find it there"), || {
        let hosts = placed(desk);
        hosts.len() == count
            && NAMES.iter().all(|name| found(desk, name) == hosts)
            && NAMES.iter().filter(|name| turns(desk, name).is_some()).count() == count
    });
}

/// F5
#[test]
fn a_step_starts_more_instances_within_the_bound_which_are_found_used_and_gone_afterwards() {
    let (desk, _nodes) = desk::team(&NAMES);
    for (name, content) in [("echo.yaml", ECHO), ("waits.yaml", WAITS), ("spreads.yaml", SPREADS), ("app.yaml", APP)] {
        desk.0.write(name, content);
    }
    let file = desk.0.folder().join("app.yaml");
    desk.json("one", &["app", "apply", file.to_str().expect("a plain path")]);
    runs_on(&desk, 1);
    let waits = text(&desk.json("two", &["workflow", "run", "team", "waits"])["run"]);
    runs_on(&desk, MOST);
    until(SOON, "each instance has done a task", || {
        let run = text(&desk.json("three", &["workflow", "run", "team", "spreads"])["run"]);
        until(SOON, "the run has ended", || {
            desk.json("three", &["workflow", "show", "team", &run])["state"] == "completed"
        });
        let of_each: Vec<u64> = NAMES.iter().filter_map(|name| turns(&desk, name)).collect();
        of_each.len() == MOST && of_each.iter().all(|turns| *turns > 0)
    });
    desk.json("two", &["workflow", "cancel", "team", &waits]);
    runs_on(&desk, 1);
    desk.json("one", &["app", "remove", "team", "busy"]);
    until(SOON, "nobody runs it, and nobody finds it", || {
        NAMES.iter().all(|name| found(&desk, name).is_empty() && turns(&desk, name).is_none())
    });
}
