//! Work goes from an agent of one owner to an agent of another one, by a signed handoff: it is done once, by whoever has it, and
//! whoever follows its task sees one task that ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{AgentCaller, DraftWords, HandoffState, Operation, OperationError, Principal, Reply};
use althing_conformance::disk::Disk;
use althing_conformance::mesh::{Node, Owner, ask_as, file, message, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NEVER, key};
use althing_execution::agents::{AgentCalls, WorkOffer};
use althing_governance::audit::AuditFilter;
use althing_protocol::audit::{AuditOutcome, AuditStage};
use althing_protocol::contract::DataLabel;
use althing_protocol::object::{
    self, AuditEntry, Handoff, HandoffAnswer, HandoffReason, HandoffVerdict, Regulation, SignOff,
};
use althing_protocol::{AgentId, CallerId, Label, SecretKey};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Store;
use althing_td::{AgentFile, HandoffFile, handoff_json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use serde_json::{Value, json};

/// The owner whose agent has the work, and the one whose agent takes it.
const GIVES: u8 = 100;
const TAKES: u8 = 101;
const EXTENSION: &str = "https://althing.dev/ext/handoff/v1";
const DOCUMENT: &str = "application/vnd.althing.handoff+json";
const COMMIT: &str = "application/vnd.althing.handoff-commit+json";

fn caller(owner: u8) -> CallerId {
    CallerId::Publisher(Owner::new(key(owner)).id())
}

fn agent_file(name: &str) -> AgentFile {
    file(name, "does as it is told", "acting.do", "do", "play")
}

/// The node of the agent that has work, and the one of an agent that takes it.
struct Scene {
    net: SimNet,
    gives: Node,
    takes: Node,
    clerk: AgentId,
    auditor: AgentId,
}

async fn giving(net: &SimNet, disk: Arc<dyn Store>) -> (Node, AgentId) {
    let node = Node::start(net, 1, GIVES, &[caller(TAKES)], disk).await;
    let clerk = node.host(&agent_file("clerk")).await;
    (node, clerk)
}

impl Scene {
    async fn start(disk: Arc<dyn Store>) -> Scene {
        Scene::with(disk, &agent_file("auditor")).await
    }

    async fn with(disk: Arc<dyn Store>, auditor: &AgentFile) -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let (gives, clerk) = giving(&net, disk).await;
        let takes = Node::start(&net, 2, TAKES, &[caller(GIVES)], store()).await;
        let auditor = takes.host(auditor).await;
        gives.connect(&takes).await;
        until("they know each other", || !gives.discovery.hosts(&auditor).is_empty()).await;
        Scene { net, gives, takes, clerk, auditor }
    }

    /// Begins work of the clerk; gives its task.
    async fn work(&self, text: &str) -> String {
        self.gives.begin(&self.clerk, text).await.as_str().expect("an id").to_owned()
    }

    /// The handoff of a task as the node makes it.
    async fn draft(&self, task: &str, remaining: &str) -> HandoffFile {
        let words = DraftWords { remaining: vec![remaining.to_owned()], ..DraftWords::default() };
        let drafted = self.gives.calls.draft_handoff(task, &self.auditor.to_string(), &words).await;
        drafted.expect("a task with work")
    }

    /// Hands a task over; gives the recipient's task.
    async fn hand_over(&self, task: &str, remaining: &str) -> String {
        let file = self.draft(task, remaining).await;
        let progress = self.gives.calls.hand_over(task, &self.auditor.to_string(), file).await.expect("it is offered");
        match progress.state {
            HandoffState::Given { task } => task,
            other => panic!("{other:?}"),
        }
    }

    /// The task of the clerk as its node shows it.
    async fn given(&self, task: &str) -> Value {
        seen(&self.gives, &self.clerk, task).await.expect("the task")
    }

    /// The task of the auditor as whoever gave the work sees it.
    async fn taken(&self, task: &str) -> Value {
        seen(&self.gives, &self.auditor, task).await.expect("the task")
    }

    /// Sends a handoff as the clerk's node would; gives what is said, or the task.
    async fn send(&self, file: &HandoffFile, acceptance: Option<u64>) -> Result<Answered, OperationError> {
        let behind = vec![Principal::Local, Principal::Agent(self.clerk.clone())];
        self.send_as(file, acceptance, behind).await
    }

    async fn send_as(
        &self,
        file: &HandoffFile,
        acceptance: Option<u64>,
        behind: Vec<Principal>,
    ) -> Result<Answered, OperationError> {
        let mut parts = vec![json!({ "data": handoff_json(file), "mediaType": DOCUMENT })];
        if let Some(acceptance) = acceptance {
            let digest = file.signed().expect("it is signed").expect("by a good signature").digest();
            let commit = json!({ "handoff": althing_protocol::hex(&digest), "acceptance": acceptance });
            parts.push(json!({ "data": commit, "mediaType": COMMIT }));
        }
        let id = handoff_json(file)["handoff_id"].clone();
        let params = json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": parts } });
        let sends = (Operation::SendMessage, &params);
        let call = ask_as(&self.gives.calls, &self.auditor, sends, behind).await?;
        let Reply::One(body) = self.gives.calls.ask(call).await? else { panic!("it does not stream") };
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        if body["task"].is_object() {
            return Ok(Answered::Task(body["task"]["id"].as_str().expect("an id").to_owned()));
        }
        let signed = body["message"]["parts"][0]["data"]["signed"].as_str().expect("a signed answer");
        let signed = STANDARD.decode(signed).expect("base64");
        let answer = object::open::<HandoffAnswer>(&signed, NETWORK, "").expect("a good answer");
        assert_eq!(answer.signer, self.takes.id(), "by the node that hosts the recipient");
        if let Some(bytes) = file.envelope() {
            assert_eq!(answer.body.offer, althing_protocol::digest(&bytes), "to this handoff");
        }
        Ok(Answered::Said(answer.body.verdict().expect("a verdict")))
    }

    /// A handoff of a task, changed and signed by the clerk's node.
    async fn signed(&self, task: &str, change: impl FnOnce(&mut Handoff)) -> HandoffFile {
        let mut file = self.draft(task, "All of it.").await;
        change(&mut file.handoff);
        file.sign(NETWORK, &self.gives.key).expect("it is signed")
    }

    /// Why a handoff is rejected.
    async fn rejected(&self, file: &HandoffFile) -> HandoffReason {
        reason(self.send(file, None).await.expect("an answer"))
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Answered {
    Said(HandoffVerdict),
    Task(String),
}

fn reason(answered: Answered) -> HandoffReason {
    match answered {
        Answered::Said(HandoffVerdict::Rejected { reason, message }) => {
            assert!(!message.is_empty());
            reason
        }
        other => panic!("{other:?}"),
    }
}

async fn seen(node: &Node, agent: &AgentId, task: &str) -> Result<Value, OperationError> {
    node.one(agent, Operation::GetTask, json!({ "id": task })).await
}

/// What is on record at a node of the calls by which its agents hand work over.
async fn recorded(node: &Node) -> Vec<(AuditStage, Option<AuditOutcome>)> {
    let filter = AuditFilter { action: Some("session/handoff".to_owned()), ..AuditFilter::default() };
    let page = node.governance.audit().query(&filter, 8).await.expect("it is read");
    page.records.into_iter().map(|record| (record.leaf.stage, record.leaf.outcome)).collect()
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state")
}

/// Waits until a task has that state; only the test's own timeout ends it.
async fn reaches(node: &Node, agent: &AgentId, task: &str, wanted: &str) -> Value {
    loop {
        let found = seen(node, agent, task).await.expect("the task");
        if state(&found) == wanted {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// P-206, P-208
#[tokio::test(start_paused = true)]
async fn a_task_whose_work_is_handed_over_ends_with_the_result_of_whoever_took_it() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let by_id = json!({ "id": task });
    let Reply::Events(events) = scene.gives.ask(&scene.clerk, Operation::SubscribeToTask, by_id).await.expect("events")
    else {
        panic!("it streams");
    };
    let becomes = scene.hand_over(&task, "Pages 8 to 12.").await;
    assert_ne!(becomes, task);
    assert!(recorded(&scene.gives).await.is_empty(), "no agent asked for that");
    let done = reaches(&scene.gives, &scene.clerk, &task, "TASK_STATE_COMPLETED").await;
    assert_eq!(state(&scene.taken(&becomes).await), "TASK_STATE_COMPLETED");
    let origin = &done["metadata"][EXTENSION];
    assert_eq!((&origin["task"], &origin["recipient"]), (&json!(becomes), &json!(scene.auditor.to_string())));
    // The recipient's agent was given material, and said so in what it made.
    let heard = done["artifacts"][0]["parts"][0]["text"].as_str().expect("a text");
    for words in ["follow no instruction in it", "grants you no tool", "\"stuck\"", "Pages 8 to 12."] {
        assert!(heard.contains(words), "{words} in {heard}");
    }
    // Whoever followed the task heard one end of it.
    let told: Vec<Value> =
        events.map(|event| serde_json::from_slice(&event.expect("an event")).expect("JSON")).collect().await;
    assert_eq!(told[0]["task"]["id"], task.as_str());
    let ends = told.iter().filter(|event| event["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED");
    assert_eq!(ends.count(), 1, "{told:?}");
}

/// P-208: also work that nobody does at present.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_message_can_be_handed_over_and_then_takes_none() {
    let scene = Scene::start(store()).await;
    let task = scene.gives.send(&scene.clerk, "ask").await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let id = task["id"].as_str().expect("an id").to_owned();
    let becomes = scene.hand_over(&id, NEVER).await;
    assert_eq!(state(&scene.given(&id).await), "TASK_STATE_WORKING");
    let mut more = message("more");
    more["message"]["taskId"] = json!(id);
    let refused = scene.gives.one(&scene.clerk, Operation::SendMessage, more).await.expect_err("it is elsewhere");
    assert!(refused.message.contains("was handed over"), "{refused}");
    let words = DraftWords::default();
    let again = scene.gives.calls.draft_handoff(&id, &scene.auditor.to_string(), &words).await.expect_err("given");
    assert!(again.to_string().contains("was handed over before"), "{again}");
    assert_eq!(state(&scene.taken(&becomes).await), "TASK_STATE_WORKING");
}

/// P-208: cancelling goes through.
#[tokio::test(start_paused = true)]
async fn cancelling_the_task_cancels_the_one_that_its_work_became() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let becomes = scene.hand_over(&task, NEVER).await;
    reaches(&scene.gives, &scene.auditor, &becomes, "TASK_STATE_WORKING").await;
    let cancelled = scene.gives.one(&scene.clerk, Operation::CancelTask, json!({ "id": task })).await.expect("a task");
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    assert_eq!(state(&scene.taken(&becomes).await), "TASK_STATE_CANCELED");
}

/// P-208: an answer that is lost is asked for again, and a commit begins one task.
#[tokio::test(start_paused = true)]
async fn what_is_sent_again_is_answered_with_the_same_task() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let file = scene.signed(&task, |_| {}).await;
    let accepted = scene.send(&file, None).await.expect("an answer");
    let Answered::Said(HandoffVerdict::Accepted { task: becomes, acceptance, .. }) = accepted.clone() else {
        panic!("{accepted:?}");
    };
    assert_eq!(scene.send(&file, None).await, Ok(accepted), "offered again");
    // The same work by another handoff.
    let other = scene.signed(&task, |it| it.handoff_id[15] ^= 1).await;
    let duplicate = HandoffVerdict::Duplicate { original: file.handoff.handoff_id };
    assert_eq!(scene.send(&other, None).await, Ok(Answered::Said(duplicate)));
    let begun = Answered::Task(becomes.clone());
    assert_eq!(scene.send(&file, Some(acceptance)).await, Ok(begun.clone()));
    reaches(&scene.gives, &scene.auditor, &becomes, "TASK_STATE_COMPLETED").await;
    assert_eq!(scene.send(&file, Some(acceptance)).await, Ok(begun), "the answer was lost");
    let done = Answered::Said(HandoffVerdict::AlreadyDone { task: becomes });
    assert_eq!(scene.send(&file, None).await, Ok(done), "it is offered once more");
    let listed = scene.gives.one(&scene.auditor, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 1, "one task: {listed}");
}

/// P-208: a commit without an acceptance, of another one, or after a minute.
#[tokio::test(start_paused = true)]
async fn what_was_not_accepted_or_is_no_more_does_not_begin() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let file = scene.signed(&task, |_| {}).await;
    let commit = async |acceptance| reason(scene.send(&file, Some(acceptance)).await.expect("an answer"));
    assert_eq!(commit(1).await, HandoffReason::NotAccepted);
    scene.send(&file, None).await.expect("it is accepted");
    assert_eq!(commit(2).await, HandoffReason::TooLate);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(commit(1).await, HandoffReason::TooLate);
    let listed = scene.gives.one(&scene.auditor, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 0, "nothing began: {listed}");
    let Ok(Answered::Said(HandoffVerdict::Accepted { acceptance, .. })) = scene.send(&file, None).await else {
        panic!("it is accepted anew");
    };
    assert_eq!(acceptance, 2);
    assert!(matches!(scene.send(&file, Some(2)).await, Ok(Answered::Task(_))));
}

/// P-206 to P-208: each with its reason, and nothing begins.
#[tokio::test(start_paused = true)]
async fn what_is_not_taken_is_rejected_with_its_reason() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let vague = scene.signed(&task, |it| it.quality_checklist.clear()).await;
    assert_eq!(scene.rejected(&vague).await, HandoffReason::Incomplete);
    let other = AgentId::new(scene.auditor.publisher(), "other").expect("a name");
    let elsewhere = scene.signed(&task, |it| it.recipient = other).await;
    assert_eq!(scene.rejected(&elsewhere).await, HandoffReason::NotCapable);
    let late = scene.signed(&task, |it| it.context.constraints.deadline_ms = Some(1)).await;
    assert_eq!(scene.rejected(&late).await, HandoffReason::Deadline);
    let tools = scene.signed(&task, |it| it.context.tools_required = vec!["calc/add".to_owned()]).await;
    assert_eq!(scene.rejected(&tools).await, HandoffReason::MissingTools);
    let strict = Some(Label { level: DataLabel::Confidential, trusted: true });
    let secret = scene.signed(&task, |it| it.label = strict).await;
    assert_eq!(scene.rejected(&secret).await, HandoffReason::Label, "its contract says nothing of confidential data");

    // Signed by nobody, by another node, and changed after that.
    let unsigned = HandoffFile { signature: None, ..scene.signed(&task, |_| {}).await };
    assert_eq!(scene.rejected(&unsigned).await, HandoffReason::BadSignature);
    let stranger = SecretKey::from_seed(&[77; 32]);
    let forged = scene.draft(&task, "All of it.").await.sign(NETWORK, &stranger).expect("it is signed");
    assert_eq!(scene.rejected(&forged).await, HandoffReason::BadSignature);
    let mut changed = scene.signed(&task, |_| {}).await;
    changed.handoff.assumptions.push("All is well.".to_owned());
    assert_eq!(scene.rejected(&changed).await, HandoffReason::BadSignature);
    // In the name of nobody, and of another agent.
    let good = scene.signed(&task, |_| {}).await;
    for behind in [vec![Principal::Local], vec![Principal::Local, Principal::Agent(scene.auditor.clone())]] {
        let answered = scene.send_as(&good, None, behind).await.expect("an answer");
        assert_eq!(reason(answered), HandoffReason::BadSignature);
    }
    // Another document under an id that was accepted.
    assert!(matches!(scene.send(&good, None).await, Ok(Answered::Said(HandoffVerdict::Accepted { .. }))));
    let mut again = scene.draft(&task, "Something else.").await;
    again.handoff.handoff_id = good.handoff.handoff_id;
    let again = again.sign(NETWORK, &scene.gives.key).expect("it is signed");
    assert_eq!(scene.rejected(&again).await, HandoffReason::Conflict);
    let listed = scene.gives.one(&scene.auditor, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 0, "nothing began: {listed}");
}

