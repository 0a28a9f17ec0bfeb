//! Members of a group try a new version of the agent that does its work, by group: all of that work is done by one version, on each
//! of them, also when the member is killed that leads.

use std::collections::{BTreeMap, BTreeSet};

use althing_e2e::{ADD_MAX, Machine, Node, Running, cast, http, text, until};
use serde_json::{Value, json};

use super::groups::{SOON, Team};

const SHOP: &str = include_str!("../../python/shop.py");
/// So many versions are tried until one has the group's work, which nine of ten have.
const VERSIONS_MAX: usize = 12;

/// The file of a version that says this word to everything.
fn shop(version: &str, word: &str) -> String {
    let file = cast::program("shop", &["python3", "shop.py", word], "anyone");
    file.replace("version: 1.0.0\n", &format!("version: {version}\n"))
}

/// Three members, each of which has a label of its own, and does the same work.
fn team() -> Team {
    let machine = |at: usize| {
        let machine = Machine::new();
        machine.configure(&format!("[node]\nlabels = [\"m{at}\"]\n"));
        machine.write("shop.py", SHOP);
        machine
    };
    let team = Team::of((0..3).map(machine).collect());
    for machine in &team.machines {
        machine.add("shop", &shop("1.0.0", "one"));
    }
    team
}

/// Begins a rollout by group; gives the digest of the new version.
fn begin(machine: &Machine, version: &str, word: &str) -> String {
    let file = machine.write(&format!("shop-{version}.yaml"), &shop(version, word));
    let mut command =
        machine.althing(&["--json", "rollout", "shop", "--steps", "90,100", "--by", "group", "--yes", "--to"]);
    let begun = Running::start(command.arg(&file)).end(ADD_MAX);
    assert_eq!(begun.code, 0, "{begun:?}");
    let begun: Value = serde_json::from_str(&begun.stdout).expect("JSON");
    assert_eq!((&begun["by"], &begun["state"]), (&json!("group"), &json!("running")), "{begun}");
    text(&begun["new"]["digest"])
}

/// Gives the group work, for any member or for that with this label; gives the task's id.
fn submit(machine: &Machine, label: Option<&str>) -> String {
    let mut submit = vec!["task", "submit", "team", "--agent", "shop", "--lease", "2"];
    submit.extend(label.into_iter().flat_map(|label| ["--label", label]));
    submit.push("a mug, please");
    text(&machine.json(&submit)["task"])
}

/// What a task was answered with, and under which token, when it is done.
fn answer(machine: &Machine, task: &str) -> (String, u64) {
    let mut shown = Value::Null;
    until(SOON, "it is done", || {
        shown = machine.json(&["task", "show", "team", task]);
        shown["state"] == "completed"
    });
    let word = text(&shown["result"]["task"]["artifacts"][0]["parts"][0]["text"]);
    (word, shown["fencingToken"].as_u64().expect("a number"))
}

/// What each member answers when the group gives it work.
fn words(team: &Team, from: usize) -> BTreeSet<String> {
    let labels = ["m0", "m1", "m2", "m0", "m1", "m2"];
    let tasks = labels.map(|label| submit(&team.machines[from], Some(label)));
    tasks.iter().map(|task| answer(&team.machines[from], task).0).collect()
}

/// What a node answers to a call of its own.
fn said(node: &Node) -> String {
    let answer = http::ask(&node.gateway(), "shop", "SendMessage", &http::says("a mug, please"));
    text(&answer["task"]["artifacts"][0]["parts"][0]["text"])
}

/// Lets all members try the same versions until one has the group's work; gives its word.
fn drawn(team: &Team) -> String {
    // One of them has decided more than the others.
    begin(&team.machines[0], "1.0.1", "another");
    team.machines[0].json(&["rollout", "abort", "shop"]);
    for number in 1..=VERSIONS_MAX {
        let (version, word) = (format!("1.{number}.0"), format!("new-{number}"));
        let digests: BTreeSet<String> = team.machines.iter().map(|machine| begin(machine, &version, &word)).collect();
        assert_eq!(digests.len(), 1, "it is one version: {digests:?}");
        let words = words(team, 0);
        assert_eq!(words.len(), 1, "each member draws alike: {words:?}");
        if words.contains(&word) {
            return word;
        }
        assert!(words.contains("one"), "no version said this: {words:?}");
        for machine in &team.machines {
            machine.json(&["rollout", "abort", "shop"]);
        }
    }
    panic!("none of {VERSIONS_MAX} versions has the group's work, and nine of ten should")
}

#[test]
fn the_work_of_a_group_has_one_version_on_all_members_also_when_their_leader_is_killed() {
    let mut team = team();
    let word = drawn(&team);
    for (at, machine) in team.machines.iter().enumerate() {
        assert_eq!(said(team.node(at)), "one", "a call is no work of the group");
        let shown = machine.run(&["rollout", "show", "shop"]);
        assert!(shown.stdout.contains("has 90 % of the groups"), "{shown:?}");
    }

    let leader = team.leader();
    let (from, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut tasks: Vec<String> = (0..6).map(|_| submit(&team.machines[from], None)).collect();
    // The leader's own: it ends before it is done, or soon after.
    tasks.push(submit(&team.machines[from], Some(&format!("m{leader}"))));
    team.kill(leader);
    tasks.extend((0..6).map(|_| submit(&team.machines[from], None)));
    let next = team.leader();
    assert_ne!(next, leader);
    team.restart(leader);
    until(SOON, "the killed one follows", || team.status(leader)["role"] == "follower");
    let ends = |at: usize| -> BTreeMap<String, (String, u64)> {
        tasks.iter().map(|task| (task.clone(), answer(&team.machines[at], task))).collect()
    };
    let seen = ends(from);
    for (task, (said, _)) in &seen {
        assert_eq!(*said, word, "{task}: the version that the group's work had before");
    }
    assert!(ends(other) == seen && ends(leader) == seen, "one answer of each, for all members");
    let listed = team.machines[from].json(&["task", "list", "team", "--all"]);
    let count = |task: &String| {
        let listed = listed["tasks"].as_array().expect("a list").iter();
        listed.filter(|row| row["task"] == task.as_str() && row["state"] == "completed").count()
    };
    assert!(tasks.iter().all(|task| count(task) == 1), "{listed}");

    // Also on the member that was killed, whose rollout goes on.
    assert_eq!(words(&team, from), BTreeSet::from([word]));
    assert_eq!(said(team.node(leader)), "one");
}
