//! A higher version of a model in the range of a contract with `binding: smooth` begins a rollout by itself when the node starts; one
//! that went back is not tried again, and one that was promoted stays.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Node, Running, http, until};
use serde_json::{Value, json};

const ENDPOINT: &str = include_str!("../../python/finishing.py");
const SOON: Duration = Duration::from_secs(60);
/// Far more calls than it takes until a twentieth of them has one.
const CALLS_MAX: usize = 600;

fn endpoint(machine: &Machine) -> (Running, String) {
    machine.write("finishing.py", ENDPOINT);
    let mut endpoint = Running::start(machine.command(Path::new("python3")).arg("finishing.py"));
    let port = endpoint.line(SOON).expect("the endpoint says its port");
    (endpoint, format!("http://127.0.0.1:{}/v1", port.trim()))
}

/// The node with these versions of its model, each with what its endpoint calls it.
fn up(machine: &Machine, url: &str, models: &[(&str, &str)]) -> Node {
    let model = |(version, model): &(&str, &str)| {
        format!("[[models]]\nname = \"small\"\nmodel = \"{model}\"\nurl = \"{url}\"\nversion = \"{version}\"\n")
    };
    let config = machine.write("althing.toml", &models.iter().map(model).collect::<String>());
    let node = machine.up_alone(&["--config", config.to_str().expect("a plain path")]);
    if machine.folder().join("clerk.yaml").exists() {
        until(SOON, "the agent runs", || machine.run(&["--json", "bind", "--running", "clerk"]).code == 0);
    }
    node
}

fn clerk() -> String {
    let file = json!({
        "name": "clerk",
        "description": "Answers",
        "runtime": { "model": { "prompt": "Help." } },
        "callers": "trusted",
        "contract": {
            "class": { "latency": "srt" },
            "binding": "smooth",
            "model": { "models": ["small@^1.2"] },
            "verify": { "finished": true, "repair": 0 },
        },
    });
    file.to_string()
}

/// The model that answered, or nothing where its answer was refused.
fn said(node: &Node) -> Option<String> {
    let task = http::ask(&node.gateway(), "clerk", "SendMessage", &http::says("Hello"))["task"].take();
    task["artifacts"][0]["parts"][0]["text"].as_str().map(str::to_owned)
}

/// The versions of the model to which the version of the agent is bound that everybody has, the first choice first.
fn bound(machine: &Machine) -> Vec<String> {
    let running = machine.json(&["bind", "--running", "clerk"]);
    let models = running["manifest"]["models"].as_array().expect("models").iter();
    models.map(|model| model["version"].as_str().expect("a version").to_owned()).collect()
}

/// The rollout, or nothing where none was begun.
fn rollout(machine: &Machine) -> Value {
    serde_json::from_str(&machine.run(&["--json", "rollout", "show", "clerk"]).stdout).unwrap_or_default()
}

fn is_tried(machine: &Machine, version: &str) -> bool {
    let told = rollout(machine);
    told["state"] == "running" && told["new"]["version"] == version
}

