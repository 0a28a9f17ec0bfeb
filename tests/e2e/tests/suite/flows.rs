//! Workflows, schedules and applications of a group of real processes of one owner.

use std::time::Duration;

use althing_e2e::desk::{self, Desk};
use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Running, text, until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

const GROUP: &str = include_str!("../../python/group.py");
const ECHO: &str = "name: echo\ndescription: Repeats\nskills: [{ id: echo.say, name: Say, description: Says }]\n\
                    runtime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\n";
const ASKED: &str = "name: asked\nsteps:\n  - { id: a, capability: echo.say, input: \"A {{input}}\" }\n  \
                     - { id: ask, after: a, approve: \"Send {{step.a}}?\" }\n  \
                     - { id: b, after: ask, agent: echo, input: \"{{step.a}}, {{step.ask}}\" }\n";
const APP: &str = "name: some\ngroup: team\nagents:\n  - { file: echo.yaml, instances: 2 }\nworkflows:\n  \
                   - { file: asked.yaml }\nschedules:\n  \
                   - { name: minutely, cron: \"* * * * *\", workflow: asked, input: tick }\n";

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Three nodes in a group; and an app file.
fn team() -> (Desk, Vec<Option<Node>>) {
    let (desk, nodes) = desk::team(&NAMES);
    desk.0.write("echo.yaml", ECHO);
    desk.0.write("asked.yaml", ASKED);
    desk.0.write("app.yaml", APP);
    (desk, nodes)
}

fn runs_on(desk: &Desk, by: &str) -> Vec<String> {
    let shown = desk.json(by, &["app", "show", "team", "some"]);
    let agent = &shown["agents"][0];
    agent["runs"].as_array().into_iter().flatten().map(text).collect()
}

/// The place of the one that leads.
fn leader(desk: &Desk) -> usize {
    let leads = |name: &str| desk.json(name, &["group", "status", "team"])["role"] == "leader";
    NAMES.iter().position(|name| leads(name)).expect("somebody leads")
}

#[test]
fn an_app_is_brought_up_survives_a_member_and_is_removed() {
    let (desk, mut nodes) = team();
    let file = desk.0.folder().join("app.yaml");
    let file = file.to_str().expect("a plain path");
    let planned = desk.json("one", &["app", "apply", "--dry-run", file]);
    assert_eq!(planned["changes"][0]["change"], "added", "{planned}");
    assert!(desk.json("one", &["app", "list", "team"])["apps"].as_array().expect("a list").is_empty());
    // A group whose name is mistyped is not formed unless somebody says so.
    let mistyped = std::fs::read_to_string(file).expect("the file").replace("group: team", "group: taem");
    desk.0.write("mistyped.yaml", &mistyped);
    let mistyped = desk.0.folder().join("mistyped.yaml");
    let asked = desk.run("one", &["app", "apply", mistyped.to_str().expect("a plain path")]);
    assert!(asked.code == 5 && asked.stderr.contains("its groups: team"), "{asked:?}");
    assert_eq!(desk.run("one", &["group", "status", "taem"]).code, 4, "nothing was formed");
    desk.json("one", &["app", "apply", file]);
    let first = runs_on(&desk, "one");
    assert_eq!(first.len(), 2, "{first:?}");
    let again = desk.json("two", &["app", "apply", file]);
    let changes = again["changes"].as_array().expect("a list");
    assert!(changes.iter().all(|change| change["change"] == "same"), "{again}");
    // Its agents cannot be removed one by one.
    let host = NAMES.into_iter().zip(&nodes);
    let mut host = host.filter(|(_, node)| first.contains(&node.as_ref().expect("it runs").did()));
    let (name, _) = host.next_back().expect("a host");
    let refused = desk.run(name, &["agent", "remove", "echo"]);
    assert!(refused.code != 0 && refused.stderr.contains("app remove"), "{refused:?}");
    // A host is killed: another member takes its agent. The caller is a member that lives.
    let at = NAMES.iter().position(|one| one == &name).expect("it was there");
    let lost = nodes[at].as_ref().expect("it runs").did();
    nodes[at].take().expect("it runs").running.kill();
    let by = NAMES[(at + 1) % 3];
    until(SOON, "another member hosts it", || {
        let now = runs_on(&desk, by);
        now.len() == 2 && !now.contains(&lost)
    });
    let done = desk.run(by, &["task", "submit", "team", "--cap", "echo.say", "--wait", "still here"]);
    assert!(done.code == 0 && done.stdout.contains("still here"), "{done:?}");
    let removed = desk.json(by, &["app", "remove", "team", "some"]);
    assert_eq!(removed["changes"].as_array().map(Vec::len), Some(3), "{removed}");
    until(SOON, "no member hosts it", || desk.run(by, &["find", "--cap", "echo.say"]).code == 4);
    // A group that was dissolved is none: another is formed, if somebody says so.
    desk.json(by, &["group", "create", "taem"]);
    desk.json(by, &["group", "dissolve", "taem", "--yes"]);
    let gone = |group: &Value| group["name"] == "taem" && group["standing"] == "dissolved";
    until(SOON, "it is dissolved", || {
        desk.json(by, &["group", "list"])["groups"].as_array().expect("a list").iter().any(gone)
    });
    let asked = desk.run(by, &["app", "apply", mistyped.to_str().expect("a plain path")]);
    assert!(asked.code == 5 && asked.stderr.contains("its groups: team"), "{asked:?}");
}

