//! The Web of Things over HTTP: the descriptions that a gateway serves, and their forms, for an agent on its own node and
//! for one on another node.

use althing_conformance::gateway::{Answer, Gateway};
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use althing_td::{Strictness, validate_as};
use futures::StreamExt as _;
use serde_json::{Value, json};

/// A node with a gateway and the agent `near`, and another of the same owner with the agents `far` and `program`.
struct Scene {
    gateway: Gateway,
    here: Node,
    _there: Node,
    near: AgentId,
    far: AgentId,
}

impl Scene {
    async fn start(token: Option<&str>) -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let here = Node::start(&net, 1, 100, &[], store()).await;
        let there = Node::start(&net, 2, 100, &[], store()).await;
        let near = here.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
        let far = there.host(&file("far", "Acts as it is told", "acting.do", "do", "play")).await;
        let mut program = file("program", "does as it is told", "acting.do", "do", "play");
        program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
        there.host(&program).await;
        here.connect(&there).await;
        until("the agents are found", || here.discovery.find(&Query::default()).0.len() == 3).await;
        Scene { gateway: Gateway::start(&here, token).await, here, _there: there, near, far }
    }

    fn agents(&self) -> [&AgentId; 2] {
        [&self.near, &self.far]
    }

    async fn chat(&self, agent: &str, text: &str) -> Answer {
        self.gateway.post(&format!("/things/{agent}/actions/chat"), &says(text)).await
    }
}

fn says(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }] })
}

/// Problem details with that status and reason.
fn is_problem(answer: &Answer, status: u16, reason: &str) {
    let problem = answer.json();
    assert_eq!(
        (answer.status, problem["status"].as_u64(), &problem["reason"]),
        (status, Some(status.into()), &json!(reason)),
        "{answer:?}"
    );
    assert_eq!(answer.header("content-type"), "application/problem+json");
}

/// An address of a form or link, without the gateway.
fn resolved(td: &Value, href: &str, host: &str) -> String {
    let base = td["base"].as_str().expect("a base");
    let path = base.strip_prefix(&format!("http://{host}")).unwrap_or_else(|| panic!("{base} is not at {host}"));
    if href.starts_with('/') { href.to_owned() } else { format!("{path}{href}") }
}

#[tokio::test]
async fn each_agent_has_a_valid_description_with_forms_that_work() {
    let scene = Scene::start(None).await;
    for agent in scene.agents() {
        let answer = scene.gateway.get(&format!("/things/{}", agent.name())).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/td+json"));
        let report = validate_as(answer.body.as_bytes(), Strictness::Own);
        assert!(report.findings.is_empty(), "{report}");
        let td = answer.json();
        assert_eq!((&td["id"], &td["althing:servedBy"]), (&json!(agent.to_string()), &json!(scene.here.id().did())));
        assert_eq!(td["securityDefinitions"][td["security"][0].as_str().expect("a name")]["scheme"], "nosec");
        let by_id = scene.gateway.get(&format!("/things/{agent}")).await;
        assert_eq!(by_id.body, answer.body, "a name and an id lead to the same");

        // The forms, as a consumer follows them.
        let form = |pointer: &str| {
            resolved(&td, td.pointer(pointer).and_then(Value::as_str).expect(pointer), &scene.gateway.host)
        };
        let output = scene.gateway.post(&form("/actions/chat/forms/0/href"), &says("hello")).await;
        assert_eq!(output.status, 200, "{output:?}");
        let output = output.json();
        assert_eq!((&output["status"], &output["messages"][0]["content"]), (&json!("completed"), &json!("hello")));
        assert_eq!(output["messages"][0]["role"], "assistant");
        let status = scene.gateway.get(&form("/properties/status/forms/0/href")).await.json();
        assert_eq!((&status["available"], &status["local"]), (&json!(true), &json!(*agent == scene.near)));
        let tasks = scene.gateway.get(&form("/properties/tasks/forms/0/href")).await.json();
        assert_eq!(tasks, json!({ "total": 1, "submitted": 0, "working": 0, "inputRequired": 0 }));
        let all = scene.gateway.get(&form("/forms/0/href")).await.json();
        assert_eq!(all, json!({ "status": status, "tasks": tasks }));

        // What the publisher signed is kept beside it.
        let published = scene.gateway.get(&form("/links/0/href")).await;
        let known = scene.here.discovery.describe(agent).expect("it is known");
        assert_eq!(published.body.as_bytes(), known.description.bytes());
        let signed = scene.gateway.get(&format!("/things/{agent}/published.cose")).await;
        assert_eq!((signed.status, signed.header("content-type")), (200, "application/cose"));
        let card = scene.gateway.get(&form("/links/1/href")).await;
        assert_eq!(card.json()["supportedInterfaces"][0]["protocolBinding"], "JSONRPC");
    }
}

