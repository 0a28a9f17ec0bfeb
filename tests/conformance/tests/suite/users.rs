//! Users of a gateway: what each may do on every face, and whose tasks are whose, with an agent of the gateway's node and
//! one of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_conformance::gateway::{Answer, Gateway};
use althing_conformance::mesh::{Node, Owner, file, message, store};
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_gateway::{Access, Scope, User, Users};
use althing_protocol::CallerId;
use althing_simnet::{LinkConfig, SimNet};
use serde_json::{Value, json};

/// Users whose tokens are their names.
#[derive(Debug)]
struct Some(BTreeMap<&'static str, User>);

impl Users for Some {
    fn is_used(&self) -> bool {
        true
    }

    fn of_token<'a>(&'a self, token: &'a str) -> std::pin::Pin<Box<dyn Future<Output = Option<User>> + Send + 'a>> {
        Box::pin(std::future::ready(self.0.get(token).cloned()))
    }
}

fn users() -> Some {
    let user = |name: &'static str, scopes: &[Scope], agents: &[&str]| {
        let agents = agents.iter().map(|&agent| agent.to_owned()).collect();
        (name, User { name: name.to_owned(), scopes: scopes.iter().copied().collect(), agents })
    };
    Some(BTreeMap::from([
        user("alice", &[Scope::Read, Scope::Call], &[]),
        user("bob", &[Scope::Read, Scope::Call], &[]),
        user("reader", &[Scope::Read], &[]),
        user("bound", &[Scope::Read, Scope::Call], &["near"]),
        user("admin", &[Scope::Admin], &[]),
    ]))
}

struct Scene {
    gateway: Gateway,
    _nodes: [Node; 2],
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let here = Node::start(&net, 1, 100, &[], store()).await;
        let there = Node::start(&net, 2, 100, &[], store()).await;
        for (node, name) in [(&here, "near"), (&there, "far")] {
            node.host(&file(name, "Acts as it is told", "acting.do", "do", "play")).await;
        }
        here.connect(&there).await;
        until("the agents are found", || here.discovery.find(&Query::default()).0.len() == 2).await;
        let access = Access { users: vec![Arc::new(users())], ..Access::default() };
        Scene { gateway: Gateway::with(&here, access).await, _nodes: [here, there] }
    }

    async fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.gateway.request(method, path).header("a2a-version", "1.0");
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if path.starts_with("/mcp") {
            request = request.header("accept", "application/json, text/event-stream");
        }
        if path.starts_with("/lf.") {
            return self.gateway.send(request.header("content-type", "application/grpc").body(vec![0; 5])).await;
        }
        self.gateway.send(if let Option::Some(body) = body { request.json(body) } else { request }).await
    }

    /// A message of MCP in a session of its own.
    async fn tool(&self, token: &str, message: &Value) -> Answer {
        let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        let begun = self.ask(token, "POST", "/mcp", Option::Some(&begin)).await;
        let session = begun.header("mcp-session-id").to_owned();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let mut answers = Vec::new();
        for message in [&ready, message] {
            let request = self.gateway.request("POST", "/mcp").bearer_auth(token).json(message);
            let request = request.header("accept", "application/json, text/event-stream");
            answers.push(self.gateway.send(request.header("mcp-session-id", &session)).await);
        }
        answers.remove(1)
    }

    async fn task(&self, token: &str, agent: &str) -> String {
        let sent =
            self.ask(token, "POST", &format!("/a2a/{agent}/message:send"), Option::Some(&message("hello"))).await;
        assert_eq!(sent.status, 200, "{sent:?}");
        sent.json()["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent:?}")).to_owned()
    }
}

#[tokio::test]
async fn a_task_is_its_users_alone() {
    // P-157
    let scene = Scene::start().await;
    for agent in ["near", "far"] {
        let task = scene.task("alice", agent).await;
        for (user, status) in [("alice", 200), ("bob", 404), ("admin", 404)] {
            let shown = scene.ask(user, "GET", &format!("/a2a/{agent}/tasks/{task}"), None).await;
            assert_eq!(shown.status, status, "{agent} {user}: {shown:?}");
            let status_of = scene.ask(user, "GET", &format!("/things/{agent}/actions/chat/{task}"), None).await;
            assert_eq!(status_of.status, status, "{agent} {user}: {status_of:?}");
            let listed = scene.ask(user, "GET", &format!("/a2a/{agent}/tasks"), None).await.json();
            let count = listed["tasks"].as_array().map_or(0, Vec::len);
            assert_eq!(count, usize::from(user == "alice"), "{agent} {user}: {listed}");
        }
        let cancel = format!("/a2a/{agent}/tasks/{task}:cancel");
        assert_eq!(scene.ask("bob", "POST", &cancel, Option::Some(&json!({}))).await.status, 404);
        // The same message of another user is another message.
        let twice = message("the same");
        let send = format!("/a2a/{agent}/message:send");
        let ids = [
            scene.ask("alice", "POST", &send, Option::Some(&twice)).await.json()["task"]["id"].clone(),
            scene.ask("bob", "POST", &send, Option::Some(&twice)).await.json()["task"]["id"].clone(),
            scene.ask("alice", "POST", &send, Option::Some(&twice)).await.json()["task"]["id"].clone(),
        ];
        assert!(ids[0] != ids[1] && ids[0] == ids[2], "{ids:?}");
    }
}

