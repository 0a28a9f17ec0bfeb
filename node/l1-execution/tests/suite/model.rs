//! Model agents against an endpoint on loopback that behaves, misbehaves, and counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{Message, Part, PartContent, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::cost_budget::CostBudget;
use althing_execution::memory::{Embedder, MEMORY, Memories, Memory};
use althing_execution::model::{Model, ModelError};
use althing_execution::secrets::{SecretLookup, SecretLookupError};
use althing_execution::tools::{
    CallKind, ContractGate, Definition, Denied, Fault, GateVerdict, ModelClearance, Permission, Permit, ToolCall,
    ToolError, ToolGate, ToolServer, Tools,
};
use althing_execution::{Agent, AgentError, Output, Ports, SystemCalls, Turn};
use althing_protocol::contract::{DataLabel, Memory as MemoryTerms};
use althing_protocol::{AgentRef, Contract};
use althing_store::{Batch, MemoryStore};
use althing_td::{ModelEndpoint, RuntimeSpec};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(20);

/// What an endpoint does with a request.
#[derive(Clone, Copy)]
pub(super) enum Behaves {
    /// Streams three words, what they cost, and ends.
    Well,
    /// Hangs up in the middle.
    Cut,
    /// Sends what is no completion.
    Garbage,
    /// Never ends.
    Endless,
    /// Refuses.
    Fails,
    /// Tells of a failure in the stream.
    FailsLate,
    /// Wants a tool called, and one that it may not call; then says what came of it.
    Calls,
    /// Wants a tool called, whatever it is told.
    CallsForEver,
    /// Wants a tool called and saves beside it; saves alone then; and says at last from where it went on.
    Saves,
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) requests: AtomicUsize,
    hung_up: AtomicUsize,
    pub(super) last: Mutex<(String, Value)>,
}

pub(super) struct Stub {
    pub(super) url: String,
    pub(super) seen: Arc<Seen>,
}

