//! What agents that are models, components, programs and servers elsewhere answer, is judged all the same: malformed answers reach
//! nobody who asks, whole or streamed, here or through another node; and what fails in silence is found, also where no gate judges it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use althing_e2e::guests::from_python;
use althing_e2e::http::{self, HONEST, raw, request, says, task_id};
use althing_e2e::{Machine, Node, Running, text, until};
use althing_protocol::hex;
use althing_testing::at_night;
use serde_json::{Value, json};

const COURSES: &str = include_str!("../../python/courses.py");
const GUEST: &str = include_str!("../../python/courses_guest.py");
const SERVED: &str = include_str!("../../python/courses_served.py");
const SOON: Duration = Duration::from_secs(120);
/// Malformed answers of each runtime, by each of two ways and at each of two nodes: by day, and at night.
const EACH: [u64; 2] = [6, 600];
/// No asker may see it; it stands in most malformed answers.
const WORD: &str = "quicksand";
const GOOD: &str = r#"{"total":7,"note":"quicksand"}"#;
const RUNTIMES: [&str; 4] = ["model", "guest", "program", "remote"];
/// Of these, those that answer with A2A.
const A2A: [&str; 2] = ["program", "remote"];
/// Runs of a case, after which a few turns in a row without a call are more than chance.
const RUNS: &str = "20";
/// More honest turns than it takes to see that nothing is found of them.
const HONEST_TURNS: u32 = 40;

/// Numbers from a seed: the same each time.
struct Draws(u64);

