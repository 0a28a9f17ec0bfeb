//! Servers that do as they are told, at the other end of two pipes: what a call becomes, however its server answers. The clock
//! stands still while nobody waits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_execution::process::{EgressRules, ProcessConfig};
use althing_execution::relayed::{Progress, Relayed};
use althing_execution::tools::{ContractGate, RESULT_TOO_LONG, ToolServer, Tools};
use althing_execution::{Ports, Refusals, ServerOf};
use althing_td::ToolServerSpec;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::Server;
use crate::connection::{Connection, Speech, Target};
use crate::lines::Lines;

mod askers;

/// What a server does.
enum Does {
    /// Writes this, as it stands.
    Writes(String),
    /// Works, and reads nothing meanwhile.
    Works(Duration),
    /// Ends.
    Ends,
}

fn line(message: &Value) -> Does {
    Does::Writes(format!("{message}\n"))
}

/// The answer to a request.
fn answers(asked: &Value, result: Value) -> Does {
    line(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}

fn refuses(asked: &Value, code: i32) -> Does {
    line(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": code, "message": "no such method" } }))
}

fn text(said: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": said }] })
}

/// What every server answers; `called` says what becomes of all else.
fn usual(asked: &Value, called: impl FnOnce(&Value) -> Vec<Does>) -> Vec<Does> {
    match asked["method"].as_str() {
        Some("initialize") => {
            let info = json!({ "name": "stub", "version": "1" });
            let result =
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info });
            vec![answers(asked, result)]
        }
        Some("server/discover") => vec![refuses(asked, -32_601)],
        Some("tools/list") => {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            vec![answers(asked, json!({ "tools": [tool("work"), tool("ask")] }))]
        }
        Some(method) if method.starts_with("notifications/") => Vec::new(),
        _ => called(asked),
    }
}

async fn serve(input: DuplexStream, mut output: DuplexStream, mut script: impl FnMut(&Value) -> Vec<Does>) {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let asked: Value = serde_json::from_str(&line).expect("a client writes JSON");
        for does in script(&asked) {
            match does {
                Does::Writes(text) => {
                    if output.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Does::Works(time) => sleep(time).await,
                Does::Ends => return,
            }
        }
    }
}

/// A node's tools of such a server, and the server.
async fn scene(mut called: impl FnMut(&Value) -> Vec<Does> + Send + 'static) -> (Tools, Arc<Server>) {
    let (read, output) = duplex(1 << 16);
    let (write, input) = duplex(1 << 16);
    tokio::spawn(serve(input, output, move |asked| usual(asked, &mut called)));
    let command = vec!["no-such-program".to_owned()];
    let (env, env_secrets, sandbox) = Default::default();
    let spec = ToolServerSpec::Command { command, cwd: None, env, env_secrets, sandbox };
    let of = ServerOf { agent: "a", server: "stub", folder: Path::new("."), memory_kib: 0 };
    let nothing = (EgressRules::default(), Refusals::default());
    let target = Target::new(of, &spec, None, &ProcessConfig::default(), nothing);
    let exchange = target.exchange();
    let client = target.initialise(Lines::new(read, write, "stub"), Speech::Newest, &exchange).await;
    let client = client.map_err(|error| error.to_string()).expect("it speaks MCP");
    let server = Server::new(target);
    *server.connection.lock().await = Some(Connection { client, program: None, exchange, behaviour: None });
    let server = Arc::new(server);
    let servers = BTreeMap::from([("box".to_owned(), server.clone() as Arc<dyn ToolServer>)]);
    let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
    let tools = Tools::new(agent, servers, Arc::new(ContractGate::new(vec!["box/*".to_owned()])));
    assert_eq!(tools.listed().await.len(), 2);
    tools.pin(tools.pinnable(&tools.definitions()));
    (tools, server)
}

async fn call(tools: &Tools, tool: &str) -> Result<Value, String> {
    tools.invoke(tool, "{}").await.0.map_err(|error| error.to_string())
}

