//! Agents that call other agents, here and on another node: through the gate, on behalf of their own caller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::guests::from_python;
use althing_e2e::python::python;
use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Running, cast, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const ASKING: &str = include_str!("../../python/asking.py");
const SLOW: &str = include_str!("../../python/slow.py");
const SOON: Duration = Duration::from_secs(60);

/// Two nodes of strangers; agents of the first ask.
struct Scene {
    here: Machine,
    there: Machine,
    _nodes: [Node; 2],
    model: Option<(Running, String)>,
}

fn scene() -> Scene {
    let (here, there) = (Machine::new(), Machine::new());
    let serving = there.up_alone(&[]);
    let asking = here.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    there.add("far", &cast::echo("far", "anyone"));
    until(SOON, "it is found", || here.finds("far"));
    let stranger = serving.said["owner"].as_str().expect("a DID").to_owned();
    assert_eq!(here.run(&["trust", &stranger]).code, 0);
    Scene { here, there, _nodes: [asking, serving], model: None }
}

impl Scene {
    fn endpoint(&mut self) -> String {
        let (_, url) = self.model.get_or_insert_with(|| {
            self.here.write("model.py", MODEL);
            let mut model = Running::start(self.here.command(Path::new("python3")).arg("model.py"));
            let port = model.line(SOON).expect("the endpoint says its port");
            (model, format!("http://127.0.0.1:{}/v1", port.trim()))
        });
        url.clone()
    }

    fn add_model(&mut self, name: &str, capabilities: &[&str]) {
        let endpoint = json!({ "url": self.endpoint(), "model": "stub" });
        let file = json!({
            "name": name,
            "description": "Helps",
            "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": capabilities },
        });
        self.here.add(name, &file.to_string());
    }

    fn add_guest(&self, name: &str, module: &PathBuf, capabilities: &[&str]) {
        let file = json!({
            "name": name,
            "description": "Asks",
            "runtime": { "wasm": { "module": module } },
            "contract": {
                "class": { "latency": "srt" },
                "compute": { "memory_bytes": 128 << 20 },
                "capabilities": capabilities,
            },
        });
        self.here.add(name, &file.to_string());
    }

    fn says(&self, agent: &str, text: &str) -> String {
        let called = self.here.run(&["call", agent, text]);
        format!("{}{}", called.stdout, called.stderr)
    }
}

