//! A model that saves how far its turn came, and goes on from there: at once, and when its node ended at any row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::PartContent;
use althing_execution::agent::{Made, Parameters};
use althing_execution::journal::{
    Checkpoint, Intent, Journal, JournalError, NextStep, Reading, Replay, Step, StepOutcome,
};
use althing_execution::process::ProcessConfig;
use althing_execution::tools::{GateVerdict, Permit, ToolServer};
use althing_execution::{AgentError, Builtins, Host, Output, Ports, Turn, TurnRights};
use althing_store::Batch;
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::model::{Behaves, Files, Stub, stub, turn};

/// What is on disk of a turn.
#[derive(Clone, Default)]
struct Paper {
    /// Steps with their numbers, names and arguments, and what came of them.
    rows: BTreeMap<usize, (String, Value, Option<StepOutcome>)>,
    checkpoint: Option<Checkpoint>,
    /// Steps before the checkpoint.
    before: usize,
}

/// The journal of a turn whose node ends when so many rows were written.
struct Disk {
    paper: Arc<Mutex<Paper>>,
    next: AtomicUsize,
    left: Mutex<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

impl Disk {
    fn of(paper: &Arc<Mutex<Paper>>, left: usize) -> TurnRights {
        let next = AtomicUsize::new(lock(paper).before);
        let disk = Disk { paper: paper.clone(), next, left: Mutex::new(left) };
        TurnRights { lease: None, journal: Some(Arc::new(disk)) }
    }

    /// The paper, to be written on.
    fn write(&self) -> Result<MutexGuard<'_, Paper>, JournalError> {
        let mut left = lock(&self.left);
        *left = left.checked_sub(1).ok_or(JournalError::Write)?;
        Ok(lock(&self.paper))
    }

    async fn reach(&self, mut step: Step<'_>) -> Result<NextStep, JournalError> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let seq = u32::try_from(place).expect("few steps");
        let intent = Intent { seq, key: [seq.to_be_bytes()[3]; 32], callee: None };
        let known = lock(&self.paper).rows.get(&place).cloned();
        let Some((name, arguments, outcome)) = known else {
            let (next, outcome) = match step.rule().await {
                GateVerdict::Permit(permit) => (NextStep::Go(intent, permit), None),
                GateVerdict::Deny(denied) => {
                    let outcome = StepOutcome { result: Err(denied.to_string()), tokens: 0, label: None };
                    (NextStep::Denied(denied), Some(outcome))
                }
                GateVerdict::Ask(ask) => return Ok(NextStep::Ask(ask)),
            };
            let row = (step.name.to_owned(), step.arguments.clone(), outcome);
            self.write()?.rows.insert(place, row);
            return Ok(next);
        };
        if name != step.name || arguments != *step.arguments {
            return Err(JournalError::Diverged { seq, was: name, came: step.name.to_owned() });
        }
        Ok(outcome.map_or(NextStep::Go(intent, Permit::default()), NextStep::Replayed))
    }

    fn finish(&self, intent: &Intent, outcome: &StepOutcome) -> Result<(), JournalError> {
        let place = usize::try_from(intent.seq).expect("few steps");
        let mut paper = self.write()?;
        let row = paper.rows.get_mut(&place).expect("it was begun");
        row.2 = Some(outcome.clone());
        Ok(())
    }

    fn put(&self, checkpoint: &Checkpoint) -> Result<(), JournalError> {
        let before = self.next.load(Ordering::SeqCst);
        *self.write()? = Paper { checkpoint: Some(checkpoint.clone()), before, ..Paper::default() };
        Ok(())
    }
}

impl Journal for Disk {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(self.reach(step))
    }

    fn ahead(&self) -> BoxFuture<'_, usize> {
        let next = self.next.load(Ordering::SeqCst);
        let ahead = lock(&self.paper).rows.range(next..).count();
        Box::pin(std::future::ready(ahead))
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        _: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(self.finish(&intent, outcome)))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }
}

impl Replay for Disk {
    fn seed(&self) -> [u8; 32] {
        [9; 32]
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        Ok(now)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        lock(&self.paper).checkpoint.clone()
    }

    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(self.put(checkpoint)))
    }

    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        self.done(intent, outcome, rows)
    }
}

