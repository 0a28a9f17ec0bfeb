//! A host redirects a call to another host: the caller signs anew for that one, asks it first from then on, and is led neither
//! in circles nor to a node that does not host the agent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_calls::{Operation, OperationError, Redirect, Reply};
use althing_communication::{Answer, Caller, Inbound, Request};
use althing_conformance::key;
use althing_conformance::mesh::{Node, ask, file, message, store};
use althing_conformance::world::until;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

const OWNER: u8 = 100;
/// The number of the caller.
const CALLER: u8 = 1;

/// What a caller asks for where a redirect led nowhere.
const NO_REDIRECT: &str = "https://althing.dev/ext/no-redirect/v1";

/// Answers every call with a redirect, and counts what it is sent.
#[derive(Clone)]
struct Redirecting {
    to: Arc<Mutex<Redirect>>,
    /// Whether it takes a call that is not to be redirected.
    obeys: bool,
    asked: Arc<AtomicUsize>,
}

impl Redirecting {
    /// Redirects to the node of that number.
    fn to(number: u8, fence: u64) -> Redirecting {
        let to = Arc::new(Mutex::new(Redirect { member: key(number).public(), fence }));
        Redirecting { to, obeys: false, asked: Arc::default() }
    }

    /// Redirects to another node from now on.
    fn turn(&self, number: u8, fence: u64) {
        *self.to.lock().expect("no panic") = Redirect { member: key(number).public(), fence };
    }

    /// How often it was asked since this was last looked at.
    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl Inbound for Redirecting {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.obeys && request.extensions.iter().any(|extension| extension == NO_REDIRECT) {
            let taken =
                json!({ "message": { "messageId": "1", "role": "ROLE_AGENT", "parts": [{ "text": "taken" }] } });
            return futures::future::ready(Answer::Response(taken.to_string().into_bytes())).boxed();
        }
        let refused = OperationError::redirected(*self.to.lock().expect("no panic"));
        futures::future::ready(Answer::Error(refused.to_json().to_string().into_bytes())).boxed()
    }
}

/// A caller and the hosts of one agent. The lower a host's number, the earlier it is asked.
struct Scene {
    net: SimNet,
    caller: Node,
    hosts: Vec<Node>,
    agent: AgentId,
}

impl Scene {
    /// Hosts with the numbers from 2; those without an answer of their own do as they are told.
    async fn start(answers: Vec<Option<&Redirecting>>) -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let caller = Node::start(&net, CALLER, OWNER, &[], store()).await;
        let (mut hosts, mut agent) = (Vec::new(), None);
        for (number, answers) in (CALLER + 1..).zip(answers) {
            let serves = answers.map(|answers| Arc::new(answers.clone()) as Arc<dyn Inbound>);
            let host = Node::start_serving(&net, number, OWNER, &[], store(), serves).await;
            agent = Some(host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await);
            host.connect(&caller).await;
            hosts.push(host);
        }
        let agent = agent.expect("there is a host");
        until("the hosts are found", || caller.discovery.hosts(&agent).len() == hosts.len()).await;
        let order: Vec<_> = hosts.iter().map(Node::id).collect();
        assert_eq!(caller.discovery.hosts(&agent), order);
        Scene { net, caller, hosts, agent }
    }

    /// The state in which a new message leaves its task, or why it was refused; by both operations that send messages.
    async fn send(&self) -> Vec<String> {
        let (caller, agent) = (&self.caller, &self.agent);
        let one = caller.one(agent, Operation::SendMessage, message("hello")).await;
        let one = one.map(|sent| state(&sent["task"]));
        let events = caller.all(agent, Operation::SendStreamingMessage, message("hello")).await;
        let streamed = events.map(|events| state(&events.last().expect("an event")["statusUpdate"]));
        [one, streamed].map(|outcome| outcome.unwrap_or_else(|refused| refused.reason().to_owned())).into()
    }

    /// What comes of a new message that is for the first host alone.
    async fn send_to_first(&self) -> Result<Value, OperationError> {
        let (calls, hello) = (&self.caller.calls, message("hello"));
        let request = ask(calls, &self.agent, Operation::SendMessage, &hello).await.expect("good parameters");
        match calls.ask(request.for_host(Some(self.hosts[0].id()))).await? {
            Reply::One(body) => Ok(serde_json::from_slice(&body).expect("JSON")),
            Reply::Events(_) => panic!("one answer"),
        }
    }

    /// How many tasks of the agent a host keeps: all nodes are of one owner, who sees all, and hosts do not know each other.
    async fn tasks(&self, host: usize) -> Value {
        let listed = self.hosts[host].one(&self.agent, Operation::ListTasks, json!({})).await.expect("a list");
        listed["totalSize"].clone()
    }
}

fn state(of: &Value) -> String {
    of["status"]["state"].as_str().unwrap_or_default().to_owned()
}

const DONE: [&str; 2] = ["TASK_STATE_COMPLETED"; 2];
const OVERLOADED: [&str; 2] = ["OVERLOADED"; 2];

