//! `althing tap`: the owner sees the signed messages that pass between this node and others.

use std::time::Duration;

use althing_e2e::{Machine, Running, cast, until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);

#[test]
fn the_owner_sees_the_messages_about_an_agent_as_they_pass() {
    let (one, two) = (Machine::new(), Machine::new());
    let caller = one.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    one.json(&["trust", &host.owner()]);
    two.add("echo", &cast::echo("echo", "trusted"));
    until(SOON, "it is found", || one.finds("echo"));
    let mut tap =
        Running::start(&mut two.althing(&["--json", "tap", "--agent", "echo", "--protocol", "call", "--count", "2"]));
    // Whether it listens yet shows only by what it shows.
    let mut first = None;
    until(SOON, "a message is shown", || {
        assert_eq!(one.run(&["call", "echo", "hello there"]).code, 0);
        first = tap.line(Duration::from_millis(500));
        first.is_some()
    });
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let request = read(&first.expect("a line"));
    assert_eq!((&request["direction"], &request["kind"]), (&Value::from("in"), &Value::from("request")), "{request}");
    assert_eq!(
        (&request["peer"], &request["protocol"]),
        (&Value::from(caller.did()), &Value::from("/althing/call/1")),
        "{request}"
    );
    assert!(request["body"].as_str().is_some_and(|body| body.contains("hello there")), "{request}");
    let answer = read(&tap.line(SOON).expect("a line"));
    assert_eq!(answer["direction"], "out", "{answer}");
    assert!(answer["agent"].as_str().is_some_and(|agent| agent.ends_with(":echo")), "{answer}");
    assert_eq!(tap.end(SOON).code, 0);
}