#[test]
fn a_run_waits_for_its_approval_while_the_leader_is_killed() {
    let (desk, mut nodes) = team();
    let file = desk.0.folder().join("app.yaml");
    desk.json("one", &["app", "apply", file.to_str().expect("a plain path")]);
    let begun = desk.json("two", &["workflow", "run", "team", "asked", "a", "letter"]);
    let run = text(&begun["run"]);
    let step = |by: &str, at: usize| desk.json(by, &["workflow", "show", "team", &run])["step"][at].clone();
    until(SOON, "it asks", || step("one", 1)["state"] == "asking");
    assert_eq!(step("three", 1)["question"], "Send A a letter?");
    let leader = leader(&desk);
    nodes[leader].take().expect("it runs").running.kill();
    let by = NAMES[(leader + 1) % 3];
    desk.json(by, &["workflow", "approve", "team", &run, "yes"]);
    until(SOON, "it has ended", || desk.json(by, &["workflow", "show", "team", &run])["state"] == "completed");
    let shown = desk.json(by, &["workflow", "show", "team", &run]);
    assert_eq!(shown["result"], "A a letter, yes");
    let twice = desk.run(by, &["workflow", "approve", "team", &run, "yes"]);
    assert!(twice.code != 0, "it was answered: {twice:?}");
    // The group is an agent, too, with two members left.
    desk.json(by, &["group", "serve", "team", "--cap", "echo.say", "--as", "team-echo"]);
    let answer = desk.run(by, &["call", "team-echo", "Hello", "group"]);
    assert!(answer.code == 0 && answer.stdout.contains("Hello group"), "{answer:?}");
}

/// The official Python client calls a group through a gateway while its leader is killed.
#[test]
fn the_official_client_drives_a_group_through_a_change_of_its_leader() {
    let Some(python) = python() else { return };
    let (desk, mut nodes) = team();
    let file = desk.0.folder().join("app.yaml");
    desk.0.write("app.yaml", &APP.replace("instances: 2", "instances: 3"));
    desk.json("one", &["app", "apply", file.to_str().expect("a plain path")]);
    desk.json("one", &["group", "serve", "team", "--cap", "echo.say", "--as", "team-echo", "--callers", "anyone"]);
    let leader = leader(&desk);
    let by = (leader + 1) % 3;
    until(SOON, "the group is an agent there", || desk.run(NAMES[by], &["call", "team-echo", "Hello"]).code == 0);
    desk.0.write("group.py", GROUP);
    let gateway = nodes[by].as_ref().expect("it runs").gateway();
    let mut client = Running::start(desk.0.command(python).args(["group.py", &gateway, "team-echo", "300"]));
    assert_eq!(client.line(SOON).as_deref(), Some("UNDER WAY"));
    nodes[leader].take().expect("it runs").running.kill();
    let outcome = client.end(Duration::from_secs(120));
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.ends_with("GROUP OK\n"), "{outcome:?}");
    println!("{}", outcome.stdout);
}

