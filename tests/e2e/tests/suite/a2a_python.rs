//! The official A2A SDK for Python on both ends: its client drives an agent through the gateway of its own node and of
//! another, over each binding, and the agent itself is made with its server.

use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{COMMAND_MAX, Machine, Node, Running, family, http, runs, until};
use serde_json::{Value, json};

const INTEROP: &str = include_str!("../../python/interop.py");
const AGENT: &str = include_str!("../../../../examples/python-agent/agent.py");
const AGENT_FILE: &str = include_str!("../../../../examples/python-agent/agent.yaml");
/// The bindings over which the client has its conversation.
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes on loopback; the second runs the example and trusts the first.
struct Pair {
    one: Machine,
    two: Machine,
    caller: Node,
    host: Node,
}

impl Pair {
    fn start(python: &Path) -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let caller = one.up_alone(&[]);
        let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
        let pair = Pair { one, two, caller, host };
        pair.two.json(&["trust", &pair.caller.owner()]);
        // So a name leads to its agents, over the gateway too.
        pair.one.json(&["trust", &pair.host.owner()]);
        pair.two.write("agent.py", AGENT);
        pair.add(python);
        until(SOON, "the agent is found on the other node", || pair.one.finds("counter"));
        pair
    }

    /// The example as it is, with the Python that has the SDK.
    fn add(&self, python: &Path) {
        let file = AGENT_FILE.replace("[python3, ", &format!("[{:?}, ", python.to_string_lossy()));
        assert_ne!(file, AGENT_FILE, "the example names its Python");
        self.two.add("counter", &file);
        until(SOON, "the program is up", || self.row().is_some_and(|row| row["state"] == "ready"));
    }

    fn row(&self) -> Option<Value> {
        let list = self.two.json(&["ps"]);
        list["agents"].as_array().expect("a list").iter().find(|row| row["name"] == "counter").cloned()
    }

    /// The agent's processes.
    fn family(&self) -> Vec<u32> {
        let pid = self.row().and_then(|row| row["pid"].as_u64()).expect("it runs");
        family(u32::try_from(pid).expect("a pid"))
    }
}

#[test]
fn the_official_client_drives_an_agent_here_and_on_another_node() {
    let Some(python) = python() else { return };
    let pair = Pair::start(python);
    pair.one.write("interop.py", INTEROP);
    for gateway in [pair.caller.gateway(), pair.host.gateway()] {
        let mut client = pair.one.command(python);
        client.args(["interop.py", &gateway, "counter"]).args(BINDINGS);
        let outcome = Running::start(&mut client).end(Duration::from_secs(180));
        println!("{}", outcome.stdout);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.ends_with("INTEROP OK\n"), "{outcome:?}");
    }
    until(SOON, "no task is left", || {
        pair.two.json(&["status"])["layers"]["calls"]["liveTasks"] == 0
            && pair.row().is_some_and(|row| row["turns"] == 0)
    });
}

#[test]
fn an_agent_of_the_official_server_lives_and_dies_with_its_node() {
    let Some(python) = python() else { return };
    let pair = Pair::start(python);
    let answered = pair.one.run(&["call", "counter", "0.01", "one", "two"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (0, "one two \n2 words\n"), "{answered:?}");
    assert!(answered.stderr.contains("counting the words"), "{answered:?}");

    // Cancelled by Ctrl-C on the other node: the turn ends here.
    let mut call = Running::start(&mut pair.one.althing(&["--json", "call", "counter", "0.1 ", &"w ".repeat(600)]));
    let first: Value = serde_json::from_str(&call.line(SOON).expect("a task")).expect("JSON");
    call.line(SOON).expect("the answer streams");
    assert_eq!(pair.row().map(|row| row["turns"].clone()), Some(json!(1)));
    call.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(call.end(COMMAND_MAX).code, 130);
    let task = http::ask(&pair.caller.gateway(), "counter", "GetTask", &json!({ "id": first["task"]["id"] }));
    assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED", "{task}");
    until(SOON, "the turn has ended", || pair.row().is_some_and(|row| row["turns"] == 0));

    let all = pair.family();
    assert!(all.len() >= 2, "keeper and program: {all:?}");
    pair.two.json(&["agent", "remove", "counter"]);
    assert!(all.iter().all(|pid| !runs(*pid)), "the program outlives its agent");
    until(SOON, "the agent is not found any more", || !pair.one.finds("counter"));
    assert_eq!(pair.one.run(&["call", "counter", "0", "one"]).code, 4);

    pair.add(python);
    let all = pair.family();
    pair.host.running.kill();
    until(SOON, "the program ends with its node", || all.iter().all(|pid| !runs(*pid)));
}
