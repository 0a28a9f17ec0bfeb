//! A delay-tolerant turn makes room for a turn that waits for a processor, and goes on when that had it: each step is made once.

use std::sync::mpsc;
use std::task::Poll;

use althing_execution::kernel::slots::{BandwidthServer, Slots, run_on_slots};
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::{Loaded, Scheduling, SoftRuntime};
use althing_protocol::Contract;
use tokio::sync::Notify;

use super::*;

/// Steps of the batch.
const BATCH: usize = 5;

/// What became of the batches of one world.
#[derive(Default)]
struct Batches {
    /// How often the turn began.
    begun: usize,
    /// How often each step was made.
    made: BTreeMap<usize, usize>,
    /// Told whenever the agent is dropped.
    dropped: Arc<Notify>,
}

static BATCHES: Mutex<BTreeMap<u64, Batches>> = Mutex::new(BTreeMap::new());

fn of<T>(world: u64, look: impl FnOnce(&mut Batches) -> T) -> T {
    look(BATCHES.lock().expect("nobody panics with it").entry(world).or_default())
}

/// Makes the steps of a batch, and says something after each.
struct Batcher {
    world: u64,
}

/// A turn of it, for as long as that is in memory.
struct Work {
    world: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        of(self.world, |batches| batches.dropped.notify_one());
    }
}

impl Agent for Batcher {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let _work = Work { world: self.world };
            of(self.world, |batches| batches.begun += 1);
            let journal =
                turn.parameters.rights.journal.clone().ok_or_else(|| AgentError::Failed("none".to_owned()))?;
            for (number, effect) in STEPS.into_iter().take(BATCH).enumerate() {
                let (arguments, kind, name) = (json!({ "step": number }), CallKind::Tool, "count/add");
                let step =
                    Step { kind, name, arguments: &arguments, effect, callee: None, gate: None, meanwhile: None };
                let outcome = match journal.step(step).await? {
                    NextStep::Replayed(outcome) => outcome,
                    NextStep::Go(intent, permit) => {
                        of(self.world, |batches| *batches.made.entry(number).or_default() += 1);
                        let outcome = StepOutcome { result: Ok(json!(number)), tokens: 0, label: None };
                        journal.done(intent, &outcome, permit.rows).await?;
                        outcome
                    }
                    next => return Err(AgentError::Failed(format!("{next:?}"))),
                };
                let said = outcome.result.map_err(AgentError::Failed)?;
                out.chunk("answer", said.to_string(), number > 0, number + 1 == BATCH).await?;
            }
            Ok(())
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn batcher(config: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Batcher { world: config["world"].as_u64().unwrap_or_default() }))
}

struct NoModules;

impl SoftRuntime for NoModules {
    fn load(&self, _: &[u8], _: &Contract, _: &SystemCalls) -> Result<Loaded, String> {
        Err("there are no modules here".to_owned())
    }
}

/// A host with one slot, and an agent of that class.
fn one_slot(world: u64, latency: &str) -> (Host, Slots) {
    let kernel = Kernel::start(KernelConfig::default(), || Err("nothing hard runs here".to_owned()));
    let (mut kernel, slots) = (kernel.expect("threads"), Slots::new(1));
    Arc::get_mut(&mut kernel).expect("nobody else has it yet").runtimes.slots = slots.clone();
    let scheduling = Scheduling { kernel, soft: Arc::new(NoModules) };
    let mut builtins = Builtins::new();
    builtins.insert("batcher", batcher);
    let ports = Ports { owner: owner(), ..Ports::none() };
    let host = Host::scheduled(builtins, ProcessConfig::default(), scheduling, ports);
    let file = json!({
        "name": "worker",
        "version": "1.0.0",
        "description": "Makes calls",
        "runtime": { "native": { "builtin": "batcher", "config": { "world": world } } },
        "contract": { "class": { "latency": latency } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    (host, slots)
}

/// A turn that holds the only slot until it is told to let go, and keeps its thread busy.
fn hold(slots: &Slots) -> (mpsc::SyncSender<()>, std::thread::JoinHandle<()>) {
    let ((release, released), (tell, held), slots) =
        (mpsc::sync_channel::<()>(1), mpsc::sync_channel(1), slots.clone());
    let holder = std::thread::spawn(move || {
        let works = std::future::poll_fn(move |_| {
            tell.send(()).expect("the test waits for that");
            // It ends also where the test does.
            let _ = released.recv();
            Poll::Ready(())
        });
        let server = BandwidthServer::default();
        futures::executor::block_on(run_on_slots(&slots, 9, &server, works)).expect("a slot");
    });
    held.recv().expect("it runs");
    (release, holder)
}

/// The answer of a turn beside which another one waits for the only slot, and the steps that were made when that one ran.
async fn beside_one_that_waits(world: u64, latency: &str) -> (Value, usize) {
    let dropped = of(world, |batches| batches.dropped.clone());
    let (host, slots) = one_slot(world, latency);
    let node = Node::over(&disk(), host, "1.0.0", UNENDING).await;
    let (release, holder) = hold(&slots);
    let waits = slots.clone();
    let second = tokio::spawn(async move {
        let server = BandwidthServer::default();
        let runs = async { of(world, |batches| batches.made.values().sum::<usize>()) };
        run_on_slots(&waits, 1, &server, runs).await.expect("a slot")
    });
    while slots.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let let_go = async {
        // Its agent is dropped where it makes room, or at its end.
        dropped.notified().await;
        release.send(()).expect("it holds the slot");
        second.await.expect("it ran")
    };
    let answered = async { node.ask(false, TurnRights::default()).await.expect("it is answered") };
    let (answer, made) = tokio::join!(answered, let_go);
    holder.join().expect("it ended");
    (answer, made)
}

fn check_end(world: u64, answer: &Value) {
    let task = &answer["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    let artifacts = task["artifacts"].as_array().expect("an answer");
    assert_eq!(artifacts.len(), 1, "{answer}");
    let parts = artifacts[0]["parts"].as_array().into_iter().flatten();
    let said: String = parts.filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(said, "01234", "said once, in order");
    let made = of(world, |batches| batches.made.clone());
    assert_eq!(made, (0..BATCH).map(|step| (step, 1)).collect(), "each step is made once");
}

#[tokio::test]
async fn a_delay_tolerant_turn_makes_room_for_one_that_waits_and_goes_on_from_its_rows() {
    let world = world();
    let (answer, made) = beside_one_that_waits(world, "dt").await;
    assert!((1..BATCH).contains(&made), "the second ran before the first was over: after {made} steps");
    assert!(of(world, |batches| batches.begun) > 1, "it began again");
    check_end(world, &answer);
}

#[tokio::test]
async fn an_interactive_turn_makes_room_for_nobody() {
    let world = world();
    let (answer, made) = beside_one_that_waits(world, "srt").await;
    assert_eq!((made, of(world, |batches| batches.begun)), (BATCH, 1));
    check_end(world, &answer);
}
