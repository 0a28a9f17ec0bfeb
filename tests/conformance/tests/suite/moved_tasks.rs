//! A task that was handed over to another host is found there: by each operation, by whoever knew it where it was, and by the
//! message that began it. Whoever says that a task moved, and cannot prove it, is not believed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_calls::{CallMetadata, Operation, OperationError, OperationRequest, Reply};
use althing_communication::{Answer, Caller, Inbound, Request};
use althing_conformance::mesh::{Node, Setup, file, message, store};
use althing_conformance::receiver::Receiver;
use althing_conformance::world::until;
use althing_conformance::{NETWORK, key};
use althing_protocol::AgentId;
use althing_protocol::object::{self, TaskMove};
use althing_simnet::{LinkConfig, SimNet};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

const OWNER: u8 = 100;
/// The number of the caller; hosts have those after it, and the first of them is asked first.
const CALLER: u8 = 1;

const ALL: [Operation; 10] = [
    Operation::SendMessage,
    Operation::SendStreamingMessage,
    Operation::GetTask,
    Operation::ListTasks,
    Operation::CancelTask,
    Operation::SubscribeToTask,
    Operation::CreatePushConfig,
    Operation::GetPushConfig,
    Operation::ListPushConfigs,
    Operation::DeletePushConfig,
];

/// A caller, and two hosts of one agent.
struct Scene {
    net: SimNet,
    caller: Node,
    hosts: [Node; 2],
    agent: AgentId,
}

/// A node that sends notifications to loopback.
async fn node(net: &SimNet, number: u8) -> Node {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let push = Some(vec!["127.0.0.0/8".parse().expect("a net")]);
    // The lower a host's number, the less it has to do, and the earlier it is asked.
    let load_permille = Arc::new((u16::from(number) * 10).into());
    let setup = Setup { push, load_permille, ..Setup::new(net, u32::from(number), u32::from(OWNER)) };
    Node::assemble(net, setup, store()).await
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let (caller, first, second) = (node(&net, CALLER).await, node(&net, 2).await, node(&net, 3).await);
        let actor = file("actor", "does as it is told", "acting.do", "do", "play");
        let agent = first.host(&actor).await;
        assert_eq!(second.host(&actor).await, agent, "of one owner");
        first.connect(&caller).await;
        second.connect(&caller).await;
        first.connect(&second).await;
        for node in [&caller, &first, &second] {
            until("the hosts are found", || node.discovery.hosts(&agent).len() == 2).await;
        }
        assert_eq!(caller.discovery.hosts(&agent), [first.id(), second.id()]);
        Scene { net, caller, hosts: [first, second], agent }
    }

    /// Begins a task that waits for a message at the first host, whose events are told to `url`; gives the task.
    async fn begin(&self, url: &str) -> Value {
        let mut params = message("ask");
        params["configuration"] = json!({ "taskPushNotificationConfig": { "id": "1", "url": url } });
        let sent = self.caller.one(&self.agent, Operation::SendMessage, params).await.expect("a task");
        assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        sent["task"].clone()
    }

    /// Has the first host hand the task over to the second.
    async fn hand_over(&self, task: &Value) {
        let ([from, to], task) = (&self.hosts, task["id"].as_str().expect("an id"));
        let pack = from.hosting.freeze(&self.agent, task, to.id()).await.expect("it is handed over");
        assert_eq!(to.hosting.thaw(&self.agent, from.id(), &pack).await.expect("it is taken"), task);
    }

    /// What an operation on the task answers; of a stream its last event, or the first one of a subscription.
    async fn ask(&self, asking: &Node, operation: Operation, task: &Value) -> Value {
        let id = &task["id"];
        let params = match operation {
            Operation::SendMessage | Operation::SendStreamingMessage => {
                let mut params = message("the answer");
                params["message"]["taskId"] = id.clone();
                params
            }
            Operation::ListTasks => json!({ "contextId": task["contextId"] }),
            Operation::CreatePushConfig => json!({ "taskId": id, "id": "2", "url": "http://127.0.0.1/hook" }),
            Operation::GetPushConfig | Operation::DeletePushConfig => json!({ "taskId": id, "id": "1" }),
            Operation::ListPushConfigs => json!({ "taskId": id }),
            _ => json!({ "id": id }),
        };
        match asking.ask(&self.agent, operation, params).await.expect("it is answered") {
            Reply::One(body) => serde_json::from_slice(&body).expect("JSON"),
            Reply::Events(mut events) => {
                let mut last = Vec::new();
                while let Some(event) = events.next().await {
                    last = event.expect("an event");
                    if operation == Operation::SubscribeToTask {
                        break;
                    }
                }
                serde_json::from_slice(&last).expect("JSON")
            }
        }
    }
}