#[tokio::test]
async fn a_description_is_cached_by_its_tag() {
    let scene = Scene::start(None).await;
    let first = scene.gateway.get("/things/near").await;
    let tag = first.header("etag").to_owned();
    let again = scene.gateway.request("GET", "/things/near").header("If-None-Match", &tag);
    let again = scene.gateway.send(again).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other = scene.gateway.request("GET", "/things/near").header("If-None-Match", "\"other\"");
    assert_eq!(scene.gateway.send(other).await.status, 200);
}

#[tokio::test]
async fn a_card_is_cached_by_its_tag_and_says_when_its_description_was_signed() {
    const CARD: &str = "/a2a/near/.well-known/agent-card.json";
    let scene = Scene::start(None).await;
    let first = scene.gateway.get(CARD).await;
    let (tag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    assert!(tag.starts_with('"') && modified.ends_with(" GMT"), "{first:?}");
    assert_eq!((first.header("cache-control"), first.header("content-type")), ("max-age=60", "application/json"));
    for known in [tag.clone(), format!("\"other\", {tag}"), "*".to_owned()] {
        let again = scene.gateway.request("GET", CARD).header("If-None-Match", &known);
        let again = scene.gateway.send(again).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{known}");
        assert_eq!((again.header("etag"), again.header("last-modified")), (tag.as_str(), modified.as_str()));
    }
    let other = scene.gateway.request("GET", CARD).header("If-None-Match", "\"other\"");
    let other = scene.gateway.send(other).await;
    assert_eq!((other.status, &other.body), (200, &first.body));
    // Another agent has another card.
    let far = scene.gateway.get("/a2a/far/.well-known/agent-card.json").await;
    assert_ne!(far.header("etag"), tag);
}

#[tokio::test]
async fn a_card_names_the_latency_class_also_of_an_agent_elsewhere() {
    let scene = Scene::start(None).await;
    for agent in ["near", "far"] {
        let card = scene.gateway.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).await.json();
        let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
        let latency = extensions.iter().find(|it| it["uri"] == "https://althing.dev/ext/latency/v1");
        assert_eq!(latency.expect("it is there")["params"]["class"], "srt", "{agent}: {card}");
    }
}

#[tokio::test]
async fn the_node_is_introduced_with_a_link_to_each_agent() {
    let scene = Scene::start(None).await;
    let answer = scene.gateway.get("/.well-known/wot").await;
    let report = validate_as(answer.body.as_bytes(), Strictness::Own);
    assert!(report.findings.is_empty(), "{report}");
    let td = answer.json();
    let links: Vec<&str> =
        td["links"].as_array().expect("links").iter().filter_map(|link| link["href"].as_str()).collect();
    assert_eq!(links.len(), 3, "{links:?}");
    for link in links {
        assert_eq!(scene.gateway.get(link).await.status, 200, "{link}");
    }
    let page = scene.gateway.get("/things?limit=2").await;
    assert_eq!(page.json().as_array().map(Vec::len), Some(2));
    let next = page.header("link").split(['<', '>']).nth(1).expect("a next page").to_owned();
    let rest = scene.gateway.get(&next).await;
    assert_eq!((rest.json().as_array().map(Vec::len), rest.header("link")), (Some(1), ""));
    for bad in ["limit=0", "limit=101", "limit=x", "offset=-1"] {
        is_problem(&scene.gateway.get(&format!("/things?{bad}")).await, 400, "INVALID_PARAMS");
    }
}

#[tokio::test]
async fn the_only_agent_is_introduced_itself() {
    let net = SimNet::new(1, LinkConfig::default());
    let node = Node::start(&net, 1, 100, &[], store()).await;
    let id = node.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    let gateway = Gateway::start(&node, None).await;
    assert_eq!(gateway.get("/.well-known/wot").await.json()["id"], id.to_string());
}

