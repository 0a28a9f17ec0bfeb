//! Binding, end to end: layers, modes, labels, and the sealed manifest. That its hash is on every span of a turn is shown by
//! `traces` and `group_redirects`.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Running, text};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const ARM: &str = include_str!("../../../../examples/robot-arm/arm.yaml");
const MODULE: &str = include_str!("../../../../examples/robot-arm/arm.wat");
const SOON: Duration = Duration::from_secs(30);

fn model(machine: &Machine) -> (Running, String) {
    machine.write("model.py", MODEL);
    let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    (model, format!("http://127.0.0.1:{}/v1", port.trim()))
}

/// A node whose owner offers two versions of a model, has a policy, a role and a label.
fn configured(machine: &Machine, url: &str, versions: &[&str]) {
    machine.write("tenant.yaml", "compute: { calls_per_turn: 3, tokens_per_turn: 5000 }\n");
    std::fs::create_dir_all(machine.folder().join("roles")).expect("a folder");
    machine.write("roles/support.yaml", "class: { latency: srt, ttft_ms: 100 }\ncompute: { calls_per_turn: 5 }\n");
    let models: String = versions
        .iter()
        .map(|version| {
            format!("[[models]]\nname = \"small\"\nmodel = \"stub\"\nurl = \"{url}\"\nversion = \"{version}\"\n")
        })
        .collect();
    let home = machine.folder().display();
    machine.write(
        "althing.toml",
        &format!(
            "{models}[node]\nlabels = [\"on-prem\"]\n[binding]\ntenant = \"{home}/tenant.yaml\"\nroles = \"{home}/roles\"\n"
        ),
    );
}

