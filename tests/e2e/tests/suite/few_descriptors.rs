//! A thousand event streams where a process may have 1,024 files open: each is served or told that there is no place, and calls,
//! control, store and doctor go on.

use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{authority, get};
use althing_e2e::{Machine, Running, UP_MAX, binary, cast, text, until};
use serde_json::Value;

const VIEWERS: &str = include_str!("../../python/viewers.py");
const SOON: Duration = Duration::from_secs(60);
/// The files that the node may have open, in the words of a shell that cannot raise that again.
const LIMITED: &str = "ulimit -n 1024 && exec \"$0\" \"$@\"";
/// Connections that the gateway takes then.
const PLACES: &str = "512";

/// A node of a machine with few descriptors, and what it said.
fn up(machine: &Machine) -> (Running, Value) {
    let mut command = machine.command(Path::new("sh"));
    command.args(["-c", LIMITED]).arg(binary()).arg("--data").arg(machine.data());
    command.args(["--json", "up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    let mut running = Running::start(&mut command);
    let said = running.line(UP_MAX).expect("it starts");
    (running, serde_json::from_str(&said).expect("JSON"))
}

#[test]
fn a_thousand_viewers_are_served_or_told_and_the_node_goes_on() {
    let machine = Machine::new();
    let (node, said) = up(&machine);
    assert!(said["notes"].to_string().contains(&format!("{PLACES} connections instead of 1024")), "{said}");
    machine.add("echo", &cast::echo("echo", "trusted"));
    machine.write("viewers.py", VIEWERS);
    let gateway = text(&said["gateway"]);
    let mut viewing = machine.command(Path::new("python3"));
    let mut viewers = Running::start(viewing.args(["viewers.py", authority(&gateway), "echo", "1000"]));
    let answered = viewers.line(SOON).expect("all were answered");
    assert_eq!(answered, format!("200={PLACES} 503=488"));
    // With all places taken: what the gateway is not needed for goes on, what is written too.
    let called = machine.run(&["call", "echo", "still here"]);
    assert!(called.code == 0 && called.stdout.contains("still here"), "{called:?}");
    machine.add("second", &cast::echo("second", "trusted"));
    let told = machine.run(&["doctor"]);
    assert!(told.stdout.contains("the data directory can be written"), "{told:?}");
    assert_eq!(get(&gateway, "/healthz", &[]).status, 503);
    machine.write("talk", "");
    assert_eq!(viewers.line(SOON).as_deref(), Some("511"), "each that has a stream hears");
    machine.write("leave", "");
    assert_eq!(viewers.end(SOON).code, 0);
    until(SOON, "there are places again", || get(&gateway, "/healthz", &[]).status == 200);
    assert_eq!(machine.json(&["ps"])["agents"].as_array().map(Vec::len), Some(2), "what was written is kept");
    drop(node);
}