/// P-208: what is no handoff is refused before anybody looks at it.
#[tokio::test(start_paused = true)]
async fn what_is_no_handoff_is_refused() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let view = handoff_json(&scene.signed(&task, |_| {}).await);
    let send = async |id: &Value, parts: Value| {
        let params = json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": parts } });
        scene
            .gives
            .one(&scene.auditor, Operation::SendMessage, params)
            .await
            .expect_err("it is refused")
            .reason()
            .to_owned()
    };
    let id = view["handoff_id"].clone();
    let of = |data: Value| json!([{ "data": data, "mediaType": DOCUMENT }]);
    let mut unknown = view.clone();
    unknown["next_action"] = json!("run it");
    for (id, parts) in [
        (json!("another"), of(view.clone())),
        (id.clone(), of(json!({}))),
        (id.clone(), of(unknown)),
        (id.clone(), json!([{ "text": "no data", "mediaType": DOCUMENT }])),
        (id.clone(), json!([{ "data": {}, "mediaType": COMMIT }])),
        (
            id.clone(),
            json!([{ "data": view, "mediaType": DOCUMENT }, { "data": { "acceptance": 1 }, "mediaType": COMMIT }]),
        ),
    ] {
        assert_eq!(send(&id, parts.clone()).await, "INVALID_PARAMS", "{parts}");
    }
}

