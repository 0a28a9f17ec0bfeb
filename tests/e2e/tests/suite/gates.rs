//! An agent whose contract says what an answer must be: a bad one reaches nobody who asks, streamed or whole, here or through
//! another node; it goes back once, and what was refused stays with the owner of the agent's node.

use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{HONEST, ask, raw, request, says, task_id};
use althing_e2e::sessions::words;
use althing_e2e::{Machine, Node, Running, cast, until};
use althing_protocol::hex;
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/answers.py");
const SOON: Duration = Duration::from_secs(60);
/// Answers that are none of what the contract says; each has this word, which no asker may see.
const BAD_WORD: &str = "quicksand";
const GOOD: &str = r#"{"total":7}"#;
const ENDED: [&str; 2] = ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"];

fn bad(form: &str) -> String {
    form.replace("WORD", BAD_WORD)
}

/// An agent `clerk` of that model, with that `verify` in its contract.
fn clerk(port: &str, verify: &Value) -> String {
    let endpoint = json!({ "url": format!("http://127.0.0.1:{port}/v1"), "model": "stub" });
    let file = json!({
        "name": "clerk",
        "description": "Adds up orders",
        "runtime": { "model": { "prompt": "Add up.", "endpoints": [endpoint] } },
        "contract": { "class": { "latency": "srt" }, "verify": verify },
    });
    file.to_string()
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] })
}

/// A node with the agent, and another one of the same owner that asks it.
struct Pair {
    host: Machine,
    serving: Node,
    asking: Node,
    peer: Machine,
    _model: Running,
}

impl Pair {
    fn new(verify: &Value) -> Pair {
        let host = Machine::new();
        host.write("answers.py", MODEL);
        let mut model = Running::start(host.command(Path::new("python3")).arg("answers.py"));
        let port = model.line(SOON).expect("it says its port").trim().to_owned();
        let serving = host.up_alone(&[]);
        let peer = host.of_same_owner();
        let asking = peer.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
        host.add("clerk", &clerk(&port, verify));
        until(SOON, "the other node finds it", || peer.finds("clerk"));
        Pair { host, serving, asking, peer, _model: model }
    }

    fn gateways(&self) -> [String; 2] {
        [self.serving.gateway(), self.asking.gateway()]
    }

    /// What comes back where the agent's model is told these answers, and the task at its end.
    fn seen(gateway: &str, method: &str, answers: [&str; 2]) -> (String, Value) {
        let params = says(&answers.map(|answer| hex(answer.as_bytes())).join(" "));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let answer = raw(gateway, &request(gateway, "POST", "/a2a/clerk", &HONEST, body.as_bytes()));
        let task = task_id(&answer.body);
        let mut got = Value::Null;
        until(SOON, "the task ends", || {
            got = ask(gateway, "clerk", "GetTask", &json!({ "id": task }));
            got["status"]["state"].as_str().is_some_and(|state| ENDED.contains(&state))
        });
        (answer.body, got)
    }
}

/// What `find` says of how the turns of an agent went.
fn success(machine: &Machine, name: &str) -> Value {
    let found = machine.json(&["find"]);
    let agents = found["agents"].as_array().expect("agents");
    agents.iter().find(|agent| agent["name"] == name).expect("it is known")["success"].clone()
}

