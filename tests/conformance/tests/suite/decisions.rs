//! One decision each way: everything that comes to a node, or leaves it, passes who decides there, and what needs somebody's
//! consent rests as a task until it is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_calls::reserve::{self, ReservationError};
use althing_calls::spans::TRACE;
use althing_calls::{
    AgentCaller, Consent, Decide, Decision, HostedAgent, IncomingRequest, Judgement, Operation, OperationError,
    OutgoingRequest, Purpose, Refusal, Reply, Service, TrustRelation,
};
use althing_communication::refusal::said;
use althing_communication::{CallError, CallerRule, Priority, Request};
use althing_conformance::groups::echo_task;
use althing_conformance::mesh::{Node, Setup, file, message, promises, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::State;
use althing_execution::TurnRights;
use althing_execution::agents::{AgentCalls as _, Question};
use althing_protocol::contract::DataLabel;
use althing_protocol::group::{Command, Needs, Policy as GroupPolicy, Submit, Target};
use althing_protocol::{AgentId, AnswerAttributes, Attributes, CallerId, Label, PublisherId};
use althing_simnet::{LinkConfig, SimNet};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

use crate::mesh::{OWNER, STRANGER, actor, calm, found};

/// What must be consented to.
const CONSENT: &str = "1 euro from your account";

/// What a node decides beside its contracts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Policy {
    /// Nothing.
    #[default]
    Contracts,
    /// Messages to agents here need consent.
    MessagesIn,
    /// All operations of agents here do.
    CallsIn,
    /// Messages to agents here use somebody's yes.
    YesesIn,
    /// Messages to others' agents need consent.
    MessagesOut,
    /// Messages that go out use somebody's yes.
    YesesOut,
    /// Calls of agents need consent, before anything of them is known but whom they mean.
    TargetsOut,
    /// Tasks of groups are denied, after a while, as where the denial goes on record first.
    TasksIn,
    /// Nobody is served.
    NobodyIn,
}

/// The policy of a node, and which services it was asked for.
#[derive(Default)]
struct Orders {
    policy: Mutex<Policy>,
    services: Mutex<BTreeSet<&'static str>>,
    /// How often somebody's yes still counts.
    yeses: AtomicUsize,
}

impl Orders {
    fn set(&self, policy: Policy) {
        *self.policy.lock().expect("no panic") = policy;
    }

    fn policy(&self) -> Policy {
        *self.policy.lock().expect("no panic")
    }

    fn note(&self, service: &Service<'_>) {
        let name = match service {
            Service::Call { .. } => "calls",
            Service::GroupTask { .. } => "tasks of groups",
            Service::Reservations => "reservations",
            Service::Traces => "traces",
            Service::Discovery(_) => "discovery",
            Service::Exemption => "exemption",
        };
        self.services.lock().expect("no panic").insert(name);
    }
}

/// Decides by a policy what contracts allow.
struct Careful {
    contracts: Arc<dyn Decide>,
    orders: Arc<Orders>,
}

/// A decision that takes a while.
fn asks() -> Judgement {
    let asking = async {
        tokio::task::yield_now().await;
        Decision::Ask(Consent { to: CONSENT.to_owned() })
    };
    Judgement::Later(asking.boxed())
}

/// A decision for which a yes is used, if there is one.
fn uses_yes(orders: &Arc<Orders>) -> Judgement {
    let orders = orders.clone();
    let using = async move {
        tokio::task::yield_now().await;
        let left = |left: usize| left.checked_sub(1);
        match orders.yeses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Decision::Allow,
            Err(_) => Decision::Ask(Consent { to: CONSENT.to_owned() }),
        }
    };
    Judgement::Later(using.boxed())
}

impl Decide for Careful {
    fn decide(&self, outgoing: &OutgoingRequest<'_>) -> Judgement {
        match outgoing {
            OutgoingRequest::Message { .. } if self.orders.policy() == Policy::YesesOut => uses_yes(&self.orders),
            OutgoingRequest::Message { .. } if self.orders.policy() == Policy::MessagesOut => asks(),
            OutgoingRequest::Target { purpose: Purpose::Call, .. } if self.orders.policy() == Policy::TargetsOut => {
                asks()
            }
            _ => self.contracts.decide(outgoing),
        }
    }

