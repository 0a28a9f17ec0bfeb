//! What led to an answer, over two nodes, and whether that holds; what failed in silence, as `ps`, `doctor` and `status` tell it;
//! and the layers as YAML.

use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{ask, get, says};
use althing_e2e::{Machine, Node, Running, cast, text, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const SOON: Duration = Duration::from_secs(30);

/// Two nodes of one owner: the first hosts a model agent with a memory, the second an agent that the first one's calls.
struct Scene {
    near: Machine,
    far: Machine,
    asked: Node,
    called: Node,
    _model: Running,
}

fn scene() -> Scene {
    let near = Machine::new();
    // Where policies are in force, labels decide too.
    near.configure("[[tools]]\nname = \"agents/*\"\nclearance = \"internal\"\n");
    let asked = near.up_alone(&[]);
    let far = near.of_same_owner();
    let called = far.up_alone(&["--peer", &asked.address("/ip4/127.0.0.1")]);
    far.add("echo", &cast::echo("echo", "own"));
    near.write("model.py", MODEL);
    let mut model = Running::start(near.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
    let helper = json!({
        "name": "helper",
        "description": "Helps",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["agents/echo", "memory/recall"],
            "memory": {},
            "model": { "output_tokens": 20 },
        },
    });
    near.add("helper", &helper.to_string());
    near.write("rules.txt", "A dog costs ninety euro of tax in a year.\n");
    assert_eq!(near.run(&["memory", "add", "helper", "rules.txt"]).code, 0);
    until(SOON, "the first finds the second's agent", || near.finds("echo"));
    Scene { near, far, asked, called, _model: model }
}

/// Sends a message; gives the task that it left, which is complete.
fn send(node: &Node, words: &str) -> String {
    let task = ask(&node.gateway(), "helper", "SendMessage", &says(words))["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    text(&task["id"])
}

/// What came of each check of the first turn that was verified.
fn verdicts(verified: &Value) -> Vec<String> {
    let checks = verified["turns"][0]["checks"].as_array().expect("checks");
    checks.iter().map(|of| format!("{} {}", text(&of["what"]), text(&of["verdict"]))).collect()
}

fn is_hash(value: &Value) -> bool {
    value.as_str().is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[test]
fn an_answer_leads_back_over_nodes_to_its_prompt_its_sources_and_its_tools() {
    let Scene { near, far, asked, called, _model } = scene();
    let task = send(&asked, r#"call agents__echo {"message": "over the mesh"}"#);

    let lineage = near.json(&["lineage", &task]);
    let [own, other] = lineage["tasks"].as_array().expect("tasks").as_slice() else { panic!("{lineage}") };
    assert_eq!((&own["agent"], text(&own["node"])), (&json!("helper"), asked.did()), "{lineage}");
    let [turn] = own["turns"].as_array().expect("turns").as_slice() else { panic!("{lineage}") };
    assert!(is_hash(&turn["input"]) && is_hash(&turn["output"]) && is_hash(&turn["binding"]), "{turn}");
    assert_eq!(turn["passages"].as_array().map(Vec::len), Some(1), "{turn}");
    let [call] = turn["calls"].as_array().expect("calls").as_slice() else { panic!("{turn}") };
    assert_eq!((&call["tool"], &call["outcome"]), (&json!("agents/echo"), &json!("done")), "{call}");
    assert!(is_hash(&call["arguments"]) && is_hash(&call["result"]), "{call}");
    assert_eq!((&other["task"], &other["caller"]), (&call["task"], &json!(task)), "{lineage}");
    assert_eq!((&other["agent"], text(&other["node"])), (&json!("echo"), called.did()), "{lineage}");
    assert_eq!((&lineage["gaps"], &lineage["more"]), (&json!([]), &json!(false)), "{lineage}");
    assert!(!lineage.to_string().contains("over the mesh"), "nothing of what was said: {lineage}");

    // The other node finds it, too.
    assert_eq!(far.json(&["lineage", &task])["tasks"][0], *own);

    let verified = near.json(&["verify", "run", &task]);
    assert_eq!(verdicts(&verified), ["binding holds", "input holds", "output holds", "decisions holds"], "{verified}");
    assert_eq!(verified["holds"], true, "{verified}");
    let by_contract = "agents/echo: its contract names it, and no policies were in force";
    assert_eq!(verified["turns"][0]["checks"][3]["why"], by_contract, "{verified}");
    assert_eq!(near.run(&["verify", "run", "no-such-task"]).code, 4);

    // Where a node does not answer, that is said.
    let gone = called.did();
    drop(called);
    let lineage = near.json(&["lineage", &task]);
    let [gap] = lineage["gaps"].as_array().expect("gaps").as_slice() else { panic!("{lineage}") };
    assert!(gap["task"] == call["task"] && text(&gap["why"]).contains(&gone), "{gap}");
}

#[test]
fn under_policies_an_agent_of_another_own_node_is_known_to_whom_it_calls_and_who_calls_it() {
    let Scene { near, far, asked, called, _model } = scene();
    let set = near.write("set.cedar", "permit(principal, action, resource);\n");
    let loaded = near.json(&["policy", "load", set.to_str().expect("a plain path")]);
    until(SOON, "the other node takes the policies", || far.json(&["policy", "status"])["digest"] == loaded["digest"]);
    let status = near.json(&["policy", "status"]);
    let nodes = status["nodes"].as_array().expect("nodes");
    let theirs = nodes.iter().find(|node| node["node"] == json!(called.did())).expect("it is connected");
    assert_eq!(theirs["digest"], loaded["digest"], "both have the same: {status}");
    let answer = near.run(&["call", "echo", "by a person"]);
    assert!(answer.code == 0 && answer.stdout.contains("by a person"), "{answer:?}");
    let said = send(&asked, r#"call agents__echo {"message": "by an agent"}"#);
    let lineage = near.json(&["lineage", &said]);
    assert_eq!(lineage["tasks"][0]["turns"][0]["calls"][0]["outcome"], "done", "{lineage}");

    // What the policies decided they decide again, until others are in force.
    let verified = near.json(&["verify", "run", &said]);
    let why = text(&verified["turns"][0]["checks"][3]["why"]);
    assert_eq!(why, "agents/echo: again permit by policy0, as then", "{verified}");
    assert_eq!(verdicts(&verified)[3], "decisions holds", "{verified}");
    let told = near.run(&["verify", "run", &said]);
    assert!(told.code == 0 && told.stdout.contains("ok     decisions  agents/echo: again permit"), "{told:?}");
    let other = near.write("other.cedar", "@id(\"other\") permit(principal, action, resource);\n");
    near.json(&["policy", "load", other.to_str().expect("a plain path")]);
    let verified = near.json(&["verify", "run", &said]);
    assert_eq!(verdicts(&verified)[3], "decisions gone", "{verified}");
    assert!(verified.to_string().contains("not in force any more"), "{verified}");
    assert_eq!(verified["holds"], true, "what is gone breaks nothing: {verified}");
}

#[test]
fn the_example_permits_the_owners_calls_and_is_taken_out_on_the_node_that_is_told_so() {
    let Scene { near, far, asked: _asked, called: _called, _model } = scene();
    let set = near.write("example.cedar", include_str!("../../../../docs/examples/policies.cedar"));
    let loaded = near.json(&["policy", "load", set.to_str().expect("a plain path")]);
    until(SOON, "the other node takes the policies", || far.json(&["policy", "status"])["digest"] == loaded["digest"]);
    let answer = near.run(&["call", "echo", "by a person"]);
    assert!(answer.code == 0 && answer.stdout.contains("by a person"), "{answer:?}");

    let nothing = near.write("nothing.cedar", "").to_str().expect("a plain path").to_owned();
    let refused = near.run(&["policy", "load", &nothing]);
    assert!(refused.code == 5 && refused.stderr.contains("no policy permits anything"), "{refused:?}");
    let refused = near.run(&["policy", "unload"]);
    assert!(refused.code == 5 && refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(near.json(&["policy", "status"])["digest"], loaded["digest"], "nothing was changed");
    let out = near.json(&["policy", "unload", "--yes"]);
    assert_eq!(out["digest"], Value::Null, "{out}");
    assert!(out["findings"].to_string().contains("keep their policies"), "{out}");
    assert_eq!(far.json(&["policy", "status"])["digest"], loaded["digest"], "no order says that it is taken out");
    let again = near.run(&["policy", "unload"]);
    assert!(again.code == 0 && again.stdout.contains("nothing to take out: no policies are in force"), "{again:?}");
}

#[test]
fn what_fails_in_silence_is_told_by_all_that_tell_of_a_node() {
    let Scene { near, asked, called: _called, far: _far, _model } = scene();
    send(&asked, "hello there");
    let agent = |list: &Value| {
        let agents = list["agents"].as_array().expect("agents").clone();
        agents.into_iter().find(|agent| agent["name"] == "helper").expect("it runs")
    };
    assert_eq!(agent(&near.json(&["ps"])).get("findings"), None, "nothing was found of an honest turn");

    // Its model is stopped in the middle of its answer, and the task is complete.
    let task = send(&asked, "Count as far as you can");
    let found = agent(&near.json(&["ps"]))["findings"].clone();
    assert_eq!((&found[0]["finding"], &found[0]["count"]), (&json!("answer-cut"), &json!(1)), "{found}");
    assert_eq!(found[0]["task"], json!(task), "{found}");

    let told = near.run(&["--json", "doctor"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let of_layer = findings.iter().find(|finding| finding["layer"] == "L6").expect("L6 is named");
    assert!(of_layer["fine"] == false && text(&of_layer["what"]).contains("answer-cut"), "{of_layer}");
    assert!(text(&of_layer["remedy"]).contains(&format!("`althing lineage {task}`")), "{of_layer}");

    let status = near.json(&["status"]);
    assert_eq!(status["layers"]["health"]["l6"], "wrong", "{status}");
    assert_eq!(status["layers"]["l6Verification"], json!({ "silent": 1, "refused": 0 }), "{status}");
    let words = status["layers"]["health"].as_object().expect("a word for each");
    assert!(words.len() == 7 && words.values().all(|word| !text(word).is_empty()), "{words:?}");

    let yaml = near.run(&["osi", "--yaml"]).stdout;
    let begins = "agent_osi_version: \"1.0.0\"\n";
    assert!(yaml.starts_with(begins) && yaml.contains("\n  - id: 6\n    name: \"Verification\"\n"), "{yaml}");
    assert!(yaml.contains("    status: \"partial\"\n    health: \"wrong\"\n"), "{yaml}");
    let served = get(&asked.gateway(), "/osi.yaml", &[]);
    assert!(served.status == 200 && served.body.contains(begins), "{served:?}");
    assert!(get(&asked.gateway(), "/llms.txt", &[]).body.contains("/osi.yaml"));
}
