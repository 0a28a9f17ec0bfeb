//! When an agent's call to another agent fails, the task that it began there is cancelled; but not where the calling turn goes on
//! after its node was down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_calls::AgentCaller;
use althing_communication::{Answer, Caller, Inbound, Request};
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_execution::TurnRights;
use althing_execution::agents::{AgentCalls as _, Question};
use althing_execution::journal::{Intent, Journal, JournalError, NextStep, Step, StepOutcome};
use althing_execution::lease::{Lease, Leases};
use althing_protocol::{AnswerAttributes, Attributes};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Batch;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

const OWNER: u8 = 100;
/// More than three such pieces are more than an answer may be.
const PIECE_BYTES: usize = 300 << 10;

/// Answers a message with these events, and then with nothing or with the end; notes what it is asked.
struct Stub {
    events: Vec<Result<Vec<u8>, Vec<u8>>>,
    ends: bool,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Inbound for Stub {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let params = serde_json::from_slice(&request.body).expect("JSON");
        self.asked.lock().expect("nobody panics with it").push((request.operation.clone(), params));
        if request.operation != "SendStreamingMessage" {
            let cancelled = json!({ "id": "theirs", "contextId": "c", "status": { "state": "TASK_STATE_CANCELED" } });
            return futures::future::ready(Answer::Response(cancelled.to_string().into_bytes())).boxed();
        }
        let told = futures::stream::iter(self.events.clone());
        let told = if self.ends { told.boxed() } else { told.chain(futures::stream::pending()).boxed() };
        futures::future::ready(Answer::Events(told)).boxed()
    }
}

fn event(event: &Value) -> Result<Vec<u8>, Vec<u8>> {
    Ok(event.to_string().into_bytes())
}

/// What comes of a question that is answered so, and what the other agent's node was asked.
async fn asked(events: Vec<Result<Vec<u8>, Vec<u8>>>, ends: bool) -> (String, Vec<(String, Value)>) {
    asked_under(None, events, ends, async {}).await
}

/// The same under the lease of a group's task; `meanwhile` is done as soon as the other node has answered.
async fn asked_under(
    lease: Option<Lease>,
    events: Vec<Result<Vec<u8>, Vec<u8>>>,
    ends: bool,
    meanwhile: impl Future<Output = ()>,
) -> (String, Vec<(String, Value)>) {
    let scene = Scene::start(events, ends).await;
    let meanwhile = async {
        scene.is_asked().await;
        meanwhile.await;
        std::future::pending().await
    };
    let answered = tokio::select! {
        answered = scene.asking.ask(scene.question(TurnRights { lease, journal: None })) => answered,
        () = meanwhile => unreachable!("it waits"),
    };
    (answered.expect_err("no answer"), scene.asked())
}

/// An agent that asks one on another node, which answers with events.
struct Scene {
    asking: AgentCaller,
    to: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    _nodes: [Node; 2],
}

impl Scene {
    async fn start(mut events: Vec<Result<Vec<u8>, Vec<u8>>>, ends: bool) -> Scene {
        let begun = json!({ "id": "theirs", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
        events.insert(0, event(&json!({ "task": begun })));
        let asked = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let stub = Arc::new(Stub { events, ends, asked: asked.clone() });
        let net = SimNet::new(1, LinkConfig::default());
        let asks = Node::start(&net, 1, OWNER, &[], store()).await;
        asks.host(&file("asks", "asks another", "asking.do", "do", "ask")).await;
        let answers = Node::start_serving(&net, 2, OWNER, &[], store(), Some(stub)).await;
        let to = answers.host(&file("answers", "is asked", "answering.do", "do", "answer")).await;
        asks.connect(&answers).await;
        until("the agent is found", || asks.discovery.hosts(&to).len() == 1).await;
        let asking = AgentCaller::default();
        asking.connect(&asks.calls);
        Scene { asking, to: to.to_string(), asked, _nodes: [asks, answers] }
    }

    fn question(&self, rights: TurnRights) -> Question {
        Question {
            from: "asks".to_owned(),
            to: self.to.clone(),
            message: "well?".to_owned(),
            task: None,
            delay_tolerant: false,
            principals: vec!["local".to_owned()],
            as_itself: false,
            rights,
            key: None,
            callee: None,
            binding_hash: Arc::default(),
            attributes: Attributes::default(),
            answer: AnswerAttributes::default(),
        }
    }

    async fn is_asked(&self) {
        until("the other node is asked", || !self.asked().is_empty()).await;
    }

    /// What the other node was asked.
    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().expect("nobody panics with it").clone()
    }

    fn operations(&self) -> Vec<String> {
        self.asked().into_iter().map(|(operation, _)| operation).collect()
    }
}

/// The journal of a turn that is paused at some time.
#[derive(Default)]
struct PausableJournal(AtomicBool);

impl Journal for PausableJournal {
    fn step<'a>(&'a self, _: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        futures::future::ready(Err(JournalError::Write)).boxed()
    }