#[test]
fn what_cannot_run_is_refused_with_what_to_write() {
    let machine = Machine::new();
    let _node = machine.up(&[]);
    machine.json(&["group", "create", "team"]);
    machine.write(
        "circle.yaml",
        "name: c\nsteps:\n  - { id: a, agent: x, after: b }\n  - { id: b, agent: x, after: a }\n",
    );
    machine.write("app.yaml", "name: a\ngroup: team\nagents: [{ file: missing.yaml }]\n");
    for (file, wrong) in [("late.yaml", "cron: \"61 3 * * *\""), ("far.yaml", "cron: \"* * * * *\", zone: Berlin")] {
        let app = APP.replace(", instances: 2", "").replace("cron: \"* * * * *\"", wrong);
        machine.write(file, &app);
    }
    machine.write("echo.yaml", ECHO);
    machine.write("asked.yaml", ASKED);
    let at = |file: &str| machine.folder().join(file).to_str().expect("a plain path").to_owned();
    for (arguments, told) in [
        (vec!["workflow", "run", "team", &at("circle.yaml")], "wait for each other: a → b → a"),
        (vec!["workflow", "run", "team", &at("circle.yaml")], "circle.yaml: the workflow file"),
        (vec!["app", "apply", &at("late.yaml")], "late.yaml: schedules[0].cron of \"minutely\""),
        (vec!["app", "apply", "--dry-run", &at("far.yaml")], "far.yaml: schedules[0].zone of \"minutely\""),
        (vec!["workflow", "run", "team", "nothing"], "keeps no workflow of that name"),
        (vec!["workflow", "show", "team", "0123"], "no id of a run"),
        (vec!["workflow", "resume", "team", "00000000000000000000000000000001"], "no run"),
        (vec!["app", "apply", &at("app.yaml")], "missing.yaml"),
        (vec!["app", "remove", "team", "none"], "no application"),
        (vec!["schedule", "add", "team", "x", "* * *", "--cap", "a.b"], "no pattern of cron"),
        (vec!["schedule", "add", "team", "x", "*/90 * * * *", "--cap", "a.b"], "write a step of 59 at most"),
        (vec!["schedule", "show", "team", "x"], "the group has no schedule \"x\""),
        (vec!["schedule", "add", "team", "x", "0 6 * * *", "--cap", "a.b", "--zone", "Berlin"], "no time zone"),
        (vec!["schedule", "add", "team", "x", "0 6 * * *"], "--workflow"),
        (vec!["schedule", "remove", "team", "x"], "no schedule"),
        (vec!["group", "serve", "none", "--cap", "a.b"], "none"),
    ] {
        let refused = machine.run(&arguments);
        assert!(refused.code != 0 && refused.stderr.contains(told), "{arguments:?}: {refused:?}");
    }
    // A range over the end of the week, and what becomes of times that come too early.
    let night = ["schedule", "add", "team", "night", "0 22-2 * * fri-mon", "--cap", "a.b"];
    assert_eq!(machine.json(&night)["nextMs"].as_array().map(Vec::len), Some(3));
    let shown = machine.json(&["schedule", "show", "team", "night"]);
    assert_eq!((&shown["overlap"], &shown["skipped"]), (&serde_json::json!("skip"), &serde_json::json!(0)), "{shown}");
    machine.json(&[&night[..], &["--overlap", "replace"]].concat());
    assert_eq!(machine.json(&["schedule", "list", "team"])["schedules"][0]["overlap"], "replace");
}