pub(super) async fn stub(behaves: Behaves) -> Stub {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
    let seen = Arc::new(Seen::default());
    let shared = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = shared.clone();
            tokio::spawn(async move {
                // The other side may hang up at any time.
                let _ = serve(stream, behaves, &seen).await;
                seen.hung_up.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    Stub { url, seen }
}

async fn serve(stream: TcpStream, behaves: Behaves, seen: &Seen) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    *seen.last.lock().expect("no holder panics") = (head, serde_json::from_slice(&body)?);
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let mut stream = stream.into_inner();
    let piece = |text: &str| {
        format!("data: {}\n\n", json!({ "model": "small-1", "choices": [{ "delta": { "content": text } }] }))
    };
    if matches!(behaves, Behaves::Fails) {
        return stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\nno room..").await;
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await?;
    match behaves {
        Behaves::Garbage => stream.write_all(b"data: {\"choices\": 7}\n\n").await?,
        Behaves::FailsLate => stream.write_all(b"data: {\"error\": {\"message\": \"out of memory\"}}\n\n").await?,
        Behaves::Calls | Behaves::CallsForEver => {
            let asked = seen.last.lock().expect("no holder panics").1.clone();
            let told = asked["messages"].as_array().is_some_and(|said| said.iter().any(|said| said["role"] == "tool"));
            let has_tools = asked["tools"].is_array();
            if has_tools && (!told || matches!(behaves, Behaves::CallsForEver)) {
                // As endpoints do it: the name first, then the arguments in pieces.
                let call = |index: u8, id: &str, name: &str, arguments: &str| {
                    let function = json!({ "name": name, "arguments": arguments });
                    json!({ "index": index, "id": id, "type": "function", "function": function })
                };
                for pieces in [
                    vec![call(0, "a", "files__read", "{\"pa")],
                    vec![json!({ "index": 0, "function": { "arguments": "th\": \"x\"}" } })],
                    vec![call(1, "b", "files__delete", "{}")],
                ] {
                    let delta = json!({ "choices": [{ "delta": { "tool_calls": pieces } }] });
                    stream.write_all(format!("data: {delta}\n\n").as_bytes()).await?;
                }
                let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
                stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes()).await?;
            } else {
                let last = asked["messages"].as_array().and_then(|said| said.last()).cloned().unwrap_or_default();
                stream
                    .write_all(piece(&format!("told: {}", last["content"].as_str().unwrap_or_default())).as_bytes())
                    .await?;
                stream.write_all(b"data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n").await?;
            }
        }
        Behaves::Saves => {
            let asked = seen.last.lock().expect("no holder panics").1.clone();
            let said = asked["messages"].as_array().cloned().unwrap_or_default();
            let save = json!({ "name": "session__checkpoint", "arguments": "{\"state\": \"x is read\"}" });
            let read = json!({ "name": "files__read", "arguments": "{\"path\": \"x\"}" });
            let saved = said
                .iter()
                .filter(|said| said["role"] == "system")
                .find_map(|said| said["content"].as_str().and_then(|text| text.split_once("What you saved:\n")));
            let wanted = match (saved, said.iter().any(|said| said["role"] == "tool")) {
                (Some((_, state)), _) => {
                    stream.write_all(piece(&format!("{state}.")).as_bytes()).await?;
                    Vec::new()
                }
                (None, true) => vec![save],
                (None, false) => {
                    stream.write_all(piece("I read. ").as_bytes()).await?;
                    vec![read, save]
                }
            };
            let call = |(index, function): (usize, &Value)| {
                let id = format!("c{index}");
                json!({ "index": index, "id": id, "type": "function", "function": function })
            };
            let calls: Vec<Value> = wanted.iter().enumerate().map(call).collect();
            let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
            let end = json!({ "choices": [{ "delta": { "tool_calls": calls }, "finish_reason": finish }] });
            stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes()).await?;
        }
        Behaves::Endless => loop {
            stream.write_all(piece("word ").as_bytes()).await?;
            tokio::task::yield_now().await;
        },
        Behaves::Well | Behaves::Cut | Behaves::Fails => {
            for word in ["one ", "two ", "three"] {
                stream.write_all(piece(word).as_bytes()).await?;
            }
            if matches!(behaves, Behaves::Well) {
                let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
                let usage = json!({ "choices": [], "usage": { "prompt_tokens": 11, "completion_tokens": 3 } });
                stream.write_all(format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n").as_bytes()).await?;
            }
        }
    }
    stream.shutdown().await
}

fn contract(more: &Value) -> Contract {
    let mut value = json!({ "class": { "latency": "srt" } });
    for (key, more) in more.as_object().expect("a map") {
        value[key] = more.clone();
    }
    Contract::from_value(&value).expect("a contract")
}

fn model(stubs: &[&Stub], more: &Value) -> Result<Model, ModelError> {
    let endpoint =
        |stub: &&Stub| ModelEndpoint { url: stub.url.clone(), model: "small".to_owned(), ..ModelEndpoint::default() };
    let endpoints = stubs.iter().map(endpoint).collect();
    let runtime = RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints, temperature: Some(0.5) };
    Model::new(&runtime, &contract(more), &secrets(), no_calls())
}

fn agent() -> AgentRef {
    Ports::none().agent_ref("agent", "1.0.0").expect("a name")
}

fn no_calls() -> SystemCalls {
    calls(Tools::new(agent(), BTreeMap::new(), Arc::new(ContractGate::new(Vec::new()))))
}

fn calls(tools: Tools) -> SystemCalls {
    SystemCalls { tools: Arc::new(tools), memory: None, budget: Arc::default() }
}

fn secrets() -> SecretLookup {
    Arc::new(|name| Ok((name == "KEY").then(|| "hush-hush".to_owned())))
}

pub(super) fn turn(text: &str) -> Turn {
    Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    }
}

/// Runs a turn; what it said, the data that came with it, and how it ended.
async fn run(model: &Model, turn: Turn) -> (String, Value, Result<(), AgentError>) {
    let (out, mut outputs) = Output::channel();
    let taken = async {
        let (mut said, mut data) = (String::new(), Value::Null);
        while let Some(made) = outputs.recv().await {
            let Made::Artifact { artifact, .. } = made else { continue };
            for part in artifact.parts {
                match part.content {
                    PartContent::Text(text) => said.push_str(&text),
                    PartContent::Data(value) => data = value,
                    PartContent::Raw(_) | PartContent::Url(_) => {}
                }
            }
        }
        (said, data)
    };
    let both = async { tokio::join!(model.turn(turn, out), taken) };
    let (ended, (said, data)) = tokio::time::timeout(LONG, both).await.expect("in time");
    (said, data, ended)
}

