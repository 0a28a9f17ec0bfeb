//! The node of an agent ends while it is at work, and whoever follows its task through the gateway of another node does not
//! notice.

use std::path::Path;
use std::process::Command;

use althing_e2e::python::python;
use althing_e2e::sessions::{SOON, STEPS, Station, Teller};
use althing_e2e::{Machine, Running, free_port, node, until};

const PYTHON: &str = include_str!("../../python/following.py");
const JAVASCRIPT: &str = include_str!("../../js/following.cjs");
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";

/// The node of the agent is killed while its first call is made, and starts again, while a client follows from another node:
/// `client` gives its command on that machine, told the gateway and the message.
fn followed_over_a_restart(run: &str, client: impl FnOnce(&Machine, &str, &str) -> Command) {
    let station = Station::new();
    let teller = Teller::new(run, &station.file(Some("repeatable")));
    let here = teller.machine.of_same_owner();
    let gateway = here.up_alone(&[]);
    let peer = gateway.address("/ip4/127.0.0.1");
    let listen = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let flags = ["--no-lan", "--gateway", "127.0.0.1:0", "--listen", &listen, "--peer", &peer];
    let serving = teller.machine.up(&flags);
    until(SOON, "the agent is found", || here.finds("teller"));
    station.hold("hold-tool");
    let client = Running::start(&mut client(&here, &gateway.gateway(), &format!("{run} {STEPS}")));
    until(SOON, "the call is made", || !station.calls(run).is_empty());
    serving.running.kill();
    let _again = teller.machine.up(&flags);
    station.release("hold-tool");
    let outcome = client.end(SOON * 2);
    assert!(outcome.code == 0 && outcome.stdout.ends_with("FOLLOWED OK\n"), "{outcome:?}");
    assert!(outcome.stdout.contains(BOTH), "{outcome:?}");
    assert!(!outcome.stdout.contains("lost"), "its stream broke: {outcome:?}");
    let counts = station.counts(run);
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
}

#[test]
fn a_stock_python_client_streams_from_another_node_over_the_restart_without_noticing() {
    let Some(python) = python() else { return };
    followed_over_a_restart("python", |here, gateway, text| {
        here.write("following.py", PYTHON);
        let mut client = here.command(python);
        client.args(["following.py", gateway, "teller", text]);
        client
    });
}

#[test]
fn a_stock_javascript_client_streams_from_another_node_over_the_restart_without_noticing() {
    let Some(packages) = node::packages() else { return };
    followed_over_a_restart("javascript", |here, gateway, text| {
        here.write("following.cjs", JAVASCRIPT);
        let mut client = here.command(Path::new("node"));
        client.args(["following.cjs", &format!("{gateway}/a2a/teller/"), text]).env("NODE_PATH", packages);
        client
    });
}
