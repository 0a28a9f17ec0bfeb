//! Agents that look for others themselves, a model, a component and a program, as far as their contracts let them.

use std::path::Path;
use std::time::Duration;

use althing_e2e::guests::from_python;
use althing_e2e::python::python;
use althing_e2e::{ADD_MAX, Machine, Node, Running, cast, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const CALLING: &str = include_str!("../../python/calling.py");
const COUNTER: &str = include_str!("../../../../examples/counter-agent/app.py");
const SOON: Duration = Duration::from_secs(30);

/// A node of the same owner hosts `near`, a stranger's hosts `far`; agents of the first look for them.
struct Scene {
    machine: Machine,
    near: Node,
    nodes: [Node; 2],
    machines: [Machine; 2],
}

fn scene() -> Scene {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let dialled = node.address("/ip4/127.0.0.1");
    let (other, stranger) = (machine.of_same_owner(), Machine::new());
    let near = other.up_alone(&["--peer", &dialled]);
    let far = stranger.up_alone(&["--peer", &dialled]);
    other.add("near", &cast::echo("near", "own"));
    stranger.add("far", &cast::echo("far", "anyone"));
    until(SOON, "both are known", || machine.finds("near") && machine.finds("far"));
    Scene { machine, near, nodes: [node, far], machines: [other, stranger] }
}

/// The data and the text of an answer.
fn ask(machine: &Machine, words: &[&str]) -> (String, Value) {
    let mut arguments = vec!["--json", "call"];
    arguments.extend(words);
    let called = machine.run(&arguments);
    assert_eq!(called.code, 0, "{called:?}");
    let (mut said, mut tools) = (String::new(), Value::Null);
    for line in called.stdout.lines() {
        let event: Value = serde_json::from_str(line).expect("a line of JSON");
        let parts = [
            &event["artifactUpdate"]["artifact"]["parts"],
            &event["statusUpdate"]["status"]["message"]["parts"],
            &event["message"]["parts"],
        ];
        for part in parts.into_iter().filter_map(Value::as_array).flatten() {
            said.push_str(part["text"].as_str().unwrap_or_default());
            tools = part["data"].get("tools").cloned().unwrap_or(tools);
        }
    }
    (said, tools)
}

#[test]
fn a_model_finds_who_can_help_and_nothing_of_strangers() {
    let scene = scene();
    let machine = &scene.machine;
    machine.write("model.py", MODEL);
    let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
    for (name, capabilities) in [("helper", json!(["mesh/*"])), ("narrow", json!(["mesh/find_agents"]))] {
        let file = json!({
            "name": name,
            "description": "Helps",
            "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": capabilities },
        });
        machine.add(name, &file.to_string());
    }
    let (said, tools) = ask(machine, &["helper", r#"call mesh__find_agents {"action": "say"}"#]);
    assert!(said.contains(&scene.near.did()) && said.contains("near.say") && !said.contains("far"), "{said}");
    assert_eq!((&tools[0]["tool"], &tools[0]["outcome"]), (&json!("mesh/find_agents"), &json!("done")));
    let (said, _) = ask(machine, &["helper", r#"call mesh__describe_agent {"agent": "near"}"#]);
    assert!(said.contains("Plays the part of near") && said.contains("say near"), "{said}");
    let (said, tools) = ask(machine, &["helper", r#"call mesh__describe_agent {"agent": "far"}"#]);
    assert!(!said.contains("Plays the part") && tools[0]["outcome"] == "failed", "{said}");
    let (said, _) = ask(machine, &["helper", r#"call mesh__find_agents {"limit": 1000}"#]);
    assert!(said.contains("from 1 to 100"), "{said}");
    let (said, tools) = ask(machine, &["narrow", r#"call mesh__describe_agent {"agent": "near"}"#]);
    assert!(said.contains("denied") && tools[0]["outcome"] == "denied", "{said}");
    let case = json!({ "input": r#"call mesh__find_agents {"action": "say"}"#, "target": "near.say" });
    let cases = machine.write("cases.jsonl", &format!("{case}\n"));
    let tested = machine.run(&["test", "helper", "--cases", cases.to_str().expect("a plain path"), "--live"]);
    assert_eq!(tested.code, 0, "a test looks for agents, which changes nothing: {tested:?}");
}

#[test]
fn a_component_finds_agents_by_the_same_system_call() {
    let Some(module) = from_python(COUNTER) else { return };
    let scene = scene();
    let machine = &scene.machine;
    for (name, capabilities) in [("guest", json!(["mesh/find_agents"])), ("blind", json!([]))] {
        let file = json!({
            "name": name,
            "description": "Is a component",
            "runtime": { "wasm": { "module": module } },
            "contract": {
                "class": { "latency": "srt" },
                "compute": { "memory_bytes": 128 << 20 },
                "capabilities": capabilities,
            },
        });
        machine.write("guest.yaml", &file.to_string());
        let mut adding = Running::start(&mut machine.althing(&["agent", "add", "guest.yaml"]));
        until(ADD_MAX, "it is compiled", || adding.ended());
        assert_eq!(adding.end(ADD_MAX).code, 0);
    }
    let (said, _) = ask(machine, &["guest", "call", "mesh/find_agents", r#"{"text": "near"}"#]);
    assert!(said.contains(&scene.near.did()) && !said.contains("far.say"), "{said}");
    let denied = machine.run(&["call", "blind", "call", "mesh/find_agents", "{}"]);
    assert!(denied.stderr.contains("denied") || denied.stdout.contains("denied"), "{denied:?}");
}

/// The official MCP client in a program, on the socket of its agent's system calls.
#[test]
fn a_program_makes_system_calls_for_its_turns() {
    let Some(python) = python() else { return };
    let scene = scene();
    let (machine, stranger) = (&scene.machine, &scene.machines[1]);
    machine.write("calling.py", CALLING);
    let file = |name: &str, capabilities: Value| {
        json!({
            "name": name,
            "description": "Makes system calls",
            "skills": [{ "id": format!("{name}.call"), "name": "Call", "description": "Calls" }],
            "callers": "anyone",
            "runtime": { "process": { "command": [python, "calling.py"], "startup_timeout_ms": 60_000 } },
            "contract": { "class": { "latency": "srt" }, "capabilities": capabilities },
        })
        .to_string()
    };
    machine.add("scout", &file("scout", json!(["mesh/*", "agents/near"])));
    machine.add("blind", &file("blind", json!(["mesh/describe_agent"])));
    // Python imports two SDKs.
    for name in ["scout", "blind"] {
        until(ADD_MAX, "its program runs", || machine.run(&["call", name, "turns"]).code == 0);
    }
    let (said, _) = ask(machine, &["scout", "list"]);
    assert_eq!(said, "agents__near mesh__describe_agent mesh__find_agents");
    let (said, _) = ask(machine, &["scout", r#"call mesh__find_agents {"text": "near"}"#]);
    assert!(said.contains(&scene.near.did()) && said.contains("near.say") && !said.contains("far.say"), "{said}");
    let (said, _) = ask(machine, &["scout", r#"call mesh/describe_agent {"agent": "near"}"#]);
    assert!(said.contains("Plays the part of near"), "{said}");
    let (said, _) = ask(machine, &["scout", r#"call agents__near {"message": "hello"}"#]);
    assert!(said.contains("hello") && !said.starts_with("error"), "{said}");
    let (said, _) = ask(machine, &["blind", r#"call mesh__find_agents {}"#]);
    assert!(said.starts_with("error") && said.contains("denied"), "{said}");
    // Who may not call `near` gains nothing by calling who may.
    let scout = format!("{}:scout", scene.nodes[0].owner());
    until(SOON, "the stranger knows it", || stranger.run(&["find", "--cap", "scout.call"]).code == 0);
    let (said, _) = ask(stranger, &[&scout, r#"call agents__near {"message": "hello"}"#]);
    assert!(said.starts_with("error") && !said.contains("hello"), "{said}");
    // Without the header it is not known for whom it calls, not even while one turn runs.
    let (said, _) = ask(machine, &["scout", r#"nameless mesh__find_agents {}"#]);
    assert!(said.starts_with("error") && said.contains("Althing-Turn"), "{said}");
    // Two turns at once.
    let waiting = Running::start(&mut machine.althing(&["call", "scout", "wait"]));
    until(SOON, "the turn runs", || ask(machine, &["scout", "turns"]).0 == "2");
    let (said, _) = ask(machine, &["scout", r#"call mesh__find_agents {"text": "near"}"#]);
    assert!(said.contains("near.say"), "{said}");
    let (said, _) = ask(machine, &["scout", "go"]);
    assert_eq!(said, "gone");
    assert_eq!(waiting.end(SOON).code, 0);
}
