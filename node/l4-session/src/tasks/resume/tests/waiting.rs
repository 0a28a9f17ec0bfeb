//! What holds up a turn that goes on holds up nothing else, and a version of its agent that comes later goes on with it. What a turn
//! waits for when its node is stopped is told so.

use althing_execution::TurnRights;
use tokio::sync::Semaphore;

use super::*;

/// Whether turns were paused when what they waited for was dropped, by the number of the world.
static ENDS: Mutex<BTreeMap<u64, bool>> = Mutex::new(BTreeMap::new());

/// Waits for something that never comes.
struct Waiter {
    world: u64,
}

/// What it waits for.
struct Wait {
    world: u64,
    rights: TurnRights,
}

impl Drop for Wait {
    fn drop(&mut self) {
        ENDS.lock().expect("nobody panics with it").insert(self.world, self.rights.is_paused());
    }
}

impl Agent for Waiter {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            // The output too: where it is closed nothing but the end of the turn is waited for.
            let _held = (Wait { world: self.world, rights: turn.parameters.rights }, out);
            std::future::pending().await
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

pub(super) fn waiter(config: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Waiter { world: config["world"].as_u64().unwrap_or_default() }))
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_paused_before_what_it_waits_for_is_dropped_and_only_where_its_node_is_stopped() {
    for is_stopped in [false, true] {
        let world = world();
        let mut node = Node::start(&disk(), world, "1.0.0", UNENDING).await;
        let file = json!({
            "name": "waiter",
            "version": "1.0.0",
            "description": "Waits",
            "runtime": { "native": { "builtin": "waiter", "config": { "world": world } } },
            "contract": { "class": { "latency": "srt" } },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        node.tasks.runner.host().start(&file, Path::new("/")).expect("it starts");
        let agent = AgentRef::new(owner(), "waiter", "1.0.0").expect("a name");
        node.agent = HostedAgent { agent, ..hosted("1.0.0") };
        let id = node.send().await.expect("it is accepted");
        node.settle().await;
        let ended = || ENDS.lock().expect("nobody panics with it").get(&world).copied();
        assert_eq!(ended(), None, "it waits");
        let list = node.sessions().list();
        let listed = (list.len(), list[0].state, list[0].rows, &list[0].task);
        assert_eq!(listed, (1, SessionState::Working, 0, &id), "it goes on, though it made no call yet");
        if is_stopped {
            node.tasks.end_turns();
        } else {
            node.tasks.cancel_agent(&node.agent.agent);
        }
        node.settle().await;
        assert_eq!(ended(), Some(is_stopped));
        assert_eq!(node.state(&id) == "TASK_STATE_CANCELED", !is_stopped);
        assert!(is_stopped || node.sessions().list().is_empty(), "it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_takes_long_holds_up_nobody_who_wants_something_of_the_task() {
    let (disk, world) = (disk(), world());
    let id = cut_off(&disk, world, 4).await.expect("it was begun");
    let before = calls(world);
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opens, asks) = (gate.clone(), asked.clone());
    let recheck = move |_: Standing| -> BoxFuture<'static, Decision> {
        let opens = opens.clone();
        asks.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            opens.acquire().await.expect("nobody closes it").forget();
            Decision::Allow
        })
    };
    node.sessions().resume(&node.agent, Arc::new(recheck));
    node.settle().await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert_eq!(node.sessions().list()[0].state, SessionState::Waiting, "it is told while it is decided on");
    let (request, metadata) = (json!({ "id": id }), CallMetadata::default());
    let request = serde_json::from_value(request).expect("a request");
    let cancelling = node.tasks.cancel(&node.agent, scope(), &request, &metadata);
    let cancelled = tokio::time::timeout(Duration::from_secs(5), cancelling).await.expect("its lock is free");
    assert!(cancelled.is_ok());
    gate.add_permits(1);
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_CANCELED");
    assert_eq!(calls(world), before, "nothing goes on");
    assert!(node.sessions().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_version_that_began_a_turn_goes_on_with_it_though_another_one_tried_and_was_removed() {
    let (disk, world) = (disk(), world());
    let id = cut_off(&disk, world, 4).await.expect("it was begun");
    let node = Node::start(&disk, world, "2.0.0", UNENDING).await;
    // The newer one tries it while the older one is added.
    let lock = node.tasks.runner.live().write_lock(&id).await;
    node.add();
    node.settle().await;
    node.tasks
        .runner
        .host()
        .start(&agent_file(world, "1.0.0", &json!({ "class": { "latency": "srt" } })), Path::new("/"))
        .expect("it starts");
    let older = hosted("1.0.0");
    let allowed = |_: Standing| -> BoxFuture<'static, Decision> { Box::pin(std::future::ready(Decision::Allow)) };
    node.sessions().resume(&older, Arc::new(allowed));
    node.settle().await;
    assert!(node.tasks.runner.host().stop(&node.agent.agent).await);
    drop(lock);
    node.settle().await;
    tokio::time::sleep(RETRY * 2).await;
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
}