#[tokio::test]
async fn every_face_asks_who_it_is_and_says_which_scope_is_missing() {
    let scene = Scene::start().await;
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let tool = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "call_agent", "arguments": { "agent": "near", "message": "hello" } } });
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] });
    let calls = [
        ("POST", "/a2a/near", Option::Some(&rpc)),
        ("GET", "/a2a/near/tasks", None),
        ("POST", "/lf.a2a.v1.A2AService/ListTasks", None),
        ("POST", "/mcp", Option::Some(&tool)),
        ("POST", "/things/near/actions/chat", Option::Some(&chat)),
        ("GET", "/things/near/properties/tasks", None),
        ("GET", "/things/near/ws", None),
    ];
    for (method, path, body) in calls {
        // In gRPC the status is a header of an answer that HTTP has as well.
        let status = |answer: &Answer| match (path.starts_with("/lf."), answer.header("grpc-status")) {
            (true, "16") => 401,
            (true, "7") => 403,
            _ => answer.status,
        };
        let nobody = scene.ask("", method, path, body).await;
        assert_eq!((status(&nobody), nobody.header("www-authenticate")), (401, "Bearer"), "{path}");
        let unknown = scene.ask("mallory", method, path, body).await;
        let challenge = "Bearer error=\"invalid_token\"";
        assert_eq!((status(&unknown), unknown.header("www-authenticate")), (401, challenge), "{path}");
        let reader = scene.ask("reader", method, path, body).await;
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"call\"";
        assert_eq!((status(&reader), reader.header("www-authenticate")), (403, challenge), "{path}: {reader:?}");
        let alice = scene.ask("alice", method, path, body).await;
        assert!(![401, 403].contains(&status(&alice)), "{path}: {alice:?}");
    }
    for path in ["/agents", "/things", "/things/near", "/a2a/far/.well-known/agent-card.json", "/.well-known/wot"] {
        assert_eq!(scene.ask("reader", "GET", path, None).await.status, 200, "{path}");
        assert_eq!(scene.ask("", "GET", path, None).await.status, 401, "{path}");
    }
    for (user, status) in [("admin", 200), ("alice", 403), ("reader", 403)] {
        assert_eq!(scene.ask(user, "GET", "/metrics", None).await.status, status, "{user}");
    }
}

#[tokio::test]
async fn a_name_alone_means_an_agent_of_the_own_owner_and_nobody_elses() {
    let owner = |number: u8| CallerId::Publisher(Owner::new(althing_conformance::key(number)).id());
    let net = SimNet::new(1, LinkConfig::default());
    let here = Node::start(&net, 1, 100, &[owner(200)], store()).await;
    let there = Node::start(&net, 2, 200, &[owner(100)], store()).await;
    // Anybody may give an agent the name that a user of this gateway may call.
    let id = there.host_for_anyone(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    here.connect(&there).await;
    until("the agent is found", || here.discovery.find(&Query::default()).0.len() == 1).await;
    let mut users = users();
    let mut exact = users.0["bound"].clone();
    exact.agents = [id.to_string()].into();
    users.0.insert("exact", User { name: "exact".to_owned(), ..exact });
    let access = Access { users: vec![Arc::new(users)], ..Access::default() };
    let scene = Scene { gateway: Gateway::with(&here, access).await, _nodes: [here, there] };
    let tool = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "call_agent", "arguments": { "agent": "near", "message": "hello" } } });
    for (user, status) in [("bound", 403), ("exact", 200), ("alice", 200)] {
        for agent in ["near".to_owned(), id.to_string()] {
            let rest = scene.ask(user, "GET", &format!("/a2a/{agent}/tasks"), None).await;
            assert_eq!(rest.status, status, "{user} {agent}: {rest:?}");
            let tasks = scene.ask(user, "GET", &format!("/things/{agent}/properties/tasks"), None).await;
            assert_eq!(tasks.status, status, "{user} {agent}: {tasks:?}");
        }
        let called = scene.tool(user, &tool).await;
        assert_eq!(called.body.contains("may call near only"), status == 403, "{user}: {called:?}");
    }
}

#[tokio::test]
async fn who_may_call_one_agent_calls_no_other() {
    let scene = Scene::start().await;
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] });
    let known = scene.ask("bound", "GET", "/agents", None).await.json();
    let id = |name: &str| {
        let agents = known["agents"].as_array().into_iter().flatten();
        let found = agents.clone().find(|agent| agent["name"] == name).unwrap_or_else(|| panic!("{known}"));
        found["id"].as_str().expect("an id").to_owned()
    };
    for (agent, may) in [("near".to_owned(), true), (id("near"), true), ("far".to_owned(), false), (id("far"), false)] {
        let rest = scene.ask("bound", "GET", &format!("/a2a/{agent}/tasks"), None).await;
        assert_eq!(rest.status, if may { 200 } else { 403 }, "{agent}: {rest:?}");
        let answer = scene.ask("bound", "POST", &format!("/a2a/{agent}"), Option::Some(&rpc)).await.json();
        assert_eq!(answer.get("error").is_none(), may, "{agent}: {answer}");
        let chat = scene.ask("bound", "POST", &format!("/things/{agent}/actions/chat"), Option::Some(&chat)).await;
        assert_eq!(chat.status, if may { 200 } else { 403 }, "{agent}: {chat:?}");
        let tasks = scene.ask("bound", "GET", &format!("/things/{agent}/properties/tasks"), None).await;
        assert_eq!(tasks.status, if may { 200 } else { 403 }, "{agent}: {tasks:?}");
        let tool = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "call_agent", "arguments": { "agent": agent, "message": "hello" } } });
        let called = scene.tool("bound", &tool).await;
        assert_eq!(called.body.contains("may call near only"), !may, "{agent}: {called:?}");
    }
}