/// P-205
#[tokio::test]
async fn every_operation_on_a_task_that_moved_is_answered_by_the_host_that_has_it() {
    let scene = Scene::start().await;
    let receiver = Receiver::start(&[]).await;
    for operation in ALL {
        let task = scene.begin(&receiver.url).await;
        scene.hand_over(&task).await;
        let answer = scene.ask(&scene.caller, operation, &task).await;
        let id = &task["id"];
        let (shown, wanted) = match operation {
            Operation::SendMessage => (&answer["task"]["status"]["state"], json!("TASK_STATE_COMPLETED")),
            Operation::SendStreamingMessage => {
                (&answer["statusUpdate"]["status"]["state"], json!("TASK_STATE_COMPLETED"))
            }
            Operation::GetTask => (&answer["status"]["state"], json!("TASK_STATE_INPUT_REQUIRED")),
            Operation::ListTasks => (&answer["tasks"][0]["id"], id.clone()),
            Operation::CancelTask => (&answer["status"]["state"], json!("TASK_STATE_CANCELED")),
            Operation::SubscribeToTask => (&answer["task"]["id"], id.clone()),
            Operation::CreatePushConfig => (&answer["id"], json!("2")),
            Operation::GetPushConfig => (&answer["url"], json!(receiver.url)),
            Operation::ListPushConfigs => (&answer["configs"][0]["id"], json!("1")),
            _ => (&answer, json!({})),
        };
        assert_eq!(*shown, wanted, "{operation:?}: {answer}");
        if operation == Operation::ListTasks {
            assert_eq!(answer["totalSize"], 1, "it is at one host: {answer}");
        }
        // Whoever asks the old home goes on to the new one too, and so does the old home itself.
        let seen = scene.ask(&scene.hosts[0], Operation::GetTask, &task).await;
        assert_eq!((&seen["id"], &seen["metadata"]), (id, &Value::Null), "{operation:?}: it is not only remembered");
    }
}

