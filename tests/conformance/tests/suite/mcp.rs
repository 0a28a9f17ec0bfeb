//! The node as an MCP server: the official SDK's client lists, finds and calls agents, here and on another node, in the
//! versions with sessions and without.

use std::sync::{Arc, Mutex};

use althing_calls::Operation;
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_gateway::{Access, Limits};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientRequest, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, Request, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A node with a gateway and an agent, and another of the same owner with two.
struct Scene {
    near: Node,
    far: Node,
    url: String,
    /// A remote agent that acts on its message.
    actor: AgentId,
    _stop: DropGuard,
}

/// What the server told besides answers.
#[derive(Clone, Default)]
struct Told {
    progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    changes: Arc<Mutex<usize>>,
}

impl ClientHandler for Told {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().expect("nobody panics with it").push(params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        *self.changes.lock().expect("nobody panics with it") += 1;
    }
}

type Client = RunningService<RoleClient, Told>;

/// The lifecycles: with a session, and without.
fn lifecycles() -> [ClientLifecycleMode; 2] {
    let newest = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions: newest }]
}

impl Scene {
    async fn start(access: Access) -> Scene {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let net = SimNet::new(1, LinkConfig::default());
        let near = Node::start(&net, 1, 100, &[], store()).await;
        let far = Node::start(&net, 2, 100, &[], store()).await;
        near.host(&file("billing", "shows bills", "billing.view", "view", "bill")).await;
        let actor = far.host(&file("travel", "plans journeys", "travel.plan", "plan", "journey")).await;
        near.connect(&far).await;
        until("the agents are found", || near.discovery.find(&Query::default()).0.len() == 2).await;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it listens"));
        let router = althing_gateway::router(near.calls.clone(), near.key.clone(), access, (None, None));
        let stop = CancellationToken::new();
        tokio::spawn(althing_gateway::serve(listener, router, Limits::default(), stop.clone()));
        Scene { near, far, url, actor, _stop: stop.drop_guard() }
    }

    async fn client(&self, query: &str, token: Option<&str>, lifecycle: ClientLifecycleMode) -> Option<Client> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(format!("{}{query}", self.url));
        if let Some(token) = token {
            config = config.auth_header(token);
        }
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let transport = StreamableHttpClientTransport::with_client(http, config);
        Told::default().serve_with_lifecycle(transport, lifecycle).await.ok()
    }

    async fn connected(&self, lifecycle: ClientLifecycleMode) -> Client {
        self.client("", None, lifecycle).await.expect("it is served")
    }
}