#[tokio::test]
async fn an_answer_streams_with_what_it_cost() {
    let stub = stub(Behaves::Well).await;
    let model = model(&[&stub], &json!({})).expect("a model");
    let (said, data, ended) = run(&model, turn("Count.")).await;
    assert_eq!((said.as_str(), ended), ("one two three", Ok(())));
    let usage = &data["usage"];
    assert_eq!((&usage["model"], &usage["finish"]), (&json!("small-1"), &json!("stop")));
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(11), &json!(3)));
    let (_, asked) = stub.seen.last.lock().expect("no holder panics").clone();
    assert_eq!(asked["messages"][0], json!({ "role": "system", "content": "Be brief." }));
    assert_eq!(asked["messages"][1], json!({ "role": "user", "content": "Count." }));
    assert_eq!((&asked["temperature"], &asked["stream"]), (&json!(0.5), &json!(true)));
}

// T7 (requirements): stopped at the budget, one call more or less.
#[tokio::test]
async fn what_a_delay_tolerant_agent_may_cost_is_not_passed() {
    let stub = stub(Behaves::Well).await;
    let endpoint = ModelEndpoint {
        url: stub.url.clone(),
        model: "small".to_owned(),
        cost: Some(500_000),
        ..ModelEndpoint::default()
    };
    let runtime =
        RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints: vec![endpoint], temperature: Some(0.5) };
    // A turn costs 14 tokens, which are 7 millionths.
    for cost in [json!({ "tokens": 35 }), json!({ "spend": 17 })] {
        let contract = contract(&json!({ "class": { "latency": "dt", "cost": cost } }));
        let budget = Arc::new(CostBudget::of(&contract));
        let calls = SystemCalls { budget: budget.clone(), ..no_calls() };
        let model = Model::new(&runtime, &contract, &secrets(), calls).expect("a model");
        let mut ended = Vec::new();
        while ended.iter().all(Result::is_ok) && ended.len() < 10 {
            ended.push(run(&model, turn("Count.")).await.2);
        }
        assert_eq!(ended.len(), 3, "two turns: {ended:?}");
        let refused = ended.pop().expect("a turn").expect_err("refused").to_string();
        assert!(refused.contains("class.cost"), "{refused}");
        assert_eq!((budget.spent().tokens, budget.spent().spend), (28, 14_000_000));
    }
}

