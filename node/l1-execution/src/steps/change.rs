//! What a component asks of its memory, in a turn that has a journal: what it changes there and what it is told of that are in
//! one batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_store::Batch;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task_local;

use crate::context;
use crate::journal::{Effect, Intent, Journal, JournalError, NextStep, Step, StepOutcome, is_own_read};
use crate::ruling::{GateVerdict, Permit};
use crate::tool_call::ToolCall;
use crate::tool_error::{ToolError, failure};
use crate::tools::ToolGate;

/// A step whose row belongs into the batch of what it changes.
#[derive(Clone)]
pub(crate) struct ChangeStep {
    journal: Arc<dyn Journal>,
    is_written: Arc<AtomicBool>,
    /// To whoever makes the step, and knows what its gate adds to the batch.
    writes: mpsc::Sender<ChangeWrite>,
}

/// What is to be written with the row of its step.
struct ChangeWrite {
    /// What the agent is told.
    result: Value,
    changes: Batch,
    written: oneshot::Sender<Result<(), JournalError>>,
}

task_local! {
    /// The step that is made here, while its row is not written.
    static CHANGE: ChangeStep;
}

/// The step that is made here, if its row belongs into the batch of what it changes.
pub(crate) fn current() -> Option<ChangeStep> {
    let step = CHANGE.try_with(ChangeStep::clone).ok()?;
    let is_open = !step.is_written.load(Ordering::Relaxed);
    (is_open && step.journal.replay().is_some()).then_some(step)
}

impl ChangeStep {
    /// Writes changes with the row of their step: the agent is told `result`.
    ///
    /// # Errors
    /// [`JournalError`]: nothing was written.
    pub async fn write(&self, result: Value, changes: Batch) -> Result<(), JournalError> {
        let (written, ended) = oneshot::channel();
        let write = ChangeWrite { result, changes, written };
        self.writes.send(write).await.map_err(|_| JournalError::Write)?;
        ended.await.map_err(|_| JournalError::Write)?
    }
}

/// What a call of memory does if it is made once more: nothing, where its row is in the batch of what it changes.
fn effect(journal: &dyn Journal, name: &str) -> Effect {
    if is_own_read(name) || journal.replay().is_some() { Effect::Repeatable } else { Effect::Final }
}

/// What the journal of a turn has of a call of memory, or what comes of it now, if its gate allows it: `ruling` is what that
/// says.
///
/// # Errors
/// Why there is no result, as the agent is told.
pub(crate) async fn make<T: Serialize + DeserializeOwned>(
    journal: &Arc<dyn Journal>,
    call: &ToolCall<'_>,
    (gate, ruling): (&dyn ToolGate, BoxFuture<'_, GateVerdict>),
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let told = |error: JournalError| error.to_string();
    let (name, arguments, effect) = (call.tool, call.arguments, effect(&**journal, call.tool));
    let step = Step { kind: call.kind, name, arguments, effect, callee: None, gate: Some(ruling), meanwhile: None };
    let (intent, permit) = match journal.step(step).await.map_err(told)? {
        NextStep::Go(intent, permit) => (intent, permit),
        NextStep::Denied(denied) => return Err(denied.to_string()),
        NextStep::Ask(ask) => return Err(told(JournalError::Parked(ask.rest()))),
        NextStep::Replayed(StepOutcome { result, label, .. }) => {
            context::hear(label);
            let damaged = |_| told(JournalError::Damaged { what: format!("a row of {name:?} holds no result") });
            return serde_json::from_value(result?).map_err(damaged);
        }
    };
    StepWork { journal, call, gate, intent, permit }.run(work).await
}

/// A step that is made, with what its gate says.
struct StepWork<'a> {
    journal: &'a Arc<dyn Journal>,
    call: &'a ToolCall<'a>,
    gate: &'a dyn ToolGate,
    intent: Intent,
    permit: Permit,
}

impl StepWork<'_> {
    /// Does the work, and writes what comes of it: with what it changes, if it changes something, and else alone.
    async fn run<T: Serialize>(self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let (writes, mut asked) = mpsc::channel(1);
        let is_written = Arc::<AtomicBool>::default();
        let change = ChangeStep { journal: self.journal.clone(), is_written: is_written.clone(), writes };
        let work = CHANGE.scope(change.clone(), work);
        tokio::pin!(work);
        let mut is_asked = false;
        let made = loop {
            tokio::select! {
                biased;
                // It cannot be closed: `change` holds a sender.
                Some(write) = asked.recv() => {
                    is_asked = true;
                    self.write(write, &is_written).await;
                }
                made = &mut work => break made,
            }
        };
        // What could not be written with its changes cannot be written without them: the turn is over.
        if !is_asked {
            let result = match &made {
                Ok(made) => serde_json::to_value(made).map_err(|error| error.to_string()),
                Err(reason) => Err(reason.clone()),
            };
            let failed = made.as_ref().err().map(|reason| failure(self.call.tool, reason));
            let rows = self.rows(failed.as_ref().map_or(Ok(&Value::Null), Err)).await;
            let outcome = StepOutcome { result, tokens: 0, label: context::label() };
            self.journal.done(self.intent, &outcome, rows).await.map_err(|error| error.to_string())?;
        }
        made
    }

    /// What the gate adds to the batch of the result.
    async fn rows(&self, outcome: Result<&Value, &ToolError>) -> Batch {
        let mut rows = self.permit.rows.clone();
        rows.append(self.gate.settle(self.call, &self.permit, outcome).await);
        rows
    }

    /// Writes what the step changes, with its row.
    async fn write(&self, ChangeWrite { result, mut changes, written }: ChangeWrite, is_written: &AtomicBool) {
        changes.append(self.rows(Ok(&result)).await);
        let outcome = StepOutcome { result: Ok(result), tokens: 0, label: context::label() };
        let ended = match self.journal.replay() {
            Some(replay) => replay.done_with(self.intent.clone(), &outcome, changes).await,
            None => Err(JournalError::Write),
        };
        is_written.store(ended.is_ok(), Ordering::Relaxed);
        // Whoever waits for it may be dropped with the turn.
        let _ = written.send(ended);
    }
}

#[cfg(test)]
mod tests;
