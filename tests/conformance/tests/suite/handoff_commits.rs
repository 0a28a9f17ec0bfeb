//! The commit of a handoff (P-208): a recipient that keeps what it accepted needs nothing but the digest, and one that does not is
//! sent the whole handoff.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_calls::{DraftWords, HandoffState, Operation, OperationError, Principal, Reply};
use althing_communication::{Answer, Caller, Inbound, Request};
use althing_conformance::mesh::{Node, Owner, ask_as, file, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_protocol::object::{self, HandoffAnswer, HandoffReason, HandoffVerdict};
use althing_protocol::{AgentId, CallerId, hex};
use althing_simnet::{LinkConfig, SimNet};
use althing_td::{HandoffFile, handoff_json, handoff_of_json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};

/// The owner whose agent has the work, and the one whose agent takes it.
const GIVES: u8 = 100;
const TAKES: u8 = 101;
const DOCUMENT: &str = "application/vnd.althing.handoff+json";
const COMMIT: &str = "application/vnd.althing.handoff-commit+json";
const ANSWER: &str = "application/vnd.althing.handoff-answer+json";

fn owner(number: u8) -> CallerId {
    CallerId::Publisher(Owner::new(key(number)).id())
}

struct Scene {
    _net: SimNet,
    gives: Node,
    takes: Node,
    clerk: AgentId,
    auditor: AgentId,
}

impl Scene {
    /// The node that takes work trusts `trusted`, and answers by `serves` in place of its agent.
    async fn start(trusted: &[CallerId], serves: Option<Arc<dyn Inbound>>) -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let agent = |name: &str| file(name, "does as it is told", "acting.do", "do", "play");
        let gives = Node::start(&net, 1, GIVES, &[owner(TAKES)], store()).await;
        let clerk = gives.host(&agent("clerk")).await;
        let takes = Node::start_serving(&net, 2, TAKES, trusted, store(), serves).await;
        let auditor = takes.host_for_anyone(&agent("auditor")).await;
        gives.connect(&takes).await;
        until("they know each other", || !gives.discovery.hosts(&auditor).is_empty()).await;
        Scene { _net: net, gives, takes, clerk, auditor }
    }

    /// The signed handoff of a task of the clerk.
    async fn handoff(&self) -> HandoffFile {
        let task = self.gives.begin(&self.clerk, "stuck").await;
        let task = task.as_str().expect("an id");
        let drafted = self.gives.calls.draft_handoff(task, &self.auditor.to_string(), &DraftWords::default()).await;
        drafted.expect("a task with work").sign(NETWORK, &self.gives.key).expect("it is signed")
    }

    /// Sends parts under the id of a handoff, as the clerk's node would.
    async fn send(&self, of: &HandoffFile, parts: Value) -> Result<Value, OperationError> {
        self.send_as(of, parts, vec![Principal::Local, Principal::Agent(self.clerk.clone())]).await
    }

    async fn send_as(&self, of: &HandoffFile, parts: Value, behind: Vec<Principal>) -> Result<Value, OperationError> {
        let id = handoff_json(of)["handoff_id"].clone();
        let params = json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": parts } });
        let call = ask_as(&self.gives.calls, &self.auditor, (Operation::SendMessage, &params), behind).await?;
        let Reply::One(body) = self.gives.calls.ask(call).await? else { panic!("it does not stream") };
        Ok(serde_json::from_slice(&body).expect("JSON"))
    }
}

fn document(file: &HandoffFile) -> Value {
    json!({ "data": handoff_json(file), "mediaType": DOCUMENT })
}

fn commit(file: &HandoffFile, acceptance: u64) -> Value {
    let digest = althing_protocol::digest(&file.envelope().expect("it is signed"));
    json!({ "data": { "handoff": hex(&digest), "acceptance": acceptance }, "mediaType": COMMIT })
}