/// P-195
#[tokio::test(start_paused = true)]
async fn a_caller_signs_anew_once_and_then_asks_the_host_that_can() {
    let redirecting = Redirecting::to(3, 10);
    let scene = Scene::start(vec![Some(&redirecting), None, None]).await;
    assert_eq!(scene.send().await, DONE);
    assert_eq!(redirecting.asked(), 1, "the second call goes to the other host at once");
    assert_eq!(scene.send().await, DONE);
    assert_eq!(redirecting.asked(), 0);
    // An operation on the task goes to where it is.
    let listed = scene.caller.one(&scene.agent, Operation::ListTasks, json!({})).await;
    assert_eq!(listed.map_err(|refused| refused.reason().to_owned()), Err("REDIRECTED".to_owned()), "all must answer");
    assert_eq!(redirecting.asked(), 1, "nothing but a new message is redirected");

    // The host fails: the others are asked again, once.
    redirecting.turn(4, 11);
    scene.net.crash(scene.hosts[1].id());
    until("it is gone", || scene.caller.discovery.hosts(&scene.agent).len() == 2).await;
    assert_eq!(scene.send().await, DONE);
    assert_eq!(redirecting.asked(), 1);
    assert_eq!(scene.send().await, DONE);
    assert_eq!(redirecting.asked(), 0);
}

/// P-195
#[tokio::test(start_paused = true)]
async fn redirects_in_a_circle_end_and_the_caller_may_try_again() {
    for second in [2, 3] {
        let hosts = [Redirecting::to(3, 1), Redirecting::to(second, 2)];
        let scene = Scene::start(hosts.iter().map(Some).collect()).await;
        assert_eq!(scene.send().await, OVERLOADED);
        assert_eq!(hosts.each_ref().map(Redirecting::asked), [4, 2], "in each call once, and the first one again");
    }
    let hosts = [Redirecting::to(2, 1)];
    let scene = Scene::start(hosts.iter().map(Some).collect()).await;
    assert_eq!(scene.send().await, OVERLOADED, "to itself");
    assert_eq!(hosts[0].asked(), 4);
}

/// P-195
#[tokio::test(start_paused = true)]
async fn a_call_follows_two_redirects_and_no_more() {
    let hosts = [3, 4, 5].map(|to| Redirecting::to(to, 1));
    let answers = hosts.iter().map(Some).chain([None]).collect();
    let scene = Scene::start(answers).await;
    let refused = scene.caller.one(&scene.agent, Operation::SendMessage, message("hello")).await;
    let refused = refused.expect_err("three redirects");
    assert_eq!(refused.reason(), "OVERLOADED");
    assert!(refused.message.contains("2 other redirects") && refused.message.contains("try again"), "{refused}");
    assert_eq!(hosts.each_ref().map(Redirecting::asked), [2, 1, 1]);
    assert_eq!(scene.tasks(3).await, 0, "it was not asked");
}

/// P-195
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_node_that_does_not_host_the_agent() {
    let host = Redirecting::to(9, u64::MAX);
    let scene = Scene::start(vec![Some(&host)]).await;
    let other = Redirecting::to(2, 1);
    let serves = Some(Arc::new(other.clone()) as Arc<dyn Inbound>);
    let node = Node::start_serving(&scene.net, 9, OWNER, &[], store(), serves).await;
    node.connect(&scene.caller).await;
    assert_eq!(scene.send().await, OVERLOADED);
    assert_eq!((host.asked(), other.asked()), (4, 0));
    // Nor to one that is not there at all.
    host.turn(77, u64::MAX);
    assert_eq!(scene.send().await, OVERLOADED);
}

/// P-195
#[tokio::test(start_paused = true)]
async fn whoever_redirects_to_where_the_caller_gets_nothing_takes_the_call_itself() {
    for (to, rest) in [(77, None), (3, Some(Redirecting::to(2, 1)))] {
        let first = Redirecting { obeys: true, ..Redirecting::to(to, 1) };
        let scene = Scene::start(std::iter::once(Some(&first)).chain(rest.iter().map(Some)).collect()).await;
        let taken =
            scene.caller.one(&scene.agent, Operation::SendMessage, message("hello")).await.expect("it is taken");
        assert_eq!((&taken["message"]["parts"][0]["text"], first.asked()), (&json!("taken"), 2));
    }
}

/// P-77, P-195
#[tokio::test(start_paused = true)]
async fn a_call_that_is_for_one_host_goes_to_no_other() {
    let first = Redirecting { obeys: true, ..Redirecting::to(3, 1) };
    let scene = Scene::start(vec![Some(&first), None]).await;
    let taken = scene.send_to_first().await.expect("it is taken");
    assert_eq!((&taken["message"]["parts"][0]["text"], first.asked()), (&json!("taken"), 2));
    scene.net.crash(scene.hosts[0].id());
    until("it is gone", || scene.caller.discovery.hosts(&scene.agent).len() == 1).await;
    let lost = scene.send_to_first().await.expect_err("it is not there");
    assert_eq!(lost.reason(), "AGENT_UNREACHABLE");
    assert_eq!(scene.tasks(1).await, 0, "the other one was not asked");

    let first = Redirecting::to(3, 1);
    let scene = Scene::start(vec![Some(&first), None]).await;
    let refused = scene.send_to_first().await.expect_err("it redirects it all the same");
    assert_eq!((refused.reason(), first.asked()), ("OVERLOADED", 2));
    assert!(refused.message.contains("for that node alone"), "{refused}");
    assert_eq!(scene.tasks(1).await, 0);
    assert_eq!(scene.send().await, DONE, "other calls are redirected");
}
