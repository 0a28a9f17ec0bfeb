//! The binding on a real port, before an agent here and one on another node of the simulated network.

use althing_calls::LATENCY;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use althing_simulations::mesh::{self, Node};
use reqwest::RequestBuilder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Access, Limits, router, serve};

/// A gateway, and the nodes behind it.
pub struct World {
    pub address: std::net::SocketAddr,
    pub http: reqwest::Client,
    /// An agent of the gateway's node, and one of the other's.
    pub agents: [AgentId; 2],
    _nodes: [Node; 2],
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub async fn start() -> World {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let net = SimNet::new(1, LinkConfig::default());
        let here = Node::start(&net, 1, 100, &[], mesh::store()).await;
        let there = Node::start(&net, 2, 200, &[], mesh::store()).await;
        here.connect(&there).await;
        let near = here.host_for_anyone(&mesh::file("near", "acts here", "acting.near", "do", "play")).await;
        let far = there.host_for_anyone(&mesh::file("far", "acts there", "acting.far", "do", "play")).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let key = althing_simulations::key(1);
        let (routes, stop) =
            (router(here.calls.clone(), key, Access::default(), (None, None)), CancellationToken::new());
        tokio::spawn(serve(listener, routes, Limits::default(), stop.clone()));
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        World { address, http, agents: [near, far], _nodes: [here, there], stop }
    }

    fn request(&self, method: &str, agent: &str, path: &str) -> RequestBuilder {
        let url = format!("http://{}/a2a/{agent}{path}", self.address);
        self.http.request(method.parse().expect("a method"), url).header("A2A-Version", "1.0")
    }

    fn post(&self, agent: &AgentId, path: &str, body: &Value) -> RequestBuilder {
        self.request("POST", &agent.to_string(), path).json(body)
    }

    fn get(&self, agent: &AgentId, path: &str) -> RequestBuilder {
        self.request("GET", &agent.to_string(), path)
    }

    async fn begun(&self, agent: &AgentId, text: &str) -> String {
        let mut params = mesh::message(text);
        params["configuration"] = json!({ "returnImmediately": true });
        let (status, sent) = json_of(self.post(agent, "/message:send", &params)).await;
        assert_eq!(status, 200, "{sent}");
        sent["task"]["id"].as_str().expect("an id").to_owned()
    }
}

async fn json_of(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text:?} is JSON")))
}