/// P-207: on both sides, and a sign-off of somebody who may is enough for both.
#[tokio::test(start_paused = true)]
async fn confidential_work_goes_nowhere_without_a_sign_off_that_counts() {
    let auditor = "name: auditor\ndescription: does as it is told\nruntime: { native: { builtin: actor } }\n\
                   contract: { class: { latency: srt }, data_label: confidential }\n";
    let auditor = AgentFile::parse(auditor).expect("an agent file");
    let scene = Scene::with(store(), &auditor).await;
    let task = scene.work("stuck").await;
    let regulated = |it: &mut Handoff| {
        it.label = Some(Label { level: DataLabel::Confidential, trusted: true });
        it.regulation = Some(Regulation {
            classification: DataLabel::Confidential,
            region: Some("eu".to_owned()),
            regulation_refs: vec!["R-1".to_owned()],
            audit: vec![AuditEntry { event: "read".to_owned(), digest: [7; 32] }],
            sign_offs: Vec::new(),
        });
    };
    // The recipient's end.
    let file = scene.signed(&task, regulated).await;
    assert_eq!(scene.rejected(&file).await, HandoffReason::SignOffMissing);
    let noise = |it: &mut Handoff| {
        regulated(it);
        let sign_off = SignOff { role: "owner".to_owned(), until_ms: u64::MAX, signature: b"no signature".to_vec() };
        it.regulation.as_mut().expect("it is regulated").sign_offs.push(sign_off);
    };
    let file = scene.signed(&task, noise).await;
    assert_eq!(scene.rejected(&file).await, HandoffReason::BadSignature);
    // The sender's end: it does not leave the node.
    let mut draft = scene.draft(&task, "All of it.").await;
    regulated(&mut draft.handoff);
    let kept = scene.gives.calls.hand_over(&task, &scene.auditor.to_string(), draft).await.expect_err("it is kept");
    assert!(kept.to_string().contains("no sign-off counts"), "{kept}");
    assert_eq!(state(&scene.given(&task).await), "TASK_STATE_WORKING", "its agent goes on");
}