#[tokio::test]
async fn an_answer_that_was_broken_off_is_part_of_the_conversation() {
    let stub = stub(Behaves::Well).await;
    let model = model(&[&stub], &json!({})).expect("a model");
    let mut again = turn("Go on.");
    again.history = vec![Message::new(Role::User, vec![Part::text("Count.")])];
    let half = json!([{ "artifactId": "answer-1", "parts": [{ "text": "one " }, { "text": "tw" }] }]);
    again.artifacts = serde_json::from_value(half).expect("artifacts");
    run(&model, again).await.2.expect("an answer");
    let (_, asked) = stub.seen.last.lock().expect("no holder panics").clone();
    let roles: Vec<&Value> = asked["messages"].as_array().expect("a list").iter().map(|said| &said["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(asked["messages"][2]["content"], "one tw");
}

#[tokio::test]
async fn what_fails_before_a_word_is_replaced_and_what_fails_after_is_told() {
    let well = stub(Behaves::Well).await;
    for behaves in [Behaves::Fails, Behaves::Garbage, Behaves::FailsLate] {
        let bad = stub(behaves).await;
        let both = model(&[&bad, &well], &json!({})).expect("a model");
        let (said, _, ended) = run(&both, turn("Count.")).await;
        assert_eq!((said.as_str(), ended), ("one two three", Ok(())));
        let alone = model(&[&bad], &json!({})).expect("a model");
        let (_, _, ended) = run(&alone, turn("Count.")).await;
        let told = ended.expect_err("a failure").to_string();
        assert!(told.contains("no endpoint answered: small") && !told.contains(&bad.url), "{told}");
    }
    let cut = stub(Behaves::Cut).await;
    let (said, _, ended) = run(&model(&[&cut, &well], &json!({})).expect("a model"), turn("Count.")).await;
    assert_eq!(said, "one two three");
    assert!(ended.expect_err("a failure").to_string().contains("broke off"));
    let gone = Stub { url: "http://127.0.0.1:1/v1".to_owned(), seen: Arc::default() };
    let (_, _, ended) = run(&model(&[&gone], &json!({})).expect("a model"), turn("Count.")).await;
    assert!(ended.expect_err("a failure").to_string().contains("cannot be reached"));
}

#[tokio::test]
async fn budgets_hold_before_and_while_it_speaks() {
    let endless = stub(Behaves::Endless).await;
    let cut = model(&[&endless], &json!({ "model": { "output_tokens": 50 } })).expect("a model");
    let (said, data, ended) = run(&cut, turn("Count.")).await;
    assert_eq!((said.split_whitespace().count(), ended), (50, Ok(())));
    assert_eq!(data["usage"]["finish"], "length");
    let (_, asked) = endless.seen.last.lock().expect("no holder panics").clone();
    assert_eq!(asked["max_tokens"], 50);
    let before = endless.seen.requests.load(Ordering::SeqCst);
    for (more, text) in [
        (json!({ "model": { "context_tokens": 20 } }), "x".repeat(100)),
        (json!({ "compute": { "tokens_per_turn": 10 } }), "x".repeat(30)),
    ] {
        let model = model(&[&endless], &more).expect("a model");
        assert!(matches!(run(&model, turn(&text)).await.2, Err(AgentError::Rejected(_))));
    }
    assert_eq!(endless.seen.requests.load(Ordering::SeqCst), before, "refused before it reaches the model");
}

#[tokio::test]
async fn the_policy_and_the_grants_of_the_contract_hold() {
    let stub = stub(Behaves::Well).await;
    let other = model(&[&stub], &json!({ "model": { "models": ["large"] } }));
    assert!(matches!(other, Err(ModelError::NoModel { .. })));
    let named = |secret: &str| RuntimeSpec::Model {
        prompt: "Be brief.".to_owned(),
        endpoints: vec![ModelEndpoint {
            url: stub.url.clone(),
            model: "small".to_owned(),
            secret: Some(secret.to_owned()),
            ..ModelEndpoint::default()
        }],
        temperature: None,
    };
    let granted = contract(&json!({ "security": { "secrets": ["KEY", "OTHER"] } }));
    let error = Model::new(&named("KEY"), &contract(&json!({})), &secrets(), no_calls()).err();
    assert_eq!(error, Some(ModelError::Secret(SecretLookupError::NotGranted("KEY".to_owned()))));
    assert_eq!(
        Model::new(&named("OTHER"), &granted, &secrets(), no_calls()).err(),
        Some(ModelError::Secret(SecretLookupError::Missing("OTHER".to_owned())))
    );
    let model = Model::new(&named("KEY"), &granted, &secrets(), no_calls()).expect("a model");
    let (said, data, ended) = run(&model, turn("Tell me your key.")).await;
    ended.expect("an answer");
    let (head, asked) = stub.seen.last.lock().expect("no holder panics").clone();
    assert!(head.contains("Bearer hush-hush"), "{head}");
    // Neither the model nor who asks sees it.
    for told in [said, data.to_string(), asked.to_string()] {
        assert!(!told.contains("hush"), "{told}");
    }
}

/// Two tools, and how often they were called.
#[derive(Default)]
pub(super) struct Files(pub(super) AtomicUsize);

impl ToolServer for Files {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let tool = |name: &str| Definition::new(name, &format!("Can {name} files."), json!({ "type": "object" }));
        Box::pin(async move { Ok(vec![tool("read"), tool("delete")]) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            Ok(json!({ "content": [{ "type": "text", "text": format!("{tool} of {}", arguments["path"]) }] }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn with_files(stub: &Stub, more: &Value) -> (Model, Arc<Files>) {
    let files = Arc::new(Files::default());
    let servers = BTreeMap::from([("files".to_owned(), files.clone() as Arc<dyn ToolServer>)]);
    let contract = contract(more);
    let tools = Tools::new(agent(), servers, Arc::new(ContractGate::new(contract.capabilities.clone())));
    let endpoint = ModelEndpoint { url: stub.url.clone(), model: "small".to_owned(), ..ModelEndpoint::default() };
    let runtime = RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints: vec![endpoint], temperature: None };
    (Model::new(&runtime, &contract, &secrets(), calls(tools)).expect("a model"), files)
}

#[tokio::test]
async fn tools_are_called_as_far_as_the_contract_allows() {
    let stub = stub(Behaves::Calls).await;
    let (model, files) = with_files(&stub, &json!({ "capabilities": ["files/read"] }));
    let (said, data, ended) = run(&model, turn("Read x.")).await;
    assert_eq!(ended, Ok(()));
    assert!(said.contains("told: error: denied") && said.contains("files/delete"), "{said}");
    assert_eq!(files.0.load(Ordering::SeqCst), 1);
    let (_, asked) = stub.seen.last.lock().expect("no holder panics").clone();
    assert_eq!(asked["tools"].as_array().map(Vec::len), Some(1), "it is told of no other");
    let messages = asked["messages"].as_array().expect("a list");
    assert_eq!(
        messages[2]["tool_calls"][0]["function"],
        json!({ "name": "files__read", "arguments": "{\"path\": \"x\"}" })
    );
    assert_eq!((&messages[3]["tool_call_id"], &messages[3]["content"]), (&json!("a"), &json!("read of \"x\"")));
    let outcomes: Vec<&Value> =
        data["tools"].as_array().expect("records").iter().map(|record| &record["outcome"]).collect();
    assert_eq!(outcomes, ["done", "denied"]);
    assert!(data["tools"][1]["result"].is_null());
}

#[tokio::test]
async fn a_model_that_calls_for_ever_is_held_to_its_calls() {
    let stub = stub(Behaves::CallsForEver).await;
    let (model, files) = with_files(&stub, &json!({ "capabilities": ["files/*"], "compute": { "calls_per_turn": 5 } }));
    let (said, data, ended) = run(&model, turn("Read x.")).await;
    assert_eq!(ended, Ok(()));
    assert!(said.starts_with("told: error: the turn has made all 5 tool calls"), "{said}");
    assert_eq!((files.0.load(Ordering::SeqCst), data["tools"].as_array().map(Vec::len)), (5, Some(5)));
}

#[tokio::test]
async fn dropping_the_turn_hangs_up() {
    let endless = stub(Behaves::Endless).await;
    let model = model(&[&endless], &json!({ "model": { "output_tokens": 100_000_000 } })).expect("a model");
    let (out, mut outputs) = Output::channel();
    let mut answering = model.turn(turn("Go on for ever."), out);
    tokio::select! {
        _ = &mut answering => panic!("it ended"),
        first = outputs.recv() => assert!(first.is_some()),
    }
    assert_eq!(endless.seen.hung_up.load(Ordering::SeqCst), 0);
    drop(answering);
    let hung_up = async {
        while endless.seen.hung_up.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, hung_up).await.expect("the endpoint is told");
}

/// A memory that holds one text.
async fn memory(source: &str, text: &str) -> Memory {
    let memories = Memories::new(
        Arc::new(MemoryStore::new(&[MEMORY])),
        Arc::new(|| 1_000),
        Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
        Arc::new(|_: &str| Ok(None)),
    );
    let memory = memories.open("agent", &MemoryTerms::default(), Arc::new(Embedder::Words)).expect("opened");
    memory.remember(source, text).await.expect("kept");
    memory
}

/// A model with these names for its endpoints, behind that gate.
fn model_behind(
    gate: Arc<dyn ToolGate>,
    stubs: &[(&str, &Stub)],
    memory: Option<Memory>,
    more: &Value,
) -> (Model, Arc<CostBudget>) {
    let endpoint = |(name, stub): &(&str, &Stub)| ModelEndpoint {
        url: stub.url.clone(),
        model: (*name).to_owned(),
        ..ModelEndpoint::default()
    };
    let endpoints = stubs.iter().map(endpoint).collect();
    let runtime = RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints, temperature: None };
    let contract = contract(more);
    let budget = Arc::new(CostBudget::of(&contract));
    let tools = Arc::new(Tools::new(agent(), BTreeMap::new(), gate));
    let calls = SystemCalls { tools, memory, budget: budget.clone() };
    (Model::new(&runtime, &contract, &secrets(), calls).expect("a model"), budget)
}

/// Denies the calls of one name, and notes all that it is told.
#[derive(Default)]
struct Guard {
    denied: &'static str,
    decided: Mutex<Vec<(CallKind, String, Value)>>,
    settled: Mutex<Vec<(String, bool)>>,
}

impl ToolGate for Guard {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Denied
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        let decided = (call.kind, call.tool.to_owned(), call.arguments.clone());
        self.decided.lock().expect("nobody panics with it").push(decided);
        let is_denied = call.tool == self.denied;
        let denied = || Denied { reason: "it is guarded".to_owned() };
        let ruling = if is_denied { GateVerdict::Deny(denied()) } else { GateVerdict::Permit(Permit::default()) };
        Box::pin(std::future::ready(ruling))
    }

    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        _: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        self.settled.lock().expect("nobody panics with it").push((call.tool.to_owned(), outcome.is_ok()));
        Box::pin(std::future::ready(Batch::new()))
    }
}

/// It is the node that does both, by the contract's `memory` and `model`.
#[tokio::test]
async fn memory_is_recalled_and_a_model_asked_whatever_the_capabilities() {
    let stub = stub(Behaves::Well).await;
    let memory = memory("ferry.txt", "The ferry to the island leaves at seven.").await;
    let recall = ["memory/recall"];
    for more in [
        json!({ "memory": {} }),
        // Consent is wanted for what the agent asks of its memory.
        json!({ "memory": {}, "capabilities": recall, "security": { "consent_for": recall } }),
    ] {
        let gate = Arc::new(ContractGate::of(&contract(&more)));
        let (model, _) = model_behind(gate, &[("small", &stub)], Some(memory.clone()), &more);
        let (said, _, ended) = run(&model, turn("When does the ferry leave?")).await;
        assert_eq!((said.as_str(), ended), ("one two three", Ok(())));
        let (_, asked) = stub.seen.last.lock().expect("no holder panics").clone();
        assert!(asked["messages"][1]["content"].as_str().expect("a text").contains("leaves at seven"), "{asked}");
    }
}

#[tokio::test]
async fn the_gate_sees_what_is_recalled_and_what_a_model_is_sent() {
    let (broken, well) = (stub(Behaves::Fails).await, stub(Behaves::Well).await);
    let memory = memory("ferry.txt", "The ferry to the island leaves at seven.").await;
    let gate = Arc::new(Guard::default());
    let endpoints = [("first", &broken), ("maker/second", &well)];
    let (model, _) = model_behind(gate.clone(), &endpoints, Some(memory), &json!({ "memory": {} }));
    let (_, data, ended) = run(&model, turn("When does the ferry leave?")).await;
    assert_eq!(ended, Ok(()));
    assert!(data["tools"].is_null(), "they are no calls of tools: {data}");
    let decided = gate.decided.lock().expect("nobody panics with it").clone();
    let sent = |stub: &Stub| stub.seen.last.lock().expect("no holder panics").1.clone();
    let expected = [
        (CallKind::Recall, "memory/recall".to_owned(), json!({ "question": "When does the ferry leave?", "most": 4 })),
        (CallKind::Model, "models/first".to_owned(), sent(&broken)),
        (CallKind::Model, "models/maker/second".to_owned(), sent(&well)),
    ];
    assert_eq!(decided, expected);
    assert_eq!(sent(&well)["messages"].as_array().map(Vec::len), Some(3), "prompt, passages, message");
    let settled = gate.settled.lock().expect("nobody panics with it").clone();
    let expected = [("memory/recall", true), ("models/first", false), ("models/maker/second", true)];
    assert_eq!(settled, expected.map(|(tool, is_ok)| (tool.to_owned(), is_ok)));
}

#[tokio::test]
async fn a_model_that_the_gate_denies_is_sent_nothing_and_costs_nothing() {
    let (small, large) = (stub(Behaves::Well).await, stub(Behaves::Well).await);
    let gate = || Arc::new(Guard { denied: "models/small", ..Guard::default() });
    let dear = json!({ "class": { "latency": "dt", "cost": { "tokens": 10_000 } } });
    let (alone, budget) = model_behind(gate(), &[("small", &small)], None, &dear);
    let (said, _, ended) = run(&alone, turn("Count.")).await;
    let why = "no model may be asked: small: denied: it is guarded".to_owned();
    assert_eq!((said.as_str(), ended), ("", Err(AgentError::Rejected(why))));
    assert_eq!((budget.spent().tokens, small.seen.requests.load(Ordering::SeqCst)), (0, 0));
    let (both, _) = model_behind(gate(), &[("small", &small), ("large", &large)], None, &json!({}));
    let (said, _, ended) = run(&both, turn("Count.")).await;
    assert_eq!((said.as_str(), ended), ("one two three", Ok(())));
    let requests = [&small, &large].map(|stub| stub.seen.requests.load(Ordering::SeqCst));
    assert_eq!(requests, [0, 1]);
}

#[tokio::test]
async fn a_message_for_which_memory_may_not_be_searched_is_not_answered_without_it() {
    let stub = stub(Behaves::Well).await;
    let memory = memory("ferry.txt", "The ferry to the island leaves at seven.").await;
    let gate = Arc::new(Guard { denied: "memory/recall", ..Guard::default() });
    let (model, _) = model_behind(gate, &[("small", &stub)], Some(memory), &json!({ "memory": {} }));
    let refused = run(&model, turn("When does the ferry leave?")).await.2.expect_err("it is denied");
    assert!(matches!(&refused, AgentError::Rejected(why) if why.ends_with("denied: it is guarded")), "{refused}");
    assert_eq!(stub.seen.requests.load(Ordering::SeqCst), 0);
}

/// Lets requests with confidential data out, and keeps how far each model was cleared.
#[derive(Default)]
struct Clearances(Mutex<Vec<Option<ModelClearance>>>);

impl ToolGate for Clearances {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Denied
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        self.0.lock().expect("nobody panics with it").push(call.clearance);
        let is_cleared = call.clearance.is_some_and(|clearance| clearance.level >= DataLabel::Confidential);
        let denied = || Denied { reason: "it is not cleared".to_owned() };
        let ruling = if is_cleared { GateVerdict::Permit(Permit::default()) } else { GateVerdict::Deny(denied()) };
        Box::pin(std::future::ready(ruling))
    }

    fn settle<'a>(
        &'a self,
        _: &'a ToolCall<'a>,
        _: &'a Permit,
        _: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        Box::pin(std::future::ready(Batch::new()))
    }
}

#[tokio::test]
async fn the_gate_sees_how_far_each_model_is_cleared_and_one_that_is_not_is_passed_over() {
    let (vendor, own) = (stub(Behaves::Well).await, stub(Behaves::Well).await);
    let endpoint = |stub: &Stub, model: &str, clearance| ModelEndpoint {
        url: stub.url.clone(),
        model: model.to_owned(),
        clearance,
        ..ModelEndpoint::default()
    };
    let [unsaid, cleared] = [endpoint(&vendor, "vendor", None), endpoint(&own, "own", Some(DataLabel::Confidential))];
    let gate = Arc::new(Clearances::default());
    let model = |endpoints: Vec<ModelEndpoint>| {
        let runtime = RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints, temperature: None };
        let tools = Tools::new(agent(), BTreeMap::new(), gate.clone());
        Model::new(&runtime, &contract(&json!({})), &secrets(), calls(tools)).expect("a model")
    };
    let (said, _, ended) = run(&model(vec![unsaid.clone(), cleared]), turn("Count.")).await;
    assert_eq!((said.as_str(), ended), ("one two three", Ok(())));
    let (_, _, ended) = run(&model(vec![unsaid]), turn("Count.")).await;
    let why = "no model may be asked: vendor: denied: it is not cleared".to_owned();
    assert_eq!(ended, Err(AgentError::Rejected(why)));
    let internal = ModelClearance { level: DataLabel::Internal, is_written: false };
    let confidential = ModelClearance { level: DataLabel::Confidential, is_written: true };
    let seen = gate.0.lock().expect("nobody panics with it").clone();
    assert_eq!(seen, [Some(internal), Some(confidential), Some(internal)]);
    let requests = [&vendor, &own].map(|stub| stub.seen.requests.load(Ordering::SeqCst));
    assert_eq!(requests, [0, 1], "nothing was sent to the vendor");
}
