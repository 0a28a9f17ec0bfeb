//! At night, as it is large: promptfoo, which nobody here wrote, tests an agent of another node through the gateway with its HTTP
//! provider, as it is.

use std::time::Duration;

use althing_e2e::node::promptfoo;
use althing_e2e::{Machine, Running, cast, until};
use althing_testing::at_night;
use serde_json::{Value, json};

const PROGRAM: &str = "promptfoo/dist/src/entrypoint.js";
const SOON: Duration = Duration::from_secs(60);
const EVALUATION_MAX: Duration = Duration::from_secs(180);
/// With what it ends where some test fails.
const SOME_FAILED: i32 = 100;

/// Its configuration: three tests of an agent that says again what it hears, of which the last one fails.
fn configuration(gateway: &str) -> Value {
    let message = json!({ "messageId": "{{id}}", "role": "ROLE_USER", "parts": [{ "text": "{{prompt}}" }] });
    let test = |id: &str, text: &str, kind: &str, value: &str| json!({ "vars": { "id": id, "text": text }, "assert": [{ "type": kind, "value": value }] });
    json!({
        "prompts": ["{{text}}"],
        "providers": [{
            "id": format!("{gateway}/a2a/echo"),
            "config": {
                "method": "POST",
                "headers": { "Content-Type": "application/json", "A2A-Version": "1.0" },
                "body": { "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } },
                "transformResponse": "json.result.task.artifacts[0].parts[0].text",
            },
        }],
        "tests": [
            test("m-1", "hello there", "equals", "hello there"),
            test("m-2", "two \"words\"", "icontains", "WORDS"),
            test("m-3", "wrong", "equals", "right"),
        ],
    })
}

#[test]
fn promptfoo_tests_an_agent_of_the_mesh_through_the_gateway() {
    if !at_night() {
        return;
    }
    let Some((node, packages)) = promptfoo() else { return };
    let host = Machine::new();
    let serving = host.up_alone(&[]);
    let peer = host.of_same_owner();
    let asking = peer.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    host.add("echo", &cast::echo("echo", "own"));
    until(SOON, "the other node finds it", || peer.finds("echo"));
    peer.write("promptfoo.json", &configuration(&asking.gateway()).to_string());
    let mut command = peer.command(node);
    command.arg(packages.join(PROGRAM)).args(["eval", "-c", "promptfoo.json", "--output", "results.json"]);
    command.args(["--no-cache", "--no-write", "--no-table", "--no-progress-bar"]);
    command.env("PROMPTFOO_CONFIG_DIR", peer.folder());
    for switch in ["TELEMETRY", "UPDATE", "REMOTE_GENERATION"] {
        command.env(format!("PROMPTFOO_DISABLE_{switch}"), "1");
    }
    let ended = Running::start(&mut command).end(EVALUATION_MAX);
    assert_eq!(ended.code, SOME_FAILED, "{ended:?}");
    let written = std::fs::read_to_string(peer.folder().join("results.json")).expect("it was written");
    let results: Value = serde_json::from_str(&written).expect("JSON");
    let mut all: Vec<(&str, &str, bool)> = Vec::new();
    for one in results["results"]["results"].as_array().expect("a list") {
        all.push((
            one["vars"]["text"].as_str().expect("a text"),
            one["response"]["output"].as_str().unwrap_or_default(),
            one["success"] == true,
        ));
    }
    all.sort_unstable();
    let heard = |text: &'static str, passed| (text, text, passed);
    assert_eq!(all, [heard("hello there", true), heard("two \"words\"", true), heard("wrong", false)]);
}