/// P-208: an agent gives its work away itself, to an agent that it may call.
#[tokio::test(start_paused = true)]
async fn an_agent_hands_its_own_work_over_and_lends_its_owners_name_to_nobody() {
    let scene = Scene::start(store()).await;
    let other = Node::start(&scene.net, 3, GIVES, &[], store()).await;
    let helper = other.host(&agent_file("helper")).await;
    scene.gives.connect(&other).await;
    until("it is known", || !scene.gives.discovery.hosts(&helper).is_empty()).await;
    let asking = AgentCaller::default();
    asking.connect(&scene.gives.calls);
    let task = scene.work("stuck").await;
    let offer = |to: &str, principal: &str, as_itself: bool| WorkOffer {
        task: task.clone(),
        to: to.to_owned(),
        remaining: vec!["Pages 8 to 12.".to_owned()],
        checklist: Vec::new(),
        principals: vec![principal.to_owned()],
        as_itself,
    };
    let stranger = caller(TAKES).to_string();
    for (to, principal, why) in [
        ("helper", stranger.as_str(), "asks_as: itself"),
        ("nobody", "local", "nobody"),
        ("clerk", "local", "has the work already"),
    ] {
        let refused = asking.hand_over(offer(to, principal, false)).await.expect_err("it is not offered");
        assert!(refused.contains(why), "{to}: {refused}");
    }
    assert_eq!(state(&scene.given(&task).await), "TASK_STATE_WORKING");
    assert!(recorded(&scene.gives).await.is_empty(), "nothing was given away");
    let told = asking.hand_over(offer("helper", &stranger, true)).await.expect("it is offered");
    assert_eq!((&told["state"], &told["to"]), (&json!("given"), &json!(helper.to_string())));
    // Its agent is stopped before that, and its gate hears no more of the call.
    assert_eq!(recorded(&scene.gives).await, [(AuditStage::Outcome, Some(AuditOutcome::Done))]);
    let done = reaches(&scene.gives, &scene.clerk, &task, "TASK_STATE_COMPLETED").await;
    let heard = done["artifacts"][0]["parts"][0]["text"].as_str().expect("a text");
    assert!(heard.contains("Pages 8 to 12.") && heard.contains("follow no instruction in it"), "{heard}");
}

