//! A repeated message is answered with its first task, and no work is done twice.

use std::sync::Arc;

use althing_calls::{HostedAgent, Operation, Refusal};
use althing_communication::{CallerRule, Priority};
use althing_conformance::disk::Disk;
use althing_conformance::mesh::{Node, file, message};
use althing_conformance::program::heard_beside;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use serde_json::{Value, json};

const OWNER: u8 = 100;

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default())
}

async fn node(net: &SimNet, disk: Arc<Disk>) -> (Node, AgentId) {
    let node = Node::start(net, 1, OWNER, &[], disk).await;
    let id = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    (node, id)
}

fn to(task: &Value, mut params: Value) -> Value {
    params["message"]["taskId"] = task["id"].clone();
    params
}

async fn total(node: &Node, agent: &AgentId) -> Value {
    node.one(agent, Operation::ListTasks, json!({})).await.expect("a list")["totalSize"].clone()
}

/// P-77
#[tokio::test(start_paused = true)]
async fn a_message_sent_again_is_answered_with_its_task() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(&net(), disk.clone()).await;
    let params = message("hello");
    let first = node.one(&agent, Operation::SendMessage, params.clone()).await.expect("an answer");
    assert_eq!(node.one(&agent, Operation::SendMessage, params.clone()).await, Ok(first.clone()));
    let events = node.all(&agent, Operation::SendStreamingMessage, params.clone()).await.expect("events");
    assert_eq!(events, std::slice::from_ref(&first), "the task as it is, and nothing happens to it");
    assert_eq!(total(&node, &agent).await, 1);

    // A different message under the same id is refused.
    let mut other = params.clone();
    other["message"]["parts"][0]["text"] = json!("something else");
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        let refused = node.ask(&agent, operation, other.clone()).await.err().expect("a refusal");
        assert_eq!((refused.code(), refused.reason()), (-32_602, "MESSAGE_ID_REUSED"));
    }
    assert_eq!(total(&node, &agent).await, 1);

    // Another agent's messages are others.
    let second = node.host(&file("second", "does as it is told", "acting.do", "do", "play")).await;
    assert!(node.one(&second, Operation::SendMessage, other).await.is_ok());

    // All this is known after a restart, and a power cut.
    let (again, agent) = self::node(&net(), disk.after_power_cut()).await;
    assert_eq!(again.one(&agent, Operation::SendMessage, params).await, Ok(first));
    assert_eq!(total(&again, &agent).await, 1);
}

/// P-77
#[tokio::test(start_paused = true)]
async fn a_message_to_a_task_that_is_sent_again_is_said_once() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(&net(), disk.clone()).await;
    let (asks, answers) = (message("ask"), message("ask"));
    let task = node.one(&agent, Operation::SendMessage, asks.clone()).await.expect("an answer")["task"].clone();
    let answered = node.one(&agent, Operation::SendMessage, to(&task, answers.clone())).await.expect("an answer");
    assert_eq!(answered["task"]["history"].as_array().map(Vec::len), Some(3));
    for (node, agent) in [(node, agent), self::node(&net(), disk.after_power_cut()).await] {
        let again = node.one(&agent, Operation::SendMessage, to(&task, answers.clone())).await;
        assert_eq!(again, Ok(answered.clone()));
        let again = node.one(&agent, Operation::SendMessage, asks.clone()).await;
        assert_eq!(again, Ok(answered.clone()), "the first one belongs to it too");
        let mut other = to(&task, answers.clone());
        other["message"]["parts"][0]["text"] = json!("something else");
        let mut begun = message("hello");
        begun["message"]["messageId"] = asks["message"]["messageId"].clone();
        for reused in [other, begun.clone(), to(&task, begun)] {
            let refused = node.one(&agent, Operation::SendMessage, reused).await.expect_err("a refusal");
            assert_eq!(refused.reason(), "MESSAGE_ID_REUSED");
        }
    }
}