#[test]
fn a_model_asks_the_agents_that_its_contract_names() {
    let mut scene = scene();
    scene.add_model("helper", &["agents/far"]);
    scene.there.add("other", &cast::echo("other", "anyone"));
    until(SOON, "it is found", || scene.here.finds("other"));
    let said = scene.says("helper", r#"call agents__far {"message": "over there"}"#);
    assert!(said.starts_with("heard: over there"), "{said}");
    let denied = scene.says("helper", r#"call agents__other {"message": "hi"}"#);
    assert!(denied.contains("does not name \"agents/other\""), "{denied}");
    // What it was told of is what it may ask.
    let asked = std::fs::read_to_string(scene.here.folder().join("asked")).expect("what the endpoint was asked");
    assert!(asked.contains("agents__far") && !asked.contains(r#""name": "agents__other", "description""#), "{asked}");
    // The other node's word stands in the way of none of it: it was asked as a stranger asks.
    let tasks = scene.there.json(&["ps"]);
    let turns = |name: &str| {
        let agents = tasks["agents"].as_array().expect("agents");
        agents.iter().find(|agent| agent["name"] == name).expect("it is there")["turnsTotal"].clone()
    };
    assert_eq!((turns("far"), turns("other")), (json!(1), json!(0)));
}

#[test]
fn agents_that_ask_each_other_are_told_so_instead_of_waiting_for_ever() {
    let mut scene = scene();
    scene.add_model("one", &["agents/*"]);
    scene.add_model("two", &["agents/one"]);
    let inner = json!({ "message": "call agents__far {\"message\": \"deep\"}" }).to_string();
    let deep = scene.says("two", &format!("call agents__one {inner}"));
    assert!(deep.contains("heard: heard: deep"), "a chain is no ring: {deep}");
    let inner = json!({ "message": "call agents__one {\"message\": \"hi\"}" }).to_string();
    let ring = scene.says("one", &format!("call agents__two {inner}"));
    assert!(ring.contains("waits for this answer already"), "{ring}");
    let nobody = scene.says("one", r#"call agents__nobody {"message": "hi"}"#);
    assert!(nobody.contains("nobody"), "{nobody}");
}

#[test]
fn who_gives_an_answer_up_gives_up_what_was_asked_for_it() {
    let Some(python) = python() else { return };
    let mut scene = scene();
    scene.there.write("slow.py", SLOW);
    let program = cast::program("slow", &[python.to_str().expect("a path"), "slow.py"], "anyone");
    scene.there.add("slow", &program);
    until(SOON, "it is found", || scene.here.finds("slow"));
    scene.add_model("helper", &["agents/slow"]);
    let mut calling =
        Running::start(&mut scene.here.althing(&["--json", "call", "helper", r#"call agents__slow {"message": "x"}"#]));
    let first = calling.line(SOON).expect("its task");
    let task: Value = serde_json::from_str(&first).expect("JSON");
    assert!(task["task"]["id"].is_string(), "{task}");
    let running = |machine: &Machine| {
        let ps = machine.json(&["ps"]);
        let agents = ps["agents"].as_array().expect("agents").clone();
        agents.iter().find(|agent| agent["name"] == "slow").expect("it is there")["turns"] == 1
    };
    until(SOON, "it is asked", || running(&scene.there));
    // Ctrl-C cancels the task.
    calling.signal(nix::sys::signal::Signal::SIGINT);
    until(SOON, "it is left alone", || !running(&scene.there));
    assert_ne!(calling.end(SOON).code, 0);
}

/// Neither an agent whose contract names all agents nor one whose contract names it asks a stranger's.
#[test]
fn a_strangers_agent_is_asked_by_nobody() {
    let mut scene = scene();
    scene.add_model("helper", &["agents/*"]);
    let owner = scene.there.json(&["id"])["owner"].as_str().expect("a DID").to_owned();
    assert_eq!(scene.here.run(&["trust", "--remove", &owner]).code, 0);
    let said = scene.says("helper", r#"call agents__far {"message": "hi"}"#);
    assert!(!said.contains("heard: hi") && said.contains("no tool"), "{said}");
    scene.add_model("named", &["agents/far"]);
    let said = scene.says("named", r#"call agents__far {"message": "hi"}"#);
    assert!(said.contains("stranger") && said.contains(&owner), "{said}");
    // A task is gone on with by whoever began it.
    assert_eq!(scene.here.run(&["trust", &owner]).code, 0);
    let said = scene.says("named", r#"call agents__far {"message": "hi", "task": "0199"}"#);
    assert!(said.contains("no task that it began"), "{said}");
}

const FOLLOWS: &str = r#"(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (func (export "turn") (call $output (i32.const 0) (call $input (i32.const 0)))))"#;

/// A control loop that follows what it was advised, and goes on without it so long after it was.
fn arm(after_us: u32) -> Value {
    json!({
        "name": "arm",
        "description": "Follows advice",
        "runtime": { "wasm": { "module": "follows.wat" } },
        "contract": {
            "class": { "latency": "hrt", "period_us": 10_000, "deadline_us": 10_000, "budget_us": 500 },
            "placement": { "min_grade": "C" },
            "signals": {
                "inputs": ["advice"],
                "outputs": ["speed"],
                "fallback": { "advice": { "after_us": after_us, "value": -1 } },
            },
        },
    })
}

/// T9: its jobs run whether a model advises it or not, and where advice is late, its contract says what counts.
#[test]
fn a_control_loop_leans_on_a_model_and_does_not_wait_for_it() {
    let mut scene = scene();
    scene.here.write("follows.wat", FOLLOWS);
    let file = arm(300_000);
    let adding = || {
        scene.here.write("arm.yaml", &file.to_string());
        scene.here.run(&["agent", "add", "arm.yaml"])
    };
    let added = adding();
    assert_eq!(added.code, 0, "{added:?}");
    scene.add_model("adviser", &["agents/arm"]);
    let speed = |scene: &Scene| scene.says("arm", "");
    assert!(speed(&scene).contains("-1"), "nobody advised it: {}", speed(&scene));
    let arguments = json!({ "message": json!({ "inputs": { "advice": 5.5 } }).to_string() });
    let advised = scene.says("adviser", &format!("call agents__arm {arguments}"));
    assert!(advised.contains("5.5"), "{advised}");
    until(SOON, "it goes on without advice", || speed(&scene).contains("-1"));
    let ps = scene.here.json(&["ps"]);
    let agents = ps["agents"].as_array().expect("agents");
    let arm = &agents.iter().find(|agent| agent["name"] == "arm").expect("it is there")["hrt"];
    let (jobs, fallbacks) = (arm["jobs"].as_u64().expect("a number"), arm["fallbacks"].as_u64().expect("a number"));
    assert!(fallbacks > 0 && fallbacks < jobs, "{arm}");
    // One that waits for advice is stopped in nearly each job; one that a busy machine holds up, in a few.
    let overruns = arm["overruns"].as_u64().expect("a number");
    assert!(overruns * 10 < jobs, "it waits for nobody: {arm}");
}

#[test]
fn a_component_asks_and_is_asked_back() {
    let Some(module) = from_python(ASKING) else { return };
    let scene = scene();
    scene.add_guest("guest", &module, &["agents/far"]);
    assert!(scene.says("guest", "far hello").starts_with("far said: hello"), "{}", scene.says("guest", "far hello"));
    assert!(scene.says("guest", "other hello").contains("denied"));
    // Several wait for one of their own kind: none of them keeps a processor meanwhile.
    scene.add_guest("second", &module, &["agents/guest", "agents/far"]);
    scene.add_guest("third", &module, &["agents/second"]);
    let calls: Vec<Running> =
        (0..6).map(|_| Running::start(&mut scene.here.althing(&["call", "third", "second guest far deep"]))).collect();
    for call in calls {
        let ended = call.end(SOON);
        assert!(ended.code == 0 && ended.stdout.contains("far said: deep"), "{ended:?}");
    }
}

/// O1: what one agent says is what the next one gets, over three nodes of three people, each with something that the others
/// have not.
#[test]
fn a_chain_goes_over_three_nodes() {
    let machines = [Machine::new(), Machine::new(), Machine::new()];
    let [first, second, third] = &machines;
    let last = third.up_alone(&[]);
    let peer = last.address("/ip4/127.0.0.1");
    let nodes = [first.up_alone(&["--peer", &peer]), second.up_alone(&["--peer", &peer]), last];
    for (machine, trusted) in [(first, 1), (second, 2), (second, 0), (third, 1)] {
        assert_eq!(machine.run(&["trust", &nodes[trusted].owner()]).code, 0);
    }
    let mut models = Vec::new();
    for (machine, name, asks) in [(first, "planner", "writer"), (second, "writer", "printer")] {
        machine.write("model.py", MODEL);
        let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
        let port = model.line(SOON).expect("the endpoint says its port");
        models.push(model);
        let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
        let mut file = json!({
            "name": name,
            "description": "One of a chain",
            "skills": [{ "id": format!("chain.{name}"), "name": name, "description": "One of a chain" }],
            "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": [format!("agents/{asks}")] },
        });
        // The last one trusts the second only: whom the writer works for may not call it.
        if name == "writer" {
            file["asks_as"] = "itself".into();
        }
        machine.add(name, &file.to_string());
    }
    third.add("printer", &cast::echo("printer", "trusted"));
    until(SOON, "each finds the next", || first.finds("writer") && second.finds("printer"));
    let inner = json!({ "message": "call agents__printer {\"message\": \"the end\"}" }).to_string();
    let said = first.run(&["call", "planner", &format!("call agents__writer {inner}")]);
    assert_eq!((said.code, said.stdout.starts_with("heard: heard: the end")), (0, true), "{said:?}");
    // The last one was asked by the second, and would not have heard the first.
    assert_eq!(first.run(&["call", "--anyone", "printer", "hello"]).code, 5);
}

/// D2: what is advised from elsewhere is followed as long as the link carries it, and after that the contract says what.
#[test]
fn a_control_loop_goes_on_as_declared_when_its_link_is_lost() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [device, cloud] = &world.machines[..] else { panic!("two machines") };
    let (_here, there) = (device.up(&[]), cloud.up(&[]));
    device.write("follows.wat", FOLLOWS);
    let file = arm(2_000_000);
    device.add("arm", &file.to_string());
    assert_eq!(device.run(&["trust", &there.owner()]).code, 0);
    until(SOON, "the cloud finds it", || cloud.finds("arm"));
    let advise = || cloud.run(&["call", "--anyone", "arm", &json!({ "inputs": { "advice": 5.5 } }).to_string()]).code;
    let speed = || device.run(&["call", "arm", ""]).stdout;
    let follows = || {
        advise();
        speed().contains("5.5")
    };
    until(SOON, "it follows what is advised", follows);
    world.cut(1);
    until(SOON, "it goes on as declared", || speed().contains("-1"));
    assert_ne!(advise(), 0, "the cloud is told that it does not come through");
    assert!(speed().contains("-1"));
    world.restore(1);
    until(SOON, "it follows again", follows);
    let ps = device.json(&["ps"]);
    let agents = ps["agents"].as_array().expect("agents");
    let arm = &agents.iter().find(|agent| agent["name"] == "arm").expect("it is there")["hrt"];
    let count = |what: &str| arm[what].as_u64().unwrap_or_else(|| panic!("{what}: {arm}"));
    assert!(count("fallbacks") > 0 && count("fallbacks") < count("jobs"), "{arm}");
}