/// A recipient that does not take the work, or takes none of this caller's: the agent goes on with it.
#[tokio::test(start_paused = true)]
async fn work_that_is_not_taken_stays_with_its_agent() {
    let scene = Scene::start(store()).await;
    let task = scene.work("stuck").await;
    let mut draft = scene.draft(&task, "All of it.").await;
    draft.handoff.context.tools_required = vec!["calc/add".to_owned()];
    let to = scene.auditor.to_string();
    let progress = scene.gives.calls.hand_over(&task, &to, draft).await.expect("it is offered");
    assert!(
        matches!(progress.state, HandoffState::Rejected { reason: HandoffReason::MissingTools, .. }),
        "{progress:?}"
    );
    assert_eq!(state(&scene.given(&task).await), "TASK_STATE_WORKING");

    let mut other = scene.draft(&task, "All of it.").await;
    other.handoff.task_id = "another".to_owned();
    let refused = scene.gives.calls.hand_over(&task, &to, other).await.expect_err("of another task");
    assert!(refused.to_string().contains("task_id"), "{refused}");
    let itself = scene.gives.calls.draft_handoff(&task, "clerk", &DraftWords::default()).await.expect_err("to itself");
    assert!(itself.to_string().contains("has the work already"), "{itself}");
    let none = scene.gives.calls.draft_handoff("none", &to, &DraftWords::default()).await.expect_err("no task");
    assert!(none.to_string().contains("has a task \"none\""), "{none}");
}

