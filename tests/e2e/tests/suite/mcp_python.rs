//! The official MCP client for Python lists, finds and calls agents, on the node that it speaks to and on another one, over
//! HTTP and over standard input and output.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Running, binary, cast, http, until};
use serde_json::{Value, json};

const CLIENT: &str = include_str!("../../python/mcp_client.py");
const TOKEN: &str = "a-token-of-the-gateway";
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes on loopback that trust each other, each with an agent.
struct Pair {
    one: Machine,
    _two: Machine,
    near: Node,
    _far: Node,
}

impl Pair {
    fn start() -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let near = one.up_alone(&[]);
        let far = two.up_alone(&["--peer", &near.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &near.owner()]);
        one.json(&["trust", &far.owner()]);
        one.add("near", &cast::echo("near", "trusted"));
        two.add("far", &cast::echo("far", "trusted"));
        until(SOON, "the agent is found on the other node", || one.finds("far"));
        Pair { one, _two: two, near, _far: far }
    }
}

/// Runs `althing mcp`, writes these messages to it and closes its input; gives what it wrote.
fn over_stdio(machine: &Machine, messages: &[Value]) -> althing_e2e::Outcome {
    let mut command = machine.althing(&["mcp"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    for message in messages {
        writeln!(input, "{message}").expect("it reads");
    }
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    althing_e2e::Outcome {
        code: ended.status.code().unwrap_or(-1),
        stdout: text(ended.stdout),
        stderr: text(ended.stderr),
    }
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

#[test]
fn the_official_client_calls_agents_here_and_on_another_node() {
    let Some(python) = python() else { return };
    let pair = Pair::start();
    pair.one.write("mcp_client.py", CLIENT);
    let mut client = pair.one.command(python);
    client.arg("mcp_client.py").arg(pair.near.gateway()).arg(binary()).arg("--data").arg(pair.one.data());
    let outcome = Running::start(&mut client).end(Duration::from_secs(180));
    println!("{}", outcome.stdout);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.ends_with("MCP OK\n"), "{outcome:?}");
}

#[test]
fn without_a_node_the_bridge_says_what_to_do() {
    let machine = Machine::new();
    let outcome = over_stdio(&machine, &[initialize()]);
    assert_ne!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.stdout, "", "only MCP is written there");
    assert!(outcome.stderr.contains("althing") && outcome.stderr.contains("up"), "{outcome:?}");
}

#[test]
fn the_bridge_has_the_gateways_token_and_others_need_it() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.config()).expect("a folder");
    let file = machine.config().join("althing.toml");
    std::fs::write(&file, format!("[gateway]\ntoken = \"{TOKEN}\"\n")).expect("it is written");
    let owners = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&file, owners).expect("it is the owner's");
    let node = machine.up_alone(&[]);
    let refused = http::get(&node.gateway(), "/mcp", &[("Accept", "text/event-stream")]);
    assert_eq!(refused.status, 401, "{refused:?}");
    for token in ["", "another"] {
        let mut command = machine.althing(&["mcp"]);
        let outcome = Running::start(command.env("ALTHING_GATEWAY_TOKEN", token).stdin(Stdio::null())).end(SOON);
        assert!(outcome.code == 5 && outcome.stderr.contains("ALTHING_GATEWAY_TOKEN"), "{outcome:?}");
        assert_eq!(outcome.stdout, "", "only MCP is written there");
    }
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let outcome = over_stdio(&machine, &[initialize(), initialized, list]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let answers: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("a message on each line")).collect();
    assert_eq!(answers.len(), 2, "{outcome:?}");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25", "{outcome:?}");
    assert_eq!(answers[1]["result"]["tools"][2]["name"], "call_agent", "{outcome:?}");
}