/// Asks for an error; gives its HTTP status, its google.rpc status and its reason.
async fn refused(request: RequestBuilder) -> (u16, String, String) {
    let (status, body) = json_of(request).await;
    let error = &body["error"];
    assert_eq!(error["code"], status, "{body}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    let info = &error["details"][0];
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{body}");
    let domain = if info["reason"] == "AGENT_UNKNOWN" { "althing.dev" } else { "a2a-protocol.org" };
    assert_eq!(info["domain"], domain, "{body}");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (status, text(&error["status"]), text(&info["reason"]))
}

fn is(status: u16, name: &str, reason: &str) -> (u16, String, String) {
    (status, name.to_owned(), reason.to_owned())
}

async fn events(request: RequestBuilder) -> Vec<Value> {
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let body = answer.text().await.expect("it ends");
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

/// `latency/v1`, near and far: what is activated is named, a late turn fails, and streams hear of it.
#[tokio::test]
async fn a_turn_has_the_time_that_its_caller_gives_it() {
    let world = World::start().await;
    for agent in &world.agents {
        let within = |text: &str, within_ms: u64| {
            let mut params = mesh::message(text);
            params["metadata"] = json!({ LATENCY: { "withinMs": within_ms } });
            params
        };
        let asked = format!("https://example.org/other, {LATENCY}");
        let answer = world.post(agent, "/message:send", &within("hello", 60_000)).header("A2A-Extensions", asked);
        let answer = answer.send().await.expect("an answer");
        assert_eq!(answer.headers()["a2a-extensions"], LATENCY);
        let plain = world.post(agent, "/message:send", &mesh::message("hello")).send().await.expect("an answer");
        assert!(plain.headers().get("a2a-extensions").is_none());
        let (status, late) = json_of(world.post(agent, "/message:send", &within("stuck", 50))).await;
        assert_eq!((status, &late["task"]["status"]["state"]), (200, &json!("TASK_STATE_FAILED")), "{late}");
        let heard = events(world.post(agent, "/message:stream", &within("stuck", 50))).await;
        let last = heard.last().expect("an event").to_string();
        assert!(last.contains("TASK_STATE_FAILED") && last.contains("within the 50 ms"), "{last}");
        let wrong = refused(world.post(agent, "/message:send", &within("hello", 0))).await;
        assert_eq!(wrong, is(400, "INVALID_ARGUMENT", "INVALID_PARAMS"));
        let (_, card) = json_of(world.get(agent, "/.well-known/agent-card.json")).await;
        let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
        let latency = extensions.iter().find(|known| known["uri"] == LATENCY).expect("it is named");
        assert_eq!(latency["params"]["class"], "srt", "{card}");
    }
}

/// What an agent activates is named in the answer, wherever it runs; nothing else is.
#[tokio::test]
async fn the_extensions_that_an_agent_activates_are_named_near_and_far() {
    const MOOD: &str = "https://example.org/mood";
    let world = World::start().await;
    for agent in &world.agents {
        let named = |text: &'static str, asked: String| {
            let request = world.post(agent, "/message:send", &mesh::message(text)).header("A2A-Extensions", asked);
            async move { request.send().await.expect("an answer").headers().get("a2a-extensions").cloned() }
        };
        let both = named("activate", format!("{MOOD}, {LATENCY}")).await.expect("they are named");
        assert_eq!(both, format!("{MOOD}, {LATENCY}"), "{agent}");
        assert_eq!(named("activate", MOOD.to_owned()).await.expect("it is named"), MOOD, "{agent}");
        assert_eq!(named("hello", MOOD.to_owned()).await, None, "{agent}");
    }
}

#[tokio::test]
async fn a_conversation_with_an_agent_here_and_one_on_another_node() {
    let world = World::start().await;
    for agent in &world.agents {
        // The answer, and what was kept of it.
        let answer = world.post(agent, "/message:send", &mesh::message("hello")).send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "application/a2a+json");
        let sent: Value = answer.json().await.expect("JSON");
        let task = &sent["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{sent}");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello", "{sent}");
        let done = task["id"].as_str().expect("an id");
        let (status, kept) = json_of(world.get(agent, &format!("/tasks/{done}?historyLength=0"))).await;
        assert_eq!(
            (status, &kept["id"], kept["history"].as_array().map_or(0, Vec::len)),
            (200, &task["id"], 0),
            "{kept}"
        );

        // A stream, and a task that is cancelled.
        let all = events(world.post(agent, "/message:stream", &mesh::message("pieces"))).await;
        assert!(all[0]["task"].is_object(), "{all:?}");
        let last = all.last().expect("events");
        assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{all:?}");
        assert_eq!(all.iter().filter(|event| event["artifactUpdate"].is_object()).count(), 5, "{all:?}");
        let stuck = world.begun(agent, "stuck").await;
        let body = json!({ "id": stuck, "metadata": { "why": "enough" } });
        let (status, canceled) = json_of(world.post(agent, &format!("/tasks/{stuck}:cancel"), &body)).await;
        assert_eq!((status, &canceled["status"]["state"]), (200, &json!("TASK_STATE_CANCELED")), "{canceled}");

        // The list, by pages.
        let (_, page) = json_of(world.get(agent, "/tasks?pageSize=1&includeArtifacts=true&contextId=")).await;
        assert_eq!((&page["totalSize"], page["tasks"].as_array().map(Vec::len)), (&json!(3), Some(1)), "{page}");
        let token = page["nextPageToken"].as_str().expect("a token");
        let token = percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC);
        let rest = world.get(agent, &format!("/tasks?pageSize=100&includeArtifacts=true&pageToken={token}"));
        let (_, rest) = json_of(rest).await;
        assert_eq!(rest["tasks"].as_array().map(Vec::len), Some(2), "{rest}");
    }
}

