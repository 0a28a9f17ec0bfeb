//! Label, session and delegation go on with what an agent does for a call, through the nodes of three owners, and labels come
//! back with what is answered.

use std::sync::Arc;

use althing_calls::{Operation, OperationError, Reply};
use althing_conformance::mesh::{Node, Owner, ask, file, file_asking, message, store};
use althing_conformance::program::heard_beside;
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_protocol::contract::DataLabel;
use althing_protocol::limits::DELEGATION_BYTES_MAX;
use althing_protocol::{AgentId, AnswerAttributes, Attributes, CallerId, Label};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::MemoryStore;
use althing_td::{AgentFile, RuntimeSpec};
use futures::StreamExt as _;
use serde_json::{Value, json};

const X: u8 = 101;
const A: u8 = 102;
const B: u8 = 103;

fn labelled(level: DataLabel, trusted: bool) -> Attributes {
    Attributes { label: Some(Label { level, trusted }), ..Attributes::default() }
}

/// What a caller says of its calls.
fn sent() -> Attributes {
    let rest = labelled(DataLabel::Confidential, true);
    Attributes { session: Some([5; 32]), delegation: Some(b"by whose authority".to_vec()), ..rest }
}

/// What is said of the answer to a call, by its first event where it is streamed.
async fn said(
    node: &Node,
    agent: &AgentId,
    operation: Operation,
    params: &Value,
    sent: Attributes,
) -> Result<Attributes, OperationError> {
    let answer = AnswerAttributes::default();
    let call = ask(&node.calls, agent, operation, params).await?.with_attributes(sent).adding_to(answer.clone());
    if let Reply::Events(mut events) = node.calls.ask(call).await? {
        events.next().await.expect("an event")?;
    }
    Ok(answer.get())
}

fn knows(node: &Node, id: &AgentId) -> bool {
    let (all, _) = node.discovery.find(&Query::default());
    all.iter().any(|found| found.candidate.verified.agent == *id)
}

/// A caller, and the node of an agent that asks the agent of a third node.
struct Chain {
    x: Node,
    asking: AgentId,
    _others: [Node; 2],
}

impl Chain {
    async fn start() -> Chain {
        let net = SimNet::new(1, LinkConfig::default());
        let owner = |number: u8| CallerId::Publisher(Owner::new(althing_conformance::key(number)).id());
        let x = Node::start(&net, 1, X, &[], store()).await;
        let a = Node::start(&net, 2, A, &[owner(B)], store()).await;
        let b = Node::start(&net, 3, B, &[owner(A)], store()).await;
        let others = ["told".to_owned()];
        let asking = file_asking("asking", "asks another", "asking.do", ("do", "ask"), &others);
        let asking = a.host_for_anyone(&asking).await;
        let told = b.host_for_anyone(&program("told")).await;
        x.connect(&a).await;
        a.connect(&b).await;
        until("they know each other", || knows(&x, &asking) && knows(&a, &told)).await;
        Chain { x, asking, _others: [a, b] }
    }
}

/// An agent that does as it is told, and records the requests that it gets.
fn program(name: &str) -> AgentFile {
    let mut program = file(name, "does as it is told", "acting.do", "do", "play");
    program.runtime = RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    program
}

/// P-201, P-202, P-203: A's agent is called with them, and asks B's; what B's says comes back with the answer of A's.
#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_call_goes_on_through_two_nodes_and_labels_come_back() {
    let Chain { x, asking, _others } = Chain::start().await;
    let heard = |text: &str| match &heard_beside(text)[..] {
        [heard] => heard.attributes.clone(),
        all => panic!("{text:?} was heard {} times", all.len()),
    };
    // The first answer is restricted, and untrusted: so is what the turn sends afterwards, and its own answer.
    let raised = labelled(DataLabel::Restricted, false);
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        let texts =
            ["message sent before", "label it", "message sent after"].map(|text| format!("{text} {operation:?}"));
        let text = format!("each told {}", texts.join("; "));
        let answer = AnswerAttributes::default();
        let call = ask(&x.calls, &asking, operation, &message(&text)).await.expect("good parameters");
        let call = call.with_attributes(sent()).adding_to(answer.clone());
        if let Reply::Events(events) = x.calls.ask(call).await.expect("an answer") {
            let events = events.collect::<Vec<_>>().await;
            assert!(events.iter().all(Result::is_ok), "{events:?}");
        }
        let expected = [sent(), sent(), Attributes { label: raised.label, ..sent() }];
        assert_eq!(texts.map(|text| heard(&text)), expected, "{operation:?}");
        assert_eq!(answer.get(), raised, "the session and the delegation of B's answer are not A's");
    }

    // A call that comes from another node and of which nothing is said is confidential, and nobody vouches for it; so is all that
    // follows from it.
    let plain = message("forward told message of nobody");
    let said = said(&x, &asking, Operation::SendMessage, &plain, Attributes::default()).await.expect("an answer");
    let unlabelled = Attributes { label: Some(Label::UNLABELLED), ..Attributes::default() };
    assert_eq!((said, heard("message of nobody")), (unlabelled.clone(), unlabelled));
}

/// A node that hosts the program, another of the same owner that asks through it, and the disk of the first.
struct Pair {
    net: SimNet,
    far: Node,
    host: Node,
    disk: Arc<MemoryStore>,
    id: AgentId,
}