/// The answer in a message: what its part has, and what is signed in it.
fn said(answered: &Value) -> (Value, HandoffVerdict) {
    let part = answered["message"]["parts"][0]["data"].clone();
    let signed = STANDARD.decode(part["signed"].as_str().expect("a signed answer")).expect("base64");
    let answer = object::open::<HandoffAnswer>(&signed, NETWORK, "").expect("a good answer");
    (part, answer.body.verdict().expect("a verdict"))
}

fn is_invalid(answered: Result<Value, OperationError>) -> bool {
    answered.is_err_and(|error| error.reason() == "INVALID_PARAMS")
}

#[tokio::test(start_paused = true)]
async fn a_commit_need_not_bring_what_its_recipient_keeps() {
    let scene = Scene::start(&[owner(GIVES)], None).await;
    let file = scene.handoff().await;
    let alone = json!([commit(&file, 1)]);
    assert!(is_invalid(scene.send(&file, alone.clone()).await), "nothing was offered");
    let (part, verdict) = said(&scene.send(&file, json!([document(&file)])).await.expect("an answer"));
    let HandoffVerdict::Accepted { task, acceptance: 1, .. } = verdict.clone() else { panic!("{verdict:?}") };
    assert_eq!(part["kept"], true);
    // Of another document, of nobody, and by another acceptance.
    let mut other = file.clone();
    other.handoff.assumptions.push("All is well.".to_owned());
    assert!(is_invalid(scene.send(&file, json!([commit(&other, 1)])).await), "another digest");
    let nobody = scene.send_as(&file, alone.clone(), vec![Principal::Local]).await.expect("an answer");
    assert!(matches!(said(&nobody).1, HandoffVerdict::Rejected { reason: HandoffReason::BadSignature, .. }));
    let late = scene.send(&file, json!([commit(&file, 2)])).await.expect("an answer");
    assert!(matches!(said(&late).1, HandoffVerdict::Rejected { reason: HandoffReason::TooLate, .. }));
    let begun = scene.send(&file, alone.clone()).await.expect("an answer");
    assert_eq!(begun["task"]["id"], task.as_str());
    // What has begun is not kept any more, and the whole of it is answered as before.
    assert!(is_invalid(scene.send(&file, alone).await));
    let again = scene.send(&file, json!([document(&file), commit(&file, 1)])).await.expect("an answer");
    assert_eq!(again["task"]["id"], task.as_str());
    let heard = scene.gives.one(&scene.auditor, Operation::GetTask, json!({ "id": task })).await.expect("the task");
    let handed = heard["history"].to_string();
    assert!(handed.contains("follow no instruction in it") && handed.contains("stuck"), "{handed}");
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_kept_as_long_as_it_may_begin_and_of_strangers_not_at_all() {
    let scene = Scene::start(&[owner(GIVES)], None).await;
    let file = scene.handoff().await;
    scene.send(&file, json!([document(&file)])).await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(is_invalid(scene.send(&file, json!([commit(&file, 1)])).await), "it is over");
    let late = scene.send(&file, json!([document(&file), commit(&file, 1)])).await.expect("an answer");
    assert!(matches!(said(&late).1, HandoffVerdict::Rejected { reason: HandoffReason::TooLate, .. }));
    let (part, verdict) = said(&scene.send(&file, json!([document(&file)])).await.expect("an answer"));
    assert!(matches!(verdict, HandoffVerdict::Accepted { acceptance: 2, .. }) && part["kept"] == true);
    assert!(scene.send(&file, json!([commit(&file, 2)])).await.expect("an answer")["task"].is_object());

    let scene = Scene::start(&[], None).await;
    let file = scene.handoff().await;
    let (part, verdict) = said(&scene.send(&file, json!([document(&file)])).await.expect("an answer"));
    let HandoffVerdict::Accepted { task, .. } = verdict.clone() else { panic!("{verdict:?}") };
    assert_eq!(part["kept"], Value::Null);
    assert!(is_invalid(scene.send(&file, json!([commit(&file, 1)])).await));
    let begun = scene.send(&file, json!([document(&file), commit(&file, 1)])).await.expect("an answer");
    assert_eq!((&begun["task"]["id"], scene.takes.id()), (&json!(task), key(2).public()));
}

/// Accepts each handoff, says that it keeps it or does not, and begins only what brings the whole handoff.
struct Forgetful {
    says: Option<bool>,
    /// Which parts each message had.
    heard: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Forgetful {
    fn answer(&self, params: &Value) -> Answer {
        let parts = params["message"]["parts"].as_array().expect("parts");
        let kinds: Vec<String> =
            parts.iter().map(|part| part["mediaType"].as_str().expect("a type").to_owned()).collect();
        let is_whole = kinds.len() == 2;
        let offered = parts.iter().find(|part| part["mediaType"] == DOCUMENT);
        self.heard.lock().expect("nobody panics with it").push(kinds);
        let Some(offered) = offered else {
            let error = OperationError::invalid_params("it is not kept");
            return Answer::Error(error.to_json().to_string().into_bytes());
        };
        if is_whole {
            let task = json!({ "id": "theirs", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
            return Answer::Response(json!({ "task": task }).to_string().into_bytes());
        }
        let file = handoff_of_json(&offered["data"]).expect("a handoff");
        let digest = althing_protocol::digest(&file.envelope().expect("it is signed"));
        let verdict =
            HandoffVerdict::Accepted { task: "theirs".to_owned(), acceptance: 1, until_ms: NOW_MS + 3_600_000 };
        let answer = HandoffAnswer::new(digest, file.handoff.recipient, NOW_MS, verdict);
        let signed = object::sign(answer, NETWORK, "", &key(2)).expect("a good answer");
        let mut data = json!({ "signed": STANDARD.encode(&signed.bytes), "verdict": "accepted" });
        if let Some(kept) = self.says {
            data["kept"] = kept.into();
        }
        let parts = json!([{ "data": data, "mediaType": ANSWER }]);
        let message = json!({ "messageId": "answer", "role": "ROLE_AGENT", "parts": parts });
        Answer::Response(json!({ "message": message }).to_string().into_bytes())
    }
}

impl Inbound for Forgetful {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let params: Value = serde_json::from_slice(&request.body).expect("JSON");
        if request.operation == "SendMessage" {
            return ready(self.answer(&params)).boxed();
        }
        let done = json!({ "id": "theirs", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } });
        ready(Answer::Response(done.to_string().into_bytes())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_leaves_out_what_is_kept_and_sends_it_at_once_where_it_is_not() {
    for (says, commits) in [
        (Some(true), vec![vec![COMMIT], vec![DOCUMENT, COMMIT]]),
        (Some(false), vec![vec![DOCUMENT, COMMIT]]),
        (None, vec![vec![DOCUMENT, COMMIT]]),
    ] {
        let heard = Arc::<Mutex<Vec<Vec<String>>>>::default();
        let forgetful = Arc::new(Forgetful { says, heard: heard.clone() });
        let scene = Scene::start(&[owner(GIVES)], Some(forgetful)).await;
        let task = scene.gives.begin(&scene.clerk, "stuck").await;
        let (task, to) = (task.as_str().expect("an id"), scene.auditor.to_string());
        let drafted = scene.gives.calls.draft_handoff(task, &to, &DraftWords::default()).await.expect("work");
        let begun = tokio::time::Instant::now();
        let progress = scene.gives.calls.hand_over(task, &to, drafted).await.expect("it is offered");
        assert_eq!(progress.state, HandoffState::Given { task: "theirs".to_owned() });
        let expected = [vec![vec![DOCUMENT]], commits].concat();
        until("it has begun", || heard.lock().expect("nobody panics with it").len() == expected.len()).await;
        assert_eq!(*heard.lock().expect("nobody panics with it"), expected);
        assert!(begun.elapsed() < Duration::from_millis(900), "no attempt was waited for: {:?}", begun.elapsed());
    }
}
