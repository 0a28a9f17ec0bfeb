//! One policy over every face: however an agent is asked for, and by whom, the same decision stands before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_calls::{
    Decide, Decision, IncomingRequest, Judgement, Operation, OperationError, OutgoingRequest, Principal, Purpose,
    TrustRelation,
};
use althing_conformance::gateway::{Answer, Gateway};
use althing_conformance::groups::echo_task;
use althing_conformance::mesh::{Node, Setup, file, file_asking, message, store};
use althing_conformance::world::until;
use althing_coordination::Role;
use althing_coordination::machine::group::Group;
use althing_protocol::group::{Command, Content, GroupId, Needs, Policy, Submit, Target};
use althing_protocol::{AgentId, PublisherId};
use althing_simnet::{LinkConfig, SimNet};
use axum::Extension;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

const OWNER: u32 = 100;
/// The agent that nobody may call.
const CLOSED: &str = "closed";
/// Why; one word, which no face writes in another way.
const WHY: &str = "closed-for-the-holidays";
/// What each agent is told, and says.
const SAID: &str = "hello-there";

/// Decides that an agent of this name is not called, as long as that holds, and everything else by contracts.
struct Holidays {
    contracts: Arc<dyn Decide>,
    are_on: Arc<AtomicBool>,
}

impl Decide for Holidays {
    fn decide(&self, outgoing: &OutgoingRequest<'_>) -> Judgement {
        match outgoing {
            OutgoingRequest::Target { target, purpose: Purpose::Call, .. }
                if target.agent.name() == CLOSED && self.are_on.load(Ordering::Relaxed) =>
            {
                Judgement::Now(Decision::Deny(OperationError::caller_not_allowed(WHY)))
            }
            _ => self.contracts.decide(outgoing),
        }
    }

    fn decide_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        self.contracts.decide_incoming(incoming)
    }

    fn relation(&self, publisher: PublisherId) -> TrustRelation {
        self.contracts.relation(publisher)
    }

    fn near(&self) -> Vec<PublisherId> {
        self.contracts.near()
    }
}