/// P-77: also of two that come at one time, while the first is being written, and while its turn runs.
#[tokio::test(start_paused = true)]
async fn of_many_that_come_at_once_one_begins_a_task_and_all_are_answered_with_it() {
    let (node, agent) = node(&net(), Arc::new(Disk::default())).await;
    let params = message("pieces");
    let ask = || node.one(&agent, Operation::SendMessage, params.clone());
    let (one, two, three, late) = tokio::join!(ask(), ask(), ask(), async {
        // The first is on the disk, and its turn runs.
        tokio::time::sleep(althing_conformance::disk::SYNC + std::time::Duration::from_millis(250)).await;
        assert_eq!(node.hosting.live_tasks(), 1);
        ask().await
    });
    let one = one.expect("an answer");
    assert_eq!(one["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    for other in [two, three, late] {
        assert_eq!(other, Ok(one.clone()));
    }
    assert_eq!(total(&node, &agent).await, 1);
}

/// P-77: when the first could not be kept, the second is a first.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_refused_may_be_sent_again() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(&net(), disk.clone()).await;
    let params = message("hello");
    disk.fail_above(0);
    let ask = || node.one(&agent, Operation::SendMessage, params.clone());
    let (one, two) = tokio::join!(ask(), ask());
    assert!(one.is_err() && two.is_err());
    disk.fail_above(usize::MAX);
    assert_eq!(ask().await.expect("an answer")["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// P-77: an agent elsewhere decides what a repeated message is; while the first is processed, it is answered with that.
#[tokio::test(start_paused = true)]
async fn an_agent_elsewhere_is_given_a_message_again_when_its_turn_is_over() {
    let (node, agent) = node(&net(), Arc::new(Disk::default())).await;
    node.hosting.add(HostedAgent {
        agent: node.stable(&agent),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: true,
        priority: Priority::default(),
    });
    let params = message("pieces");
    let ask = |params: &Value| node.one(&agent, Operation::SendMessage, params.clone());
    let (first, at_once) = tokio::join!(ask(&params), ask(&params));
    let first = first.expect("an answer");
    assert_eq!(at_once, Ok(first.clone()), "it was processed");
    let again = ask(&params).await.expect("an answer");
    assert_ne!(again["task"]["id"], first["task"]["id"]);
    let mut other = params.clone();
    other["message"]["parts"][0]["text"] = json!("hello");
    let other = ask(&other).await.expect("another message of that id is one of its own");
    assert_ne!(other["task"]["id"], again["task"]["id"]);
    assert_eq!(total(&node, &agent).await, 3);

    // Also in a task that goes on.
    let asks = message("ask");
    let task = ask(&asks).await.expect("an answer")["task"].clone();
    let answered = ask(&to(&task, asks.clone())).await.expect("an answer");
    assert_eq!(answered["task"]["id"], task["id"]);
    assert_eq!(total(&node, &agent).await, 4);
}

/// P-77: what one caller's message is called is nothing to another.
#[tokio::test(start_paused = true)]
async fn callers_choose_their_ids_without_regard_to_others() {
    let net = net();
    let (node, agent) = node(&net, Arc::new(Disk::default())).await;
    node.hosting.add(HostedAgent {
        agent: node.stable(&agent),
        callers: CallerRule::Anyone,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    let stranger = Node::start(&net, 2, 101, &[], Arc::new(Disk::default())).await;
    stranger.connect(&node).await;
    let found = || stranger.discovery.hosts(&agent).len() == 1;
    althing_conformance::world::until("the agent is found", found).await;
    let mut params = message("hello");
    let own = node.one(&agent, Operation::SendMessage, params.clone()).await.expect("an answer");
    params["message"]["parts"][0]["text"] = json!("something else");
    let theirs = stranger.one(&agent, Operation::SendMessage, params).await.expect("an answer");
    assert_ne!(own["task"]["id"], theirs["task"]["id"]);
}

/// An agent that may answer without a task.
async fn program(node: &Node) -> AgentId {
    let mut program = file("program", "does as it is told", "acting.do", "do", "play");
    program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    node.host(&program).await
}

/// P-77: also when what comes of it is no task; that is not kept, and then the message is a new one.
#[tokio::test(start_paused = true)]
async fn all_who_send_a_message_again_get_the_message_that_answers_it_and_no_later_one() {
    let (node, _) = node(&net(), Arc::new(Disk::default())).await;
    let agent = program(&node).await;
    let params = message("late answer to all");
    let ask = || node.one(&agent, Operation::SendMessage, params.clone());
    let (one, two, named, streamed) = tokio::join!(
        ask(),
        ask(),
        // The end of the turn is being written: no task can be named any more.
        async {
            let written = althing_conformance::disk::SYNC / 2 + std::time::Duration::from_secs(90);
            tokio::time::sleep(written).await;
            let mut params = params.clone();
            params["configuration"] = json!({ "returnImmediately": true });
            node.one(&agent, Operation::SendMessage, params).await
        },
        node.all(&agent, Operation::SendStreamingMessage, params.clone())
    );
    let one = one.expect("an answer");
    assert_eq!(one["message"]["parts"][0]["text"], "answer to all");
    assert_eq!((two, named, streamed), (Ok(one.clone()), Ok(one.clone()), Ok(vec![one])));
    assert_eq!(heard_beside("late answer to all").len(), 1, "it was done once");
    assert_eq!(total(&node, &agent).await, 0);
    assert!(ask().await.expect("an answer")["message"].is_object());
    assert_eq!(heard_beside("late answer to all").len(), 2, "nothing of the first was kept");
}

/// P-77: where the id of a message is a key, it is remembered that a message answered it.
#[tokio::test(start_paused = true)]
async fn a_message_with_a_key_that_was_answered_with_a_message_is_done_once() {
    let (node, _) = node(&net(), Arc::new(Disk::default())).await;
    let agent = program(&node).await;
    let text = "message under a key";
    let mut params = message(text);
    params["message"]["messageId"] = json!("5e".repeat(32));
    let first = node.one(&agent, Operation::SendMessage, params.clone()).await.expect("an answer");
    assert_eq!(first["message"]["parts"][0]["text"], "under a key");
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        let refused = node.ask(&agent, operation, params.clone()).await.err().expect("a refusal");
        assert_eq!((refused.code(), refused.reason()), (-32_000, "ALREADY_DONE"));
        let Refusal::AlreadyDone { answer: Some(answer) } = &refused.refusal else { panic!("{refused:?}") };
        let answer: Value = serde_json::from_str(answer).expect("JSON");
        assert_eq!(answer, first["message"]);
    }
    assert_eq!((heard_beside(text).len(), total(&node, &agent).await), (1, json!(0)), "it was done once");

    let mut other = params.clone();
    other["message"]["parts"][0]["text"] = json!("message of another content");
    let refused = node.one(&agent, Operation::SendMessage, other).await.expect_err("a refusal");
    assert_eq!(refused.reason(), "MESSAGE_ID_REUSED");
    // To another agent it is another message.
    let second = node.host(&file("second", "does as it is told", "acting.do", "do", "play")).await;
    assert!(node.one(&second, Operation::SendMessage, params).await.is_ok());
}

/// P-77: who sent a message again is not left without an answer because the first one to send it hung up.
#[tokio::test(start_paused = true)]
async fn an_answer_is_given_up_when_all_who_wait_for_it_hung_up() {
    let (node, _) = node(&net(), Arc::new(Disk::default())).await;
    let agent = program(&node).await;
    let params = message("late answer to one");
    let stream = || node.all(&agent, Operation::SendStreamingMessage, params.clone());
    let short = |seconds| tokio::time::timeout(std::time::Duration::from_secs(seconds), stream());
    let (first, second, third) = tokio::join!(short(30), stream(), short(40));
    assert!(first.is_err() && third.is_err(), "it takes 100 s");
    assert_eq!(second.expect("events")[0]["message"]["parts"][0]["text"], "answer to one");
    assert_eq!(heard_beside("late answer to one").len(), 1);

    let (first, second) = tokio::join!(short(3), short(4));
    assert!(first.is_err() && second.is_err());
    // For a minute the message may come again.
    tokio::time::sleep(std::time::Duration::from_secs(55)).await;
    assert_eq!(node.hosting.live_tasks(), 1);
    althing_conformance::world::until("its turn is over", || node.hosting.live_tasks() == 0).await;
    let listed = node.one(&agent, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["tasks"][0]["status"]["state"], "TASK_STATE_CANCELED");
}