#[tokio::test]
async fn a_subscriber_is_told_the_task_and_its_end() {
    let world = World::start().await;
    for agent in &world.agents {
        for method in ["POST", "GET"] {
            let stuck = world.begun(agent, "stuck").await;
            let following = world.request(method, &agent.to_string(), &format!("/tasks/{stuck}:subscribe"));
            let mut following = following.send().await.expect("an answer");
            let mut told = following.chunk().await.expect("a chunk").expect("the task").to_vec();
            // Without a body, as the official client does not send one to subscribe.
            let cancel = world.request("POST", &agent.to_string(), &format!("/tasks/{stuck}:cancel"));
            assert_eq!(json_of(cancel).await.0, 200);
            while let Some(more) = following.chunk().await.expect("a chunk") {
                told.extend_from_slice(&more);
            }
            let told = String::from_utf8(told).expect("text");
            assert!(told.contains(r#"{"task":"#) && told.contains("TASK_STATE_CANCELED"), "{told}");
        }
    }
}

#[tokio::test]
async fn errors_are_those_of_the_specification() {
    let world = World::start().await;
    for agent in &world.agents {
        let done = world.begun(agent, "hello").await;
        let ended = async {
            while json_of(world.get(agent, &format!("/tasks/{done}"))).await.1["status"]["state"]
                != "TASK_STATE_COMPLETED"
            {}
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.expect("it ends");
        let cancel = world.request("POST", &agent.to_string(), &format!("/tasks/{done}:cancel"));
        assert_eq!(refused(cancel).await, is(400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"));
        let follow = world.get(agent, &format!("/tasks/{done}:subscribe"));
        assert_eq!(refused(follow).await, is(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"));
        for id in ["nobody", "..%2F..%2Fetc%2Fpasswd", "%00", "a%20b", "nobody:cance"] {
            let asked = refused(world.get(agent, &format!("/tasks/{id}"))).await;
            assert_eq!(asked, is(404, "NOT_FOUND", "TASK_NOT_FOUND"), "{id}");
        }
        let long = world.get(agent, &format!("/tasks/{}", "x".repeat(300)));
        assert_eq!(refused(long).await, is(400, "INVALID_ARGUMENT", "INVALID_PARAMS"));
        for query in [
            "pageSize=101",
            "pageSize=0",
            "pageSize=-1",
            "pageSize=x",
            "pageSize=1.5",
            "pageSize=99999999999",
            "pageToken=forged",
            "status=DONE",
            "other=1",
            "pageSize=1&pageSize=2",
            "includeArtifacts=1",
            "statusTimestampAfter=yesterday",
            "historyLength=-1",
        ] {
            let listed = refused(world.get(agent, &format!("/tasks?{query}"))).await;
            assert_eq!(listed, is(400, "INVALID_ARGUMENT", "INVALID_PARAMS"), "{query}");
        }
        let other = json!({ "id": "other" });
        let cancel = world.post(agent, &format!("/tasks/{done}:cancel"), &other);
        assert_eq!(refused(cancel).await, is(400, "INVALID_ARGUMENT", "INVALID_PARAMS"));
        for (method, path) in
            [("POST", "/tasks/7/pushNotificationConfigs"), ("DELETE", "/tasks/7/pushNotificationConfigs/1")]
        {
            let push = world.request(method, &agent.to_string(), path);
            let push = push.json(&json!({ "url": "https://hooks.example/" }));
            assert_eq!(refused(push).await, is(400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"));
        }
        let (status, card) = json_of(world.get(agent, "/extendedAgentCard")).await;
        let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
        let hosts = extensions.iter().find(|known| known["uri"] == "https://althing.dev/ext/hosts/v1");
        assert_eq!(status, 200, "{card}");
        assert_eq!(hosts.expect("they are named")["params"]["nodes"].as_array().map(Vec::len), Some(1), "{card}");
        let public = world.get(agent, "/.well-known/agent-card.json");
        let (_, public) = json_of(public).await;
        assert_eq!(public["capabilities"]["extendedAgentCard"], true, "{public}");
        assert!(!public.to_string().contains("ext/hosts"), "{public}");
    }
    let nobody = world.request("GET", "nobody", "/tasks");
    assert_eq!(refused(nobody).await, is(404, "NOT_FOUND", "AGENT_UNKNOWN"));
    let [near, far] = &world.agents;
    let mixed = world.get(near, &format!("/{far}/tasks"));
    assert_eq!(refused(mixed).await, is(404, "NOT_FOUND", "AGENT_UNKNOWN"));
    assert_eq!(json_of(world.get(near, &format!("/{near}/tasks"))).await.0, 200, "an agent is its own tenant");
}

#[test]
fn who_may_try_again_is_told_when() {
    let error = |refusal| OperationError { refusal, message: "why".to_owned(), details: Vec::new(), remedy: None };
    let answer = |refusal| super::failed(&error(refusal));
    for (refusal, status) in [(Refusal::Overloaded, 429), (Refusal::AgentUnreachable, 503)] {
        let answer = answer(refusal);
        assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].as_bytes()), (status, &b"1"[..]));
    }
    assert!(!answer(Refusal::TaskNotFound).headers().contains_key("retry-after"));
    // N-12: what an operator has to mend is no fault of the program, and has a reason of its own.
    for (refusal, status) in [(Refusal::DiskFull, 507), (Refusal::StoreStopped, 503)] {
        assert_eq!(answer(refusal).status().as_u16(), status);
    }
}

#[tokio::test]
async fn requests_that_break_a_rule_are_refused_by_type() {
    let world = World::start().await;
    let [agent, _] = &world.agents;
    let path = agent.to_string();
    let send = |kind: &str, body: &str| {
        let request = world.request("POST", &path, "/message:send").header("Content-Type", kind);
        refused(request.body(body.to_owned()))
    };
    let good = mesh::message("hello").to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        assert_eq!(send(kind, &good).await, is(400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"), "{kind}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["", "{", "nul", "\u{feff}{}", &good[..good.len() - 1]] {
        assert_eq!(send("application/json", body).await, is(400, "INVALID_ARGUMENT", "INVALID_REQUEST"), "{body:.40}");
    }
    for body in ["{}", "[]", "7", r#"{"message":{}}"#, &deep] {
        assert_eq!(
            send("application/a2a+json", body).await,
            is(400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
            "{body:.40}"
        );
    }
    let huge = format!(r#"{{"x":"{}"}}"#, "x".repeat(BODY_BYTES_MAX));
    assert_eq!(send("application/json", &huge).await, is(400, "INVALID_ARGUMENT", "INVALID_REQUEST"));
    let put = world.request("PUT", &path, "/message:send").send().await.expect("an answer");
    assert_eq!((put.status().as_u16(), &put.headers()["allow"]), (405, &"POST".parse().expect("a header")));
    let (status, _, reason) = refused(world.request("GET", &path, "")).await;
    assert_eq!((status, reason.as_str()), (405, "METHOD_NOT_FOUND"));
    let (status, _) = json_of(world.get(agent, "/nothing/here")).await;
    assert_eq!(status, 404);
    // The version comes first, whatever is asked for.
    for path in ["/tasks", "/extendedAgentCard", "/tasks?A2A-Version=0.3", "/tasks/7/pushNotificationConfigs"] {
        let url = format!("http://{}/a2a/{agent}{path}", world.address);
        let refused = refused(world.http.get(url)).await;
        assert_eq!(refused, is(400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"), "{path}");
    }
    let by_query = format!("http://{}/a2a/{agent}/tasks?A2A-Version=1.0.1", world.address);
    assert_eq!(json_of(world.http.get(by_query)).await.0, 200);
}

/// Sends bytes as they are; gives the status and the body.
async fn raw(world: &World, line: &str) -> (String, String) {
    let mut client = TcpStream::connect(world.address).await.expect("it listens");
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("it listens");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

#[tokio::test]
async fn paths_are_never_put_together_from_their_parts() {
    let world = World::start().await;
    let agent = &world.agents[0];
    let cases = [
        (format!("GET /a2a/{agent}/tasks/.."), "404", "TASK_NOT_FOUND"),
        (format!("GET /a2a/{agent}/tasks/../tasks"), "404", ""),
        (format!("GET /a2a/{agent}/tasks/%2e%2e/tasks"), "404", ""),
        (format!("GET /a2a/{agent}/tasks/"), "400", "INVALID_PARAMS"),
        (format!("GET /a2a/{agent}/tasks/%ff"), "400", "INVALID_REQUEST"),
        (format!("GET /a2a/{agent}//tasks"), "404", ""),
        ("GET /a2a/%ff/tasks".to_owned(), "400", "INVALID_REQUEST"),
        ("GET /a2a/..%2f..%2fhealthz/tasks".to_owned(), "404", "AGENT_UNKNOWN"),
        ("GET /a2a/../healthz".to_owned(), "404", ""),
    ];
    for (line, status, reason) in cases {
        let (answered, body) = raw(&world, &line).await;
        assert!(answered == status && body.contains(reason), "{line}: {answered} {body}");
    }
}

#[tokio::test]
async fn an_error_in_a_stream_is_an_event_of_its_own() {
    let told = [Ok(br#"{"first":1}"#.to_vec()), Err(OperationError::internal("it broke off"))];
    let answer = stream(futures::stream::iter(told).boxed());
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("it ends");
    let body = String::from_utf8(body.to_vec()).expect("text");
    let (first, error) = body.split_once("\n\n").expect("two events");
    assert_eq!(first, r#"data: {"first":1}"#);
    let data = error.trim().strip_prefix("event: error\ndata: ").expect("an error");
    let error: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!((&error["error"]["code"], &error["error"]["status"]), (&json!(500), &json!("INTERNAL")), "{body}");
}

#[tokio::test]
async fn the_card_names_the_binding() {
    let world = World::start().await;
    let (_, card) = json_of(world.get(&world.agents[1], "/.well-known/agent-card.json")).await;
    let http = card["supportedInterfaces"].as_array().expect("interfaces").iter();
    let http: Vec<&Value> = http.filter(|interface| interface["protocolBinding"] == "HTTP+JSON").collect();
    assert_eq!(http.len(), 1, "{card}");
    assert_eq!(http[0]["url"], format!("http://{}/a2a/{}", world.address, world.agents[1]));
}
