//! Members of a group try a new version of the agent that does its work, by group: all of that work is done by one version, on each
//! of them, also when the member is killed that leads. By channel all work is that comes by one channel.

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
    begin_by(machine, ("group", "90,100"), (version, word))
}

/// Begins a rollout by that unit, in these steps; gives the digest of the new version.
fn begin_by(machine: &Machine, (by, steps): (&str, &str), (version, word): (&str, &str)) -> String {
    let file = machine.write(&format!("shop-{version}.yaml"), &shop(version, word));
    let mut command = machine.althing(&["--json", "rollout", "shop", "--steps", steps, "--by", by, "--yes", "--to"]);
    let begun = Running::start(command.arg(&file)).end(ADD_MAX);
    assert_eq!(begun.code, 0, "{begun:?}");
    let begun: Value = serde_json::from_str(&begun.stdout).expect("JSON");
    assert_eq!((&begun["by"], &begun["state"]), (&json!(by), &json!("running")), "{begun}");
    text(&begun["new"]["digest"])
}

/// Gives the group work, for any member or for that with this label; gives the task's id.
fn submit(machine: &Machine, label: Option<&str>) -> String {
    submit_by(machine, None, label)
}

/// The same by a channel.
fn submit_by(machine: &Machine, channel: Option<&str>, label: Option<&str>) -> String {
    let mut submit = vec!["task", "submit", "team", "--agent", "shop", "--lease", "2"];
    submit.extend(label.into_iter().flat_map(|label| ["--label", label]));
    submit.extend(channel.into_iter().flat_map(|channel| ["--channel", channel]));
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
    words_by(team, from, None)
}

/// What each member answers when the group gives it work that came by that channel.
fn words_by(team: &Team, from: usize, channel: Option<&str>) -> BTreeSet<String> {
    let labels = ["m0", "m1", "m2", "m0", "m1", "m2"];
    let tasks = labels.map(|label| submit_by(&team.machines[from], channel, Some(label)));
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

#[test]
fn all_work_of_one_channel_has_one_version_on_all_members_and_another_channel_may_have_the_other_one() {
    let mut team = team();
    let wrong = ["task", "submit", "team", "--agent", "shop", "--channel", "The Web", "a mug, please"];
    let refused = team.machines[2].run(&wrong);
    assert!(refused.code != 0 && refused.stderr.contains("a channel has 1 to 63"), "{refused:?}");
    // The channels have different versions of half of those that are tried.
    let drawn = (1..=VERSIONS_MAX).find_map(|number| {
        let (version, word) = (format!("1.{number}.0"), format!("new-{number}"));
        for machine in &team.machines {
            begin_by(machine, ("channel", "50,100"), (&version, &word));
        }
        // Whichever member gives the work.
        let drawn = ["web", "ivr"].map(|channel| {
            let words: BTreeSet<String> = (0..2).flat_map(|from| words_by(&team, from, Some(channel))).collect();
            assert_eq!(words.len(), 1, "{channel}: each member draws alike: {words:?}");
            words.into_iter().next().expect("one")
        });
        if drawn[0] != drawn[1] {
            return Some(drawn);
        }
        for machine in &team.machines {
            machine.json(&["rollout", "abort", "shop"]);
        }
        None
    });
    let drawn = drawn.expect("two channels have different versions");
    let told = team.machines[0].run(&["rollout", "show", "shop"]);
    assert!(told.stdout.contains("has 50 % of the channels"), "{told:?}");
    let without = words(&team, 0);
    assert_eq!(without.len(), 1, "work without a channel is the group's: {without:?}");

    // It stays so while a member is away, and when it is back.
    let task = submit_by(&team.machines[0], Some("web"), None);
    assert_eq!(answer(&team.machines[0], &task).0, drawn[0]);
    assert_eq!(team.machines[0].json(&["task", "show", "team", &task])["channel"], "web");
    let leader = team.leader();
    team.kill(leader);
    let from = (leader + 1) % 3;
    for (channel, word) in ["web", "ivr"].into_iter().zip(&drawn) {
        let tasks: Vec<String> = (0..3).map(|_| submit_by(&team.machines[from], Some(channel), None)).collect();
        assert!(tasks.iter().all(|task| answer(&team.machines[from], task).0 == *word), "{channel}");
    }
    team.restart(leader);
    until(SOON, "the killed one follows", || team.status(leader)["role"] == "follower");
    for (channel, word) in ["web", "ivr"].into_iter().zip(&drawn) {
        assert_eq!(words_by(&team, from, Some(channel)), BTreeSet::from([word.clone()]), "{channel}");
    }
}
