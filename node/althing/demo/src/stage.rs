//! The demo's output: steps as they happen, and a table of measured times.
#![expect(clippy::disallowed_methods, reason = "shell: measures the times that it shows")]

use std::time::{Duration, Instant};

use althing_client::{print_line, table};
use serde_json::json;

use crate::error::DemoError;

/// Steps shown so far.
pub struct Stage {
    json: bool,
    begun: Instant,
    steps: Vec<(String, Duration, String)>,
}

impl Stage {
    pub fn new(json: bool) -> Stage {
        Stage { json, begun: Instant::now(), steps: Vec::new() }
    }

    /// True when only JSON is printed.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of explanation.
    pub fn say(&self, text: &str) {
        if !self.json {
            print_line(text);
        }
    }

    /// Runs one step, measures and prints it.
    pub async fn step<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<(T, String), DemoError>>,
    ) -> Result<T, DemoError> {
        let begun = Instant::now();
        let outcome = work.await;
        let took = begun.elapsed();
        match outcome {
            Ok((value, result)) => {
                self.say(&format!("  ok  {name}: {result} ({})", millis(took)));
                self.steps.push((name.to_owned(), took, result));
                Ok(value)
            }
            Err(error) => {
                self.say(&format!("FAIL  {name}: {error}"));
                Err(DemoError::Step { step: name.to_owned(), error: Box::new(error) })
            }
        }
    }

    /// A time that was measured within a step.
    pub fn note(&mut self, name: &str, took: Duration, result: &str) {
        self.steps.push((name.to_owned(), took, result.to_owned()));
    }

    /// Prints the table and the result.
    pub fn close(self, played: Result<(), DemoError>) -> Result<(), DemoError> {
        if self.json {
            let steps = self.steps.iter().map(
                |(name, took, result)| json!({ "step": name, "ms": took.as_secs_f64() * 1_000.0, "result": result }),
            );
            let steps: Vec<_> = steps.collect();
            print_line(&format!("{:#}", json!({ "ok": played.is_ok(), "steps": steps })));
            return played;
        }
        let rows: Vec<Vec<String>> =
            self.steps.iter().map(|(name, took, result)| vec![name.clone(), millis(*took), result.clone()]).collect();
        if !rows.is_empty() {
            print_line("");
            print_line(&table(&["step", "time", "result"], &rows));
        }
        if played.is_ok() {
            print_line(&format!(
                "all steps passed in {:.1} s; nothing is left running",
                self.begun.elapsed().as_secs_f64()
            ));
        }
        played
    }
}

/// Waits for Ctrl-C, SIGTERM, or the end of the terminal.
pub async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hung_up)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hung_up.recv() => {}
    }
}

fn millis(took: Duration) -> String {
    format!("{:.0} ms", took.as_secs_f64() * 1_000.0)
}

/// Polls `ask` until it gives a value, or fails after `limit`.
pub async fn until<T, F: Future<Output = Result<Option<T>, DemoError>>>(
    limit: Duration,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Result<T, DemoError> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = ask().await? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(DemoError::Unexpected(format!("{what} did not happen within {} s", limit.as_secs())));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