async fn names(client: &Client) -> Vec<String> {
    let tools = client.list_all_tools().await.expect("a list");
    tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

fn params(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    client.call_tool(params(tool, arguments)).await.expect("a result")
}

fn structured(result: &CallToolResult) -> &Value {
    assert_eq!(result.is_error, Some(false), "{result:?}");
    result.structured_content.as_ref().expect("a structured result")
}

/// The text of a tool's error.
fn error(result: &CallToolResult) -> String {
    assert_eq!(result.is_error, Some(true), "{result:?}");
    serde_json::to_value(&result.content).expect("JSON")[0]["text"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn agents_here_and_elsewhere_are_listed_found_described_and_called() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let client = scene.connected(lifecycle.clone()).await;
        let all = names(&client).await;
        assert_eq!(all, ["find_agents", "describe_agent", "call_agent", "billing_billing_view"], "{lifecycle:?}");

        let own = call(&client, "billing_billing_view", json!({ "message": "hello" })).await;
        assert_eq!(structured(&own)["text"], "hello");
        assert_eq!(structured(&own)["state"], "completed");

        let found = call(&client, "find_agents", json!({ "action": "plan", "target": "journey" })).await;
        let agents = structured(&found)["agents"].as_array().expect("a list");
        assert_eq!(agents.len(), 1, "{agents:?}");
        assert_eq!(agents[0]["id"], scene.actor.to_string());
        assert_eq!(agents[0]["nodes"], json!([scene.far.id().did()]));

        let known = call(&client, "describe_agent", json!({ "agent": "travel" })).await;
        assert_eq!(structured(&known)["skills"][0]["id"], "travel.plan");
        assert_eq!(structured(&known)["publisher"]["relation"], "own");

        for agent in ["billing".to_owned(), "travel".to_owned(), scene.actor.to_string()] {
            let answer = call(&client, "call_agent", json!({ "agent": agent, "message": "who" })).await;
            let who = structured(&answer)["text"].as_str().expect("text").to_owned();
            assert!(who.starts_with("local"), "the gateway's principal is the origin: {who}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_asks_back_is_answered_in_its_task() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let client = scene.connected(lifecycle).await;
        for agent in ["billing", "travel"] {
            let asked = call(&client, "call_agent", json!({ "agent": agent, "message": "ask" })).await;
            assert_eq!(structured(&asked)["state"], "input-required");
            assert_eq!(structured(&asked)["text"], "which?");
            let task = structured(&asked)["task_id"].clone();
            let advice = serde_json::to_string(&asked.content).expect("JSON");
            assert!(advice.contains(task.as_str().expect("an id")), "it says how to answer: {advice}");
            let reply = json!({ "agent": agent, "message": "this one", "task_id": task });
            let done = call(&client, "call_agent", reply).await;
            assert_eq!(
                (&structured(&done)["state"], &structured(&done)["text"]),
                (&json!("completed"), &json!("this one"))
            );
            assert_eq!(structured(&done)["task_id"], task);
            // A task that is over is read, and takes no more messages.
            let read = call(&client, "call_agent", json!({ "agent": agent, "task_id": task })).await;
            assert_eq!(structured(&read)["text"], "this one");
            let late = call(&client, "call_agent", json!({ "agent": agent, "message": "more", "task_id": task })).await;
            assert!(error(&late).starts_with("UNSUPPORTED_OPERATION"), "{late:?}");
        }
    }
}

#[tokio::test]
async fn a_long_task_tells_progress_and_goes_on_when_the_wait_ends() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let client = scene.connected(lifecycle).await;
        // The SDK sends a progress token with each request.
        let made = call(&client, "call_agent", json!({ "agent": "travel", "message": "pieces" })).await;
        assert!(structured(&made)["text"].as_str().is_some_and(|text| text.starts_with("0 1 2 3 4 ")), "{made:?}");
        let told = client.service().progress.clone();
        until("progress is told", || !told.lock().expect("nobody panics with it").is_empty()).await;
        let told: Vec<f64> = told.lock().expect("nobody panics with it").iter().map(|told| told.progress).collect();
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "it rises: {told:?}");

        let begun =
            call(&client, "call_agent", json!({ "agent": "travel", "message": "stuck", "wait_seconds": 1 })).await;
        assert_eq!(structured(&begun)["state"], "working");
        let task = structured(&begun)["task_id"].clone();
        let again = json!({ "agent": "travel", "task_id": task, "wait_seconds": 1 });
        assert_eq!(structured(&call(&client, "call_agent", again).await)["state"], "working");
        scene.far.one(&scene.actor, Operation::CancelTask, json!({ "id": task })).await.expect("it is cancelled");
        let over = call(&client, "call_agent", json!({ "agent": "travel", "task_id": task })).await;
        assert_eq!(over.structured_content.as_ref().map(|over| &over["state"]), Some(&json!("canceled")));
        assert_eq!(over.is_error, Some(true));
    }
}

