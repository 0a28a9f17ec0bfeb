//! E40: the seven symptoms of the Agent OSI model, each injected for real on one node with all layers on. Before each of them
//! `doctor` says nothing of it, and then it names the layer at fault, and no other one for it.

use std::path::Path;
use std::time::Duration;

use althing_e2e::sessions::Station;
use althing_e2e::{COMMAND_MAX, Machine, Node, Running, cast, http, text, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::doctor::keep_secret;

const MODEL: &str = include_str!("../../python/model.py");
const ANSWERS: &str = include_str!("../../python/answers.py");
const SLEEPER: &str = include_str!("../../python/sleeper.py");
const SOON: Duration = Duration::from_secs(60);

/// What `doctor` finds wrong: the layer, and what it says.
fn wrong(machine: &Machine, asked: &[&str]) -> Vec<(String, String)> {
    let mut arguments = vec!["--json", "doctor"];
    arguments.extend(asked);
    let told = machine.run(&arguments);
    let report: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
    let findings = report["findings"].as_array().expect("findings").iter();
    findings
        .filter(|finding| finding["fine"] == false)
        .map(|finding| {
            assert_ne!(finding["remedy"], "", "it says what to do: {finding}");
            (text(&finding["layer"]), text(&finding["what"]))
        })
        .collect()
}

/// The layers under which something is wrong with what has that name.
fn layers_of(machine: &Machine, name: &str) -> Vec<String> {
    let mut layers: Vec<String> =
        wrong(machine, &[]).into_iter().filter(|(_, what)| what.contains(name)).map(|(layer, _)| layer).collect();
    layers.dedup();
    layers
}

/// Lets a fault happen to what has that name: then that layer is named for it, and no other one.
fn names(machine: &Machine, layer: &str, name: &str, fault: impl FnOnce()) {
    assert_eq!(layers_of(machine, name), [""; 0], "{layer}: nothing is wrong with {name:?} yet");
    fault();
    until(SOON, &format!("{layer} is named for {name:?}"), || !layers_of(machine, name).is_empty());
    assert_eq!(layers_of(machine, name), [layer], "{:?}", wrong(machine, &[]));
    let health = machine.json(&["status"])["layers"].clone();
    assert!(health["health"].is_object(), "each layer has a word: {health}");
}

/// A node with an agent that people are asked about, a group, and another node that hosts an agent.
struct Scene {
    station: Station,
    machine: Machine,
    node: Node,
    _there: Machine,
    far: Node,
}

impl Scene {
    fn new() -> Scene {
        let (machine, there) = (Machine::new(), Machine::new());
        let far = there.up_alone(&[]);
        let node = machine.up_alone(&["--peer", &far.address("/ip4/127.0.0.1")]);
        there.add("far", &cast::echo("far", "anyone"));
        let station = Station::new();
        let mut file: Value = serde_json::from_str(&station.file(None)).expect("JSON");
        file["contract"]["security"] = json!({ "consent_for": ["count/add"] });
        machine.add("teller", &file.to_string());
        machine.write("sleeper.py", SLEEPER);
        machine.add("sleeper", &cast::program("sleeper", &["python3", "sleeper.py"], "trusted"));
        machine.json(&["group", "create", "team"]);
        until(SOON, "it leads its group", || machine.json(&["group", "status", "team"])["role"] == "leader");
        until(SOON, "the other node's agent is found", || machine.finds("far"));
        Scene { station, machine, node, _there: there, far }
    }

    /// A model's stub, and its port.
    fn model(&self, program: &str, content: &str, arguments: &[&str]) -> (Running, String) {
        self.machine.write(program, content);
        let mut command = self.machine.command(Path::new("python3"));
        let mut running = Running::start(command.arg(program).args(arguments));
        let port = running.line(SOON).expect("it says its port").trim().to_owned();
        (running, port)
    }

    /// A message that nobody waits for.
    fn begin(&self, agent: &str, words: &str) -> String {
        let mut params = http::says(words);
        params["configuration"] = json!({ "returnImmediately": true });
        let answer = http::ask(&self.node.gateway(), agent, "SendMessage", &params);
        text(&answer["task"]["id"])
    }
}

fn agent_of_model(name: &str, endpoint: &Value, contract: &Value) -> String {
    json!({
        "name": name,
        "description": "Helps",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "contract": contract,
    })
    .to_string()
}

/// L1: an agent does not start.
fn does_not_start(scene: &Scene) {
    let machine = &scene.machine;
    names(machine, "L1", "broken", || {
        let script = "while [ ! -e go ]; do sleep 0.1; done; exit 1";
        let file = machine.write("broken.yaml", &cast::program("broken", &["sh", "-c", script], "anyone"));
        let adding = Running::start(&mut machine.althing(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]));
        let is_added = || machine.json(&["agent", "list"])["agents"].to_string().contains("broken");
        until(SOON, "it is being started", is_added);
        // Whoever does not wait for its answer leaves it added.
        adding.signal(Signal::SIGINT);
        adding.end(COMMAND_MAX);
        machine.write("go", "");
    });
}