/// P-205, P-77
#[tokio::test]
async fn a_caller_that_followed_a_task_needs_its_old_home_no_more() {
    let scene = Scene::start().await;
    let mut receiver = Receiver::start(&[]).await;
    let begins = {
        let mut params = message("ask");
        params["configuration"] = json!({ "taskPushNotificationConfig": { "id": "1", "url": receiver.url } });
        params
    };
    let send = async || scene.caller.one(&scene.agent, Operation::SendMessage, begins.clone()).await.expect("a task");
    let task = send().await["task"].clone();
    while receiver.next().await.json()["statusUpdate"]["status"]["state"] != "TASK_STATE_INPUT_REQUIRED" {}
    scene.hand_over(&task).await;
    // The message that began it, sent again, finds it as well, and begins no other.
    assert_eq!(send().await["task"]["id"], task["id"]);
    scene.net.crash(scene.hosts[0].id());
    let ended = scene.ask(&scene.caller, Operation::SendMessage, &task).await;
    assert_eq!(ended["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    let history = ended["task"]["history"].as_array().expect("a history");
    assert!(history.iter().any(|message| message["parts"][0]["text"] == "ask"), "{history:?}");
    // Whoever was told of it by the first host is told by the second.
    while receiver.next().await.json()["statusUpdate"]["status"]["state"] != "TASK_STATE_COMPLETED" {}
    assert_eq!(scene.ask(&scene.caller, Operation::GetTask, &task).await["metadata"], Value::Null);
}

/// P-205
#[tokio::test]
async fn a_host_says_where_a_task_went_also_when_it_does_not_host_the_agent_any_more() {
    let scene = Scene::start().await;
    let receiver = Receiver::start(&[]).await;
    let [first, _] = &scene.hosts;
    let mut tasks = Vec::new();
    for _ in ALL {
        let task = scene.begin(&receiver.url).await;
        scene.hand_over(&task).await;
        tasks.push(task);
    }
    let stays = scene.begin(&receiver.url).await;
    let begins = {
        let mut params = message("ask");
        params["message"]["messageId"] = json!("begins-one-that-moves");
        params
    };
    let begun = scene.caller.one(&scene.agent, Operation::SendMessage, begins.clone()).await.expect("a task");
    scene.hand_over(&begun["task"]).await;
    first.hosting.remove(&first.stable(&scene.agent));
    for (operation, task) in ALL.into_iter().zip(&tasks) {
        // It fails where the operation is not answered.
        let answer = scene.ask(&scene.caller, operation, task).await;
        if operation == Operation::ListTasks {
            assert_eq!((&answer["totalSize"], &answer["tasks"][0]["id"]), (&json!(1), &task["id"]), "{answer}");
        }
    }
    // Asked itself, it goes on to there too.
    let seen = scene.ask(first, Operation::GetTask, &tasks[0]).await;
    assert_eq!((&seen["id"], &seen["metadata"]), (&tasks[0]["id"], &Value::Null));
    // What it did not hand over is nowhere.
    let gone = scene.caller.one(&scene.agent, Operation::GetTask, json!({ "id": stays["id"] })).await;
    assert_eq!(gone.expect_err("nobody has it").reason(), "AGENT_NOT_HERE");
    // The message that began a task finds it as well.
    let again = scene.caller.one(&scene.agent, Operation::SendMessage, begins).await.expect("it is found");
    assert_eq!(again["task"]["id"], begun["task"]["id"]);
    // Nobody else is told of it.
    let other = Caller { node: key(9).public(), owner: None };
    let get = OperationRequest::parse(Operation::GetTask, json!({ "id": tasks[0]["id"] }).to_string().into_bytes());
    let get = get.expect("a good request");
    let refused = first.hosting.handle(&other, &scene.agent, get, &CallMetadata::default()).await.map(|_| ());
    assert_eq!(refused.expect_err("it is not theirs").reason(), "AGENT_NOT_HERE");
}

/// P-205
#[tokio::test]
async fn a_caller_catches_up_with_a_task_that_moved_several_times() {
    let net = SimNet::new(1, LinkConfig::default());
    let caller = node(&net, CALLER).await;
    let (mut hosts, mut agent) = (Vec::new(), None);
    for number in CALLER + 1..CALLER + 6 {
        let host = node(&net, number).await;
        agent = Some(host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await);
        host.connect(&caller).await;
        hosts.push(host);
    }
    let agent = agent.expect("there are hosts");
    until("the hosts are found", || caller.discovery.hosts(&agent).len() == hosts.len()).await;
    let begun = caller.one(&agent, Operation::SendMessage, message("ask")).await.expect("a task");
    let id = begun["task"]["id"].as_str().expect("an id");
    for pair in hosts.windows(2) {
        let [from, to] = pair else { panic!("a window of two") };
        let pack = from.hosting.freeze(&agent, id, to.id()).await.expect("it is handed over");
        to.hosting.thaw(&agent, from.id(), &pack).await.expect("it is taken");
    }
    let seen = caller.one(&agent, Operation::GetTask, json!({ "id": id })).await.expect("it is found");
    assert_eq!((&seen["id"], &seen["metadata"]), (&json!(id), &Value::Null));
}

/// Answers some operations, and says of all others that the agent is not there; counts what it is asked.
#[derive(Default)]
struct Stub {
    answers: Vec<(Operation, Result<Value, OperationError>)>,
    asked: AtomicUsize,
}

impl Inbound for Stub {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let known = self.answers.iter().find(|(operation, _)| operation.name() == request.operation);
        let answer = known.map_or_else(|| Err(OperationError::agent_not_here("it is gone")), |(_, said)| said.clone());
        let answer = match answer {
            Ok(said) => Answer::Response(said.to_string().into_bytes()),
            Err(error) => Answer::Error(error.to_json().to_string().into_bytes()),
        };
        futures::future::ready(answer).boxed()
    }
}

/// A caller and hosts that answer so, the first of which is asked first; and the agent.
async fn among(net: &SimNet, stubs: Vec<Arc<dyn Inbound>>) -> (Node, Vec<Node>, AgentId) {
    let caller = Node::start(net, CALLER, OWNER, &[], store()).await;
    let (mut hosts, mut agent) = (Vec::new(), None);
    for (number, stub) in (CALLER + 1..).zip(stubs) {
        let host = Node::start_serving(net, number, OWNER, &[], store(), Some(stub)).await;
        agent = Some(host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await);
        host.connect(&caller).await;
        hosts.push(host);
    }
    let agent = agent.expect("there is a host");
    until("the hosts are found", || caller.discovery.hosts(&agent).len() == hosts.len()).await;
    (caller, hosts, agent)
}

/// P-205
#[tokio::test(start_paused = true)]
async fn where_the_agent_of_a_task_is_gone_the_other_hosts_are_asked_for_the_task() {
    let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } });
    let none = || Err(OperationError::task_not_found("t"));
    let stubs = [
        vec![(Operation::SendMessage, Ok(json!({ "task": task })))],
        vec![(Operation::GetTask, none()), (Operation::CancelTask, none())],
        vec![(Operation::GetTask, Ok(task.clone())), (Operation::CancelTask, none())],
    ];
    let stubs = stubs.map(|answers| Arc::new(Stub { answers, ..Stub::default() }));
    let net = SimNet::new(1, LinkConfig::default());
    let all = stubs.iter().cloned().map(|stub| stub as Arc<dyn Inbound>).collect();
    let (caller, hosts, agent) = among(&net, all).await;
    let asked = || stubs.each_ref().map(|stub| stub.asked.swap(0, Ordering::Relaxed));
    let order = caller.discovery.hosts(&agent);
    assert_eq!(order, hosts.iter().map(Node::id).collect::<Vec<_>>());
    caller.one(&agent, Operation::SendMessage, message("begin")).await.expect("the first one has it");
    assert_eq!(asked(), [1, 0, 0]);
    let seen = caller.one(&agent, Operation::GetTask, json!({ "id": "t" })).await.expect("the third one has it");
    assert_eq!((&seen["id"], asked()), (&json!("t"), [1, 1, 1]));
    // It is the first one's answer that says the most.
    let refused = caller.one(&agent, Operation::CancelTask, json!({ "id": "t" })).await;
    assert_eq!((refused.expect_err("nobody cancels it").reason(), asked()), ("AGENT_NOT_HERE", [1, 1, 1]));
}