#[tokio::test]
async fn a_cancelled_request_cancels_the_agents_task() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let client = scene.connected(lifecycle).await;
        let params = params("call_agent", json!({ "agent": "travel", "message": "stuck", "wait_seconds": 600 }));
        let request = ClientRequest::CallToolRequest(Request::new(params));
        let asking = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
        until("the task runs", || scene.far.hosting.live_tasks() == 1).await;
        asking.cancel(None).await.expect("sent");
        until("the task is over", || scene.far.hosting.live_tasks() == 0).await;
        let kept = scene.far.one(&scene.actor, Operation::ListTasks, json!({})).await.expect("a list");
        let states: Vec<&Value> =
            kept["tasks"].as_array().expect("a list").iter().map(|task| &task["status"]["state"]).collect();
        assert!(states.iter().all(|state| **state == "TASK_STATE_CANCELED") && !states.is_empty(), "{states:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_so_that_a_model_can_correct_it() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let client = scene.connected(lifecycle).await;
        let unknown = client.call_tool(params("no_such_tool", json!({}))).await;
        assert!(matches!(&unknown, Err(ServiceError::McpError(error)) if error.code.0 == -32_602), "{unknown:?}");
        let cases = [
            ("call_agent", json!({}), "INVALID_ARGUMENTS"),
            ("call_agent", json!({ "agent": "travel" }), "INVALID_ARGUMENTS"),
            ("call_agent", json!({ "agent": "travel", "mesage": "x" }), "INVALID_ARGUMENTS"),
            ("call_agent", json!({ "agent": 7, "message": "x" }), "INVALID_ARGUMENTS"),
            ("call_agent", json!({ "agent": "travel", "message": "x", "wait_seconds": 0 }), "INVALID_ARGUMENTS"),
            ("call_agent", json!({ "agent": "nobody", "message": "x" }), "AGENT_UNKNOWN"),
            ("call_agent", json!({ "agent": "travel", "task_id": "none" }), "TASK_NOT_FOUND"),
            ("call_agent", json!({ "agent": "travel", "message": "x", "task_id": "none" }), "TASK_NOT_FOUND"),
            ("billing_billing_view", json!({ "agent": "travel", "message": "x" }), "INVALID_ARGUMENTS"),
            ("describe_agent", json!({ "agent": "nobody" }), "AGENT_UNKNOWN"),
            ("describe_agent", json!({}), "INVALID_ARGUMENTS"),
            ("find_agents", json!({ "limit": 0 }), "INVALID_ARGUMENTS"),
            ("find_agents", json!({ "max_load": 2 }), "INVALID_ARGUMENTS"),
        ];
        for (tool, arguments, reason) in cases {
            let told = error(&call(&client, tool, arguments.clone()).await);
            assert!(told.starts_with(reason), "{tool} {arguments}: {told}");
        }
        // Larger than a body may be, refused before anything reads it; the next request is served.
        let huge = params("call_agent", json!({ "agent": "travel", "message": "x".repeat(3 << 20) }));
        assert!(client.call_tool(huge).await.is_err());
        assert_eq!(structured(&call(&client, "billing_billing_view", json!({ "message": "on" })).await)["text"], "on");
    }
}

#[tokio::test]
async fn the_whole_mesh_is_listed_on_request_page_by_page() {
    let scene = Scene::start(Access::default()).await;
    for number in 0..70 {
        let name = format!("worker-{number}");
        scene.far.host(&file(&name, "works hard", "work.do", "do", "work")).await;
    }
    until("the agents are found", || scene.near.discovery.find(&Query::default()).0.len() == 72).await;
    for lifecycle in lifecycles() {
        let client = scene.client("?agents=mesh", None, lifecycle.clone()).await.expect("it is served");
        let first = client.list_tools(None).await.expect("a page");
        assert_eq!(first.tools.len(), 64 + 3);
        let mut next = PaginatedRequestParams::default();
        next.cursor = first.next_cursor.clone();
        let second = client.list_tools(Some(next)).await.expect("a page");
        assert_eq!((second.tools.len(), second.next_cursor), (8, None));
        let all: Vec<String> =
            first.tools.iter().chain(&second.tools).map(|tool| tool.name.clone().into_owned()).collect();
        let travel = all.iter().find(|name| name.starts_with("travel_travel_plan_")).expect("a remote agent's skill");
        assert_eq!(structured(&call(&client, travel, json!({ "message": "hello" })).await)["text"], "hello");
        let mut wrong = PaginatedRequestParams::default();
        wrong.cursor = Some("…".to_owned());
        assert!(client.list_tools(Some(wrong)).await.is_err());

        let narrow = scene.client("?agents=mesh&capability=travel.*", None, lifecycle.clone()).await.expect("served");
        assert_eq!(names(&narrow).await.last(), Some(travel));
        assert_eq!(names(&scene.connected(lifecycle.clone()).await).await.len(), 4, "by default this node's agents");
        let query = scene.client("?agent=mesh", None, lifecycle).await;
        let refused = match query {
            Some(client) => client.list_tools(None).await.is_err(),
            None => true,
        };
        assert!(refused, "a mistake in the query is told");
    }
}

#[tokio::test]
async fn a_changed_list_is_announced_once() {
    let scene = Scene::start(Access::default()).await;
    let [with_session, without] = lifecycles();
    let with_session = scene.connected(with_session).await;
    let without = scene.connected(without).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let _subscription = without.listen(filter).await.expect("it is served");
    for name in ["second", "third"] {
        scene.near.host(&file(name, "is new", "new.do", "do", "news")).await;
    }
    let changes = |client: &Client| *client.service().changes.lock().expect("nobody panics with it");
    until("both are told", || changes(&with_session) > 0).await;
    assert_eq!(changes(&with_session), 1, "two changes within the time are announced together");
    assert_eq!(names(&with_session).await.len(), 6);
}

