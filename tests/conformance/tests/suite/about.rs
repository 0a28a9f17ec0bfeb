//! What the gateway tells about itself: a page, `/llms.txt`, `/llms-full.txt`, `/openapi.json`, `/metrics`.

use althing_calls::Operation;
use althing_conformance::gateway::Gateway;
use althing_conformance::mesh::{Node, Setup, file, message, store};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

async fn node() -> Node {
    let net = SimNet::new(1, LinkConfig::default());
    Node::start(&net, 1, 100, &[], store()).await
}

/// What is refused here although it is asked for properly, and the reason: the agent exposes no tools, nobody issues tokens,
/// nothing here tells the layers, and nobody is asked here.
const REFUSED: [(&str, &str, u16, &str); 10] = [
    ("get", "/questions/{ask}", 404, "takes no answers of people"),
    ("post", "/questions/{ask}", 404, "takes no answers of people"),
    ("get", "/osi.yaml", 404, "does not tell the layers"),
    ("get", "/things/{agent}/tools/{tool}", 404, "TOOL_UNKNOWN"),
    ("get", "/things/{agent}/tools/{tool}/model", 404, "TOOL_UNKNOWN"),
    ("post", "/things/{agent}/tools/{tool}/actions/{action}", 404, "TOOL_UNKNOWN"),
    ("get", "/things/{agent}/tools/{tool}/actions/{action}/{task}", 404, "TOOL_UNKNOWN"),
    ("get", "/.well-known/oauth-protected-resource", 404, "no issuer of OAuth"),
    ("get", "/.well-known/oauth-protected-resource/mcp", 404, "no issuer of OAuth"),
    ("get", "/.well-known/oauth-protected-resource/mcp/{agent}", 404, "no issuer of OAuth"),
];

/// The body of a proper request, where a path takes one.
fn body(path: &str) -> Value {
    match path {
        "/a2a/{agent}" | "/a2a/{agent}/" => {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("hello") })
        }
        "/a2a/{agent}/message:send" | "/a2a/{agent}/message:stream" => message("hello"),
        "/a2a/{agent}/tasks/{task}/pushNotificationConfigs" => json!({ "url": RECEIVER }),
        "/things/{agent}/actions/chat" => json!({ "messages": [{ "role": "user", "content": "hello" }] }),
        "/mcp" | "/mcp/{agent}" => json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        } }),
        _ => json!({}),
    }
}

/// Nobody listens there: what is sent is kept for later. A port that no system hands out by itself.
const RECEIVER: &str = "http://127.0.0.1:30999/hook";

/// A request as the document describes it, about a task that is worked on, and a configuration of its notifications.
async fn request(
    gateway: &Gateway,
    node: &Node,
    agent: &AgentId,
    (method, path): (&str, &str),
    operation: &Value,
) -> RequestBuilder {
    let (mut task, mut config) = (String::new(), String::new());
    if path.contains("{task}") || path.ends_with("/taskUpdate") {
        task = node.begin(agent, "stuck").await.as_str().expect("an id").to_owned();
    }
    if path.contains("{config}") {
        let create = json!({ "taskId": task, "url": RECEIVER });
        let made = node.one(agent, Operation::CreatePushConfig, create).await.expect("it is kept");
        config = made["id"].as_str().expect("an id").to_owned();
    }
    let address = path.replace("{agent}", agent.name()).replace("{task}", &task).replace("{config}", &config);
    let address = address.replace("{tool}", "none").replace("{action}", "none").replace("{ask}", "none");
    let query = if path.ends_with("/taskUpdate") { format!("?task={task}") } else { String::new() };
    let mut request = gateway.request(&method.to_ascii_uppercase(), &format!("{address}{query}"));
    if operation.get("requestBody").is_some() || path.starts_with("/mcp") {
        request = request.json(&body(path));
    }
    if operation["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "A2A-Version")) {
        request = request.header("a2a-version", "1.0");
    }
    if path.ends_with("/ws") {
        let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
        let socket = [("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-protocol", "lmosprotocol")];
        for (name, value) in upgrade.into_iter().chain(socket) {
            request = request.header(name, value);
        }
    }
    request.header("accept", if path.starts_with("/mcp") { "application/json, text/event-stream" } else { "*/*" })
}

/// Each is asked as the document says, and gives an answer that the document promises, not a refusal.
#[tokio::test]
async fn every_route_that_the_document_names_is_served() {
    let net = SimNet::new(1, LinkConfig::default());
    let push = Some(vec!["127.0.0.0/8".parse().expect("a net")]);
    // Push notifications are sent by a client of TLS, whose provider another test may have installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let node = Node::assemble(&net, Setup { push, ..Setup::new(&net, 1, 100) }, store()).await;
    let near = node.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    let gateway = Gateway::start(&node, None).await;
    let document = gateway.get("/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], format!("http://{}", gateway.host));
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let asked = request(&gateway, &node, &near, (method, path), operation).await;
            let answer = asked.send().await.expect("an answer");
            let (status, media) = (answer.status().as_u16(), answer.headers().get("content-type").cloned());
            let media = media.map(|media| media.to_str().expect("text").to_owned()).unwrap_or_default();
            let expected = REFUSED.iter().find(|(of, at, ..)| of == method && at == path);
            let answers = &operation["responses"];
            let described = match expected {
                // A stream of events has no end: only refusals are read.
                Some((_, _, wanted, why)) => {
                    let said = answer.text().await.expect("a body");
                    assert!(status == *wanted && said.contains(*why), "{method} {path}: {status} {said}");
                    refused += 1;
                    &answers["default"]
                }
                None => answers.get(status.to_string()).unwrap_or_else(|| panic!("{method} {path}: {status} {media}")),
            };
            let is_known = match described["content"].as_object() {
                // The SDK of MCP answers by events too.
                Some(_) if path.starts_with("/mcp") && media == "text/event-stream" => true,
                Some(content) => content.keys().any(|known| media.starts_with(known.as_str())),
                None => media.is_empty(),
            };
            assert!(is_known, "{method} {path}: {status} {media:?}");
        }
    }
    assert_eq!(refused, REFUSED.len(), "what is refused is named by the document");
    assert_eq!(gateway.get("/nothing").await.status, 404);
}

