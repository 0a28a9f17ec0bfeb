//! The output of an agent's program reaches the caller unchanged, on its own node and through another one.

use std::time::Duration;

use althing_calls::{Operation, OperationError, Reply};
use althing_conformance::mesh::{Node, ask, file, message, store};
use althing_conformance::program::{answer_attributes, heard_beside};
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, AnswerAttributes, Attributes, Label};
use althing_simnet::{LinkConfig, SimNet};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A node that hosts the program, and another of the same owner that asks through it.
struct Scene {
    far: Node,
    host: Node,
    id: AgentId,
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let far = Node::start(&net, 1, 100, &[], store()).await;
        let host = Node::start(&net, 2, 100, &[], store()).await;
        let mut program = file("program", "does as it is told", "acting.do", "do", "play");
        program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
        let id = host.host(&program).await;
        far.connect(&host).await;
        until("the agent is found", || {
            let (all, _) = far.discovery.find(&Query::default());
            all.iter().any(|found| found.candidate.verified.agent == id)
        })
        .await;
        Scene { far, host, id }
    }

    fn nodes(&self) -> [&Node; 2] {
        [&self.host, &self.far]
    }

    async fn kept(&self, node: &Node) -> Value {
        node.one(&self.id, Operation::ListTasks, json!({})).await.expect("a list")["tasks"].clone()
    }

    /// All events, and the error that they end with.
    async fn stream(&self, node: &Node, params: Value) -> Result<(Vec<Value>, Option<OperationError>), OperationError> {
        let Reply::Events(events) = node.ask(&self.id, Operation::SendStreamingMessage, params).await? else {
            panic!("it streams")
        };
        let (mut all, mut error) = (Vec::new(), None);
        for event in events.collect::<Vec<_>>().await {
            match event {
                Ok(event) => all.push(serde_json::from_slice(&event).expect("JSON")),
                Err(refused) => error = Some(refused),
            }
        }
        Ok((all, error))
    }
}

fn continuing(task: &Value, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["taskId"] = task["id"].clone();
    params
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_a_message_and_no_task_is_kept() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let sent = node.one(&scene.id, Operation::SendMessage, message("message hello")).await.expect("an answer");
        assert_eq!(sent["message"]["parts"][0]["text"], "hello", "{sent}");
        assert_eq!(sent["message"]["taskId"], Value::Null, "there is no such task");
        let (events, error) = scene.stream(node, message("message hello")).await.expect("events");
        assert_eq!((events.len(), error), (1, None), "{events:?}");
        assert_eq!(events[0]["message"]["parts"][0]["text"], "hello");
        assert_eq!(scene.kept(node).await, json!([]));
        assert_eq!(scene.host.hosting.live_tasks(), 0);
    }
}

