//! Whatever ends a turn, its task says which of its final calls have no result.

use althing_execution::{EndedTurn, GivenWork, ToldCall, TurnRecorder};
use althing_protocol::Label;
use althing_protocol::audit::AuditOutcome;
use althing_protocol::contract::DataLabel;
use althing_td::ToolTerms;

use super::*;

/// Makes a call that never answers.
struct CallerAgent;

impl Agent for CallerAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let journal =
                turn.parameters.rights.journal.clone().ok_or_else(|| AgentError::Failed("none".to_owned()))?;
            let (arguments, effect) = (json!({}), Effect::Final);
            let (kind, name) = (CallKind::Tool, "bank/pay");
            let step = Step { kind, name, arguments: &arguments, effect, callee: None, gate: None, meanwhile: None };
            // The output too: where it is closed nothing but the end of the turn is waited for.
            let _held = (journal.step(step).await?, out);
            std::future::pending().await
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

pub(super) fn caller(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(CallerAgent))
}

/// Sends a message whose turn may take a second; gives the task.
async fn send_within_a_second(node: &Node) -> String {
    let metadata = json!({ "https://althing.dev/ext/latency/v1": { "withinMs": 1_000 } });
    let parts = json!([{ "text": "go" }]);
    let message = json!({ "messageId": "m-1", "role": "ROLE_USER", "parts": parts, "metadata": metadata });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
    let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
    let call = CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() };
    let answer = node.tasks.send(&node.agent, scope(), *request, &call, None).await.expect("it is accepted");
    let Reply::One(answer) = answer else { panic!("one answer") };
    json(&answer)["task"]["id"].as_str().expect("an id").to_owned()
}

/// Starts an agent on a node that makes a call which never answers, with that contract.
fn start_caller(node: &mut Node, contract: &Value) {
    let file = json!({
        "name": "caller",
        "version": "1.0.0",
        "description": "Calls",
        "runtime": { "native": { "builtin": "caller", "config": {} } },
        "contract": contract,
    });
    let file = AgentFile::parse(&file.to_string()).expect("an agent file");
    node.tasks.runner.host().start(&file, Path::new("/")).expect("it starts");
    let agent = AgentRef::new(owner(), "caller", "1.0.0").expect("a name");
    node.agent = HostedAgent { agent, ..hosted("1.0.0") };
}

/// What a disk has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// For what is short, and no task is.
    Little,
    /// For nothing.
    None,
}

/// A turn is stopped during a call that counts, on a disk that has only that room left for its end; gives the node, what is on the
/// disk, and the task.
async fn stopped_on_a_full_disk(room: Room, contract: &Value) -> (Node, MemoryStore, String) {
    let inner = disk();
    let store = FaultStore::over(inner.clone());
    let mut node = Node::on(Arc::new(store.clone()), host(), "1.0.0", UNENDING).await;
    start_caller(&mut node, contract);
    let id = send_within_a_second(&node).await;
    node.settle().await;
    store.decide(move |batch, _| {
        let is_long = batch.changes().any(|(family, _, value)| family == TASKS && value.is_some());
        let has_room = batch.is_empty() || (room == Room::Little && !is_long);
        if has_room { WriteEnd::Done } else { WriteEnd::Full { is_applied: false } }
    });
    node.tasks.cancel_agent(&node.agent.agent);
    node.settle().await;
    (node, inner, id)
}

/// A host that may start these agents.
fn host() -> Host {
    let mut builtins = Builtins::new();
    builtins.insert("caller", caller);
    Host::new(builtins, ProcessConfig::default()).with_ports(Ports { owner: owner(), ..Ports::none() })
}

/// What a task says names the call in doubt, and nobody is told to send the message again without having looked.
fn warns(said: &str) {
    assert!(said.contains("could not keep the result") && said.contains("step 0 called"), "{said}");
    assert!(said.contains("bank/pay") && said.contains("look before the message is sent again"), "{said}");
    assert!(!said.contains("; send the message again"), "{said}");
}

fn has_rows(disk: &MemoryStore) -> bool {
    !disk.keys(SESSION_ROWS, Range::all(1)).expect("readable").is_empty()
}

