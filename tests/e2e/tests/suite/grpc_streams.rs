//! A hundred streams of the stock gRPC client on one connection, to the node that has the agent and to another one.

use std::time::Duration;

use althing_e2e::http::authority;
use althing_e2e::python::python;
use althing_e2e::{Machine, Running, until};

const CLIENT: &str = include_str!("../../python/streams.py");
const AGENT: &str = include_str!("../../../../examples/python-agent/agent.py");
const AGENT_FILE: &str = include_str!("../../../../examples/python-agent/agent.yaml");
/// What a peer is to allow at least (RFC 9113, 6.5.2).
const STREAMS: &str = "100";
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_hundred_streams_go_on_at_the_same_time_on_one_connection() {
    let Some(python) = python() else { return };
    let (one, two) = (Machine::new(), Machine::new());
    let caller = one.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    one.json(&["trust", &host.owner()]);
    two.write("agent.py", AGENT);
    let file = AGENT_FILE.replace("[python3, ", &format!("[{:?}, ", python.to_string_lossy()));
    assert_ne!(file, AGENT_FILE, "the example names its Python");
    two.add("counter", &file);
    until(SOON, "the program is up", || two.json(&["ps"])["agents"][0]["state"] == "ready");
    until(SOON, "the agent is found on the other node", || one.finds("counter"));
    one.write("streams.py", CLIENT);
    for gateway in [host.gateway(), caller.gateway()] {
        let mut client = one.command(python);
        client.args(["streams.py", authority(&gateway), "counter", STREAMS]);
        let outcome = Running::start(&mut client).end(Duration::from_secs(180));
        assert!(outcome.code == 0 && outcome.stdout.ends_with("STREAMS OK\n"), "{gateway}: {outcome:?}");
    }
    until(SOON, "no task is left", || two.json(&["status"])["layers"]["calls"]["liveTasks"] == 0);
}
