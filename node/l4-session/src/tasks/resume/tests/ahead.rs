//! On several threads tasks are read ahead of those that go on, more than one at once.

use super::*;

/// More than are read at once, twice.
const COUNT: usize = 70;

/// How many turns were told again what they did.
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Makes one step, and waits for something that never comes.
struct Stepper;

impl Agent for Stepper {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let journal =
                turn.parameters.rights.journal.clone().ok_or_else(|| AgentError::Failed("none".to_owned()))?;
            let (arguments, effect) = (json!({ "of": turn.task_id }), Effect::Repeatable);
            let (kind, name) = (CallKind::Tool, "count/add");
            let step = Step { kind, name, arguments: &arguments, effect, callee: None, gate: None, meanwhile: None };
            match journal.step(step).await? {
                NextStep::Replayed(outcome) if outcome.result == Ok(arguments.clone()) => {
                    TOLD.fetch_add(1, Ordering::Relaxed);
                }
                NextStep::Go(intent, permit) => {
                    let outcome = StepOutcome { result: Ok(arguments.clone()), tokens: 0, label: None };
                    journal.done(intent, &outcome, permit.rows).await?;
                }
                other => return Err(AgentError::Failed(format!("{other:?}"))),
            }
            // The output too: where it is closed nothing but the end of the turn is waited for.
            let _held = out;
            std::future::pending().await
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn stepper(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Stepper))
}

async fn start(disk: &MemoryStore, number: usize) -> Node {
    let mut builtins = Builtins::new();
    builtins.insert("worker", stepper);
    let ports = Ports { owner: owner(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    host.start(&agent_file(0, "1.0.0", &json!({ "class": { "latency": "srt" } })), Path::new("/")).expect("it starts");
    Node::over(disk, host, "1.0.0", UNENDING - number).await
}

/// Sends a message of its own.
async fn send(node: &Node, number: usize) {
    let message = json!({ "messageId": number.to_string(), "role": "ROLE_USER", "parts": [{ "text": "go" }] });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
    let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
    let call = CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() };
    node.tasks.send(&node.agent, scope(), *request, &call, None).await.expect("it is accepted");
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_several_threads_all_turns_go_on_with_their_own_rows() {
    let disk = disk();
    let node = start(&disk, 0).await;
    for number in 0..COUNT {
        send(&node, number).await;
    }
    let rows = || disk.keys(SESSION_ROWS, Range::all(10 * COUNT)).expect("readable").len();
    until("each has its beginning and its step", || rows() == 2 * COUNT).await;
    node.tasks.end_turns();
    until("all of them are left", || node.tasks.count() == 0).await;

    let node = start(&disk, 1).await;
    assert_eq!(node.sessions().list().len(), COUNT);
    node.add();
    until("all of them go on", || node.tasks.count() == COUNT && TOLD.load(Ordering::Relaxed) == COUNT).await;
    assert!(node.tasks.runner.store().journals().waiting().is_empty());
    assert_eq!(rows(), 2 * COUNT, "nothing was made again");
}
