//! Turns of a model agent whose node ends at each row of their journal, and that go on.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use a2a::PartContent;
use althing_execution::agent::{Made, Parameters};
use althing_execution::journal::{Effect, Intent, Journal, JournalError, NextStep, Step, StepOutcome};
use althing_execution::process::ProcessConfig;
use althing_execution::tools::{GateVerdict, Permit, ToolServer};
use althing_execution::{AgentError, Builtins, Host, Output, Ports, Turn, TurnRights};
use althing_store::Batch;
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::model::{Behaves, Files, Stub, stub, turn};

/// A step as it is on disk.
#[derive(Clone)]
pub(super) struct Row {
    name: String,
    arguments: Value,
    effect: Effect,
    outcome: Option<StepOutcome>,
}

pub(super) type Rows = Arc<Mutex<Vec<Row>>>;

/// The journal of a turn whose node ends when so many rows were written.
pub(super) struct Disk {
    rows: Rows,
    next: AtomicUsize,
    left: Mutex<usize>,
}

impl Disk {
    pub(super) fn of(rows: &Rows, left: usize) -> TurnRights {
        let disk = Disk { rows: rows.clone(), next: AtomicUsize::new(0), left: Mutex::new(left) };
        TurnRights { lease: None, journal: Some(Arc::new(disk)) }
    }

    fn write(&self) -> Result<(), JournalError> {
        let mut left = self.left.lock().expect("nobody panics with it");
        *left = left.checked_sub(1).ok_or(JournalError::Write)?;
        Ok(())
    }

    async fn reach(&self, mut step: Step<'_>) -> Result<NextStep, JournalError> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let seq = u32::try_from(place).expect("few steps");
        let intent = Intent { seq, key: [7; 32], callee: None };
        let known = self.rows.lock().expect("nobody panics with it").get(place).cloned();
        let Some(row) = known else {
            let ruling = step.rule().await;
            let (name, arguments, effect) = (step.name.to_owned(), step.arguments.clone(), step.effect);
            let (next, outcome) = match ruling {
                GateVerdict::Permit(permit) => (NextStep::Go(intent, permit), None),
                GateVerdict::Deny(denied) => {
                    let outcome = StepOutcome { result: Err(denied.to_string()), tokens: 0, label: None };
                    (NextStep::Denied(denied), Some(outcome))
                }
                GateVerdict::Ask(ask) => return Ok(NextStep::Ask(ask)),
            };
            self.write()?;
            self.rows.lock().expect("nobody panics with it").push(Row { name, arguments, effect, outcome });
            return Ok(next);
        };
        match &row.outcome {
            _ if row.name != step.name || row.arguments != *step.arguments => {
                Err(JournalError::Diverged { seq, was: row.name.clone(), came: step.name.to_owned() })
            }
            Some(outcome) => Ok(NextStep::Replayed(outcome.clone())),
            None if row.effect == Effect::Final => Err(JournalError::InDoubt { seq, name: row.name.clone() }),
            None => Ok(NextStep::Go(intent, Permit::default())),
        }
    }
}

impl Journal for Disk {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(self.reach(step))
    }

    fn ahead(&self) -> BoxFuture<'_, usize> {
        let rows = self.rows.lock().expect("nobody panics with it").len();
        Box::pin(std::future::ready(rows.saturating_sub(self.next.load(Ordering::SeqCst))))
    }

    fn is_parkable(&self) -> bool {
        true
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        _: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let place = usize::try_from(intent.seq).expect("few steps");
        let written = self.write();
        if written.is_ok() {
            self.rows.lock().expect("nobody panics with it")[place].outcome = Some(outcome.clone());
        }
        Box::pin(std::future::ready(written))
    }
}