#[test]
fn a_higher_version_of_a_model_begins_a_rollout_by_itself() {
    let machine = Machine::new();
    let (_endpoint, url) = endpoint(&machine);
    let (old, hasty, good) = (("1.2.0", "steady"), ("1.3.0", "hasty"), ("1.4.0", "better"));
    let node = up(&machine, &url, &[old]);
    machine.add("clerk", &clerk());
    assert_eq!(said(&node).as_deref(), Some("steady"));
    assert_eq!((bound(&machine), rollout(&machine)), (vec!["1.2.0".to_owned()], Value::Null));
    node.running.kill();

    let node = up(&machine, &url, &[old, hasty]);
    until(SOON, "a rollout begins", || is_tried(&machine, "1.0.0+smooth.small.1.3.0"));
    let told = rollout(&machine);
    assert_eq!((&told["stable"]["version"], &told["new"]["sharePercent"]), (&json!("1.0.0"), &json!(5)), "{told}");
    assert_eq!(bound(&machine), ["1.2.0"], "everybody has what there was before");
    let refused = (0..CALLS_MAX).any(|_| said(&node).is_none());
    assert!(refused, "no call was the new version's: {}", rollout(&machine));
    until(SOON, "one refused answer is enough", || rollout(&machine)["state"] == "wentBack");
    assert!((0..20).all(|_| said(&node).as_deref() == Some("steady")), "{}", rollout(&machine));
    node.running.kill();

    let node = up(&machine, &url, &[old, hasty]);
    assert_eq!((&rollout(&machine)["state"], bound(&machine)), (&json!("wentBack"), vec!["1.2.0".to_owned()]));
    assert!((0..20).all(|_| said(&node).as_deref() == Some("steady")), "what went back is tried again");
    assert_eq!(rollout(&machine)["state"], "wentBack");
    node.running.kill();

    let node = up(&machine, &url, &[old, hasty, good]);
    until(SOON, "the next version is tried", || is_tried(&machine, "1.0.0+smooth.small.1.4.0"));
    machine.json(&["rollout", "promote", "clerk"]);
    until(SOON, "everybody has it", || bound(&machine).first().is_some_and(|first| first == "1.4.0"));
    assert_eq!(said(&node).as_deref(), Some("better"));
    node.running.kill();

    let node = up(&machine, &url, &[old, hasty, good]);
    assert_eq!((said(&node).as_deref(), &rollout(&machine)["state"]), (Some("better"), &json!("promotedByOwner")));
    node.running.kill();

    // What is not there any more holds nobody back.
    let node = up(&machine, &url, &[old]);
    assert_eq!((said(&node).as_deref(), bound(&machine)), (Some("steady"), vec!["1.2.0".to_owned()]));
}

#[test]
fn why_a_higher_version_of_a_model_is_not_tried_is_told_by_the_doctor() {
    let machine = Machine::new();
    let (_endpoint, url) = endpoint(&machine);
    let (old, newer) = (("1.2.0", "steady"), ("1.3.0", "better"));
    let node = up(&machine, &url, &[old]);
    machine.add("clerk", &clerk());
    let policies = "@id(\"all\") permit(principal, action, resource);\n@id(\"same\") forbid(principal, action == \
                    Action::\"addAgent\", resource);\n";
    let policies = machine.write("policies.cedar", policies);
    let loaded = machine.run(&["policy", "load", policies.to_str().expect("a plain path")]);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    node.running.kill();

    let _node = up(&machine, &url, &[old, newer]);
    let told = "no rollout of agent \"clerk\" in a higher version of its model could be begun: ";
    until(SOON, "the doctor says why", || machine.run(&["doctor"]).stdout.contains(told));
    assert_eq!((rollout(&machine), bound(&machine)), (Value::Null, vec!["1.2.0".to_owned()]));
}

#[test]
fn what_its_owner_aborted_does_not_begin_again_by_itself() {
    let machine = Machine::new();
    let (_endpoint, url) = endpoint(&machine);
    let (old, newer) = (("1.2.0", "steady"), ("1.3.0", "better"));
    let node = up(&machine, &url, &[old]);
    machine.add("clerk", &clerk());
    node.running.kill();

    let node = up(&machine, &url, &[old, newer]);
    until(SOON, "a rollout begins", || is_tried(&machine, "1.0.0+smooth.small.1.3.0"));
    machine.json(&["rollout", "abort", "clerk"]);
    assert_eq!(said(&node).as_deref(), Some("steady"));
    node.running.kill();

    let node = up(&machine, &url, &[old, newer]);
    assert!((0..20).all(|_| said(&node).as_deref() == Some("steady")), "{}", rollout(&machine));
    assert_eq!((&rollout(&machine)["state"], bound(&machine)), (&json!("aborted"), vec!["1.2.0".to_owned()]));
}
