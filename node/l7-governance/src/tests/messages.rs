//! A yes to a message is for what it says, and what people were asked about a stopped agent is over.

use althing_call::{
    Decide, Decision, IncomingRequest, MessageContent, Operation, OutgoingRequest, Params, Principal, Service,
};
use althing_communication::{Caller, CallerRule};
use althing_protocol::AgentId;
use althing_td::ReachSpec;

use crate::machine::delivery::Notice;

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
async fn what_tells_somebody_of_a_question_is_asked_about_by_nobody() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local];
    assert!(matches!(sent(&decide, &by, &message("pay the shop 5", "1", None), false).await, Decision::Ask(_)));
    let open = governance.open_questions();
    let [asked] = open.as_slice() else { panic!("one question: {open:?}") };
    let way = ReachSpec::Agent("b".to_owned());
    let notice = Notice { ask: asked.id, person: "owner".to_owned(), way, attempt: 1, is_escalation: false };
    let told = message("a question waits", &notice.message_id(), None);
    for decision in [sent(&decide, &by, &told, false).await, came(&decide, 1, &by, &told, false).await] {
        let Decision::Deny(why) = decision else { panic!("it is denied: {decision:?}") };
        assert!(why.message.contains("what tells people of a question"), "{why}");
    }
    assert_eq!(governance.open_questions(), open, "that would be one more question, of which somebody is told");
    governance.load_policy("permit(principal, action, resource);", Actor::Owner).await.expect("it is good");
    assert_eq!(sent(&decide, &by, &told, false).await, Decision::Allow);
    // Only an id of a question of this node is one.
    governance.load_policy(ASK, Actor::Owner).await.expect("it is good");
    let other = message("a question waits", &format!("{}-owner", "0".repeat(32)), None);
    assert!(matches!(sent(&decide, &by, &other, false).await, Decision::Ask(_)));
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

/// What is decided of a message to [`callee`] that came in from that node, on behalf of these.
async fn came(decide: &Arc<dyn Decide>, node: u8, by: &[Principal], message: &Params, is_again: bool) -> Decision {
    let (callee, callers) = (callee(), CallerRule::Anyone);
    let caller = Caller { node: SecretKey::from_seed(&[node; 32]).public(), owner: Some(owner()) };
    let service = Service::Call { agent: &callee.id, callers: &callers, operation: Operation::SendMessage };
    let content = MessageContent::of(message).map(|content| MessageContent { is_again, ..content });
    let asked = IncomingRequest { principals: by, content, ..IncomingRequest::plain(service, &caller) };
    decide.decide_incoming(&asked).decision().await
}

#[tokio::test]
async fn a_yes_to_a_message_between_two_agents_of_a_node_serves_both_sides_and_once() {
    const HERE: u8 = 1;
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local, Principal::Agent(agent().id)];
    let first = message("pay the shop 5", "key", None);
    assert!(matches!(sent(&decide, &by, &first, true).await, Decision::Ask(_)));
    agree(&governance).await;
    assert_eq!(sent(&decide, &by, &first, true).await, Decision::Allow);
    // Neither another node, nor another message, nor one for somebody else gets in by it.
    assert!(matches!(came(&decide, 2, &by, &first, false).await, Decision::Ask(_)));
    for other in [message("pay eve 500", "key", None), message("pay the shop 5", "later", None)] {
        assert!(matches!(came(&decide, HERE, &by, &other, false).await, Decision::Ask(_)), "{other:?}");
    }
    assert!(matches!(came(&decide, HERE, &[Principal::Local], &first, false).await, Decision::Ask(_)));
    assert_eq!(came(&decide, HERE, &by, &first, false).await, Decision::Allow, "nobody is asked again");
    assert!(matches!(came(&decide, HERE, &by, &first, false).await, Decision::Ask(_)), "it is used once");
    let (_, decide) = node(&bench).await;
    assert_eq!(came(&decide, HERE, &by, &first, true).await, Decision::Allow, "its turn goes on after a restart");
    assert!(matches!(came(&decide, HERE, &by, &first, false).await, Decision::Ask(_)), "as that message alone");
}

#[tokio::test]
async fn a_standing_yes_counts_once_for_a_message_whose_turn_goes_on_after_a_restart() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    let by = [Principal::Local];
    assert!(matches!(came(&decide, 2, &by, &message("hi", "1", None), false).await, Decision::Ask(_)));
    let ask = governance.pending().remove(0);
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free: Default::default() };
    governance.answer(&ask.id, Answer { standing: Some(standing), ..yes() }, Actor::Owner).await.expect("it counts");
    assert_eq!(came(&decide, 2, &by, &message("hi", "1", None), false).await, Decision::Allow, "by the yes itself");
    let left = |governance: &Governance| governance.standing().iter().map(|yes| yes.left).sum::<u32>();
    for (id, counts) in [("2", 1), ("3", 0)] {
        assert_eq!(came(&decide, 2, &by, &message("hi", id, None), false).await, Decision::Allow);
        assert_eq!(left(&governance), counts);
        // Also where it was the last time that it counts.
        for _ in 0..2 {
            let (governance, decide) = node(&bench).await;
            assert_eq!(came(&decide, 2, &by, &message("hi", id, None), true).await, Decision::Allow);
            assert_eq!(left(&governance), counts, "its turn goes on, and is the same message");
        }
    }
    assert!(matches!(came(&decide, 2, &by, &message("hi", "4", None), false).await, Decision::Ask(_)));
}

#[tokio::test]
async fn a_question_is_found_by_its_id_as_long_as_it_waits() {
    let bench = Bench::new();
    let (governance, decide) = node(&bench).await;
    for (text, answered) in [("hi", true), ("hello", false)] {
        let said = message(text, text, None);
        assert!(matches!(sent(&decide, &[Principal::Local], &said, false).await, Decision::Ask(_)));
        let pending = governance.pending();
        let [ask] = pending.as_slice() else { panic!("one question: {pending:?}") };
        assert_eq!(governance.pending_ask(&ask.id).as_ref(), Some(ask));
        match answered {
            true => agree(&governance).await,
            false => bench.later(ASK_LIFE_MS + 1),
        }
        assert_eq!(governance.pending_ask(&ask.id), None, "{text}");
    }
    assert_eq!((governance.pending_ask(&"0".repeat(32)), governance.pending_ask("none")), (None, None));
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
    assert!(stopped_questions(&governance, stopped).is_empty());
    assert_eq!(end_questions_of(&governance, stopped).await.expect("it is written"), 2, "a question, and a yes");
    assert_eq!(stopped_questions(&governance, stopped).len(), 2);
    assert_eq!(stopped_questions(&governance, |id| *id == callee().id).len(), 1, "its message to that one");
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