/// P-205
#[tokio::test(start_paused = true)]
async fn a_list_is_whole_only_where_the_new_home_of_what_moved_was_asked() {
    let empty = json!({ "tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0 });
    for (to, expected) in [
        (Some(3), Ok(())),
        // To a node that is not known to host the agent, and without a proof.
        (Some(77), Err("OVERLOADED")),
        (None, Err("INVALID_AGENT_RESPONSE")),
    ] {
        let moved = Liar::default();
        let lists = Stub { answers: vec![(Operation::ListTasks, Ok(empty.clone()))], ..Stub::default() };
        let net = SimNet::new(1, LinkConfig::default());
        let (caller, _hosts, agent) = among(&net, vec![Arc::new(moved.clone()), Arc::new(lists)]).await;
        let proof = |to: u8| {
            let moved = TaskMove::new(agent.clone(), "t", key(to).public(), 1, [0; 32]);
            URL_SAFE_NO_PAD.encode(object::sign(moved, NETWORK, "", &key(2)).expect("a good move").bytes)
        };
        *moved.proof.lock().expect("no panic") = to.map_or_else(|| "hA".to_owned(), proof);
        let listed = caller.one(&agent, Operation::ListTasks, json!({ "contextId": "c" })).await;
        let came_to = listed.map(|_| ()).map_err(|error| error.reason().to_owned());
        assert_eq!(came_to, expected.map_err(str::to_owned));
    }
}

/// Says of each task that it moved, and counts what it is asked.
#[derive(Clone, Default)]
struct Liar {
    proof: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Inbound for Liar {
    fn call(&self, _: Caller, _: Request) -> BoxFuture<'static, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let refused = OperationError::task_moved(self.proof.lock().expect("no panic").clone());
        futures::future::ready(Answer::Error(refused.to_json().to_string().into_bytes())).boxed()
    }
}

/// P-205
#[tokio::test(start_paused = true)]
async fn whoever_cannot_prove_that_a_task_moved_leads_nowhere() {
    let net = SimNet::new(1, LinkConfig::default());
    let caller = Node::start(&net, CALLER, OWNER, &[], store()).await;
    let liars = [Liar::default(), Liar::default()];
    let (mut hosts, mut agent) = (Vec::new(), None);
    for (number, liar) in (CALLER + 1..).zip(&liars) {
        let serves = Some(Arc::new(liar.clone()) as Arc<dyn Inbound>);
        let host = Node::start_serving(&net, number, OWNER, &[], store(), serves).await;
        agent = Some(host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await);
        host.connect(&caller).await;
        hosts.push(host);
    }
    let agent = agent.expect("there is a host");
    until("the hosts are found", || caller.discovery.hosts(&agent).len() == 2).await;
    let other = AgentId::new(agent.publisher(), "other").expect("a name");
    let proof = |network: &str, by: u8, agent: &AgentId, (task, to, fence): (&str, u8, u64)| {
        let moved = TaskMove::new(agent.clone(), task, key(to).public(), fence, [0; 32]);
        URL_SAFE_NO_PAD.encode(object::sign(moved, network, "", &key(by)).expect("a good move").bytes)
    };
    let asked = || liars.each_ref().map(|liar| liar.asked.swap(0, Ordering::Relaxed));
    let says = async |of: usize, said: String| {
        *liars[of].proof.lock().expect("no panic") = said;
        let get = caller.one(&agent, Operation::GetTask, json!({ "id": "t" })).await;
        get.expect_err("there is no such task").reason().to_owned()
    };
    // The first is asked, and nobody after it.
    for (why, said) in [
        ("no proof", "hA".to_owned()),
        ("signed by who gains", proof(NETWORK, 3, &agent, ("t", 3, 1))),
        ("of another network", proof("othernet", 2, &agent, ("t", 3, 1))),
        ("of another task", proof(NETWORK, 2, &agent, ("u", 3, 1))),
        ("of another agent", proof(NETWORK, 2, &other, ("t", 3, 1))),
    ] {
        assert_eq!(says(0, said).await, "INVALID_AGENT_RESPONSE", "{why}");
        assert_eq!(asked(), [1, 0], "{why}");
    }
    // To a node that does not host the agent, and to itself.
    for to in [77, 2] {
        assert_eq!(says(0, proof(NETWORK, 2, &agent, ("t", to, 1))).await, "OVERLOADED", "{to}");
        assert_eq!(asked(), [1, 0], "{to}");
    }
    // In a circle: the second is asked, and not the first again.
    *liars[0].proof.lock().expect("no panic") = proof(NETWORK, 2, &agent, ("t", 3, 1));
    assert_eq!(says(1, proof(NETWORK, 3, &agent, ("t", 2, 2))).await, "OVERLOADED");
    assert_eq!(asked(), [1, 1]);
}