/// A node with all its faces, and a group of which it is the only member.
struct Scene {
    node: Node,
    closed: AgentId,
    gateway: Gateway,
    /// Where its owner's API is served.
    control: String,
    serving: AbortHandle,
    group: GroupId,
    are_on: Arc<AtomicBool>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let are_on = Arc::new(AtomicBool::new(true));
        let mut setup = Setup::new(&net, 1, OWNER);
        let held = are_on.clone();
        setup.decide = Some(Box::new(move |contracts: Arc<dyn Decide>| -> Arc<dyn Decide> {
            Arc::new(Holidays { contracts, are_on: held })
        }));
        let node = Node::assemble(&net, setup, store()).await;
        let acts = |name: &str| file(name, "does as it is told", &format!("acting.{name}"), "do", name);
        node.host(&acts("open")).await;
        let closed = node.host(&acts(CLOSED)).await;
        let others = ["open".to_owned(), CLOSED.to_owned()];
        node.host(&file_asking("asks", "asks others", "acting.asks", ("do", "asks"), &others)).await;
        let gateway = Gateway::start(&node, None).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let control = format!("http://{}", listener.local_addr().expect("it listens"));
        let router = althing_control::router(node.shared()).layer(Extension(Principal::Local));
        let serving = axum::serve(listener, router);
        let serving = tokio::spawn(async move { serving.await }).abort_handle();
        let group = node.groups.create("team", Policy::default()).await.expect("a group");
        let role = || node.groups.overview(group).ok()?.replica.map(|replica| replica.role);
        until("it leads", || role() == Some(Role::Leader)).await;
        Scene { node, closed, gateway, control, serving, group, are_on }
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        let request = self.gateway.request("POST", path).header("a2a-version", "1.0").json(body);
        self.gateway.send(request).await.body
    }

    /// A message over gRPC, whose fields are written by hand.
    async fn grpc(&self, agent: &str) -> String {
        let field = |number: u8, bytes: &[u8]| {
            let length = u8::try_from(bytes.len()).expect("short");
            assert!(length < 0x80, "a length of one byte");
            [&[number << 3 | 2, length], bytes].concat()
        };
        let params = message(SAID);
        let id = params["message"]["messageId"].as_str().expect("an id");
        let part = field(5, &field(1, SAID.as_bytes()));
        let sent = [field(1, id.as_bytes()), vec![4 << 3, 1], part].concat();
        let request = [field(1, agent.as_bytes()), field(2, &sent)].concat();
        let length = u32::try_from(request.len()).expect("short").to_be_bytes();
        let framed = [vec![0], length.to_vec(), request].concat();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        let request = client
            .post(format!("http://{}/lf.a2a.v1.A2AService/SendMessage", self.gateway.host))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("a2a-version", "1.0")
            .body(framed);
        let answer = request.send().await.expect("an answer");
        let headers = format!("{:?}", answer.headers());
        headers + &String::from_utf8_lossy(&answer.bytes().await.expect("a body"))
    }

    async fn mcp_message(&self, session: Option<&str>, message: &Value) -> Answer {
        let request = self.gateway.request("POST", "/mcp").json(message);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        self.gateway.send(request).await
    }

    /// A call of the tool that calls agents, in a session of its own.
    async fn mcp(&self, agent: &str) -> String {
        let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        let begun = self.mcp_message(None, &begin).await;
        let session = begun.header("mcp-session-id");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.mcp_message(Some(session), &ready).await;
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "call_agent", "arguments": { "agent": agent, "message": SAID } } });
        self.mcp_message(Some(session), &call).await.body
    }

    /// A call by the node's owner.
    async fn by_owner(&self, agent: &str) -> String {
        let body = json!({ "agent": agent, "text": SAID, "task": null, "explain": false });
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let answer = client.post(format!("{}/call", self.control)).json(&body).send().await.expect("an answer");
        answer.text().await.expect("a text")
    }

    /// What comes of a task that the group gives the agent.
    async fn by_group(&self, number: u32, agent: &str) -> String {
        let submit = Submit { needs: Needs::of(Target::Agent(agent.to_owned())), ..echo_task(number, SAID) };
        let (task, here) = (submit.task, self.node.id());
        let submitted = self.node.groups.command(self.group, Command::Submit(Box::new(submit))).await;
        submitted.expect("it is submitted");
        let end = || {
            let look = |state: &Group| {
                let task = state.work().tasks().get(&task).filter(|task| task.state.is_finished())?;
                Some(match &task.result {
                    Some(Content::Inline(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                    _ => format!("{:?}: {:?}", task.state, task.refused.of(&here)),
                })
            };
            self.node.groups.look(self.group, look).ok().flatten()
        };
        until("it ended", || end().is_some()).await;
        end().expect("it ended")
    }

    /// What is said, by each way to the agent of that name.
    async fn answers(&self, number: u32, agent: &str) -> Vec<(&'static str, String)> {
        let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message(SAID) });
        let chat = json!({ "messages": [{ "role": "user", "content": SAID }] });
        let forward = message(&format!("forward {agent} {SAID}"));
        vec![
            ("JSON-RPC", self.post(&format!("/a2a/{agent}"), &rpc).await),
            ("HTTP+JSON", self.post(&format!("/a2a/{agent}/message:send"), &message(SAID)).await),
            ("gRPC", self.grpc(agent).await),
            ("MCP", self.mcp(agent).await),
            ("Web of Things", self.post(&format!("/things/{agent}/actions/chat"), &chat).await),
            ("control", self.by_owner(agent).await),
            ("an agent", self.post("/a2a/asks/message:send", &forward).await),
            ("a group", self.by_group(number, agent).await),
        ]
    }
}

#[tokio::test]
async fn an_agent_that_may_not_be_called_is_reached_over_no_face() {
    let scene = Scene::start().await;
    for (face, answer) in scene.answers(1, CLOSED).await {
        assert!(answer.contains(WHY), "{face}: {answer}");
    }
    for (face, answer) in scene.answers(2, "open").await {
        assert!(answer.contains(SAID) && !answer.contains(WHY), "{face}: {answer}");
    }
    // What it says of itself is another purpose.
    let card = scene.gateway.get(&format!("/a2a/{CLOSED}/.well-known/agent-card.json")).await;
    assert_eq!(card.status, 200, "{card:?}");

    scene.are_on.store(false, Ordering::Relaxed);
    let tasks = scene.node.one(&scene.closed, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(tasks["totalSize"], 0, "nothing reached it: {tasks}");
    for (face, answer) in scene.answers(3, CLOSED).await {
        assert!(answer.contains(SAID) && !answer.contains(WHY), "{face}: {answer}");
    }
}