/// A node with a model agent whose tools have that effect.
fn node(stub: &Stub, files: &Arc<Files>, effect: &Value) -> Host {
    let server: Arc<dyn ToolServer> = files.clone();
    let ports = Ports { connect: Arc::new(move |_, _, _| server.clone()), ..Ports::none() };
    let host = Host::new(Builtins::new(), ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "clerk",
        "description": "Reads files",
        "runtime": { "model": { "prompt": "Be brief.", "endpoints": [{ "url": stub.url, "model": "small" }] } },
        "tools": { "files": { "command": ["none"], "effect": effect } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["files/read"], "model": { "models": ["small"] } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    host
}

/// Runs a turn; its text, whether its first piece replaces what was there, and how it ended.
async fn run(host: &Host, rights: TurnRights) -> (String, bool, Result<(), AgentError>) {
    let (out, mut outputs) = Output::channel();
    let turn = Turn { parameters: Parameters { rights, ..Parameters::default() }, ..turn("Read x.") };
    let taken = async {
        let (mut said, mut replaces) = (String::new(), None);
        while let Some(made) = outputs.recv().await {
            let Made::Artifact { artifact, append, .. } = made else { continue };
            replaces.get_or_insert(!append);
            for part in artifact.parts {
                if let PartContent::Text(text) = part.content {
                    said.push_str(&text);
                }
            }
        }
        (said, replaces.unwrap_or(true))
    };
    let (ended, (said, replaces)) = tokio::join!(host.turn("clerk", turn, out), taken);
    (said, replaces, ended)
}

#[tokio::test]
async fn a_turn_that_is_cut_off_at_any_row_goes_on_and_calls_no_final_tool_twice() {
    let stub = stub(Behaves::Calls).await;
    let asked = || stub.seen.requests.load(Ordering::SeqCst);
    for effect in ["none", "repeatable", "keyed", "final"] {
        let files = Arc::<Files>::default();
        let whole = run(&node(&stub, &files, &json!(effect)), TurnRights::default()).await;
        assert_eq!((whole.1, &whole.2, files.0.load(Ordering::SeqCst)), (true, &Ok(()), 1), "{whole:?}");
        let (mut doubts, mut cut) = (Vec::new(), 0);
        loop {
            let (files, rows) = (Arc::<Files>::default(), Rows::default());
            let before = asked();
            let first = run(&node(&stub, &files, &json!(effect)), Disk::of(&rows, cut)).await;
            if first.2.is_ok() {
                assert_eq!(first.0, whole.0);
                break;
            }
            assert_eq!(first.2, Err(AgentError::Journal(JournalError::Write)), "{effect}, {cut} rows");
            let heard = rows.lock().expect("nobody panics with it").iter().filter(|row| row.outcome.is_some()).count();
            let again = run(&node(&stub, &files, &json!(effect)), Disk::of(&rows, usize::MAX)).await;
            let called = files.0.load(Ordering::SeqCst);
            if let Err(AgentError::Journal(JournalError::InDoubt { seq, name })) = &again.2 {
                assert_eq!((*seq, name.as_str(), called), (1, "files/read", 1));
                doubts.push(cut);
            } else {
                assert_eq!(again, whole, "{effect}, {cut} rows");
                assert!((1..=2).contains(&called) && (called == 1 || effect != "final"), "{effect}: {called} calls");
                // A completion that is in a row is not asked for once more.
                let most = if heard == 0 || heard == 3 { 3 } else { 2 };
                assert!(asked() - before <= most, "{effect}, {cut} rows: {} requests", asked() - before);
            }
            cut += 1;
        }
        // The call that is denied has a row, too.
        assert_eq!((cut, doubts), (7, if effect == "final" { vec![3] } else { Vec::new() }), "{effect}");
    }
}

#[tokio::test]
async fn a_turn_that_makes_another_step_than_before_is_stopped() {
    let stub = stub(Behaves::Calls).await;
    let (files, rows) = (Arc::<Files>::default(), Rows::default());
    let host = node(&stub, &files, &json!("keyed"));
    run(&host, Disk::of(&rows, usize::MAX)).await.2.expect("it ends");
    rows.lock().expect("nobody panics with it")[1].name = "files/write".to_owned();
    let (_, _, ended) = run(&host, Disk::of(&rows, usize::MAX)).await;
    let Err(AgentError::Journal(JournalError::Diverged { seq: 1, was, came })) = ended else { panic!("{ended:?}") };
    assert_eq!((was.as_str(), came.as_str(), files.0.load(Ordering::SeqCst)), ("files/write", "files/read", 1));
    // A row that holds no completion is named.
    rows.lock().expect("nobody panics with it")[0].outcome =
        Some(StepOutcome { result: Ok(json!(7)), tokens: 0, label: None });
    let (_, _, ended) = run(&host, Disk::of(&rows, usize::MAX)).await;
    assert!(matches!(&ended, Err(AgentError::Journal(JournalError::Damaged { .. }))), "{ended:?}");
}

/// What was spent before the node ended counts once: the budget allows as many requests as without that, and no more.
#[tokio::test]
async fn what_a_turn_spent_before_it_was_cut_off_is_charged_once() {
    let stub = stub(Behaves::Well).await;
    // Each answer takes 14 tokens, as the endpoint tells: after two of them the rest is less than a prompt needs.
    let node = || {
        let host = Host::new(Builtins::new(), ProcessConfig::default());
        let file = json!({
            "name": "clerk",
            "description": "Spends",
            "runtime": { "model": { "prompt": "Be brief.", "endpoints": [{ "url": stub.url, "model": "small" }] } },
            "contract": {
                "class": { "latency": "dt", "cost": { "tokens": 35, "per_s": 86_400 } },
                "model": { "models": ["small"] },
            },
        });
        host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
        host
    };
    let rows = Rows::default();
    // The answer is on disk, and the node ends.
    run(&node(), Disk::of(&rows, usize::MAX)).await.2.expect("it answers");
    let asked = || stub.seen.requests.load(Ordering::SeqCst);
    let host = node();
    let before = asked();
    run(&host, Disk::of(&rows, usize::MAX)).await.2.expect("it answers from its rows");
    assert_eq!(asked(), before);
    run(&host, TurnRights::default()).await.2.expect("it has enough for one more");
    let refused = run(&host, TurnRights::default()).await.2;
    assert!(matches!(&refused, Err(AgentError::Exhausted(why)) if why.contains("class.cost")), "{refused:?}");
    assert_eq!(asked(), before + 1);
}
