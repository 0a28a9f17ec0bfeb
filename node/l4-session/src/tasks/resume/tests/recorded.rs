//! The turns of an agent whose contract says `record: tape`.

use a2a::{Message, Task};
use althing_execution::journal::{Intent, Journal, JournalError};
use althing_failure::CallStep;

use super::*;
use crate::machine::session::RowKind;
use crate::tasks::rehearsal::{RehearsalError, Script};
use crate::tasks::steps::StepsError;

/// Answers each step with the next of these, and makes none.
struct Answers(Mutex<Vec<StepOutcome>>);

impl Journal for Answers {
    fn step<'a>(&'a self, _: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        let mut left = self.0.lock().expect("nobody panics with it");
        let next = if left.is_empty() { Err(JournalError::Write) } else { Ok(NextStep::Replayed(left.remove(0))) };
        Box::pin(std::future::ready(next))
    }

    fn done<'a>(&'a self, _: Intent, _: &'a StepOutcome, _: Batch) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(Err(JournalError::Write)))
    }
}

async fn start(disk: &MemoryStore, world: u64, left: usize) -> Node {
    let contract = json!({ "class": { "latency": "srt" }, "record": "tape" });
    Node::start_with(disk, (world, "1.0.0"), left, Ports::none(), contract).await
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_turn_are_shown_when_it_is_over_and_when_the_node_starts_again() {
    let (disk, world) = (disk(), world());
    let node = start(&disk, world, UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED");
    assert!(node.sessions().list().is_empty(), "it is over");
    let shown = node.sessions().steps(&id).expect("it is recorded");
    assert_eq!((shown.len(), shown[0].message.as_str(), shown[0].ended_ms), (1, "m-1", Some(NOW_MS)));
    let kinds: Vec<RowKind> = shown[0].rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds[0], RowKind::Begin);
    let count = |kind: RowKind| kinds.iter().filter(|known| **known == kind).count();
    let intents = STEPS.iter().filter(|effect| matches!(effect, Effect::Keyed | Effect::Final)).count();
    assert_eq!((count(RowKind::Intent), count(RowKind::Result)), (intents, STEPS.len()));
    let again = start(&disk, self::world(), UNENDING).await;
    assert_eq!(again.sessions().steps(&id), Ok(shown));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_shows_its_steps_whatever_its_contract_says() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    for _ in 0..2 {
        let shown = node.sessions().steps(&id).expect("it is not over");
        assert_eq!((shown.len(), shown[0].ended_ms), (1, None));
        assert_eq!(shown[0].rows.last().map(|row| row.kind), Some(RowKind::Intent));
        node.add();
        node.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_journal_says_why_nothing_is_shown() {
    let node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    let refused = node.sessions().steps(&id).expect_err("nothing is recorded");
    assert!(matches!(&refused, StepsError::NoJournal { .. }) && refused.to_string().contains("record: tape"));
    let refused = node.sessions().steps("none").expect_err("there is none");
    assert!(matches!(refused, StepsError::NoTask { .. }), "{refused:?}");
    assert_eq!(refused.remedy(), Some(CallStep::NameTask.into()), "the list of sessions does not have it either");
}

/// Works on, and makes no step.
struct IdleAgent;

impl Agent for IdleAgent {
    fn turn<'a>(&'a self, _: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let _held = out;
            std::future::pending().await
        })
    }
}

fn idle(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(IdleAgent))
}