#[tokio::test(start_paused = true)]
async fn an_end_for_which_the_disk_has_no_room_names_the_call_in_doubt_and_what_was_called_stays_for_a_day() {
    let plain = json!({ "class": { "latency": "srt" } });
    let (node, disk, id) = stopped_on_a_full_disk(Room::Little, &plain).await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    warns(&node.said(&id));
    // There is room again, and the node starts: that the task failed is on disk, and its journal is there all the same.
    let mut node = Node::on(Arc::new(disk.clone()), host(), "1.0.0", UNENDING).await;
    start_caller(&mut node, &plain);
    node.add();
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    warns(&node.said(&id));
    let turns = node.sessions().steps(&id).expect("its journal is there");
    let [turn] = &turns[..] else { panic!("one turn: {turns:?}") };
    let names: Vec<&str> = turn.rows.iter().filter_map(|row| row.name.as_deref()).collect();
    assert!(turn.ended_ms == Some(NOW_MS) && names == ["bank/pay"], "{turn:?}");
    assert!(
        node.sessions().tape(&id).is_ok_and(|tape| tape.turns.is_empty()),
        "it is no record of what the agent does"
    );
    node.now_ms.store(NOW_MS + DOUBT_MS_MAX, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(DOUBT_MS_MAX + 1)).await;
    node.settle().await;
    assert!(!has_rows(&disk), "a day is over");
    warns(&node.said(&id));
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_whose_end_nothing_could_be_written_is_in_doubt_when_its_node_starts_again() {
    for contract in
        [json!({ "class": { "latency": "srt" } }), json!({ "class": { "latency": "srt" }, "record": "tape" })]
    {
        let (node, disk, id) = stopped_on_a_full_disk(Room::None, &contract).await;
        assert_eq!(node.state(&id), "TASK_STATE_FAILED");
        warns(&node.said(&id));
        assert!(node.tasks.runner.store().journals().recorded(&id).is_empty(), "nothing makes room by its rows");
        let mut node = Node::on(Arc::new(disk.clone()), host(), "1.0.0", UNENDING).await;
        start_caller(&mut node, &contract);
        node.add();
        node.settle().await;
        let list = node.sessions().list();
        let named: Vec<&str> = list.iter().flat_map(|one| &one.doubts).map(|doubt| doubt.name.as_str()).collect();
        assert!(list.len() == 1 && list[0].task == id && named == ["bank/pay"], "{list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_says_that_a_call_brought_is_trusted_only_where_the_tool_is() {
    let terms = ToolTerms { trusted: Some(true), label: Some(DataLabel::Restricted), ..ToolTerms::default() };
    let of_turn = Label { level: DataLabel::Internal, trusted: false };
    for (profiles, label) in [
        (BTreeMap::new(), of_turn),
        (BTreeMap::from([("count/add".to_owned(), terms)]), Label::of_trusted(DataLabel::Restricted)),
    ] {
        let (disk, world, id) = in_doubt().await;
        let (ports, contract) = (Ports { profiles, ..Ports::none() }, json!({ "class": { "latency": "srt" } }));
        let node = Node::start_with(&disk, (world, "1.0.0"), UNENDING, ports, contract).await;
        node.add();
        node.settle().await;
        let seq = node.sessions().list()[0].doubts[0].seq;
        let how = Resolution::Done(json!({ "content": [{ "type": "text", "text": "from a stranger" }] }));
        node.sessions().settle(&id, seq, how, &Principal::Local).await.expect("it is in doubt");
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
        let record = node.tasks.runner.store().read(&id).expect("readable").expect("it is there");
        assert_eq!(record.label, Some(label));
    }
}

/// Remembers what was said of calls.
#[derive(Default)]
struct Heard(Mutex<Vec<(String, AuditOutcome, bool, String)>>);

impl TurnRecorder for Heard {
    fn ended(&self, _: &EndedTurn<'_>) -> Batch {
        Batch::new()
    }

    fn told(&self, call: &ToldCall<'_>) -> Batch {
        let ToldCall { task, step, name, outcome, result, by, .. } = call;
        let said = (format!("{task} {step} {name}"), *outcome, result.is_some(), (*by).to_owned());
        self.0.lock().expect("nobody panics with it").push(said);
        Batch::new()
    }

    fn given(&self, _: &GivenWork<'_>) -> Batch {
        Batch::new()
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_says_of_a_call_is_recorded_once_with_who_said_it() {
    for (how, outcome) in [
        (Resolution::Done(json!({ "content": [] })), AuditOutcome::Done),
        (Resolution::Failed, AuditOutcome::Failed),
        (Resolution::Again, AuditOutcome::InDoubt),
    ] {
        let (disk, world, id) = in_doubt().await;
        let (node, heard) = (Node::start(&disk, world, "1.0.0", UNENDING).await, Arc::new(Heard::default()));
        node.tasks.record_turns(heard.clone());
        node.add();
        node.settle().await;
        let seq = node.sessions().list()[0].doubts[0].seq;
        let said = node.sessions().settle(&id, seq + 1, how.clone(), &Principal::Local).await;
        assert!(matches!(said, Err(ResolutionError::NotInDoubt { .. })), "{said:?}");
        node.sessions().settle(&id, seq, how, &Principal::Local).await.expect("it is in doubt");
        let is_done = outcome == AuditOutcome::Done;
        let expected = (format!("{id} {seq} count/add"), outcome, is_done, Principal::Local.to_string());
        assert_eq!(*heard.0.lock().expect("nobody panics with it"), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_during_a_final_call_says_which_one() {
    for is_late in [false, true] {
        let mut node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
        start_caller(&mut node, &json!({ "class": { "latency": "srt" } }));
        let id = send_within_a_second(&node).await;
        node.settle().await;
        if is_late {
            tokio::time::sleep(Duration::from_secs(2)).await;
        } else {
            node.tasks.cancel_agent(&node.agent.agent);
        }
        node.settle().await;
        assert_eq!(node.state(&id), if is_late { "TASK_STATE_FAILED" } else { "TASK_STATE_CANCELED" });
        let said = node.said(&id);
        assert!(said.contains("step 0 called") && said.contains("bank/pay"), "{said}");
        assert_eq!(said.contains("1000 ms"), is_late, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_says_which_call_of_it_was_in_doubt() {
    // Before its agent is here, and while it waits for what somebody says.
    for is_added in [false, true] {
        let (disk, world, id) = in_doubt().await;
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        if is_added {
            node.add();
            node.settle().await;
        }
        let before = calls(world);
        let request = serde_json::from_value(json!({ "id": id })).expect("a request");
        let cancelled = node.tasks.cancel(&node.agent, scope(), &request, &CallMetadata::default()).await;
        assert!(cancelled.is_ok());
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_CANCELED");
        let said = node.said(&id);
        assert_eq!(said.matches("count/add").count(), 1, "{is_added}: {said}");
        assert!(said.contains("Nobody knows whether this call took place"), "{is_added}: {said}");
        assert_eq!(calls(world), before, "it is not made again");
        assert!(node.sessions().list().is_empty());
    }
}