    fn done<'a>(&'a self, _: Intent, _: &'a StepOutcome, _: Batch) -> BoxFuture<'a, Result<(), JournalError>> {
        futures::future::ready(Err(JournalError::Write)).boxed()
    }

    fn is_paused(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_keeps_a_question_from_an_answer_its_task_is_cancelled() {
    let piece = json!({ "artifactUpdate": {
        "taskId": "theirs", "contextId": "c", "append": true,
        "artifact": { "artifactId": "a", "parts": [{ "text": "x".repeat(PIECE_BYTES) }] },
    } });
    let refusal = json!({ "code": -32_603, "message": "out of order" }).to_string().into_bytes();
    let cases = [
        (vec![event(&piece); 4], false, "has more than"),
        (vec![Err(refusal)], true, "out of order"),
        (vec![event(&json!("no event"))], false, "something other than A2A"),
        (Vec::new(), true, "ended without an answer"),
    ];
    for (events, ends, expected) in cases {
        let (why, asked) = asked(events, ends).await;
        assert!(why.contains(expected), "{expected}: {why}");
        let operations: Vec<&str> = asked.iter().map(|(operation, _)| &**operation).collect();
        assert_eq!(operations, ["SendStreamingMessage", "CancelTask"], "{expected}");
        assert_eq!(asked[1].1["id"], "theirs", "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_at_a_groups_task_asks_nobody_once_it_is_superseded() {
    let leases = Leases::default();
    // It works while the other agent does: then its task there is cancelled.
    let working = leases.begin("group", "task", 1);
    let (why, operations) =
        asked_under(Some(working), Vec::new(), false, async { leases.supersede("group", "task", 2) }).await;
    assert!(why.starts_with("SUPERSEDED: "), "{why}");
    let operations: Vec<&str> = operations.iter().map(|(operation, _)| &**operation).collect();
    assert_eq!(operations, ["SendStreamingMessage", "CancelTask"]);
    // It was superseded before: nothing is sent.
    let late = leases.begin("group", "task", 1);
    let (why, operations) = asked_under(Some(late), Vec::new(), true, async {}).await;
    assert!(why.starts_with("SUPERSEDED: "), "{why}");
    assert_eq!(operations, []);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_a_turn_that_is_paused_goes_on_and_what_nobody_wants_any_more_is_cancelled() {
    for is_paused in [false, true] {
        let scene = Scene::start(Vec::new(), false).await;
        let journal = Arc::new(PausableJournal::default());
        let rights = TurnRights { lease: None, journal: Some(journal.clone()) };
        let mut asking = scene.asking.ask(scene.question(rights));
        tokio::select! {
            answered = &mut asking => unreachable!("it waits: {answered:?}"),
            () = scene.is_asked() => {}
        }
        journal.0.store(is_paused, Ordering::Relaxed);
        drop(asking);
        if is_paused {
            // Nobody cancels it later on.
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(scene.operations(), ["SendStreamingMessage"]);
        } else {
            until("its task is cancelled", || scene.operations() == ["SendStreamingMessage", "CancelTask"]).await;
        }
    }
}