fn clerk(more: &Value) -> String {
    let mut file = json!({
        "name": "clerk",
        "description": "Answers",
        "runtime": { "model": { "prompt": "Help." } },
        "role": "support",
        "contract": { "binding": "smooth", "model": { "models": ["small@^1.2"] }, "placement": { "labels": ["on-prem"] } },
    });
    file["contract"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    file.to_string()
}

fn set_by(bound: &Value, field: &str) -> (Value, String) {
    let fields = bound["fields"].as_array().expect("fields");
    let found = fields.iter().find(|one| one["field"] == field).unwrap_or_else(|| panic!("{field} in {bound}"));
    (found["value"].clone(), found["setBy"].as_str().expect("a layer").to_owned())
}

#[test]
fn a_contract_is_made_whole_bound_and_sealed() {
    let machine = Machine::new();
    let (_model, url) = model(&machine);
    configured(&machine, &url, &["1.2.0", "1.3.0", "2.0.0"]);
    let config = machine.folder().join("althing.toml");
    let up = ["--config", config.to_str().expect("a plain path")];
    let _node = machine.up_alone(&up);
    machine.write("clerk.yaml", &clerk(&json!({})));

    let bound = machine.json(&["bind", "clerk.yaml"]);
    assert_eq!(set_by(&bound, "class.ttft_ms"), (json!(100), "role".to_owned()));
    assert_eq!(set_by(&bound, "compute.calls_per_turn"), (json!(5), "role".to_owned()));
    assert_eq!(set_by(&bound, "compute.tokens_per_turn"), (json!(5000), "tenant".to_owned()));
    assert_eq!(set_by(&bound, "binding"), (json!("smooth"), "request".to_owned()));
    assert_eq!(set_by(&bound, "class.priority"), (json!(100), "platform".to_owned()));
    let versions = |bound: &Value| -> Vec<String> {
        let models = bound["manifest"]["models"].as_array().expect("models");
        models.iter().map(|model| model["version"].as_str().expect("a version").to_owned()).collect()
    };
    assert_eq!(versions(&bound), ["1.3.0", "1.2.0"]);
    let explained = machine.run(&["bind", "clerk.yaml", "--explain"]);
    assert!(explained.stdout.contains("is not in ^1.2") && explained.stdout.contains("tenant"), "{explained:?}");

    // An equal contract has the same manifest; one changed on the command line has another.
    let hash = |bound: &Value| bound["hash"].as_str().expect("a hash").to_owned();
    assert_eq!(hash(&machine.json(&["bind", "clerk.yaml"])), hash(&bound));
    let set =
        machine.json(&["bind", "clerk.yaml", "--set", "class.ttft_ms=70", "--set", "model.models=[\"small@=1.2.0\"]"]);
    assert_eq!(
        (set_by(&set, "class.ttft_ms"), versions(&set)),
        ((json!(70), "request".to_owned()), vec!["1.2.0".to_owned()])
    );
    assert_ne!(hash(&set), hash(&bound));

    // It runs as it was bound.
    let added = machine.run(&["agent", "add", "clerk.yaml"]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(machine.run(&["call", "clerk", "Hello"]).stdout, "heard: Hello\n");
    let running = machine.json(&["bind", "--running", "clerk"]);
    assert_eq!(hash(&running), hash(&bound));
    // A sealed manifest can be found by its hash also after the agent was removed, and after a restart.
    let sealed = running["sealed"].clone();
    assert_eq!(machine.json(&["bind", "--running", "clerk"])["sealed"], sealed);
    assert_eq!(machine.json(&["bind", "--running", &hash(&bound)])["sealed"], sealed);

    // A seal can be verified without a node; a changed byte invalidates it.
    assert_eq!(machine.run(&["bind", "--running", "clerk", "--output", "clerk.sealed"]).code, 0);
    let verified = machine.json(&["bind", "--verify", "clerk.sealed"]);
    assert_eq!((verified["hash"].as_str(), &verified["holds"]), (Some(hash(&bound).as_str()), &json!(true)));
    let sealed = std::fs::read_to_string(machine.folder().join("clerk.sealed")).expect("the seal");
    let mut file: Value = serde_json::from_str(&sealed).expect("JSON");
    let text = file["sealed"].as_str().expect("base64").to_owned();
    for at in (0..text.len() - 2).step_by(97) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        file["sealed"] = json!(String::from_utf8(bytes).expect("base64"));
        machine.write("changed.sealed", &file.to_string());
        let changed = machine.run(&["bind", "--verify", "changed.sealed"]);
        assert_ne!(changed.code, 0, "byte {at}: {changed:?}");
    }
}

#[test]
fn a_clause_that_nothing_satisfies_is_named() {
    let machine = Machine::new();
    let (_model, url) = model(&machine);
    configured(&machine, &url, &["1.2.0"]);
    let config = machine.folder().join("althing.toml");
    let _node = machine.up_alone(&["--config", config.to_str().expect("a plain path")]);
    for (more, clause, adding) in [
        (json!({ "placement": { "labels": ["moon"] } }), "placement.labels[0]", 5),
        (json!({ "binding": "strict", "model": { "models": ["small@^3"] } }), "model.models", 5),
        (json!({ "model": { "models": ["large"] } }), "model.models", 5),
        (json!({ "binding": "strict", "capabilities": ["calc/add"] }), "capabilities[0]", 2),
    ] {
        machine.write("clerk.yaml", &clerk(&more));
        // Errors in the agent file itself are refused when it is read.
        for (command, code) in [(["bind", "clerk.yaml"].as_slice(), 5), (&["agent", "add", "clerk.yaml"], adding)] {
            let refused = machine.run(command);
            assert!(refused.code == code && refused.stderr.contains(clause), "{command:?} {clause}: {refused:?}");
        }
    }
    // A missing role, and a template with a typo, are named, too.
    machine.write("clerk.yaml", &clerk(&json!({})).replace("support", "sales"));
    let refused = machine.run(&["agent", "add", "clerk.yaml"]);
    assert!(refused.code == 2 && refused.stderr.contains("roles/sales.yaml"), "{refused:?}");
    machine.write("roles/sales.yaml", "class: { latency: srt }\ncompute: { memori_bytes: 1 }\n");
    let refused = machine.run(&["agent", "add", "clerk.yaml"]);
    assert!(refused.code == 2 && refused.stderr.contains("compute.memori_bytes"), "{refused:?}");
}

/// The same contract on another machine of the same catalogue has the same manifest.
#[test]
fn the_same_contract_gives_the_same_hash_elsewhere() {
    let one = Machine::new();
    let (_model, url) = model(&one);
    let hashes: Vec<String> = [one, Machine::new()]
        .iter()
        .map(|machine| {
            configured(machine, &url, &["1.2.0", "1.3.0"]);
            let config = machine.folder().join("althing.toml");
            let _node = machine.up_alone(&["--config", config.to_str().expect("a plain path")]);
            machine.write("clerk.yaml", &clerk(&json!({})));
            machine.json(&["bind", "clerk.yaml"])["hash"].as_str().expect("a hash").to_owned()
        })
        .collect();
    assert_eq!(hashes[0], hashes[1]);
}

// P-58
#[test]
fn the_seal_of_a_control_loop_says_on_which_core_it_runs_and_by_which_proof() {
    let machine = Machine::new();
    machine.write("arm.wat", MODULE);
    let node = machine.up_alone(&[]);
    machine.add("arm", &ARM.replace("on_overrun: suspend", "on_overrun: skip"));
    let running = machine.json(&["bind", "--running", "arm"]);
    assert!(running["core"].is_u64() && running["proof"]["tasks"].is_array(), "{running}");
    assert_eq!(machine.json(&["bind", "--running", &text(&running["hash"])])["sealed"], running["sealed"]);

    assert_eq!(machine.run(&["bind", "--running", "arm", "--output", "arm.sealed"]).code, 0);
    let verified = machine.json(&["bind", "--verify", "arm.sealed"]);
    assert_eq!((&verified["core"], &verified["proven"]), (&running["core"], &json!(true)), "{verified}");
    assert_eq!(verified["node"], json!(node.did()), "{verified}");

    // Another proof than the sealed is refused; without one the seal holds, and nothing is proved.
    let sealed = std::fs::read_to_string(machine.folder().join("arm.sealed")).expect("the seal");
    let mut file: Value = serde_json::from_str(&sealed).expect("JSON");
    file["proof"]["tasks"][0][0]["wcet_ns"] = json!(1);
    machine.write("changed.sealed", &file.to_string());
    let changed = machine.run(&["bind", "--verify", "changed.sealed"]);
    assert!(changed.code == 5 && changed.stderr.contains("another one than the sealed"), "{changed:?}");
    file.as_object_mut().expect("a map").remove("proof");
    machine.write("bare.sealed", &file.to_string());
    let bare = machine.json(&["bind", "--verify", "bare.sealed"]);
    assert_eq!((&bare["holds"], &bare["proven"]), (&json!(true), &json!(false)), "{bare}");
}