/// L2: an agent cannot authenticate.
fn cannot_authenticate(scene: &Scene) {
    let machine = &scene.machine;
    let (_model, port) = scene.model("model.py", MODEL, &["right"]);
    names(machine, "L2", "helper", || {
        let endpoint = json!({ "url": format!("http://127.0.0.1:{port}/v1"), "model": "stub", "secret": "MODEL_KEY" });
        let contract = json!({ "class": { "latency": "srt" }, "security": { "secrets": ["MODEL_KEY"] } });
        keep_secret(machine, "MODEL_KEY", "wrong");
        machine.add("helper", &agent_of_model("helper", &endpoint, &contract));
        assert_ne!(machine.run(&["call", "helper", "hello"]).code, 0, "its model refuses it");
    });
}

/// L5: two tasks would write the same file, and nobody decided which one may.
fn want_the_same_file(scene: &Scene) {
    let machine = &scene.machine;
    names(machine, "L5", "plan.md", || {
        machine.json(&["task", "resources", "team", "plan.md", "--rule", "human"]);
        for words in ["write the plan", "write another plan"] {
            // They wait: nobody of the group hosts that agent.
            machine.json(&["task", "submit", "team", "--agent", "writer", "--resource", "plan.md", words]);
        }
    });
}

/// L6: an agent gives a wrong answer.
fn answers_wrongly(scene: &Scene) {
    let machine = &scene.machine;
    let (_model, port) = scene.model("answers.py", ANSWERS, &[]);
    let endpoint = json!({ "url": format!("http://127.0.0.1:{port}/v1"), "model": "stub" });
    let schema = json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] });
    let contract = json!({ "class": { "latency": "srt" }, "verify": { "schema": { "output": schema }, "repair": 0 } });
    machine.add("clerk", &agent_of_model("clerk", &endpoint, &contract));
    names(machine, "L6", "clerk", || {
        let told = "it is seven".bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let task = scene.begin("clerk", &format!("{told} {told}"));
        let state = || http::ask(&scene.node.gateway(), "clerk", "GetTask", &json!({ "id": task }))["status"].take();
        until(SOON, "its answer is refused", || state()["state"] == "TASK_STATE_FAILED");
    });
}

/// L7: what an agent would do waits for somebody who is asked.
fn is_blocked(scene: &Scene) {
    names(&scene.machine, "L7", "count/add", || drop(scene.begin("teller", "layers 2")));
    assert_eq!(scene.station.counts("layers"), [0, 0], "nothing was called");
}

#[test]
fn each_symptom_names_its_layer_on_a_node_with_all_layers_on() {
    let scene = Scene::new();
    does_not_start(&scene);
    cannot_authenticate(&scene);
    want_the_same_file(&scene);
    answers_wrongly(&scene);
    is_blocked(&scene);

    // L3: a service is not found, since nobody offers it.
    let layers = |machine: &Machine, agent: &str| -> Vec<String> {
        wrong(machine, &[agent, "--anyone"]).into_iter().map(|(layer, _)| layer).collect()
    };
    assert_eq!(layers(&scene.machine, "far"), [""; 0], "nothing is wrong with it");
    assert_eq!(layers(&scene.machine, "nobody"), ["L3"]);

    // L4: an agent does not know any more what it was doing when its node ended.
    let task = scene.begin("sleeper", "think");
    let Scene { machine, node, far, station, .. } = scene;
    let mut again = None;
    names(&machine, "L4", &task, || {
        node.running.kill();
        again = Some(machine.up_alone(&["--peer", &far.address("/ip4/127.0.0.1")]));
    });

    // L3 once more: its node is gone.
    drop(far);
    until(SOON, "the other node is known to be gone", || layers(&machine, "far") == ["L3"]);
    drop((again, station));
}