#[tokio::test]
async fn only_who_has_the_token_is_served_and_no_other_sites_page() {
    let scene = Scene::start(Access { token: Some("secret".to_owned()), ..Access::default() }).await;
    for lifecycle in lifecycles() {
        assert!(scene.client("", None, lifecycle.clone()).await.is_none());
        assert!(scene.client("", Some("wrong"), lifecycle.clone()).await.is_none());
        let client = scene.client("", Some("secret"), lifecycle).await.expect("it is served");
        let answer = call(&client, "call_agent", json!({ "agent": "travel", "message": "who" })).await;
        assert!(structured(&answer)["text"].as_str().is_some_and(|who| who.starts_with("token")), "{answer:?}");
    }
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let post = || {
        http.post(&scene.url)
            .bearer_auth("secret")
            .header("accept", "application/json, text/event-stream")
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }))
    };
    let status =
        |request: reqwest::RequestBuilder| async { request.send().await.expect("an answer").status().as_u16() };
    assert_eq!(status(post().header("host", "evil.example")).await, 421);
    assert_eq!(status(post().header("origin", "https://evil.example")).await, 403);
    assert_eq!(status(http.get(&scene.url).header("accept", "text/event-stream")).await, 401);
    assert_eq!(status(post()).await, 400, "a session is needed");
    let end = || http.delete(&scene.url).bearer_auth("secret").header("mcp-session-id", "none");
    assert_eq!(status(end()).await, 204, "there is no such session any more");
}

/// A client that speaks over pipes, as one does that started `althing mcp`.
async fn bridged(url: &str, lifecycle: ClientLifecycleMode) -> (Client, tokio::task::JoinHandle<bool>) {
    const PIPE_BYTES: usize = 64 << 10;
    let ((to_bridge, input), (output, from_bridge)) = (tokio::io::duplex(PIPE_BYTES), tokio::io::duplex(PIPE_BYTES));
    let url = url.to_owned();
    let bridge = tokio::spawn(async move { althing_mcp_server::bridge(&url, None, input, output).await.is_ok() });
    let client = Told::default().serve_with_lifecycle((from_bridge, to_bridge), lifecycle);
    (client.await.expect("it is served"), bridge)
}

#[tokio::test]
async fn a_client_over_pipes_has_the_same_tools_calls_progress_and_cancellation() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let (client, bridge) = bridged(&format!("{}?agents=mesh", scene.url), lifecycle.clone()).await;
        assert_eq!(names(&client).await.len(), 5, "{lifecycle:?}");
        let made = call(&client, "call_agent", json!({ "agent": "travel", "message": "pieces" })).await;
        assert!(structured(&made)["text"].as_str().is_some_and(|text| text.starts_with("0 1 2 3 4 ")), "{made:?}");
        assert!(!client.service().progress.lock().expect("nobody panics with it").is_empty());
        assert!(
            error(&call(&client, "call_agent", json!({ "agent": "nobody", "message": "x" })).await)
                .contains("find_agents")
        );

        let params = params("call_agent", json!({ "agent": "travel", "message": "stuck", "wait_seconds": 600 }));
        let request = ClientRequest::CallToolRequest(Request::new(params));
        let asking = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
        until("the task runs", || scene.far.hosting.live_tasks() == 1).await;
        asking.cancel(None).await.expect("sent");
        until("the task is over", || scene.far.hosting.live_tasks() == 0).await;

        client.cancel().await.expect("it ends");
        assert!(bridge.await.expect("it does not panic"), "a client that closes its end is no error");
    }
}

#[tokio::test]
async fn a_client_over_pipes_is_told_that_the_node_is_gone() {
    let scene = Scene::start(Access::default()).await;
    for lifecycle in lifecycles() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it listens"));
        let router =
            althing_gateway::router(scene.near.calls.clone(), scene.near.key.clone(), Access::default(), (None, None));
        let stop = CancellationToken::new();
        let limits = Limits { drain: std::time::Duration::ZERO, ..Limits::default() };
        let serving = tokio::spawn(althing_gateway::serve(listener, router, limits, stop.clone()));
        let (client, _bridge) = bridged(&url, lifecycle.clone()).await;
        call(&client, "find_agents", json!({})).await;
        stop.cancel();
        serving.await.expect("it ends");
        let failed = client.call_tool(params("find_agents", json!({}))).await;
        assert!(failed.is_err(), "{lifecycle:?}: {failed:?}");
    }
}