impl Pair {
    async fn start() -> Pair {
        let net = SimNet::new(1, LinkConfig::default());
        let disk = store();
        let far = Node::start(&net, 1, X, &[], store()).await;
        let host = Node::start(&net, 2, X, &[], disk.clone()).await;
        let id = host.host(&program("program")).await;
        far.connect(&host).await;
        until("the agent is found", || knows(&far, &id)).await;
        Pair { net, far, host, disk, id }
    }
}

/// P-201
#[tokio::test(start_paused = true)]
async fn whoever_is_shown_a_task_is_told_its_label() {
    let Pair { net, far, host, disk, id } = Pair::start().await;
    let label = Attributes { session: None, delegation: None, ..sent() };
    for (node, place) in [(&host, "near"), (&far, "far")] {
        let params = message(&format!("ask {place}"));
        let call = async |operation: Operation, params: &Value| {
            said(node, &id, operation, params, Attributes::default()).await.expect("an answer")
        };
        assert_eq!(said(node, &id, Operation::SendMessage, &params, sent()).await.expect("a task"), label);
        let asked = node.one(&id, Operation::SendMessage, params.clone()).await.expect("its task");
        let by_id = json!({ "id": asked["task"]["id"] });
        // The message was taken already: it is answered by the task.
        for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
            assert_eq!(call(operation, &params).await, label, "{place} {operation:?}");
        }
        for operation in [Operation::GetTask, Operation::SubscribeToTask] {
            assert_eq!(call(operation, &by_id).await, label, "{place} {operation:?}");
        }
        assert_eq!(call(Operation::ListTasks, &json!({})).await, label, "{place}");
        // What the next turn answers is made of what the task holds, too.
        let mut next = message(&format!("message again {place}"));
        next["message"]["taskId"] = by_id["id"].clone();
        // Of the next message nothing is said: from another node it is nobody's word.
        let trusted = place == "near";
        let both = Attributes { label: label.label.map(|label| Label { trusted, ..label }), ..label.clone() };
        assert_eq!(call(Operation::SendMessage, &next).await, both, "{place}");
        assert_eq!(call(Operation::CancelTask, &by_id).await, both, "{place}");
    }

    let asked = message("ask before a crash");
    said(&far, &id, Operation::SendMessage, &asked, sent()).await.expect("a task");
    let asked = far.one(&id, Operation::SendMessage, asked).await.expect("its task");
    let by_id = json!({ "id": asked["task"]["id"] });
    net.crash(host.id());
    until("it is gone", || far.discovery.hosts(&id).is_empty()).await;
    let stale = said(&far, &id, Operation::GetTask, &by_id, Attributes::default()).await.expect("as last known");
    assert_eq!(stale, label);
    let again = Node::start(&net, 2, X, &[], disk).await;
    again.host(&program("program")).await;
    until("the agent is there", || again.hosting.hosts(&id)).await;
    let read = said(&again, &id, Operation::GetTask, &by_id, Attributes::default()).await.expect("the task");
    assert_eq!(read, label, "it is on disk with the task");
}

/// P-201
#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_twice_at_once_has_one_label() {
    let Pair { far, host, id, .. } = Pair::start().await;
    let label = Attributes { session: None, delegation: None, ..sent() };
    for (node, place) in [(&host, "near"), (&far, "far")] {
        for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
            let text = format!("slow {place} {operation:?}");
            let params = message(&text);
            let twice = [(); 2].map(|()| said(node, &id, operation, &params, sent()));
            let answers = futures::future::join_all(twice).await;
            for answer in answers {
                assert_eq!(answer.expect("an answer"), label, "{text}");
            }
            assert_eq!(heard_beside(&text).len(), 1, "it was worked on once");
        }
    }
}

/// P-203
#[tokio::test(start_paused = true)]
async fn a_delegation_that_no_frame_carries_is_refused_by_whoever_has_it_from_its_own_people() {
    let Pair { far, host, id, .. } = Pair::start().await;
    for node in [&host, &far] {
        for bytes in [0, DELEGATION_BYTES_MAX + 1] {
            let too_long = Attributes { delegation: Some(vec![1; bytes]), ..Attributes::default() };
            let text = format!("message with {bytes} bytes");
            let refused = said(node, &id, Operation::SendMessage, &message(&text), too_long).await;
            let refused = refused.expect_err("a refusal");
            assert_eq!(refused.code(), -32_602);
            assert!(refused.message.contains("1 to 4096 bytes"), "{}", refused.message);
            assert_eq!(heard_beside(&text), []);

            // An agent that adds one fails, and its caller is told why.
            let sent = node.one(&id, Operation::SendMessage, message(&format!("delegate {bytes}"))).await;
            let status = &sent.expect("a task")["task"]["status"];
            assert_eq!(status["state"], "TASK_STATE_FAILED");
            let why = status["message"]["parts"][0]["text"].as_str().expect("why");
            assert!(why.contains("1 to 4096 bytes"), "{why}");
        }
        let longest = message(&format!("delegate {DELEGATION_BYTES_MAX}"));
        let said = said(node, &id, Operation::SendMessage, &longest, Attributes::default()).await.expect("an answer");
        assert_eq!(said.delegation.map(|bytes| bytes.len()), Some(DELEGATION_BYTES_MAX));
    }
}
