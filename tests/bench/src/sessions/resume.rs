//! A thousand turns that had not ended when their process was killed, and that go on: how long it takes until all of them are
//! where they were, beside reading their rows; and whether what opens the store waits for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use althing_execution::Turn;
use althing_execution::journal::{Effect, NextStep, Step, StepOutcome};
use althing_execution::tools::CallKind;
use althing_session::SESSION_ROWS;
use althing_store::{Batch, Range, Store};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Notify;

use super::desk::{Desk, Work, store};
use crate::calls;
use crate::figures::Goals;

const TURNS: usize = 1_000;
/// Steps of each of them.
pub const STEPS: usize = 4;
/// Until all turns are where they were, as a multiple of reading their rows.
const RATIO_MAX: f64 = 3.0;
/// What a child is told whose turns end.
const OVER: &str = "over";
/// After this long it is not measured.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many turns are where they were.
struct Crowd {
    there: AtomicUsize,
    are_all: Notify,
}

impl Crowd {
    fn new() -> Arc<Crowd> {
        Arc::new(Crowd { there: AtomicUsize::new(0), are_all: Notify::new() })
    }

    /// A turn makes its steps, says that it is there, and never ends.
    fn work(self: &Arc<Crowd>) -> Work {
        let crowd = self.clone();
        Arc::new(move |turn: Turn| -> BoxFuture<'static, Result<(), String>> {
            let crowd = crowd.clone();
            Box::pin(async move {
                steps(&turn).await?;
                if crowd.there.fetch_add(1, Ordering::Relaxed) + 1 == TURNS {
                    crowd.are_all.notify_one();
                }
                std::future::pending::<Result<(), String>>().await
            })
        })
    }
}

/// Makes the steps of a turn.
pub async fn steps(turn: &Turn) -> Result<(), String> {
    let journal = turn.parameters.rights.journal.clone().ok_or("the turn has no journal")?;
    for number in 0..STEPS {
        let arguments = json!({ "step": number });
        let effect = Effect::Repeatable;
        let (kind, name) = (CallKind::Tool, "count/say");
        let step = Step { kind, name, arguments: &arguments, effect, callee: None, gate: None, meanwhile: None };
        if let NextStep::Go(intent, _) = journal.step(step).await.map_err(|error| error.to_string())? {
            let result = Ok(json!({ "content": [{ "type": "text", "text": "x".repeat(1_024) }], "isError": false }));
            let outcome = StepOutcome { result, tokens: 0, label: None };
            journal.done(intent, &outcome, Batch::new()).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// A turn makes its steps, and ends.
fn brief() -> Work {
    Arc::new(|turn: Turn| -> BoxFuture<'static, Result<(), String>> { Box::pin(async move { steps(&turn).await }) })
}

/// Child: begins the turns in a folder, says when they are there, or over if that is said, and waits to be killed.
pub async fn hold() {
    let folder = std::env::args().nth(2).expect("a folder");
    let are_over = std::env::args().nth(3).is_some_and(|word| word == OVER);
    let crowd = Crowd::new();
    let desk = Desk::open(store(Path::new(&folder)), if are_over { brief() } else { crowd.work() }).await;
    for number in 0..TURNS {
        desk.send(number, !are_over).await;
    }
    if !are_over {
        crowd.are_all.notified().await;
    }
    println!("- there");
    std::future::pending::<()>().await;
}

/// Has a process begin the turns in a folder, and kills it.
async fn left(folder: &Path, words: &[&str]) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("session-turns").arg(folder).args(words);
    let (mut holding, _, _) = calls::started(command).await;
    holding.kill().await.expect("it is killed");
}

/// Opens the service on a folder, and gives how long that took.
async fn opened(folder: &Path, work: Work) -> (Desk, Duration) {
    let begun = Instant::now();
    let desk = Desk::open(store(folder), work).await;
    (desk, begun.elapsed())
}

/// Reads the rows of all turns, and gives how many there are, how many bytes they have, and how long it took.
fn read(store: &dyn Store) -> (usize, usize, Duration) {
    let begun = Instant::now();
    let rows = store.scan(SESSION_ROWS, Range::all(1 << 20).within(usize::MAX)).expect("rows");
    let bytes = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    (rows.len(), bytes, begun.elapsed())
}

/// Prints the figure; false if it is not measured.
pub async fn run(goals: &mut Goals) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    left(folder.path(), &[]).await;
    // Each reads from a store that was opened just before.
    let (count, bytes, reading) = {
        let store = store(folder.path());
        read(&*store)
    };
    let crowd = Crowd::new();
    let (desk, opening) = opened(folder.path(), crowd.work()).await;
    let begun = Instant::now();
    desk.resume();
    if tokio::time::timeout(PATIENCE, crowd.are_all.notified()).await.is_err() {
        let there = crowd.there.load(Ordering::Relaxed);
        println!("  {TURNS} turns resumed: not measured, only {there} went on within {} s", PATIENCE.as_secs());
        return false;
    }
    let took = begun.elapsed();
    let ratio = took.as_secs_f64() / reading.as_secs_f64();
    println!(
        "  {TURNS} turns resumed: {:.1} ms; reading their {count} rows ({bytes} bytes): {:.1} ms; ratio {ratio:.1} {}",
        took.as_secs_f64() * 1e3,
        reading.as_secs_f64() * 1e3,
        goals.at_most(ratio, RATIO_MAX),
    );
    let over = tempfile::tempdir().expect("a folder");
    left(over.path(), &[OVER]).await;
    // As above: what the log of the store has is read before.
    let _ = read(&*store(over.path()));
    let (_desk, opening_over) = opened(over.path(), brief()).await;
    println!(
        "  until the service is open: {:.1} ms with them, {:.1} ms with as many that are over (wanted: no longer)",
        opening.as_secs_f64() * 1e3,
        opening_over.as_secs_f64() * 1e3,
    );
    true
}