#[test]
fn a_bad_answer_is_held_back_and_repaired_once_or_fails_the_task_and_stays_with_the_owner() {
    let pair = Pair::new(&json!({ "schema": { "output": schema() }, "repair": 1 }));
    let no_json = bad("WORD is the total");
    for (gateway, method) in
        pair.gateways().iter().flat_map(|at| ["SendMessage", "SendStreamingMessage"].map(|how| (at, how)))
    {
        let (seen, task) = Pair::seen(gateway, method, [&no_json, GOOD]);
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{method}: {task}");
        assert_eq!(words(&task), GOOD, "{method}: {task}");
        assert!(!format!("{seen} {task}").contains(BAD_WORD), "{method} at {gateway}: {seen} {task}");

        for form in [r#"{"total":"WORD"}"#, r#"{"total":7,"WORD":"#, "```json\n{\"total\":7}\n```WORD"] {
            let (seen, task) = Pair::seen(gateway, method, [&no_json, &bad(form)]);
            assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{method}: {task}");
            let why = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
            assert!(why.starts_with("GATE_REFUSED: the gate `schema` "), "{why}");
            assert!(!format!("{seen} {task}").contains(BAD_WORD), "{method} at {gateway}: {seen} {task}");
            assert_eq!(words(&task), "", "{task}");
        }
        // The place is told by the rule that it breaks, in words of the contract.
        let (_, task) = Pair::seen(gateway, method, [&no_json, &bad(r#"{"total":"WORD"}"#)]);
        assert!(task["status"]["message"].to_string().contains("/properties/total/type"), "{task}");
    }
    let (_, task) = Pair::seen(&pair.asking.gateway(), "SendMessage", [&no_json, &bad(r#"{"total":"WORD"}"#)]);
    let id = task["id"].as_str().expect("an id");
    let verdict = pair.host.json(&["verdict", id]);
    assert_eq!(verdict["state"], "TASK_STATE_FAILED");
    let [first, second] = verdict["refusals"].as_array().map(Vec::as_slice).expect("a list") else {
        panic!("{verdict}")
    };
    assert_eq!((&first["attempt"], &first["gate"], &first["answer"]), (&json!(1), &json!("schema"), &json!(no_json)));
    assert_eq!((&second["attempt"], &second["place"]), (&json!(2), &json!("/total")));
    assert_eq!(second["answer"], bad(r#"{"total":"WORD"}"#));
    let shown = pair.host.run(&["verdict", id]);
    assert!(shown.code == 0 && shown.stdout.contains(&no_json) && shown.stdout.contains("answer 2 to"), "{shown:?}");
    assert_eq!(pair.host.run(&["verdict", "no-such-task"]).code, 4);

    // It is on disk with its task.
    let Pair { host, serving, .. } = pair;
    serving.running.kill();
    let _again = host.up_alone(&[]);
    assert_eq!(host.json(&["verdict", id])["refusals"], verdict["refusals"]);
}

#[test]
fn what_gates_said_of_a_turn_is_in_the_audit_log_and_nothing_of_the_answer() {
    let pair = Pair::new(&json!({ "schema": { "output": schema() }, "repair": 1 }));
    let no_json = bad("WORD is the total");
    for second in [GOOD, &no_json] {
        Pair::seen(&pair.asking.gateway(), "SendMessage", [&no_json, second]);
    }
    let mut turns = Vec::new();
    until(SOON, "both turns are on record", || {
        let list = pair.host.json(&["audit", "query", "--stage", "turn"]);
        turns = list["entries"].as_array().cloned().unwrap_or_default();
        turns.len() == 2
    });
    // The newest first.
    let said = |word: &str| json!({ "gate": "schema", "verdict": word });
    assert_eq!((&turns[0]["outcome"], &turns[0]["verdicts"]), (&json!("failed"), &json!([said("refused")])));
    let both = json!([said("passed"), said("refused")]);
    assert_eq!((&turns[1]["outcome"], &turns[1]["verdicts"]), (&json!("done"), &both));
    let listed = pair.host.run(&["audit", "query", "--stage", "turn"]);
    assert!(listed.code == 0 && listed.stdout.contains("schema"), "{listed:?}");
    let number = format!("{}.{}", turns[0]["log"], turns[0]["entry"]);
    let shown = pair.host.run(&["audit", "show", &number]);
    assert!(shown.code == 0 && shown.stdout.contains("schema: refused"), "{shown:?}");
    assert!(!shown.stdout.contains(BAD_WORD), "{shown:?}");
}

#[test]
fn what_is_delivered_early_is_seen_and_its_verdict_ends_the_task() {
    let pair = Pair::new(&json!({ "schema": { "output": schema() }, "deliver": "early" }));
    for gateway in pair.gateways() {
        let (seen, task) = Pair::seen(&gateway, "SendStreamingMessage", [&bad("WORD"), GOOD]);
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task}");
        assert!(task["status"]["message"].to_string().contains("GATE_REFUSED"), "{task}");
        // It was streamed as it was made, perhaps in pieces.
        assert!(seen.contains(&BAD_WORD[..3]), "{seen}");
        let id = task["id"].as_str().expect("an id");
        assert_eq!(pair.host.json(&["verdict", id])["refusals"][0]["answer"], BAD_WORD);
        let (_, task) = Pair::seen(&gateway, "SendStreamingMessage", [GOOD, GOOD]);
        assert_eq!((&task["status"]["state"], words(&task)), (&json!("TASK_STATE_COMPLETED"), GOOD.to_owned()));
    }
}

// P-40
#[test]
fn find_tells_success_by_verdicts_here_and_what_another_node_says_as_claimed() {
    let pair = Pair::new(&json!({ "schema": { "output": schema() }, "repair": 1 }));
    pair.host.add("echo", &cast::echo("echo", "own"));
    assert_eq!((success(&pair.host, "clerk"), success(&pair.host, "echo")), (Value::Null, Value::Null));
    let no_json = bad("WORD is the total");
    for (answer, state) in [(GOOD, "TASK_STATE_COMPLETED"), (no_json.as_str(), "TASK_STATE_FAILED")] {
        let (_, task) = Pair::seen(&pair.serving.gateway(), "SendMessage", [answer; 2]);
        assert_eq!(task["status"]["state"], state, "{task}");
    }
    assert_eq!(pair.host.run(&["call", "echo", "hello"]).code, 0);

    // A turn is counted a little after its answer.
    let measured = json!({ "share": 0.5, "basis": "measured here" });
    until(SOON, "it is counted by verdicts", || success(&pair.host, "clerk") == measured);
    let claimed = json!({ "share": 1.0, "basis": "claimed" });
    until(SOON, "what nobody judged is claimed", || success(&pair.host, "echo") == claimed);
    assert!(pair.host.run(&["find"]).stdout.contains("0.50 measured here"));
    // To the other node it is the word of the first; what that did not measure it does not say.
    let told = json!({ "share": 0.5, "basis": "claimed" });
    until(SOON, "the other node is told", || success(&pair.peer, "clerk") == told);
    until(SOON, "the other node finds the other agent", || pair.peer.finds("echo"));
    assert_eq!(success(&pair.peer, "echo"), Value::Null);
}
