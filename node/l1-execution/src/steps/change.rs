//! What a component asks of its memory, in a turn that has a journal: what it changes there and what it is told of that are in
//! one batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_store::Batch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task_local;

use crate::context;
use crate::journal::{Effect, Intent, Journal, JournalError, NextStep, Step, StepOutcome};
use crate::tools::CallKind;

/// A step whose row belongs into the batch of what it changes.
#[derive(Clone)]
pub(crate) struct ChangeStep {
    journal: Arc<dyn Journal>,
    intent: Intent,
    is_written: Arc<AtomicBool>,
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
        let Some(replay) = self.journal.replay() else { return Err(JournalError::Write) };
        let outcome = StepOutcome { result: Ok(result), tokens: 0, label: context::label() };
        replay.done_with(self.intent.clone(), &outcome, changes).await?;
        self.is_written.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What a call of memory does if it is made once more: nothing, where its row is in the batch of what it changes.
fn effect(journal: &dyn Journal, name: &str) -> Effect {
    let is_reading = matches!(name, "memory/get" | "memory/keys" | "memory/recall");
    if is_reading || journal.replay().is_some() { Effect::Repeatable } else { Effect::Final }
}

/// What the journal of the turn, if it has one, has of a call of memory, or what comes of it now.
///
/// # Errors
/// Why there is no result, as the agent is told.
pub(crate) async fn make<T: Serialize + DeserializeOwned>(
    name: &str,
    arguments: &Value,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let Some(journal) = context::current_journal() else { return work.await };
    let told = |error: JournalError| error.to_string();
    let effect = effect(&*journal, name);
    let step = Step { kind: CallKind::Tool, name, arguments, effect, callee: None };
    let intent = match journal.step(step).await.map_err(told)? {
        NextStep::Go(intent) => intent,
        NextStep::Replayed(StepOutcome { result, label, .. }) => {
            context::hear(label);
            let damaged = |_| told(JournalError::Damaged { what: format!("a row of {name:?} holds no result") });
            return serde_json::from_value(result?).map_err(damaged);
        }
    };
    let change = ChangeStep { journal: journal.clone(), intent: intent.clone(), is_written: Arc::default() };
    let made = CHANGE.scope(change.clone(), work).await;
    if !change.is_written.load(Ordering::Relaxed) {
        let result = match &made {
            Ok(made) => serde_json::to_value(made).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        let outcome = StepOutcome { result, tokens: 0, label: context::label() };
        journal.done(intent, &outcome).await.map_err(told)?;
    }
    made
}

#[cfg(test)]
mod tests;