/// P-201, P-202, P-203: an agent reads what is said of a call, and who asked what is said of the answer.
#[tokio::test(start_paused = true)]
async fn label_session_and_delegation_reach_the_agent_and_come_back_with_its_answer() {
    let scene = Scene::start().await;
    let label = Some(Label { level: DataLabel::Confidential, trusted: true });
    let sent = Attributes { label, session: Some([5; 32]), delegation: Some(b"by whose authority".to_vec()) };
    for (node, place) in scene.nodes().into_iter().zip(["near", "far"]) {
        for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
            let text = format!("label {place} {operation:?}");
            let answer = AnswerAttributes::default();
            let call = ask(&node.calls, &scene.id, operation, &message(&text)).await.expect("good parameters");
            let call = call.with_attributes(sent.clone()).adding_to(answer.clone());
            match node.calls.ask(call).await.expect("an answer") {
                Reply::One(_) => {}
                Reply::Events(events) => assert_eq!(events.collect::<Vec<_>>().await.len(), 1, "{text}"),
            }
            let [heard] = &heard_beside(&text)[..] else { panic!("{text:?} was heard once") };
            assert_eq!(heard.attributes, sent, "{text}");
            assert_eq!(answer.get(), answer_attributes(), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_long_to_begin_is_waited_for() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let (events, _) = scene.stream(node, message("late hello")).await.expect("events");
        assert_eq!(events[0]["message"]["parts"][0]["text"], "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_before_the_answer_began_and_does_not_come_again_gives_it_up() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let asking = scene.stream(node, message("late hello"));
        assert!(timeout(Duration::from_secs(1), asking).await.is_err(), "it takes 90 s");
        sleep(Duration::from_secs(50)).await;
        assert_eq!(scene.host.hosting.live_tasks(), 1, "the message may come again");
        until("its turn is over", || scene.host.hosting.live_tasks() == 0).await;
        let kept = scene.kept(node).await;
        assert!(kept.as_array().expect("tasks").iter().all(|task| task["status"]["state"] == "TASK_STATE_CANCELED"));
    }
}

/// P-77: the answer is that of the turn that the message began, whether it came before the message came again, or after.
#[tokio::test(start_paused = true)]
async fn who_hangs_up_before_the_answer_began_finds_it_by_the_same_message() {
    let scene = Scene::start().await;
    for (number, node) in scene.nodes().into_iter().enumerate() {
        for (verb, pause) in [("late", 40), ("slow", 40), ("slow", 5)] {
            let words = format!("again {number} {pause}");
            let params = message(&format!("{verb} {words}"));
            let asking = scene.stream(node, params.clone());
            assert!(timeout(Duration::from_secs(1), asking).await.is_err(), "it takes 30 s at least");
            sleep(Duration::from_secs(pause)).await;
            let (events, error) = scene.stream(node, params.clone()).await.expect("events");
            assert_eq!((events.len(), error), (1, None), "{verb}, {pause} s: {events:?}");
            let (task, message) = (&events[0]["task"], &events[0]["message"]);
            let answered = if message.is_null() { &task["status"]["message"] } else { message };
            assert_eq!(answered["parts"][0]["text"], words.as_str(), "{events:?}");
            assert!(message.is_object() || task["status"]["state"] == "TASK_STATE_COMPLETED", "{events:?}");
            assert_eq!(heard_beside(&format!("{verb} {words}")).len(), 1, "it was told once");
            until("its turn is over", || scene.host.hosting.live_tasks() == 0).await;
        }
    }
}

/// Who was given a task's id can ask for it.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_named_before_the_message_came_stays() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let task = node.begin(&scene.id, "message hello").await;
        let done = || async {
            let task = node.one(&scene.id, Operation::GetTask, json!({ "id": task })).await.expect("the task");
            (task["status"]["state"] == "TASK_STATE_COMPLETED").then_some(task)
        };
        let mut found = done().await;
        while found.is_none() {
            tokio::task::yield_now().await;
            found = done().await;
        }
        assert_eq!(found.expect("a task")["status"]["message"]["parts"][0]["text"], "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agents_own_errors_are_what_the_caller_gets() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        for code in [-32_602, -32_001, -32_004, -32_005, -32_006, -32_008, -32_603, -32_099] {
            let text = format!("refuse {code}");
            let refused = node.one(&scene.id, Operation::SendMessage, message(&text)).await.expect_err("a refusal");
            assert_eq!((refused.code(), &*refused.message), (code, &*format!("refused with {code}")));
            let info = &refused.to_json()["data"][0];
            assert_eq!(
                (info["domain"].as_str(), refused.details.last()),
                (Some("a2a-protocol.org"), Some(&json!({ "why": "so" })))
            );
            let streamed = scene.stream(node, message(&text)).await.expect_err("a refusal");
            assert_eq!(streamed, refused);
        }
        assert_eq!(scene.kept(node).await, json!([]), "no task failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_leaves_its_task_as_it_was() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let asked = node.send(&scene.id, "ask mine").await;
        let refused = node.one(&scene.id, Operation::SendMessage, continuing(&asked, "refuse -32602")).await;
        assert_eq!(refused.expect_err("a refusal").code(), -32_602);
        let task = node.one(&scene.id, Operation::GetTask, json!({ "id": asked["id"] })).await.expect("the task");
        assert_eq!(task, asked);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_after_the_task_began_ends_the_stream_and_the_task_failed() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let (events, error) = scene.stream(node, message("break")).await.expect("events");
        assert_eq!(error.map(|error| error.code()), Some(-32_603));
        assert_eq!(events.len(), 1, "{events:?}");
        let id = &events[0]["task"]["id"];
        let task = node.one(&scene.id, Operation::GetTask, json!({ "id": id })).await.expect("the task");
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
        let refused = node.one(&scene.id, Operation::SendMessage, message("break")).await.expect_err("a refusal");
        assert_eq!(refused.code(), -32_603);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_begins_as_the_agent_begins_it_and_metadata_comes_back() {
    let scene = Scene::start().await;
    for node in scene.nodes() {
        let (events, _) = scene.stream(node, message("work")).await.expect("events");
        assert_eq!(events[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
        assert_eq!(events[0]["task"]["metadata"], json!({ "about": "task" }));
        assert_eq!(events[1]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
        assert_eq!(events[1]["statusUpdate"]["metadata"], json!({ "about": "status" }));
        let (first, second) = (&events[2]["artifactUpdate"], &events[3]["artifactUpdate"]);
        assert_eq!((&first["append"], &first["metadata"]), (&Value::Null, &json!({ "about": "one " })));
        assert_eq!((&second["append"], &second["lastChunk"]), (&json!(true), &json!(true)));
        assert_eq!(second["artifact"]["metadata"], json!({ "two": true }));
        assert_eq!(events[4]["statusUpdate"]["metadata"], json!({ "about": "end" }));
        assert_eq!(events.len(), 5, "{events:?}");
        let id = &events[0]["task"]["id"];
        let task = node.one(&scene.id, Operation::GetTask, json!({ "id": id })).await.expect("the task");
        assert_eq!(task["metadata"], json!({ "about": "end" }), "as of the last event");
        assert_eq!(task["artifacts"][0]["metadata"], json!({ "one": true, "two": true }));

        // A task that is shown whole, and done, is one event.
        let (events, _) = scene.stream(node, message("whole answer")).await.expect("events");
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(events[0]["task"]["artifacts"][0]["parts"][0]["text"], "answer");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_beside_a_message_reaches_the_agent() {
    let scene = Scene::start().await;
    for (number, node) in scene.nodes().into_iter().enumerate() {
        let text = format!("message beside {number}");
        let mut params = message(&text);
        params["metadata"] = json!({ "trip": 7 });
        params["configuration"] = json!({ "acceptedOutputModes": ["text/markdown"], "historyLength": 3 });
        node.one(&scene.id, Operation::SendMessage, params).await.expect("an answer");
        let [beside] = &heard_beside(&text)[..] else { panic!("it was told once") };
        assert_eq!(beside.metadata, Some([("trip".to_owned(), json!(7))].into()));
        assert_eq!(beside.accepted_output_modes.as_deref(), Some(&["text/markdown".to_owned()][..]));
        assert_eq!(beside.history_length, Some(3));
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_task_that_waits_reaches_the_agent_and_keeps_its_question() {
    let scene = Scene::start().await;
    for (number, node) in scene.nodes().into_iter().enumerate() {
        let name = format!("waiting {number}");
        let asked = node.send(&scene.id, &format!("ask {name}")).await;
        let by_id = json!({ "id": asked["id"] });
        let cancelled = node.one(&scene.id, Operation::CancelTask, by_id.clone()).await.expect("cancelled");
        assert_eq!(heard_beside(&format!("cancel {name}")).len(), 1);
        assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
        assert_eq!(cancelled["status"]["message"]["parts"][0]["text"], "as you wish");
        let kept = node.one(&scene.id, Operation::GetTask, by_id).await.expect("the task");
        let texts: Vec<_> =
            kept["history"].as_array().expect("history").iter().map(|m| &m["parts"][0]["text"]).collect();
        assert_eq!(texts, [&json!(format!("ask {name}")), &json!("which?")]);

        // What the agent refuses to cancel goes on waiting.
        let asked = node.send(&scene.id, "ask stubborn").await;
        let by_id = json!({ "id": asked["id"] });
        let refused = node.one(&scene.id, Operation::CancelTask, by_id.clone()).await.expect_err("a refusal");
        assert_eq!(refused.code(), -32_002);
        assert_eq!(node.one(&scene.id, Operation::GetTask, by_id).await.expect("the task"), asked);
    }
}