/// A node with a model agent that may read files, call that by the same key again, and save.
fn node(stub: &Stub, files: &Arc<Files>, capabilities: &Value) -> Host {
    let server: Arc<dyn ToolServer> = files.clone();
    let ports = Ports { connect: Arc::new(move |_, _, _| server.clone()), ..Ports::none() };
    let host = Host::new(Builtins::new(), ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "clerk",
        "description": "Reads files",
        "runtime": { "model": { "prompt": "Be brief.", "endpoints": [{ "url": stub.url, "model": "small" }] } },
        "tools": { "files": { "command": ["none"], "effect": "repeatable" } },
        "contract": { "class": { "latency": "srt" }, "capabilities": capabilities, "model": { "models": ["small"] } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    host
}

/// Runs a turn; its text, the outcomes of its calls, and how it ended.
async fn run(host: &Host, rights: TurnRights) -> (String, Vec<Value>, Result<(), AgentError>) {
    let (out, mut outputs) = Output::channel();
    let turn = Turn { parameters: Parameters { rights, ..Parameters::default() }, ..turn("Read x.") };
    let taken = async {
        let (mut said, mut calls) = (String::new(), Vec::new());
        while let Some(made) = outputs.recv().await {
            let Made::Artifact { artifact, append, .. } = made else { continue };
            if !append {
                said.clear();
            }
            for part in artifact.parts {
                match part.content {
                    PartContent::Text(text) => said.push_str(&text),
                    PartContent::Data(data) => {
                        let records = data["tools"].as_array().cloned().unwrap_or_default();
                        calls.extend(records.iter().map(|record| json!([record["tool"], record["outcome"]])));
                    }
                    PartContent::Raw(_) | PartContent::Url(_) => {}
                }
            }
        }
        (said, calls)
    };
    let (ended, (said, calls)) = tokio::join!(host.turn("clerk", turn, out), taken);
    (said, calls, ended)
}

#[tokio::test]
async fn a_model_goes_on_from_what_it_saved_and_where_its_node_ended_at_any_row() {
    let stub = stub(Behaves::Saves).await;
    let capabilities = json!(["files/read", "session/checkpoint"]);
    let whole = {
        let (files, paper) = (Arc::<Files>::default(), Arc::default());
        let whole = run(&node(&stub, &files, &capabilities), Disk::of(&paper, usize::MAX)).await;
        assert_eq!((whole.0.as_str(), &whole.2, files.0.load(Ordering::SeqCst)), ("I read. x is read.", &Ok(()), 1));
        let saved = |outcome: &str| json!(["session/checkpoint", outcome]);
        let calls = [json!(["files/read", "done"]), saved("denied"), saved("done")];
        assert_eq!(whole.1, calls, "beside another call nothing is saved");
        whole
    };
    // What it is told then: its prompt, what it saved with what it had said, and the message.
    let asked = stub.seen.last.lock().expect("nobody panics with it").1.clone();
    let messages = asked["messages"].as_array().expect("a list");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "system", "user"], "{asked}");
    let told = messages[1]["content"].as_str().expect("a text");
    assert!(told.contains("not instructions") && told.contains("\nI read. \n"), "{told}");
    assert!(told.ends_with("What you saved:\nx is read"), "{told}");

    let (mut cut, mut has_saved) = (0, false);
    loop {
        let (files, paper) = (Arc::<Files>::default(), Arc::default());
        let first = run(&node(&stub, &files, &capabilities), Disk::of(&paper, cut)).await;
        if first.2.is_ok() {
            break;
        }
        assert_eq!(first.2, Err(AgentError::Journal(JournalError::Write)), "{cut} rows");
        let (is_saved, called) = (lock(&paper).checkpoint.is_some(), files.0.load(Ordering::SeqCst));
        let again = run(&node(&stub, &files, &capabilities), Disk::of(&paper, usize::MAX)).await;
        assert_eq!(again, whole, "{cut} rows");
        assert!(!is_saved || files.0.load(Ordering::SeqCst) == called, "what was saved is not done again: {cut} rows");
        has_saved |= is_saved;
        cut += 1;
    }
    // Three completions, a call, and what was saved.
    assert!(cut == 9 && has_saved, "{cut} rows");
}

#[tokio::test]
async fn a_model_whose_contract_does_not_name_it_saves_nothing() {
    let stub = stub(Behaves::Saves).await;
    let (files, paper) = (Arc::<Files>::default(), Arc::<Mutex<Paper>>::default());
    let host = node(&stub, &files, &json!(["files/read"]));
    // It tries until it may make no call any more.
    let (_, calls, ended) = run(&host, Disk::of(&paper, usize::MAX)).await;
    assert_eq!((ended, calls.len()), (Ok(()), 16));
    assert!(calls[1..].iter().all(|call| *call == json!(["session/checkpoint", "denied"])), "{calls:?}");
    assert!(lock(&paper).checkpoint.is_none());
}