impl Draws {
    /// One below that.
    fn below(&mut self, most: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(most).expect("few")).expect("few")
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A text that is no JSON, or none of what the contract says.
fn bad_text(draws: &mut Draws) -> String {
    match draws.below(11) {
        0 => GOOD[..=draws.below(GOOD.len() - 1)].to_owned(),
        1 => format!("The total, on {WORD}: {GOOD}"),
        2 => format!("{GOOD} on {WORD}"),
        3 => format!("{GOOD}{GOOD}"),
        4 => format!(r#"{{"total":8,{}"#, &GOOD[1..]),
        5 => format!(r#"{{"total":"{WORD} {}"}}"#, draws.below(1_000)),
        6 => format!(r#"{{"note":"{WORD}"}}"#),
        7 => {
            let levels = 66 + draws.below(100);
            format!(r#"{{"total":7,"note":"{WORD}","x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        }
        8 => draws.of(&[r#"["quicksand",7]"#, r#""quicksand""#, "7", "null", "true"]).to_owned(),
        9 => format!("```json\n{GOOD}\n```"),
        _ => format!(r#"{{"total":"{}"}}"#, WORD.repeat(1 + draws.below(500))),
    }
}

/// What a program emits where no text alone is malformed: JSON, bytes and addresses, with other media types, beside good ones.
fn bad_parts(draws: &mut Draws) -> Value {
    let media = draws.of(&["text/html", "text/plain; charset=utf-8", "image/png", "application/xml"]);
    let good = json!({ "data": { "total": 7 } });
    let bad = match draws.below(8) {
        0 => json!({ "data": { "total": WORD } }),
        1 => json!({ "data": [WORD, 7] }),
        2 => json!({ "raw": "cXVpY2tzYW5k", "filename": WORD }),
        3 => json!({ "url": format!("https://files.example/{WORD}") }),
        4 => json!({ "text": GOOD, "mediaType": media }),
        5 => json!({ "data": { "total": 7, "note": WORD }, "mediaType": media }),
        _ => json!({ "text": bad_text(draws) }),
    };
    match draws.below(4) {
        0 => json!([good, bad]),
        1 => json!([bad, good]),
        _ => json!([bad]),
    }
}

/// The message that has an agent of a runtime say something malformed.
fn bad_message(runtime: &str, draws: &mut Draws) -> String {
    if !A2A.contains(&runtime) {
        return format!("say {}", hex(bad_text(draws).as_bytes()));
    }
    let form = draws.of(&["artifact", "annotated", "streamed", "ending", "reply", "progress"]);
    format!("say {}", hex(json!({ "form": form, "parts": bad_parts(draws) }).to_string().as_bytes()))
}

/// A node with an agent of each runtime, and each once more with gates; and another node of the same owner.
struct Scene {
    host: Machine,
    serving: Node,
    asking: Node,
    _peer: Machine,
    _served: Running,
}

impl Scene {
    fn start(module: &Path) -> Scene {
        let host = Machine::new();
        host.write("courses.py", COURSES);
        host.write("courses_served.py", SERVED);
        let mut served = Running::start(host.command(Path::new("python3")).args(["-B", "courses_served.py"]));
        let port = served.line(SOON).expect("it says its port").trim().to_owned();
        let serving = host.up_alone(&[]);
        let peer = host.of_same_owner();
        let asking = peer.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
        for runtime in RUNTIMES {
            host.add(runtime, &agent(runtime, &port, module, false));
            host.add(&strict(runtime), &agent(runtime, &port, module, true));
        }
        let ready = |row: &Value| row["state"] == "ready";
        until(SOON, "all are ready", || host.json(&["ps"])["agents"].as_array().expect("a list").iter().all(ready));
        let finds = |runtime: &&str| peer.finds(&strict(runtime));
        until(SOON, "all are found on the other node", || RUNTIMES.iter().all(finds));
        Scene { host, serving, asking, _peer: peer, _served: served }
    }

    /// The state of the task in which an agent is sent that; and its answer.
    fn send(&self, agent: &str, message: &str) -> (String, Value) {
        let task = http::ask(&self.serving.gateway(), agent, "SendMessage", &says(message))["task"].take();
        (text(&task["status"]["state"]), task)
    }

    /// What was found of an agent's turns, and how often.
    fn found(&self, agent: &str) -> BTreeMap<String, u64> {
        let list = self.host.json(&["ps"]);
        let mut rows = list["agents"].as_array().expect("a list").iter();
        let row = rows.find(|row| row["name"] == agent).expect("it runs");
        let findings = row["findings"].as_array().into_iter().flatten();
        findings.map(|found| (text(&found["finding"]), found["count"].as_u64().expect("a number"))).collect()
    }

    /// Nothing of what an agent says so reaches who asks.
    fn is_held_back(&self, node: &Node, runtime: &str, method: &str, message: &str) {
        let gateway = node.gateway();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": says(message) }).to_string();
        let path = format!("/a2a/{}", strict(runtime));
        let answer = raw(&gateway, &request(&gateway, "POST", &path, &HONEST, body.as_bytes()));
        let told = || format!("{runtime}, {method}, {message}: {}", answer.body);
        assert!(answer.body.contains("GATE_REFUSED") && answer.body.contains("TASK_STATE_FAILED"), "{}", told());
        assert!(!answer.body.contains(WORD) && !answer.body.contains("artifact"), "{}", told());
        let task = http::ask(&gateway, &strict(runtime), "GetTask", &json!({ "id": task_id(&answer.body) }));
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task}");
        assert!(task.get("artifacts").is_none_or(|all| *all == json!([])), "{}: {task}", told());
        assert!(!task.to_string().contains(WORD), "{}: {task}", told());
    }
}

fn strict(runtime: &str) -> String {
    format!("strict-{runtime}")
}

/// The file of an agent of a runtime: with gates, or with tools.
fn agent(runtime: &str, port: &str, module: &Path, is_strict: bool) -> String {
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let mut file = json!({
        "name": if is_strict { strict(runtime) } else { runtime.to_owned() },
        "description": "Adds up orders",
        "contract": { "class": { "latency": "srt" } },
    });
    file["runtime"] = match runtime {
        "model" => json!({ "model": { "prompt": "Add up.", "endpoints": [{ "url": url("v1"), "model": "stub" }] } }),
        "guest" => json!({ "wasm": { "module": module } }),
        "remote" => json!({ "remote": { "url": url("") } }),
        _ => json!({ "process": {
            "command": ["python3", "-B", "courses_served.py", "program"],
            "startup_timeout_ms": 60_000,
        } }),
    };
    if runtime == "guest" {
        file["contract"]["compute"] = json!({ "memory_bytes": 128 << 20 });
    }
    if is_strict {
        let total = json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] });
        file["contract"]["verify"] = json!({ "schema": { "output": total }, "media": ["application/json"] });
    } else if !A2A.contains(&runtime) {
        file["contract"]["capabilities"] = json!(["shop/*", "list/look"]);
        file["tools"] = json!({ "shop": { "url": url("shop") }, "list": { "url": url("list"), "effect": "none" } });
    }
    file.to_string()
}

#[test]
fn malformed_answers_reach_nobody_and_silent_failures_are_found_whatever_an_agent_is_made_of() {
    let Some(module) = from_python(&format!("{COURSES}\n\n{GUEST}")) else { return };
    // Both parts with the same agents: a component of Python's is compiled for a long time.
    let scene = Scene::start(&module);
    malformed_answers_reach_nobody(&scene);
    A2A.iter().for_each(|runtime| words_beside_answers_reach_nobody(&scene, &strict(runtime)));
    silent_failures_are_found(&scene);
}

fn malformed_answers_reach_nobody(scene: &Scene) {
    let mut sent = 0;
    for (runtime, seed) in RUNTIMES.into_iter().zip(1..) {
        let good = match runtime {
            _ if A2A.contains(&runtime) => json!({ "form": "artifact", "parts": [{ "text": GOOD }] }).to_string(),
            _ => GOOD.to_owned(),
        };
        let (state, task) = scene.send(&strict(runtime), &format!("say {}", hex(good.as_bytes())));
        assert!(state == "TASK_STATE_COMPLETED" && task["artifacts"].to_string().contains(WORD), "{runtime}: {task}");
        let mut draws = Draws(seed);
        for _ in 0..EACH[usize::from(at_night())] {
            for node in [&scene.serving, &scene.asking] {
                for method in ["SendMessage", "SendStreamingMessage"] {
                    scene.is_held_back(node, runtime, method, &bad_message(runtime, &mut draws));
                    sent += 1;
                }
            }
        }
    }
    println!("measured: {sent} malformed answers were held back");
}

/// What a program says of a failure, of an error and of a task that is cancelled is no answer, so that no gate judges it; likewise
/// what it calls its events.
fn words_beside_answers_reach_nobody(scene: &Scene, agent: &str) {
    let parts = json!([{ "text": WORD }]);
    let message = |form: &str| format!("say {}", hex(json!({ "form": form, "parts": parts }).to_string().as_bytes()));
    for node in [&scene.serving, &scene.asking] {
        let gateway = node.gateway();
        for form in ["failed", "rejected", "error", "named"] {
            for method in ["SendMessage", "SendStreamingMessage"] {
                let params = says(&message(form));
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
                let path = format!("/a2a/{agent}");
                let told = raw(&gateway, &request(&gateway, "POST", &path, &HONEST, body.as_bytes())).body;
                assert!(told.contains("log says why") && !told.contains(WORD), "{form}, {method}: {told}");
            }
        }
        let asks = http::ask(&gateway, agent, "SendMessage", &says(&message("question")))["task"].take();
        assert_eq!(asks["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asks}");
        let cancelled = http::ask(&gateway, agent, "CancelTask", &json!({ "id": asks["id"] }));
        assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
        assert!(!cancelled.to_string().contains(WORD), "{cancelled}");
    }
}

fn silent_failures_are_found(scene: &Scene) {
    let planted = [
        ("silent", "said-nothing", &RUNTIMES[..]),
        ("cut a", "answer-cut", &["model"]),
        ("refused a", "no-effect-succeeded", &["model", "guest"]),
        ("broken a", "result-breaks-its-schema", &["model", "guest"]),
        ("claim a", "effect-without-call", &["model", "guest"]),
    ];
    for runtime in RUNTIMES {
        let completes = |message: &str| {
            let (state, task) = scene.send(runtime, message);
            assert_eq!(state, "TASK_STATE_COMPLETED", "{runtime}, {message}: {task}");
        };
        let mut known = BTreeMap::new();
        for (number, verb) in (0..HONEST_TURNS).zip(["look", "order", "sorry", "skip"].into_iter().cycle()) {
            completes(&format!("{verb} {number}"));
        }
        assert_eq!(scene.found(runtime), known, "{runtime}: nothing is found of honest turns");
        let mut is_found = |finding: &str| {
            known.insert(finding.to_owned(), 1);
            assert_eq!(scene.found(runtime), known, "{runtime}");
        };
        for (message, finding, _) in planted.iter().filter(|(.., of)| of.contains(&runtime)) {
            completes(message);
            is_found(finding);
        }
        for number in 0..3 {
            completes(&format!("same {number}"));
        }
        is_found("same-answer");
        if A2A.contains(&runtime) {
            let file = cases(&scene.host);
            let refused = scene.host.run(&["test", runtime, "--cases", &file, "--live"]);
            assert_eq!(refused.code, 5, "what a program calls is not known: {refused:?}");
            continue;
        }
        // Until it was tested, nobody knows how many tools it should call.
        for number in 0..4 {
            completes(&format!("skip {number}"));
        }
        let tested = scene.host.run(&["test", runtime, "--cases", &cases(&scene.host), "--live", "--runs", RUNS]);
        assert_eq!(tested.code, 0, "{tested:?}");
        for number in 0..4 {
            completes(&format!("skip again {number}"));
        }
        is_found("few-tools");
    }
}

/// A file with a case in which three tools are called.
fn cases(machine: &Machine) -> String {
    let case = json!({ "input": "look 7", "target": "looked for 7" });
    let file = machine.write("cases.jsonl", &format!("{case}\n"));
    file.to_str().expect("a plain path").to_owned()
}