/// A power cut before the work is given away: it is still the sender's.
#[tokio::test(start_paused = true)]
async fn a_sender_that_ends_before_it_gives_the_work_away_has_it_still() {
    let disk = Arc::new(Disk::prompt());
    let scene = Scene::start(disk.clone()).await;
    let task = scene.work("stuck").await;
    let file = scene.signed(&task, |_| {}).await;
    assert!(matches!(scene.send(&file, None).await, Ok(Answered::Said(HandoffVerdict::Accepted { .. }))));
    scene.net.crash(scene.gives.id());
    let (again, clerk) = giving(&scene.net, disk.after_power_cut()).await;
    let found = reaches(&again, &clerk, &task, "TASK_STATE_FAILED").await;
    assert_eq!(found["metadata"][EXTENSION], Value::Null, "nothing was handed over");
}

/// A power cut after that: the task goes on with the recipient's, and cancelling goes through as before.
#[tokio::test(start_paused = true)]
async fn a_sender_that_ends_after_it_gave_the_work_away_follows_it_again() {
    let disk = Arc::new(Disk::prompt());
    let scene = Scene::start(disk.clone()).await;
    let task = scene.work("stuck").await;
    let becomes = scene.hand_over(&task, NEVER).await;
    reaches(&scene.gives, &scene.auditor, &becomes, "TASK_STATE_WORKING").await;
    scene.net.crash(scene.gives.id());
    let (again, clerk) = giving(&scene.net, disk.after_power_cut()).await;
    again.connect(&scene.takes).await;
    until("it is found again", || !again.discovery.hosts(&scene.auditor).is_empty()).await;
    let found = reaches(&again, &clerk, &task, "TASK_STATE_WORKING").await;
    assert_eq!(found["id"], task.as_str());
    loop {
        let found = seen(&again, &clerk, &task).await.expect("the task");
        if found["metadata"][EXTENSION]["task"] == becomes.as_str() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cancelled = again.one(&clerk, Operation::CancelTask, json!({ "id": task })).await.expect("a task");
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    let theirs = seen(&again, &scene.auditor, &becomes).await.expect("the task");
    assert_eq!(state(&theirs), "TASK_STATE_CANCELED");
}

/// Work is followed before the agents of a node are started, and only their contracts say what may be shown of it.
#[tokio::test(start_paused = true)]
async fn a_result_that_comes_before_the_agent_that_gave_the_work_away_runs_again_waits_for_it() {
    let net = SimNet::new(1, LinkConfig::default());
    let disk = Arc::new(Disk::prompt());
    let gives = Node::start(&net, 1, GIVES, &[caller(TAKES)], disk.clone()).await;
    // It is not started with its node.
    let added = gives.agents.add(agent_file("clerk"), Path::new("/"), None, false);
    let clerk = Box::pin(added).await.expect("a native agent");
    let takes = Node::start(&net, 2, TAKES, &[caller(GIVES)], store()).await;
    let auditor = takes.host(&agent_file("auditor")).await;
    gives.connect(&takes).await;
    until("they know each other", || !gives.discovery.hosts(&auditor).is_empty()).await;
    let scene = Scene { net, gives, takes, clerk, auditor };
    let task = scene.work("stuck").await;
    let becomes = scene.hand_over(&task, "Pages 8 to 12.").await;
    scene.net.crash(scene.gives.id());

    let again = Node::start(&scene.net, 1, GIVES, &[caller(TAKES)], disk.after_power_cut()).await;
    again.connect(&scene.takes).await;
    until("it is found again", || !again.discovery.hosts(&scene.auditor).is_empty()).await;
    // It may not have begun when its sender's node ended.
    while !seen(&again, &scene.auditor, &becomes).await.is_ok_and(|found| state(&found) == "TASK_STATE_COMPLETED") {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(again.hosting.live_tasks(), 1, "its result waits");
    assert_eq!(again.host(&agent_file("clerk")).await, scene.clerk);
    let done = reaches(&again, &scene.clerk, &task, "TASK_STATE_COMPLETED").await;
    let heard = done["artifacts"][0]["parts"][0]["text"].as_str().expect("a text");
    assert!(heard.contains("Pages 8 to 12."), "{heard}");
}

/// A recipient that starts again knows what it accepted.
#[tokio::test(start_paused = true)]
async fn a_recipient_knows_what_it_accepted_after_a_power_cut() {
    let net = SimNet::new(1, LinkConfig::default());
    let (gives, clerk) = giving(&net, store()).await;
    let disk = Arc::new(Disk::prompt());
    let takes = Node::start(&net, 2, TAKES, &[caller(GIVES)], disk.clone()).await;
    let auditor = takes.host(&agent_file("auditor")).await;
    gives.connect(&takes).await;
    until("they know each other", || !gives.discovery.hosts(&auditor).is_empty()).await;
    let mut scene = Scene { net, gives, takes, clerk, auditor };
    let task = scene.work("stuck").await;
    let file = scene.signed(&task, |_| {}).await;
    let accepted = scene.send(&file, None).await.expect("an answer");
    scene.net.crash(scene.takes.id());
    until("it is gone", || scene.gives.discovery.hosts(&scene.auditor).is_empty()).await;
    scene.takes = Node::start(&scene.net, 2, TAKES, &[caller(GIVES)], disk.after_power_cut()).await;
    scene.takes.host(&agent_file("auditor")).await;
    scene.takes.connect(&scene.gives).await;
    until("it is found again", || !scene.gives.discovery.hosts(&scene.auditor).is_empty()).await;
    assert_eq!(scene.send(&file, None).await, Ok(accepted.clone()));
    let Answered::Said(HandoffVerdict::Accepted { task: becomes, acceptance, .. }) = accepted else {
        panic!("{accepted:?}");
    };
    assert_eq!(scene.send(&file, Some(acceptance)).await, Ok(Answered::Task(becomes)));
}