/// Progress that the server tells, with the token of the request.
fn tells(asked: &Value, progress: u32) -> Does {
    let params = json!({ "progressToken": asked["params"]["_meta"]["progressToken"], "progress": progress });
    line(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
}

#[tokio::test(start_paused = true)]
async fn all_progress_arrives_in_order_though_the_answer_follows_at_once() {
    let (tools, _) = scene(|asked| {
        let told = (0..100).map(|step| tells(asked, step));
        told.chain([answers(asked, text("done"))]).collect()
    })
    .await;
    let (sender, mut told) = mpsc::channel(128);
    let relayed = Relayed { progress: Progress::to(sender), ..Relayed::default() };
    let result = relayed.call(call(&tools, "box/work")).await.expect("it is done");
    assert_eq!(result["content"][0]["text"], "done");
    let steps: Vec<Option<f64>> =
        std::iter::from_fn(|| told.try_recv().ok()).map(|one| one["progress"].as_f64()).collect();
    assert_eq!(steps, (0..100).map(|step| Some(f64::from(step))).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_tells_how_far_it_is_works_for_longer_than_a_silent_one_may() {
    let step = || Does::Works(Duration::from_secs(100));
    let (tools, _) = scene(move |asked| match asked["params"]["name"].as_str() {
        Some("work") => {
            let told = (0..20).flat_map(|number| [step(), tells(asked, number)]);
            told.chain([answers(asked, text("done"))]).collect()
        }
        _ => vec![Does::Works(Duration::from_secs(7_200))],
    })
    .await;
    assert!(call(&tools, "box/work").await.is_ok());
    let silent = call(&tools, "box/ask").await.expect_err("it says nothing");
    assert!(silent.contains("within 120 s"), "{silent}");
}

#[tokio::test(start_paused = true)]
async fn odd_progress_is_a_sign_of_life_too() {
    let (tools, _) = scene(|asked| {
        let token = asked["params"]["_meta"]["progressToken"].clone();
        let odd = [
            json!({ "progressToken": token, "progress": "1" }),
            json!({ "progressToken": token, "progress": 2, "message": 7 }),
            json!({ "progressToken": token.to_string(), "total": [] }),
            json!({ "progressToken": token, "progress": 3, "_meta": 7 }),
        ];
        let told = odd.into_iter().flat_map(|params| {
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            [Does::Works(Duration::from_secs(100)), line(&told)]
        });
        told.chain([Does::Works(Duration::from_secs(100)), answers(asked, text("done"))]).collect()
    })
    .await;
    let done = call(&tools, "box/work").await.expect("it said that it works");
    assert_eq!(done["content"][0]["text"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_is_late_ends_no_server_that_works() {
    let work = |asked: &Value| vec![Does::Works(Duration::from_secs(55)), answers(asked, text("done"))];
    let (tools, server) = scene(work).await;
    let begun = Instant::now();
    let looks = async {
        let mut seen = Vec::new();
        for _ in 0..4 {
            sleep(Duration::from_secs(12)).await;
            seen.push((tools.listed().await.len(), server.state() == althing_execution::AgentState::Ready));
        }
        seen
    };
    let (one, other, seen) = tokio::join!(call(&tools, "box/work"), call(&tools, "box/work"), looks);
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert!(seen.iter().all(|seen| *seen == (2, true)), "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(200), "one after the other: {:?}", begun.elapsed());
    assert!(call(&tools, "box/work").await.is_ok(), "it is the same connection still");
}

/// A call by a client that can ask its user.
async fn asking(tools: &Tools, arguments: &str, relayed: Relayed) -> Value {
    let relayed = Relayed { may_be_asked: true, ..relayed };
    let outcome = relayed.call(tools.invoke("box/ask", arguments)).await.0;
    outcome.unwrap_or_else(|error| json!({ "failed": error.to_string() }))
}

/// A server that asks its user's name, and says what it is answered.
async fn curious() -> (Tools, Arc<Server>) {
    let mut waits = Value::Null;
    scene(move |asked| {
        if asked["method"] == "tools/call" {
            waits = asked.clone();
            let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
            let params = json!({ "message": "Name?", "requestedSchema": schema });
            return vec![line(
                &json!({ "jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": params }),
            )];
        }
        vec![answers(&waits, text(&asked["result"].to_string()))]
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_goes_to_whoever_called_and_the_answer_goes_back() {
    let (tools, server) = curious().await;
    let required = asking(&tools, "{}", Relayed::default()).await;
    assert_eq!(required["resultType"], "input_required", "{required}");
    assert_eq!(required["inputRequests"]["elicitation"]["params"]["message"], "Name?");
    assert!(server.is_busy(), "it waits");
    let answer = json!({ "elicitation": { "action": "accept", "content": { "name": "Ada" } } });
    let again = Relayed {
        input_responses: answer.as_object().cloned(),
        request_state: required["requestState"].as_str().map(str::to_owned),
        ..Relayed::default()
    };
    let other = asking(&tools, r#"{"x":1}"#, again.clone()).await;
    assert!(other["failed"].as_str().is_some_and(|why| why.contains("waits no more")), "another call: {other}");
    let done = asking(&tools, "{}", again.clone()).await;
    let said = done["content"][0]["text"].as_str().expect("a text");
    assert!(said.contains("accept") && said.contains("Ada"), "{said}");
    let twice = asking(&tools, "{}", again).await;
    assert!(twice["failed"].is_string(), "{twice}");
}

#[tokio::test(start_paused = true)]
async fn nobody_declines_for_a_user() {
    let (tools, server) = curious().await;
    let said = |result: Value| result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    // Not relayed, or by a client that cannot ask.
    let alone = said(call(&tools, "box/ask").await.expect("it goes on"));
    let unable = said(Relayed::default().call(call(&tools, "box/ask")).await.expect("it goes on"));
    for said in [alone, unable] {
        assert!(said.contains("cancel") && !said.contains("decline"), "{said}");
    }
    // Nor by one that never answers.
    let required = asking(&tools, "{}", Relayed::default()).await;
    assert_eq!(required["resultType"], "input_required");
    sleep(Duration::from_secs(700)).await;
    assert!(!server.is_busy(), "it waits no more");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_end_and_what_cannot_be_followed_is_named() {
    let mut looks = 0;
    let (tools, _) = scene(move |asked| {
        let params = &asked["params"];
        let status = |status: &str| json!({ "taskId": params["taskId"], "status": status, "pollInterval": 1_000 });
        match (asked["method"].as_str(), params["name"].as_str()) {
            (Some("tools/call"), Some("work")) if params.get("task").is_none() => vec![refuses(asked, -32_601)],
            (Some("tools/call"), Some(name)) => {
                vec![answers(asked, json!({ "task": { "taskId": format!("of-{name}"), "status": "working" } }))]
            }
            (Some("tasks/get"), _) if params["taskId"] == "of-ask" => vec![refuses(asked, -32_601)],
            (Some("tasks/get"), _) => {
                looks += 1;
                vec![answers(asked, status(if looks < 200 { "working" } else { "completed" }))]
            }
            (Some("tasks/result"), _) => vec![answers(asked, text("done late"))],
            _ => Vec::new(),
        }
    })
    .await;
    let done = call(&tools, "box/work").await.expect("it is followed");
    assert_eq!(done["content"][0]["text"], "done late");
    let lost = call(&tools, "box/ask").await.expect_err("it does not tell");
    assert!(lost.contains("of-ask") && lost.contains("the work goes on there"), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn a_question_about_a_task_that_fails_is_asked_again_and_what_never_answers_is_named() {
    let (mut looks, mut results) = (0, 0);
    let (tools, _) = scene(move |asked| {
        let params = &asked["params"];
        let does = match (asked["method"].as_str(), params["name"].as_str()) {
            (Some("tools/call"), Some(name)) => {
                answers(asked, json!({ "task": { "taskId": format!("of-{name}"), "status": "working" } }))
            }
            (Some("tasks/get"), _) if params["taskId"] == "of-ask" => refuses(asked, -32_603),
            (Some("tasks/get"), _) => {
                looks += 1;
                match looks {
                    1..=4 => refuses(asked, -32_603),
                    5 => answers(asked, json!({ "odd": true })),
                    _ => answers(asked, json!({ "taskId": params["taskId"], "status": "completed" })),
                }
            }
            (Some("tasks/result"), _) => {
                results += 1;
                if results == 1 { refuses(asked, -32_000) } else { answers(asked, text("done late")) }
            }
            _ => return Vec::new(),
        };
        vec![does]
    })
    .await;
    let done = call(&tools, "box/work").await.expect("it is asked again");
    assert_eq!(done["content"][0]["text"], "done late");
    let lost = call(&tools, "box/ask").await.expect_err("it never tells");
    assert!(lost.contains("of-ask") && lost.contains("-32603") && lost.contains("the work goes on there"), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_told_at_once_and_a_picture_of_three_mebibytes_passes() {
    for (bytes, passes) in [(4 << 20, true), (5 << 20, false), (8 << 20, false)] {
        let (tools, _) = scene(move |asked| {
            let picture = json!({ "type": "image", "mimeType": "image/png", "data": "A".repeat(bytes) });
            vec![answers(asked, json!({ "content": [picture] }))]
        })
        .await;
        let begun = Instant::now();
        let outcome = call(&tools, "box/work").await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{bytes}");
        match outcome {
            Ok(result) => assert!(passes && result["content"][0]["data"].as_str().is_some_and(|it| it.len() == bytes)),
            Err(why) => assert!(!passes && why.contains(RESULT_TOO_LONG), "{bytes}: {why}"),
        }
    }
}

/// Numbers in an order that is always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most
    }
}

/// An answer that is none, or no success; or one that is both, and whether it is.
fn ending(dice: &mut Dice, id: &Value) -> (Vec<Does>, bool) {
    let right = json!({ "jsonrpc": "2.0", "id": id, "result": text("done") });
    let whole = format!("{right}\n");
    let with = |member: &str, value: Value| {
        let mut wrong = right.clone();
        wrong[member] = value;
        vec![line(&wrong)]
    };
    let renamed = |from: &str, to: &str| vec![Does::Writes(whole.replace(&format!("{from:?}:"), &format!("{to:?}:")))];
    let names = [
        ("result", "Result"),
        ("result", "results"),
        ("id", "ID"),
        ("jsonrpc", "version"),
        ("content", "contents"),
        ("text", "Text"),
        ("type", "kind"),
    ];
    let (from, to) = names[dice.below(names.len())];
    let ids = [json!(4_096), json!("x"), json!(null), json!([1]), json!(-1)];
    let results = [
        json!(null),
        json!([]),
        json!("done"),
        json!({ "tools": [] }),
        json!({ "content": "done" }),
        json!({ "content": [{ "type": "text", "text": 42 }] }),
        json!({ "content": ["done"] }),
        json!({ "content": [{ "text": "done" }], "isError": false }),
        json!({ "content": [], "isError": true }),
        json!({ "content": [], "isError": "no" }),
        json!({ "resultType": "input_required" }),
        json!({ "resultType": "odd", "content": [] }),
        json!({ "contents": text("done")["content"] }),
    ];
    let error = json!({ "code": -32_000, "message": "no" });
    match dice.below(12) {
        // Cut anywhere, the end of the line included or not.
        0 => (vec![Does::Writes(whole[..dice.below(whole.len() - 1)].to_owned()), Does::Ends], false),
        1 => {
            let (one, other) = whole.split_at(1 + dice.below(whole.len() - 2));
            (vec![Does::Writes(format!("{one}\n{other}")), Does::Ends], false)
        }
        2 => (vec![Does::Writes("\n \n{}\n".to_owned()), Does::Ends], false),
        3 => (renamed(from, to), false),
        4 => (with("id", ids[dice.below(ids.len())].clone()), false),
        5 => (with("result", results[dice.below(results.len())].clone()), false),
        6 => (with("error", error), false),
        // An error first, and a success after it.
        7 => {
            let refused = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            (vec![line(&refused), line(&right)], false)
        }
        // Late: after everybody has gone.
        8 => (vec![Does::Works(Duration::from_secs(8_000)), line(&right)], false),
        // Right: in pieces, twice, after what belongs to nobody, or with the id as a text.
        9 => {
            let (one, other) = whole.split_at(dice.below(whole.len()));
            let pause = Does::Works(Duration::from_secs(1));
            (vec![Does::Writes(one.to_owned()), pause, Does::Writes(other.to_owned())], true)
        }
        10 => {
            let other = json!({ "jsonrpc": "2.0", "id": 4_096, "result": text("another's") });
            (vec![Does::Writes("log\n".to_owned()), line(&other), line(&right), line(&right)], true)
        }
        _ => (with("id", Value::String(id.to_string())), true),
    }
}

#[tokio::test(start_paused = true)]
async fn no_odd_ending_becomes_a_success_that_it_was_not() {
    let (mut successes, mut failures) = (0, 0);
    for seed in 0..1_000 {
        let right = Arc::new(std::sync::Mutex::new(false));
        let is_right = right.clone();
        let mut dice = Dice(seed);
        let (tools, _) = scene(move |asked| {
            if asked["method"] != "tools/call" {
                return Vec::new();
            }
            let (does, is_success) = ending(&mut dice, &asked["id"]);
            *is_right.lock().expect("nobody panics with it") = is_success;
            does
        })
        .await;
        let outcome = timeout(Duration::from_secs(300), call(&tools, "box/work")).await.expect("each call ends");
        let is_success = outcome.as_ref().is_ok_and(|result| result["isError"] == false);
        assert_eq!(is_success, *right.lock().expect("nobody panics with it"), "{seed}: {outcome:?}");
        if is_success {
            successes += 1
        } else {
            failures += 1
        }
        if let Ok(result) = &outcome {
            assert!(!is_success || result["content"] == text("done")["content"], "{seed}: {result}");
        }
        tools.stop().await;
    }
    assert!(successes > 100 && failures > 500, "{successes} {failures}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_several_messages_at_once_is_read() {
    let (tools, _) = scene(|asked| {
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": text("done") });
        let notice =
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
        vec![line(&json!([notice, answer]))]
    })
    .await;
    assert!(call(&tools, "box/work").await.is_ok());
}