    fn decide_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        self.orders.note(&incoming.service);
        let by_contract = self.contracts.decide_incoming(incoming);
        if !matches!(by_contract, Judgement::Now(Decision::Allow)) {
            return by_contract;
        }
        match (self.orders.policy(), incoming.service) {
            (Policy::NobodyIn, _) => Judgement::Now(Decision::Deny(OperationError::caller_not_allowed("closed today"))),
            (Policy::TasksIn, Service::GroupTask { .. }) => {
                let label = incoming.label.map_or("unlabelled data", |label| label.level.name());
                let reason = format!("closed to groups with {label}");
                let denying = async move {
                    tokio::task::yield_now().await;
                    Decision::Deny(OperationError::caller_not_allowed(reason))
                };
                Judgement::Later(denying.boxed())
            }
            (Policy::CallsIn, Service::Call { .. }) => asks(),
            (Policy::MessagesIn, Service::Call { operation, .. }) if operation.is_message() => asks(),
            (Policy::YesesIn, Service::Call { operation, .. }) if operation.is_message() => uses_yes(&self.orders),
            _ => by_contract,
        }
    }

    fn foretell_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        self.contracts.foretell_incoming(incoming)
    }

    fn relation(&self, publisher: PublisherId) -> TrustRelation {
        self.contracts.relation(publisher)
    }

    fn near(&self) -> Vec<PublisherId> {
        self.contracts.near()
    }
}

/// A node of that number that decides by a policy.
async fn careful(net: &SimNet, number: u32) -> (Node, Arc<Orders>) {
    let orders = Arc::<Orders>::default();
    let given = orders.clone();
    let mut setup = Setup::new(net, number, u32::from(OWNER));
    setup.promises = Some(promises());
    setup.decide = Some(Box::new(move |contracts: Arc<dyn Decide>| -> Arc<dyn Decide> {
        Arc::new(Careful { contracts, orders: given })
    }));
    (Node::assemble(net, setup, store()).await, orders)
}

/// A node, and a careful one of the same owner that hosts `actor`, which the first has found.
async fn pair(net: &SimNet) -> (Node, Node, Arc<Orders>, AgentId) {
    let a = Node::start(net, 1, OWNER, &[], store()).await;
    let (b, orders) = careful(net, 2).await;
    let id = b.host(&actor()).await;
    a.connect(&b).await;
    found(&a, &id).await;
    (a, b, orders, id)
}

fn state(about: &Value) -> &str {
    about["status"]["state"].as_str().expect("a state")
}

/// The state that an event tells, or what it is.
fn told(event: &[u8]) -> String {
    let event: Value = serde_json::from_slice(event).expect("JSON");
    let status = event.get("task").or(event.get("statusUpdate")).map(|about| state(about).to_owned());
    status.unwrap_or_else(|| if event.get("artifactUpdate").is_some() { "artifact" } else { "?" }.to_owned())
}