#[tokio::test]
async fn descriptions_say_what_security_the_gateway_enforces() {
    let scene = Scene::start(Some("secret")).await;
    for path in ["/things/near", "/.well-known/wot", "/things", "/things/near/properties", "/things/near/ws"] {
        assert_eq!(scene.gateway.get(path).await.status, 401, "{path}");
    }
    assert_eq!(scene.chat("near", "hello").await.status, 401);
    let with = |method: &str, path: &str| scene.gateway.request(method, path).bearer_auth("secret");
    for path in ["/things/near", "/.well-known/wot"] {
        let td = scene.gateway.send(with("GET", path)).await;
        assert!(validate_as(td.body.as_bytes(), Strictness::Own).findings.is_empty(), "{td:?}");
        let td = td.json();
        let scheme = &td["securityDefinitions"][td["security"][0].as_str().expect("a name")];
        assert_eq!((&scheme["scheme"], &scheme["in"]), (&json!("bearer"), &json!("header")));
    }
    let answer = scene.gateway.send(with("POST", "/things/far/actions/chat").json(&says("who"))).await;
    assert!(answer.json()["messages"][0]["content"].as_str().is_some_and(|who| who.starts_with("token")), "{answer:?}");
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_as_problem_details() {
    let scene = Scene::start(None).await;
    let chat = "/things/near/actions/chat";
    for agent in ["nobody", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "urn:althing:x:near", "%00", "a%0d%0ab"] {
        for path in
            ["", "/properties/status", "/published", "/published.cose", "/events/agentEvent", "/ws", "/actions/chat/t"]
        {
            let request = format!(
                "GET /things/{agent}{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                scene.gateway.host
            );
            let answer = raw(&scene.gateway.host, &request).await;
            assert!(answer.starts_with("HTTP/1.1 404"), "{request}{answer}");
            assert!(answer.contains("application/problem+json"), "{request}{answer}");
        }
    }
    is_problem(&scene.chat("nobody", "x").await, 404, "AGENT_UNKNOWN");
    for (body, reason) in [
        ("{", "INVALID_PARAMS"),
        ("[]", "INVALID_PARAMS"),
        ("{\"messages\":[]}", "INVALID_PARAMS"),
        ("{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", "INVALID_PARAMS"),
    ] {
        let request = scene.gateway.request("POST", chat).header("Content-Type", "application/json").body(body);
        is_problem(&scene.gateway.send(request).await, 400, reason);
    }
    let form = scene.gateway.request("POST", chat).header("Content-Type", "text/plain").body(says("x").to_string());
    is_problem(&scene.gateway.send(form).await, 415, "CONTENT_TYPE_NOT_SUPPORTED");
    for (method, path) in
        [("PUT", "/things/near"), ("GET", chat), ("POST", "/things/near/properties/status"), ("DELETE", "/things")]
    {
        let answer = scene.gateway.send(scene.gateway.request(method, path)).await;
        is_problem(&answer, 405, "METHOD_NOT_ALLOWED");
        assert!(!answer.header("allow").is_empty(), "{answer:?}");
    }
    for (method, path) in [("GET", format!("{chat}/no-task")), ("DELETE", format!("{chat}/no-task"))] {
        is_problem(&scene.gateway.send(scene.gateway.request(method, &path)).await, 404, "TASK_NOT_FOUND");
    }
    is_problem(&scene.gateway.get("/things/near/events/taskUpdate").await, 400, "INVALID_PARAMS");
    is_problem(&scene.gateway.get("/things/near/events/taskUpdate?task=none").await, 404, "TASK_NOT_FOUND");
    is_problem(&scene.gateway.get("/things/near/ws").await, 400, "NO_WEBSOCKET");
    assert_eq!(scene.gateway.get("/things/near/properties/nothing").await.status, 404);
}

/// A request byte for byte: a client would clean its path.
async fn raw(host: &str, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(host).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn an_agent_that_fails_is_an_error_and_one_that_asks_is_an_answer() {
    let scene = Scene::start(None).await;
    is_problem(&scene.chat("program", "break").await, 500, "INTERNAL_ERROR");
    is_problem(&scene.chat("program", "refuse -32602").await, 400, "INVALID_PARAMS");
    let reply = scene.chat("program", "message hello").await.json();
    assert_eq!((&reply["status"], &reply["messages"][0]["content"]), (&json!("completed"), &json!("hello")));
    for agent in ["near", "far"] {
        let asked = scene.chat(agent, "ask").await.json();
        assert_eq!((&asked["status"], &asked["messages"][0]["content"]), (&json!("input-required"), &json!("which?")));
        let turn = asked["messages"][0]["turnId"].clone();
        let answer = json!({ "messages": [{ "role": "user", "content": "this one", "turnId": turn }] });
        let done = scene.gateway.post(&format!("/things/{agent}/actions/chat"), &answer).await.json();
        assert_eq!((&done["status"], &done["messages"][0]["content"]), (&json!("completed"), &json!("this one")));
        let counts = scene.gateway.get(&format!("/things/{agent}/properties/tasks")).await.json();
        assert_eq!((&counts["total"], &counts["inputRequired"]), (&json!(1), &json!(0)), "it was one task");
    }
}

#[tokio::test]
async fn a_long_invocation_has_a_status_and_can_be_cancelled() {
    let scene = Scene::start(None).await;
    for agent in scene.agents() {
        let chat = format!("/things/{agent}/actions/chat");
        let asynchronous = |text: &str, prefer: &str| {
            scene.gateway.send(scene.gateway.request("POST", &chat).header("Prefer", prefer).json(&says(text)))
        };
        let begun = asynchronous("stuck", "respond-async").await;
        assert_eq!(begun.status, 201, "{begun:?}");
        let (location, status) = (begun.header("location").to_owned(), begun.json());
        assert_eq!((status["href"].as_str(), status.get("output")), (Some(location.as_str()), None));
        assert!(["pending", "running"].contains(&status["status"].as_str().expect("a word")), "{status}");
        let counts = scene.gateway.get(&format!("/things/{agent}/properties/tasks")).await.json();
        assert_eq!(
            counts["submitted"].as_u64().zip(counts["working"].as_u64()).map(|(a, b)| a + b),
            Some(1),
            "{counts}"
        );
        let cancelled = scene.gateway.send(scene.gateway.request("DELETE", &location)).await;
        assert_eq!((cancelled.status, cancelled.body.as_str()), (204, ""));
        let status = scene.gateway.get(&location).await.json();
        assert_eq!((&status["status"], &status["error"]["reason"]), (&json!("failed"), &json!("TASK_CANCELED")));
        is_problem(&scene.gateway.send(scene.gateway.request("DELETE", &location)).await, 409, "TASK_NOT_CANCELABLE");

        // An answer within the wait is the output; what takes longer has a status, and later its output there.
        assert_eq!(asynchronous("quick", "wait=60").await.status, 200);
        let begun = asynchronous("pieces", "wait=0").await;
        assert_eq!(begun.status, 201);
        let done = async || {
            let status = scene.gateway.get(begun.header("location")).await.json();
            (status["status"] == "completed").then_some(status)
        };
        let mut status = done().await;
        while status.is_none() {
            status = done().await;
        }
        let pieces = status.expect("a status")["output"]["messages"][0]["content"].clone();
        assert!(pieces.as_str().is_some_and(|pieces| pieces.len() > 3), "{pieces}");
    }
}

/// The next event of a stream: its data.
async fn event(
    stream: &mut (impl futures::Stream<Item = reqwest::Result<impl AsRef<[u8]>>> + Unpin),
    buffer: &mut String,
) -> Option<Value> {
    loop {
        if let Some((event, rest)) = buffer.split_once("\n\n").map(|(event, rest)| (event.to_owned(), rest.to_owned()))
        {
            *buffer = rest;
            let Some(data) = event.strip_prefix("data: ") else { continue };
            return Some(serde_json::from_str(data).expect("JSON"));
        }
        buffer.push_str(std::str::from_utf8(stream.next().await?.expect("a piece").as_ref()).expect("text"));
    }
}

#[tokio::test]
async fn observers_are_told_of_invocations_and_of_one_task() {
    let scene = Scene::start(None).await;
    for agent in scene.agents() {
        let observe = |path: String| scene.gateway.request("GET", &path).send();
        let observed = observe(format!("/things/{agent}/events/agentEvent")).await.expect("an answer");
        assert_eq!(observed.headers()["content-type"], "text/event-stream");
        let (mut events, mut buffer) = (observed.bytes_stream(), String::new());
        let input = json!({ "messages": [{ "role": "user", "content": "pieces", "turnId": "t1" }], "conversationContext": { "conversationId": "c1" } });
        let request =
            scene.gateway.request("POST", &format!("/things/{agent}/actions/chat")).header("Prefer", "respond-async");
        let begun = scene.gateway.send(request.json(&input)).await;
        let task = begun.header("location").rsplit('/').next().expect("an id").to_owned();
        let told = observe(format!("/things/{agent}/events/taskUpdate?task={task}")).await.expect("an answer");
        let (mut updates, mut rest) = (told.bytes_stream(), String::new());

        let mut kinds = Vec::new();
        loop {
            let told = event(&mut events, &mut buffer).await.expect("an event");
            assert_eq!((&told["conversationId"], &told["turnId"]), (&json!("c1"), &json!("t1")));
            let payload: Value = serde_json::from_str(told["payload"].as_str().expect("text")).expect("JSON");
            kinds.push(told["type"].as_str().expect("a word").to_owned());
            if payload["status"]["state"] == "TASK_STATE_COMPLETED" {
                break;
            }
        }
        assert_eq!(kinds.first().map(String::as_str), Some("task"));
        assert!(kinds.iter().any(|kind| kind == "artifactUpdate"), "{kinds:?}");
        let first = event(&mut updates, &mut rest).await.expect("an event");
        assert_eq!(first["task"]["id"], task);
        let mut last = first;
        while let Some(next) = event(&mut updates, &mut rest).await {
            last = next;
        }
        assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "the stream ends with the task");
        is_problem(
            &scene.gateway.get(&format!("/things/{agent}/events/taskUpdate?task={task}")).await,
            409,
            "UNSUPPORTED_OPERATION",
        );
    }
}
