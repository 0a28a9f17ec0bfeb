//! A yes to a message is for what it says, and what people were asked about a stopped agent is over.

use althing_call::{
    Decide, Decision, IncomingRequest, MessageContent, Operation, OutgoingRequest, Params, Principal, Service,
};
use althing_communication::{Caller, CallerRule};
use althing_protocol::AgentId;

use super::records::{Open, leaves};
use super::*;

const ASK: &str = "@ask(\"look at it\") permit(principal, action, resource);";

/// Whom messages are for.
fn callee() -> AgentRef {
    AgentRef::new(owner(), "b", "1.0.0").expect("a name")
}

/// A node that asks about everything.
async fn node(bench: &Bench) -> (Governance, Arc<dyn Decide>) {
    let governance = bench.start().await;
    if governance.policy_text().is_none() {
        governance.load_policy(ASK, Actor::Owner).await.expect("it is good");
    }
    for agent in [agent(), callee()] {
        governance.take_tools(&agent, &BTreeMap::new(), &profiles());
    }
    let decide = governance.decide(Arc::new(Open));
    (governance, decide)
}

fn message(text: &str, id: &str, task: Option<&str>) -> Params {
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    let request = json!({ "message": message }).to_string();
    Params::parse(Operation::SendMessage, request.as_bytes()).expect("parameters")
}

/// What is decided of a message to [`callee`].
async fn sent(decide: &Arc<dyn Decide>, by: &[Principal], message: &Params, is_again: bool) -> Decision {
    let (callee, label) = (callee(), Some(Label { level: DataLabel::Internal, trusted: true }));
    let content = MessageContent::of(message).map(|content| MessageContent { is_again, ..content });
    let sent = OutgoingRequest::Message { agent: &callee.id, version: None, principals: by, label, content };
    decide.decide(&sent).decision().await
}

async fn agree(governance: &Governance) {
    let pending = governance.pending();
    let [ask] = pending.as_slice() else { panic!("one question: {pending:?}") };
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
}

#[tokio::test]
async fn a_yes_to_a_message_is_for_what_it_says_and_for_nothing_else() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local];
    let first = message("pay the shop 5", "1", None);
    assert!(matches!(sent(&decide, &by, &first, false).await, Decision::Ask(_)));
    let outline = governance.pending()[0].outline.join("\n");
    assert!(outline.contains("pay the shop 5"), "it is shown: {outline}");
    agree(&governance).await;
    for other in [message("pay eve 500", "1", None), message("pay the shop 5", "1", Some("another"))] {
        assert!(matches!(sent(&decide, &by, &other, false).await, Decision::Ask(_)), "{other:?}");
    }
    let same = message("pay the shop 5", "2", None);
    assert_eq!(sent(&decide, &by, &same, false).await, Decision::Allow, "it is sent again under another id");
    assert!(matches!(sent(&decide, &by, &same, false).await, Decision::Ask(_)), "a yes is used once");
}

#[tokio::test]
async fn a_step_that_sends_its_message_again_finds_the_yes_that_it_used() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local, Principal::Agent(agent().id)];
    let first = message("pay the shop 5", "key", None);
    assert!(matches!(sent(&decide, &by, &first, true).await, Decision::Ask(_)));
    agree(&governance).await;
    assert_eq!(sent(&decide, &by, &first, true).await, Decision::Allow);
    let (_, decide) = node(&bench).await;
    assert_eq!(sent(&decide, &by, &first, true).await, Decision::Allow, "after a restart, as the same message");
    for (other, is_again) in [
        (message("pay eve 500", "key", None), true),
        (message("pay the shop 5", "later", None), true),
        (message("pay the shop 5", "key", None), false),
    ] {
        assert!(matches!(sent(&decide, &by, &other, is_again).await, Decision::Ask(_)), "{other:?}");
    }
}

#[tokio::test]
async fn a_message_of_another_node_is_sent_again_in_the_task_in_which_it_rests() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let (callee, callers) = (callee(), CallerRule::Anyone);
    let stranger = Caller { node: SecretKey::from_seed(&[2; 32]).public(), owner: None };
    let service = Service::Call { agent: &callee.id, callers: &callers, operation: Operation::SendMessage };
    let comes = |message: &Params| {
        let content = MessageContent::of(message);
        decide.decide_incoming(&IncomingRequest { content, ..IncomingRequest::plain(service, &stranger) }).decision()
    };
    assert!(matches!(comes(&message("pay the shop 5", "1", None)).await, Decision::Ask(_)));
    agree(&governance).await;
    assert!(matches!(comes(&message("pay eve 500", "2", Some("it"))).await, Decision::Ask(_)));
    assert_eq!(comes(&message("pay the shop 5", "3", Some("it"))).await, Decision::Allow);
}

#[tokio::test]
async fn what_people_were_asked_about_a_stopped_agent_is_over() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local, Principal::Agent(agent().id)];
    assert!(matches!(sent(&decide, &by, &message("of a", "1", None), true).await, Decision::Ask(_)));
    let mine = message("of mine", "2", None);
    assert!(matches!(sent(&decide, &[Principal::Local], &mine, false).await, Decision::Ask(_)));
    let ask = asked(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let stopped = |id: &AgentId| *id == agent().id;
    assert_eq!(questions_of(&governance, stopped), 1, "its message waits, and its yes is not used");
    assert_eq!(end_questions_of(&governance, stopped).await.expect("it is written"), 2);
    assert_eq!(end_questions_of(&governance, stopped).await.expect("there is none"), 0);
    for is_started_again in [false, true] {
        let governance = if is_started_again { bench.start().await } else { governance.clone() };
        assert_eq!(governance.pending().len(), 1, "what somebody else sends to another agent waits");
        let refused = governance.answer(&ask.id, yes(), Actor::Owner).await.expect_err("it is over");
        assert!(refused.to_string().contains("stopped by its owner"), "{refused}");
        let over = leaves(&governance).await.into_iter().filter(|leaf| leaf.stage == AuditStage::Answered).count();
        assert_eq!(over, 3, "the yes, and both ends");
    }
    let (governance, _) = node(&bench).await;
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert!(reason.contains("stopped by its owner"), "{reason}");
    asked(gate(&governance).decide(&turn.call("later", "shop/search")).await);
}
