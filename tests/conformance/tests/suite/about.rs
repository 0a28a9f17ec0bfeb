//! What the gateway tells about itself: a page, `/llms.txt`, `/llms-full.txt`, `/openapi.json`, `/metrics`.

use althing_conformance::gateway::Gateway;
use althing_conformance::mesh::{Node, file, store};
use althing_simnet::{LinkConfig, SimNet};
use serde_json::json;

async fn node() -> Node {
    let net = SimNet::new(1, LinkConfig::default());
    Node::start(&net, 1, 100, &[], store()).await
}

#[tokio::test]
async fn every_route_that_the_document_names_is_served() {
    let node = node().await;
    node.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    let gateway = Gateway::start(&node, None).await;
    let document = gateway.get("/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], format!("http://{}", gateway.host));
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let address = path.replace("{agent}", "near").replace("{task}", "none").replace("{config}", "none");
            let mut request = gateway.request(&method.to_ascii_uppercase(), &address);
            if operation.get("requestBody").is_some() {
                request = request.json(&json!({}));
            }
            // A stream of events has no end.
            let accepted = if path == "/mcp" { "application/json, text/event-stream" } else { "*/*" };
            let answer = request.header("accept", accepted).send().await.expect("an answer");
            let (status, media) = (answer.status().as_u16(), answer.headers().get("content-type").cloned());
            let media = media.map(|media| media.to_str().expect("text").to_owned()).unwrap_or_default();
            assert!(status != 405, "{method} {address}: {status}");
            let answers = &operation["responses"];
            let described = answers.get(status.to_string()).unwrap_or(&answers["default"]);
            let medias = described["content"].as_object().into_iter().flat_map(|content| content.keys());
            // The SDK of MCP refuses in plain text.
            let is_known = path.starts_with("/mcp") || medias.into_iter().any(|known| media.starts_with(known));
            assert!(is_known, "{method} {address}: {status} {media}");
            if status == 404 {
                let body = answer.text().await.expect("a body");
                assert!(!body.contains("there is nothing at"), "{method} {address} is not served");
            }
            tried += 1;
        }
    }
    assert!(tried > 15, "{tried}");
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
    node.one(&id, althing_calls::Operation::CancelTask, cancel).await.expect("it is cancelled");
    assert_eq!(figure("althing_tasks_running").await, 0);
    let body = gateway.get("/metrics").await;
    assert!(body.header("content-type").starts_with("text/plain; version=0.0.4"), "{body:?}");
    // Each line is a comment, or a name with a value.
    for line in body.body.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').expect("two words");
        assert!(name.starts_with("althing_") && value.parse::<f64>().is_ok(), "{line}");
    }
}