/// An agent of another publisher describes itself as it likes.
#[tokio::test]
async fn the_page_and_the_summary_name_agents_as_text() {
    let node = node().await;
    let mut evil = file("near", "Acts as it is told", "acting.do", "do", "play");
    evil.title = "<script>alert(1)</script>".to_owned();
    evil.description = "one\n- [Other](http://evil.example): two".to_owned();
    let id = node.publish(&evil, 1);
    let gateway = Gateway::start(&node, None).await;
    let page = gateway.get("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    assert!(page.body.contains("&lt;script&gt;") && !page.body.contains("<script"), "{}", page.body);
    assert!(page.body.contains(&format!("href=\"/things/{id}\"")), "{}", page.body);
    let summary = gateway.get("/llms.txt").await.body;
    assert!(
        summary.starts_with("# ") && summary.contains(&format!("http://{}/things/{id}", gateway.host)),
        "{summary}"
    );
    assert!(!summary.contains("\n- [Other]"), "{summary}");
    assert!(summary.contains(&format!("http://{}/llms-full.txt", gateway.host)), "{summary}");
}

#[tokio::test]
async fn the_full_summary_says_what_each_agent_does_and_how_it_is_called() {
    let node = node().await;
    let mut agent = file("near", "Acts as it is told", "acting.do", "do", "play");
    agent.skills[0].examples = vec!["Play\n- skill: other".to_owned(), "Hamlet".to_owned()];
    let id = node.publish(&agent, 1);
    let gateway = Gateway::start(&node, None).await;
    let full = gateway.get("/llms-full.txt").await;
    assert_eq!((full.status, full.header("content-type")), (200, "text/plain; charset=utf-8"));
    let base = format!("http://{}", gateway.host);
    for line in [
        format!("- id: {id}"),
        "- description: Acts as it is told".to_owned(),
        "- input modes: text/plain".to_owned(),
        "- skill: acting.do (Skill): Acts as it is told".to_owned(),
        "  - examples: Play - skill: other | Hamlet".to_owned(),
        format!("- A2A, JSON-RPC: POST {base}/a2a/{id}"),
        format!("- A2A, HTTP+JSON: POST {base}/a2a/{id}/message:send"),
        format!("- A2A, gRPC: {base} with the tenant {id}"),
        format!("- MCP: {base}/mcp, the tool call_agent with the agent {id}"),
        format!("- Web of Things: {base}/things/{id}, POST {base}/things/{id}/actions/chat"),
    ] {
        assert!(full.body.lines().any(|shown| shown == line), "no {line:?} in {}", full.body);
    }
    assert!(!full.body.contains("left out here"), "{}", full.body);
}

#[tokio::test]
async fn agents_and_figures_need_the_token_where_one_is_set() {
    let node = node().await;
    let id = node.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await.to_string();
    let gateway = Gateway::start(&node, Some("secret")).await;
    for path in ["/", "/llms.txt", "/llms-full.txt", "/openapi.json", "/healthz"] {
        let open = gateway.get(path).await;
        assert_eq!(open.status, 200, "{path}");
        assert!(!open.body.contains(&id), "{path}: {}", open.body);
    }
    let document = gateway.get("/openapi.json").await.json();
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    assert_eq!(document["paths"]["/metrics"]["get"]["security"], json!([{ "token": [] }]));
    assert_eq!(document["paths"]["/"]["get"].get("security"), None);
    assert_eq!(gateway.get("/metrics").await.status, 401);
}

#[tokio::test]
async fn figures_are_what_the_node_counts() {
    let node = node().await;
    let id = node.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    let gateway = Gateway::start(&node, None).await;
    let figure = async |name: &str| {
        let body = gateway.get("/metrics").await.body;
        let line = body.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {body}")).parse::<u64>().expect("a number")
    };
    assert_eq!((figure("althing_agents").await, figure("althing_tasks_running").await), (1, 0));
    let task = node.begin(&id, "stuck").await;
    assert_eq!(figure("althing_tasks_running").await, 1);
    let cancel = json!({ "id": task });
    node.one(&id, Operation::CancelTask, cancel).await.expect("it is cancelled");
    assert_eq!(figure("althing_tasks_running").await, 0);
    let body = gateway.get("/metrics").await;
    assert!(body.header("content-type").starts_with("text/plain; version=0.0.4"), "{body:?}");
    // Each line is a comment, or a name with a value.
    for line in body.body.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').expect("two words");
        assert!(name.starts_with("althing_") && value.parse::<f64>().is_ok(), "{line}");
    }
}