#[tokio::test(start_paused = true)]
async fn of_a_task_that_runs_without_a_journal_nobody_says_that_it_is_over() {
    let mut builtins = Builtins::new();
    builtins.insert("idle", idle);
    let ports = Ports { owner: owner(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let mut node = Node::on(Arc::new(disk()), host, "1.0.0", UNENDING).await;
    let file = json!({
        "name": "idler",
        "version": "1.0.0",
        "description": "Works on",
        "runtime": { "native": { "builtin": "idle", "config": {} } },
        "contract": { "class": { "latency": "srt" } },
    });
    let file = AgentFile::parse(&file.to_string()).expect("an agent file");
    node.tasks.runner.host().start(&file, Path::new("/")).expect("it starts");
    let agent = AgentRef::new(owner(), "idler", "1.0.0").expect("a name");
    node.agent = HostedAgent { agent, ..hosted("1.0.0") };
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    let refused = node.sessions().steps(&id).expect_err("it has none");
    assert!(matches!(refused, StepsError::Unwritten { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("is not over") && !said.contains("it is over"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_recorded_task_is_run_again_beside_the_tasks_of_its_node_and_calls_nothing() {
    let (disk, world) = (disk(), world());
    let node = start(&disk, world, UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    let called = calls(world);
    let tape = node.sessions().tape(&id).expect("it is the owner's");
    let [turn] = tape.turns.as_slice() else { panic!("it had one turn: {tape:?}") };
    let outcome = |at: usize| turn.steps[at].outcome.clone().expect("it was made");
    let outcomes: Vec<StepOutcome> = (0..turn.steps.len()).map(outcome).collect();
    assert_eq!((tape.agent.as_str(), outcomes.len()), ("worker", STEPS.len()));
    let message = tape.task.history.iter().flatten().next().expect("it began with one").clone();
    for (outcomes, state) in [(outcomes, TaskState::Completed), (Vec::new(), TaskState::Failed)] {
        let mut rehearsal = node.sessions().rehearsal("worker", Some(&turn.version)).expect("it runs here");
        assert_eq!(rehearsal.binding(), turn.binding);
        let journal = Arc::new(Answers(Mutex::new(outcomes)));
        rehearsal.turn(message.clone(), Script::Recorded(&tape, 0), journal).await;
        let again = rehearsal.task().expect("it was told a message");
        assert_eq!((&again.id, &again.status.state), (&id, &state));
        let is_same = again.artifacts == tape.task.artifacts;
        assert_eq!(is_same, state == TaskState::Completed, "{again:?}");
    }
    assert_eq!((calls(world), node.tasks.count()), (called, 0));
    assert_eq!(disk.keys(TASKS, Range::all(9)).expect("readable").len(), 1, "no task was made of it");
    let nobody = node.sessions().rehearsal("nobody", None).err();
    assert_eq!(nobody, Some(RehearsalError::NotHere { agent: "nobody".to_owned() }));
}

/// Makes an artifact of each message and asks on; whatever is said to `end` is its last word.
struct Asker;

impl Agent for Asker {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            match turn.message.text().unwrap_or_default() {
                "end" => {
                    let said = Message::new(Role::Agent, vec![Part::text("WRONG")]);
                    out.put(Made::Status(TaskState::Completed, Some(said))).await
                }
                text => {
                    out.chunk("answer", text, true, true).await?;
                    out.ask(&turn, "and then?").await
                }
            }
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn asker(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Asker))
}

#[tokio::test(start_paused = true)]
async fn what_a_rehearsal_answered_is_what_its_last_turn_made_and_nothing_from_before_a_question() {
    let mut builtins = Builtins::new();
    builtins.insert("asker", asker);
    let ports = Ports { owner: owner(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let node = Node::on(Arc::new(disk()), host, "1.0.0", UNENDING).await;
    let file = json!({
        "name": "asker",
        "version": "1.0.0",
        "description": "Asks on",
        "runtime": { "native": { "builtin": "asker", "config": {} } },
        "contract": { "class": { "latency": "srt" } },
    });
    let file = AgentFile::parse(&file.to_string()).expect("an agent file");
    node.tasks.runner.host().start(&file, Path::new("/")).expect("it starts");
    let mut rehearsal = node.sessions().rehearsal("asker", None).expect("it runs here");
    assert_eq!(rehearsal.answered(), None, "nothing was said to it");
    let texts = |task: &Task| -> Vec<String> {
        let parts = task.artifacts.iter().flatten().flat_map(|artifact| &artifact.parts);
        parts.filter_map(Part::as_text).map(str::to_owned).collect()
    };
    for (said, whole, last) in [("12", "12", Some("12")), ("34", "1234", Some("34")), ("end", "1234", None)] {
        let journal = Arc::new(Answers(Mutex::new(Vec::new())));
        let message = Message::new(Role::User, vec![Part::text(said)]);
        rehearsal.turn(message, Script::New(None), journal).await;
        let (task, answered) = rehearsal.task().zip(rehearsal.answered()).expect("it was told a message");
        assert_eq!(texts(task), [whole], "{said}");
        assert_eq!(texts(&answered), last.into_iter().collect::<Vec<_>>(), "{said}");
        assert_eq!(answered.status, task.status, "{said}");
    }
    let ended = rehearsal.answered().expect("it was told a message").status;
    assert_eq!((ended.state, ended.message.as_ref().and_then(Message::text)), (TaskState::Completed, Some("WRONG")));
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_tape_has_its_messages_and_no_turns() {
    let node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    let tape = node.sessions().tape(&id).expect("it is the owner's");
    assert!(tape.turns.is_empty() && tape.task.history.is_some_and(|history| history.len() == 1));
}
