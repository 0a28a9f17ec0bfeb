//! Tasks that move from one node to another, over the simulated network and in virtual time.

use std::time::Duration;

use althing_calls::Operation;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use althing_simulations::mesh::{Node, file, message, store};
use serde_json::{Value, json};

const OWNER: u8 = 100;

/// A caller, and two hosts of one agent, of which the first is asked first.
struct Scene {
    net: SimNet,
    caller: Node,
    hosts: [Node; 2],
    agent: AgentId,
}

impl Scene {
    async fn start(seed: u64) -> Scene {
        let net = SimNet::new(seed, LinkConfig::default());
        let caller = Node::start(&net, 1, OWNER, &[], store()).await;
        let first = Node::start(&net, 2, OWNER, &[], store()).await;
        let second = Node::start(&net, 3, OWNER, &[], store()).await;
        let actor = file("actor", "does as it is told", "acting.do", "do", "play");
        let agent = first.host(&actor).await;
        second.host(&actor).await;
        first.connect(&caller).await;
        second.connect(&caller).await;
        while caller.discovery.hosts(&agent).len() < 2 {
            // Virtual: it only lets the nodes go on.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Scene { net, caller, hosts: [first, second], agent }
    }

    /// Freezes the task at the first host, and thaws it at the second; then the first one is gone.
    async fn hand_over(&self, task: &Value) {
        let ([from, to], task) = (&self.hosts, task.as_str().expect("an id"));
        let pack = from.hosting.freeze(&self.agent, task, to.id()).await.expect("it is frozen");
        assert_eq!(to.hosting.thaw(&self.agent, from.id(), &pack).await.expect("it thaws"), task);
        assert!(to.hosting.thaw(&self.agent, from.id(), &pack).await.is_err(), "once");
    }

    async fn get(&self, task: &Value) -> Value {
        self.caller.one(&self.agent, Operation::GetTask, json!({ "id": task })).await.expect("the task")
    }

    /// Sends a message to the task; gives it as it ends.
    async fn go_on(&self, task: &Value) -> Value {
        let mut params = message("the answer");
        params["message"]["taskId"] = task.clone();
        let sent = self.caller.one(&self.agent, Operation::SendMessage, params).await.expect("the task");
        sent["task"].clone()
    }
}

/// The texts of a task's artifacts.
fn texts(task: &Value) -> Vec<String> {
    let parts = |of: &Value| of["parts"].as_array().cloned().unwrap_or_default();
    let text = |of: &Value| parts(of).iter().filter_map(|part| part["text"].as_str()).collect();
    task["artifacts"].as_array().into_iter().flatten().map(text).collect()
}

/// P-204, P-205
#[tokio::test(start_paused = true)]
async fn a_frozen_task_thaws_on_another_node_and_ends_there() {
    for seed in 0..8 {
        let scene = Scene::start(seed).await;
        let task = scene.caller.send(&scene.agent, "ask").await;
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        let (id, before) = (&task["id"], scene.get(&task["id"]).await);
        scene.hand_over(id).await;
        assert_eq!(scene.get(id).await, before, "seed {seed}: nothing of it changed");
        // It does not need the node where it began any more.
        scene.net.crash(scene.hosts[0].id());
        let ended = scene.go_on(id).await;
        assert_eq!((&ended["id"], &ended["status"]["state"]), (id, &json!("TASK_STATE_COMPLETED")), "seed {seed}");
        assert_eq!(texts(&ended), ["the answer"]);
        assert_eq!(scene.get(id).await["metadata"], Value::Null, "seed {seed}: it is not only remembered");
    }
}

/// P-204
#[tokio::test(start_paused = true)]
async fn a_task_that_is_frozen_at_work_keeps_what_it_made_and_ends_on_the_other_node() {
    let scene = Scene::start(1).await;
    let id = scene.caller.begin(&scene.agent, "pieces").await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(scene.get(&id).await["status"]["state"], "TASK_STATE_WORKING");
    scene.hand_over(&id).await;
    let waits = scene.get(&id).await;
    assert_eq!(waits["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let why = waits["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    assert!(why.contains("handed over"), "{why}");
    let made = texts(&waits).concat();
    assert!(!made.is_empty() && "0 1 2 3 ".starts_with(&made), "{made}");
    let ended = scene.go_on(&id).await;
    assert_eq!(ended["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(texts(&ended), [made.as_str(), "the answer"]);
}
