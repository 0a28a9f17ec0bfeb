//! `althing events`: the owner follows what happens on a node, and comes back to it.

use std::time::Duration;

use althing_e2e::{Machine, Outcome, Running, cast};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);

fn read(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The next event of that kind.
fn next(events: &mut Running, kind: &str) -> Value {
    loop {
        let event = read(&events.line(SOON).unwrap_or_else(|| panic!("no event {kind}")));
        if event["event"] == kind {
            return event;
        }
    }
}

fn events(machine: &Machine, arguments: &[&str]) -> Vec<Value> {
    let Outcome { code, stdout, stderr } = machine.run(&[&["--json", "events"][..], arguments].concat());
    assert_eq!(code, 0, "{stderr}");
    stdout.lines().map(read).collect()
}

#[test]
fn the_owner_follows_what_happens_and_hears_later_what_came_meanwhile() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    // It listens once it has shown how everything is.
    let mut following = Running::start(&mut machine.althing(&["--json", "events", "--after", "0"]));
    let first = next(&mut following, "snapshot");
    assert_eq!((&first["missed"], &first["agents"]), (&Value::Null, &Value::Array(Vec::new())), "{first}");
    machine.add("echo", &cast::echo("echo", "trusted"));
    let start = next(&mut following, "agentStart");
    assert_eq!(start["agent"], "echo");
    assert!(start["agentId"].as_str().is_some_and(|id| id.ends_with(":echo")), "{start}");
    assert!(start["id"].as_u64() > first["id"].as_u64(), "{start}");
    let stranger = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    machine.json(&["trust", stranger]);
    let trust = next(&mut following, "trust");
    assert_eq!((&trust["whom"], &trust["trusted"]), (&stranger.into(), &true.into()), "{trust}");
    machine.json(&["group", "create", "crew"]);
    let mut group = next(&mut following, "group");
    while group["leader"] != node.did() {
        group = next(&mut following, "group");
    }
    assert_eq!((&group["name"], &group["standing"]), (&"crew".into(), &"member".into()), "{group}");
    machine.json(&["agent", "remove", "echo"]);
    let end = next(&mut following, "agentEnd");
    assert_eq!(end["agent"], "echo");
    following.kill();

    let after = start["id"].as_u64().expect("a number").to_string();
    let again = events(&machine, &["--after", &after, "--count", "1"]);
    assert_eq!(again, [trust], "whoever comes back is told what came since");
    let now = events(&machine, &["--after", "0", "--count", "1"]);
    assert_eq!(now[0]["trusted"], Value::from(vec![stranger]), "{now:?}");
    assert_eq!(now[0]["groups"][0]["name"], "crew", "{now:?}");
    let people = machine.run(&["events", "--after", &after, "--count", "1"]);
    assert!(people.stdout.ends_with(&format!(" trusts {stranger}\n")), "{people:?}");
}
