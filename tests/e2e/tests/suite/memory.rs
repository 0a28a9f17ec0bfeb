//! Agents' memory, end to end: models that must cite, components, encryption, a killed node.

use std::path::Path;
use std::time::Duration;

use althing_e2e::guests::from_python;
use althing_e2e::{ADD_MAX, Machine, Outcome, Running, binary, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const KEEPER: &str = include_str!("../../python/keeper.py");
const SOON: Duration = Duration::from_secs(30);
const RULES: &str = "A dog costs ninety euro of tax in a year.\n";

/// An endpoint of a model, and its address.
fn model(machine: &Machine) -> (Running, String) {
    machine.write("model.py", MODEL);
    let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    (model, format!("http://127.0.0.1:{}/v1", port.trim()))
}

fn clerk(machine: &Machine, url: &str, embeddings: &Value, memory: &Value, secrets: &Value) {
    let mut file = json!({
        "name": "clerk",
        "description": "Knows the rules",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [{ "url": url, "model": "stub" }] } },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["memory/recall"],
            "memory": memory,
            "security": { "secrets": secrets },
        },
    });
    if embeddings.is_object() {
        file["embeddings"] = embeddings.clone();
    }
    machine.add("clerk", &file.to_string());
}

/// The data of an answer's parts under that name.
fn told(called: &Outcome, name: &str) -> Vec<Value> {
    let events = called.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let parts =
        events.flat_map(|event| event["artifactUpdate"]["artifact"]["parts"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part["data"][name].as_array().cloned()).flatten().collect()
}

fn secret(machine: &Machine, value: &str) {
    machine.write("secret", value);
    let line = format!("{} --data {} secret set KEY < secret", binary().display(), machine.data().display());
    let kept = Running::start(machine.command(Path::new("/bin/sh")).args(["-c", &line])).end(SOON);
    assert_eq!(kept.code, 0, "{kept:?}");
}

#[test]
fn an_answer_cites_what_is_kept_or_is_held_back() {
    let machine = Machine::new();
    let (_model, url) = model(&machine);
    let node = machine.up_alone(&[]);
    clerk(&machine, &url, &Value::Null, &json!({ "require_grounding": true }), &json!([]));
    machine.write("rules.txt", RULES);
    let added = machine.run(&["memory", "add", "clerk", "rules.txt"]);
    assert_eq!((added.code, added.stdout.as_str()), (0, "rules.txt: 1 passages\n"), "{added:?}");

    let cited = machine.run(&["--json", "call", "clerk", "cite dog"]);
    assert!(cited.code == 0 && cited.stdout.contains("So it is kept"), "{cited:?}");
    let citations = told(&cited, "citations");
    assert_eq!((citations.len(), &citations[0]["source"]), (1, &json!("rules.txt")), "{cited:?}");
    let id = citations[0]["id"].as_str().expect("an id").to_owned();
    let shown = machine.json(&["memory", "show", "clerk", &id]);
    assert_eq!((&shown["sourceHash"], shown["text"].as_str()), (&citations[0]["sourceHash"], Some(RULES.trim())));

    // Without one, or with one that nobody kept, nothing of it is told.
    for question in ["What does a dog cost?", "cite [#000000000000]"] {
        let held = machine.run(&["call", "clerk", question]);
        assert!(held.code == 1 && held.stderr.contains("not grounded"), "{held:?}");
        assert!(!held.stdout.contains("heard") && !held.stdout.contains("So it is"), "{held:?}");
    }
    // Its owner sees which gate held it back.
    let held = machine.run(&["--json", "call", "clerk", "What does a dog cost?"]);
    let events = held.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ids = events.flat_map(|event| [event["task"]["id"].clone(), event["statusUpdate"]["taskId"].clone()]);
    let task = ids.filter_map(|id| id.as_str().map(str::to_owned)).next().expect("its task is told");
    let refusals = machine.json(&["verdict", &task])["refusals"].clone();
    assert_eq!((refusals.as_array().map(Vec::len), &refusals[0]["gate"]), (Some(1), &json!("grounding")), "{held:?}");
    // The model may look for itself.
    let looked = machine.run(&["--json", "call", "clerk", r#"call memory__recall {"question": "dog tax"}"#]);
    assert_eq!((looked.code, told(&looked, "citations").len()), (0, 1), "{looked:?}");
    assert_eq!(told(&looked, "tools")[0]["tool"], "memory/recall", "{looked:?}");

    // A deleted source can no longer be cited, also after a crash.
    assert_eq!(machine.run(&["memory", "forget", "clerk", "rules.txt"]).code, 0);
    node.running.kill();
    let _node = machine.up_alone(&[]);
    let held = machine.run(&["call", "clerk", &format!("cite [#{id}]")]);
    assert!(held.code == 1 && held.stderr.contains("not grounded"), "{held:?}");
    let gone = machine.json(&["memory", "show", "clerk", &id]);
    assert_eq!(gone["why"], "forgotten");
}

#[test]
fn embeddings_of_a_model_and_a_key_that_changes() {
    let machine = Machine::new();
    let (_model, url) = model(&machine);
    let _node = machine.up_alone(&[]);
    secret(&machine, "correct-horse");
    let embeddings = json!({ "url": url, "model": "letters" });
    let memory = json!({ "encryption_secret": "KEY" });
    clerk(&machine, &url, &embeddings, &memory, &json!(["KEY"]));
    machine.write("rules.txt", RULES);
    machine.write("zebra.txt", "zzzz zzzz zzzz");
    assert_eq!(machine.run(&["memory", "add", "clerk", "rules.txt", "zebra.txt"]).code, 0);
    let found = machine.json(&["memory", "search", "clerk", "zz", "--limit", "1"]);
    assert_eq!(found["passages"][0]["source"], "zebra.txt", "by its letters: {found}");
    let listed = machine.run(&["memory", "list"]);
    assert!(listed.stdout.contains("KEY") && listed.stdout.contains("letters"), "{listed:?}");
    assert_eq!(machine.run(&["agent", "remove", "clerk"]).code, 0);
    secret(&machine, "another-horse");
    let file = machine.folder().join("clerk.yaml");
    let wrong = machine.run(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]);
    assert!(wrong.code == 2 && wrong.stderr.contains("does not open"), "{wrong:?}");
    assert!(machine.run(&["memory", "list", "clerk"]).stderr.contains("does not open"));
    secret(&machine, "correct-horse");
    assert_eq!(machine.run(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]).code, 0);
    assert_eq!(machine.json(&["memory", "list", "clerk"])["sources"], json!({ "rules.txt": 1, "zebra.txt": 1 }));
    assert_eq!(machine.run(&["memory", "remove", "clerk"]).code, 0);
    assert_eq!(machine.json(&["memory", "list", "clerk"])["bytes"], 0);
    assert_eq!(machine.run(&["memory", "list", "none"]).code, 4);
}

#[test]
fn a_component_keeps_and_finds() {
    let Some(module) = from_python(KEEPER) else { return };
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let add = |name: &str, memory: &Value| {
        let mut contract = json!({
            "class": { "latency": "srt" },
            "compute": { "memory_bytes": 128 << 20 },
            "capabilities": ["memory/put", "memory/get", "memory/keys", "memory/remember", "memory/recall", "memory/forget"],
        });
        if memory.is_object() {
            contract["memory"] = memory.clone();
        }
        let file = json!({
            "name": name,
            "description": "Keeps",
            "runtime": { "wasm": { "module": module } },
            "contract": contract,
        });
        let file = machine.write(&format!("{name}.yaml"), &file.to_string());
        let mut adding = Running::start(machine.althing(&["agent", "add"]).arg(file));
        until(ADD_MAX, "it is compiled", || adding.ended());
        adding.end(ADD_MAX)
    };
    assert_eq!(add("keeper", &json!({ "quota_bytes": 4096, "share_with": ["helper"] })).code, 0);
    let say = |agent: &str, text: &str| machine.run(&["call", agent, text]).stdout.trim().to_owned();
    assert_eq!((say("keeper", "put colour blue"), say("keeper", "get colour")), ("kept".into(), "blue".into()));
    assert_eq!((say("keeper", "get other"), say("keeper", "keys")), ("nothing".into(), "colour".into()));
    assert_eq!(say("keeper", "remember rules A dog costs ninety euro."), "1 passages");
    assert_eq!(say("keeper", "recall dog"), "rules: A dog costs ninety euro.");
    assert_eq!(say("keeper", "forget rules"), "1 passages");
    let refused = say("keeper", &format!("put long {}", "x".repeat(5_000)));
    assert!(refused.starts_with("refused: ") && refused.contains("4096"), "{refused}");
    // Shared with one; another that names the namespace is not run; one without memory is told so.
    assert_eq!(add("helper", &json!({ "namespace": "keeper" })).code, 0);
    assert_eq!(say("helper", "get colour"), "blue");
    let stranger = add("stranger", &json!({ "namespace": "keeper" }));
    assert!(stranger.code == 2 && stranger.stderr.contains("belongs to agent \"keeper\""), "{stranger:?}");
    assert_eq!(add("forgetful", &Value::Null).code, 0);
    assert!(say("forgetful", "get colour").starts_with("refused: the contract has no `memory`"));
    node.running.kill();
    let _node = machine.up_alone(&[]);
    until(ADD_MAX, "they are compiled again", || say("keeper", "get colour") == "blue");
}
