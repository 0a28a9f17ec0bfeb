//! The node of an agent ends while it is at work, and whoever follows its task through the gateway of another node does not
//! notice; nor does an agent on another node that asked it.

use std::path::Path;
use std::process::Command;

use althing_e2e::python::python;
use althing_e2e::sessions::{SOON, STEPS, Station, Teller, words};
use althing_e2e::{Machine, Running, free_port, http, node, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const PYTHON: &str = include_str!("../../python/following.py");
const JAVASCRIPT: &str = include_str!("../../js/following.cjs");
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";

/// The node of the agent is ended by that signal while its first call is made, and starts again, while a client follows from another
/// node: `client` gives its command on that machine, told the gateway and the message.
fn followed_over_a_restart(run: &str, signal: Signal, client: impl FnOnce(&Machine, &str, &str) -> Command) {
    let station = Station::new();
    let teller = Teller::new(run, &station.file(Some("repeatable")));
    let here = teller.machine.of_same_owner();
    let gateway = here.up_alone(&[]);
    let peer = gateway.address("/ip4/127.0.0.1");
    let listen = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let flags = ["--no-lan", "--gateway", "127.0.0.1:0", "--listen", &listen, "--peer", &peer];
    let mut serving = teller.machine.up(&flags);
    until(SOON, "the agent is found", || here.finds("teller"));
    station.hold("hold-tool");
    let client = Running::start(&mut client(&here, &gateway.gateway(), &format!("{run} {STEPS}")));
    until(SOON, "the call is made", || !station.calls(run).is_empty());
    serving.running.signal(signal);
    until(SOON, "the node has ended", || serving.running.ended());
    drop(serving);
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
    // A node that is stopped lets its callers know, and leaves its turns to its next start.
    for (run, signal) in [("python", Signal::SIGKILL), ("stopped", Signal::SIGTERM)] {
        followed_over_a_restart(run, signal, |here, gateway, text| {
            here.write("following.py", PYTHON);
            let mut client = here.command(python);
            client.args(["following.py", gateway, "teller", text]);
            client
        });
    }
}

#[test]
fn a_stock_javascript_client_streams_from_another_node_over_the_restart_without_noticing() {
    let Some(packages) = node::packages() else { return };
    followed_over_a_restart("javascript", Signal::SIGKILL, |here, gateway, text| {
        here.write("following.cjs", JAVASCRIPT);
        let mut client = here.command(Path::new("node"));
        client.args(["following.cjs", &format!("{gateway}/a2a/teller/"), text]).env("NODE_PATH", packages);
        client
    });
}

/// How many tasks an agent has on the node of that gateway.
fn tasks(gateway: &str, agent: &str) -> Value {
    http::ask(gateway, agent, "ListTasks", &json!({}))["totalSize"].clone()
}

/// An agent asks one on another node, which asks one on a third: the node in the middle is killed while the last one works.
#[test]
fn an_agent_is_given_the_one_answer_of_another_one_whose_node_was_killed_while_it_waited_for_a_third() {
    let station = Station::new();
    let teller = Teller::of("chained");
    let last = teller.begin(&station, None);
    let (middle, first) = (teller.machine.of_same_owner(), teller.machine.of_same_owner());
    let listen = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let peer = last.address("/ip4/127.0.0.1");
    let flags = ["--no-lan", "--gateway", "127.0.0.1:0", "--listen", &listen, "--peer", &peer];
    let between = middle.up(&flags);
    middle.add("asker", &station.asker("teller"));
    until(SOON, "the last one is found", || middle.finds("teller"));
    let node = first.up_alone(&["--peer", &between.address("/ip4/127.0.0.1")]);
    first.add("first", &station.asker_named("first", "asker"));
    until(SOON, "the one in the middle is found", || first.finds("asker"));

    station.hold("hold-tool");
    let message = json!({
        "messageId": "m-first",
        "role": "ROLE_USER",
        "parts": [{ "text": format!("asker teller chained {STEPS}") }],
    });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let id = http::ask(&node.gateway(), "first", "SendMessage", &params)["task"]["id"].clone();
    until(SOON, "the last one works", || !station.calls("chained").is_empty());
    between.running.kill();
    let between = middle.up(&flags);
    until(SOON, "the one in the middle is there again, and finds the last one", || {
        middle.finds("asker") && middle.finds("teller")
    });
    station.release("hold-tool");
    let mut task = Value::Null;
    until(SOON * 2, "the first one has its answer", || {
        let shown = http::ask_while_up(&node.gateway(), "first", "GetTask", &json!({ "id": id }));
        task = shown.unwrap_or_default();
        ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&task["status"]["state"].as_str().unwrap_or_default())
    });
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let heard = words(&task);
    assert!(heard.starts_with("heard [") && heard.matches(BOTH).count() == 1, "{task}");
    assert_eq!(station.counts("chained"), [1; STEPS], "what the last one does it did once");
    let asked = [tasks(&between.gateway(), "asker"), tasks(&last.gateway(), "teller")];
    assert_eq!(asked, [json!(1), json!(1)], "each was asked once");
}