/// Checks that a task waits for consent, says to what, and that its agent did nothing.
fn assert_rests(task: &Value) {
    assert_eq!(state(task), "TASK_STATE_AUTH_REQUIRED", "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], CONSENT);
    assert_eq!(task["artifacts"], Value::Null, "{task}");
}

/// The parameters of a message that continues a task.
fn continuing(task: &Value, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["taskId"] = task.clone();
    params
}

#[tokio::test(start_paused = true)]
async fn a_message_that_needs_consent_rests_in_a_task() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    orders.set(Policy::MessagesIn);
    // From another node, and from the node itself.
    for from in [&a, &b] {
        let params = message("hello");
        let sent = from.one(&id, Operation::SendMessage, params.clone()).await.expect("a task")["task"].clone();
        assert_rests(&sent);
        let again = from.one(&id, Operation::SendMessage, params).await.expect("a task");
        assert_eq!(again["task"]["id"], sent["id"], "it is one message");
        assert_rests(&again["task"]);

        let mut at_once = message("hello");
        at_once["configuration"] = json!({ "returnImmediately": true });
        assert_rests(&from.one(&id, Operation::SendMessage, at_once).await.expect("a task")["task"]);

        let events = from.all(&id, Operation::SendStreamingMessage, message("hello")).await.expect("events");
        let [event] = &events[..] else { panic!("a task and nothing more: {events:?}") };
        assert_rests(&event["task"]);

        // What is not asked about goes on.
        let shown = from.one(&id, Operation::GetTask, json!({ "id": sent["id"] })).await.expect("the task");
        assert_rests(&shown);
        let cancelled = from.one(&id, Operation::CancelTask, json!({ "id": sent["id"] })).await.expect("the task");
        assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    }
    assert_eq!(b.hosting.live_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_uses_no_yes() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    let give = |yeses: usize| orders.yeses.store(yeses, Ordering::Relaxed);
    let left = || orders.yeses.load(Ordering::Relaxed);
    orders.set(Policy::YesesIn);
    // From another node, and from the node itself.
    for from in [&a, &b] {
        give(0);
        let first = message("hello");
        let task = from.one(&id, Operation::SendMessage, first.clone()).await.expect("a task")["task"].clone();
        assert_rests(&task);
        give(1);
        let again = from.one(&id, Operation::SendMessage, first.clone()).await.expect("a task");
        assert_rests(&again["task"]);
        let events = from.all(&id, Operation::SendStreamingMessage, first).await.expect("events");
        let [event] = &events[..] else { panic!("the task and nothing more: {events:?}") };
        assert_rests(&event["task"]);
        assert_eq!(left(), 1, "no turn began");

        let second = continuing(&task["id"], "now");
        for unused in [0, 1] {
            let done = from.one(&id, Operation::SendMessage, second.clone()).await.expect("the task");
            assert_eq!((state(&done["task"]), left()), ("TASK_STATE_COMPLETED", unused));
            give(1);
        }
    }
    orders.set(Policy::YesesOut);
    let sent = message("hello");
    for unused in [0, 1] {
        let done = b.one(&id, Operation::SendMessage, sent.clone()).await.expect("the task");
        assert_eq!((state(&done["task"]), left()), ("TASK_STATE_COMPLETED", unused));
        give(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_rests_goes_on_with_a_message_that_is_allowed() {
    let net = calm();
    let (a, _b, orders, id) = pair(&net).await;
    orders.set(Policy::MessagesIn);
    let task = a.send(&id, "hello").await["id"].clone();
    let by_id = json!({ "id": task });
    let Reply::Events(subscribed) = a.ask(&id, Operation::SubscribeToTask, by_id).await.expect("events") else {
        panic!("it streams");
    };
    let heard = tokio::spawn(subscribed.map(|event| told(&event.expect("an event"))).collect::<Vec<_>>());
    let again = a.one(&id, Operation::SendMessage, continuing(&task, "please")).await.expect("the task");
    assert_rests(&again["task"]);
    assert_eq!(again["task"]["id"], task);
    orders.set(Policy::Contracts);
    let done = a.one(&id, Operation::SendMessage, continuing(&task, "now")).await.expect("the task");
    assert_eq!(state(&done["task"]), "TASK_STATE_COMPLETED");
    assert_eq!(done["task"]["artifacts"][0]["parts"][0]["text"], "now");
    let (rests, works) = ("TASK_STATE_AUTH_REQUIRED", "TASK_STATE_WORKING");
    assert_eq!(heard.await.expect("no panic"), [rests, rests, works, "artifact", "TASK_STATE_COMPLETED"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_needs_consent_interrupts_no_turn() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    b.hosting.add(HostedAgent {
        agent: b.stable(&id),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: true,
        is_told_again: false,
        priority: Priority::default(),
    });
    let stuck = a.begin(&id, "stuck").await;
    until("it works", || b.hosting.live_tasks() == 1).await;
    orders.set(Policy::MessagesIn);
    let refused = a.one(&id, Operation::SendMessage, continuing(&stuck, "stop")).await.expect_err("a refusal");
    assert_eq!(refused.reason(), "UNSUPPORTED_OPERATION");
    assert_eq!(b.hosting.live_tasks(), 1);
    let shown = a.one(&id, Operation::GetTask, json!({ "id": stuck })).await.expect("the task");
    assert_eq!(state(&shown), "TASK_STATE_WORKING");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_consent_is_a_refusal() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    // Only messages begin tasks.
    orders.set(Policy::CallsIn);
    for operation in [Operation::GetTask, Operation::ListTasks, Operation::CancelTask] {
        let refused = a.one(&id, operation, json!({ "id": "some" })).await.expect_err("a refusal");
        assert_eq!(refused.reason(), "CALLER_NOT_ALLOWED", "{operation:?}");
        assert!(refused.message.ends_with(CONSENT), "{refused}");
    }
    let refused = a.all(&id, Operation::SubscribeToTask, json!({ "id": "some" })).await.expect_err("a refusal");
    assert_eq!(refused.reason(), "CALLER_NOT_ALLOWED");
    assert_rests(&a.send(&id, "hello").await);

    // Whom contracts deny, nobody is asked about, and no task is begun for.
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    stranger.connect(&b).await;
    found(&stranger, &id).await;
    let refused = stranger.one(&id, Operation::SendMessage, message("hello")).await.expect_err("a refusal");
    assert_eq!(refused.reason(), "CALLER_NOT_ALLOWED");
    assert!(!refused.message.contains(CONSENT), "{refused}");

    // Nor has a call that goes out a task yet.
    let other = a.host(&file("player", "does as it is told", "acting.do", "do", "play")).await;
    found(&b, &other).await;
    orders.set(Policy::MessagesOut);
    let before = b.one(&other, Operation::ListTasks, json!({})).await.expect("a list")["totalSize"].clone();
    let refused = b.one(&other, Operation::SendMessage, message("hello")).await.expect_err("a refusal");
    assert_eq!(refused.reason(), "CALLER_NOT_ALLOWED");
    assert!(refused.message.ends_with(CONSENT), "{refused}");
    let after = b.one(&other, Operation::ListTasks, json!({})).await.expect("a list")["totalSize"].clone();
    assert_eq!(after, before, "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn where_a_call_goes_out_a_task_that_waits_rests_until_somebody_consents() {
    let net = calm();
    let (a, b, orders, _) = pair(&net).await;
    let other = a.host(&file("player", "does as it is told", "acting.do", "do", "play")).await;
    found(&b, &other).await;
    let asking = b.send(&other, "ask").await;
    assert_eq!(state(&asking), "TASK_STATE_INPUT_REQUIRED");
    let working = b.begin(&other, "stuck").await;
    orders.set(Policy::MessagesOut);
    let said = || continuing(&asking["id"], "this one");
    let sent = b.one(&other, Operation::SendMessage, said()).await.expect("the task");
    assert_rests(&sent["task"]);
    assert_eq!(sent["task"]["id"], asking["id"]);
    let events = b.all(&other, Operation::SendStreamingMessage, said()).await.expect("events");
    let [event] = &events[..] else { panic!("the task and nothing more: {events:?}") };
    assert_rests(&event["task"]);
    // What does not wait cannot rest, and neither can what is not known here.
    for task in [&working, &json!("none")] {
        let refused = b.one(&other, Operation::SendMessage, continuing(task, "this one")).await;
        let refused = refused.expect_err("a refusal");
        assert_eq!(refused.refusal, Refusal::ConsentRequired { to: CONSENT.to_owned() }, "{task}");
    }
    let shown = a.one(&other, Operation::GetTask, json!({ "id": asking["id"] })).await.expect("the task");
    assert_eq!(state(&shown), "TASK_STATE_INPUT_REQUIRED", "nothing was sent");

    orders.set(Policy::Contracts);
    let done = b.one(&other, Operation::SendMessage, said()).await.expect("the task");
    assert_eq!(state(&done["task"]), "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_told_by_type_that_somebody_must_consent_to_its_call() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    let other = a.host(&file("player", "does as it is told", "acting.do", "do", "play")).await;
    found(&b, &other).await;
    let asking = AgentCaller::default();
    asking.connect(&b.calls);
    for policy in [Policy::MessagesOut, Policy::TargetsOut] {
        orders.set(policy);
        let question = Question {
            from: id.name().to_owned(),
            to: other.to_string(),
            message: "hello".to_owned(),
            task: None,
            delay_tolerant: false,
            principals: vec!["local".to_owned()],
            as_itself: false,
            rights: TurnRights::default(),
            key: None,
            callee: None,
            binding_hash: Arc::default(),
            attributes: Attributes::default(),
            answer: AnswerAttributes::default(),
        };
        let reply = asking.ask(question).await.expect("a reply");
        let told = (reply.agent.as_str(), reply.state.as_str(), reply.text.as_str());
        assert_eq!(told, (other.to_string().as_str(), "TASK_STATE_AUTH_REQUIRED", CONSENT), "{policy:?}");
    }
    orders.set(Policy::Contracts);
    let tasks = b.one(&other, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(tasks["totalSize"], 0, "nothing was sent");
}

/// How a node answers another one that asks for a trace.
async fn asks_for_trace(from: &Node, of: &Node) -> Result<(), String> {
    let body = json!({ "trace": "7".repeat(32) }).to_string().into_bytes();
    match from.communication.call(of.id(), TRACE, Request::new("spans", body)).await {
        Ok(_) => Ok(()),
        Err(CallError::Refused { body, .. }) => Err(said(&body).0),
        Err(error) => panic!("{error}"),
    }
}

/// Why a node does not release what another one does not hold there.
async fn releases(from: &Node, of: &Node) -> String {
    match reserve::cancel(&from.communication, of.id(), "none").await {
        Err(ReservationError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_comes_in_passes_who_decides() {
    let net = calm();
    let (a, b, orders, id) = pair(&net).await;
    let owner = CallerId::Publisher(b.owner.id());
    assert_eq!(state(&a.send(&id, "hello").await), "TASK_STATE_COMPLETED");
    assert_eq!(asks_for_trace(&a, &b).await, Ok(()));
    assert_eq!(releases(&a, &b).await, "NO_RESERVATION");
    assert_eq!(b.calls.check_task(&id, owner, (true, None)).await, Ok(()));
    let asked = orders.services.lock().expect("no panic").clone();
    for service in ["calls", "tasks of groups", "reservations", "traces", "discovery", "exemption"] {
        assert!(asked.contains(service), "{service} of {asked:?}");
    }

    orders.set(Policy::NobodyIn);
    let refused = a.one(&id, Operation::SendMessage, message("hello")).await.expect_err("a refusal");
    assert_eq!((refused.reason(), refused.message.as_str()), ("CALLER_NOT_ALLOWED", "closed today"));
    assert_eq!(asks_for_trace(&a, &b).await, Err("CALLER_NOT_ALLOWED".to_owned()));
    assert_eq!(releases(&a, &b).await, "NOT_ALLOWED");
    let refused = b.calls.check_task(&id, owner, (true, None)).await.expect_err("a refusal");
    assert_eq!((refused.reason(), refused.message.as_str()), ("CALLER_NOT_ALLOWED", "closed today"));
    assert!(b.calls.offers_tasks(&id, owner), "the group is told by contracts, and whoever asks hears why not");
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_a_group_a_task_hears_why_it_is_denied_as_a_caller_does() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (a, b, orders, _) = pair(&net).await;
    let id = a.groups.create("team", GroupPolicy::default()).await.expect("a group");
    let ticket = a.groups.invite(id, b.id(), 60_000).expect("an invitation");
    b.groups.join(&ticket).await.expect("it joins");
    orders.set(Policy::TasksIn);
    let (needs, label) = (Needs::of(Target::Agent("actor".to_owned())), Some(Label::of_trusted(DataLabel::Restricted)));
    let task = Submit { needs, label, ..echo_task(1, "hello") };
    let task_id = task.task;
    a.groups.command(id, Command::Submit(Box::new(task))).await.expect("it is submitted");
    let end = || {
        let look = |group: &Group| {
            let task = group.work().tasks().get(&task_id).filter(|task| task.state.is_finished())?;
            Some((task.state, task.refused.of(&b.id()).map(str::to_owned)))
        };
        a.groups.look(id, look).ok().flatten()
    };
    until("it ended", || end().is_some()).await;
    let (state, refused) = end().expect("it ended");
    let refused = refused.expect("the member refuses it, and says why");
    assert_eq!(state, State::Failed);
    assert!(refused.contains("closed to groups with restricted"), "by what its label says: {refused}");
    assert!(refused.contains("CALLER_NOT_ALLOWED"), "{refused}");
}
