//! What the node does for a model agent in a turn that has a journal: it is answered from the journal, or done and noted there.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::AgentError;
use crate::context;
use crate::journal::{Effect, Journal, JournalError, NextStep, Step, StepOutcome};
use crate::tools::CallKind;

/// A step that may be made twice.
pub(super) fn repeatable<'a>(kind: CallKind, name: &'a str, arguments: &'a Value) -> Step<'a> {
    Step { kind, name, arguments, effect: Effect::Repeatable, callee: None, gate: None, meanwhile: None }
}

/// What the journal has of a step, with the tokens that it took then; or what comes of making it now, of which `tokens` tells the
/// tokens. What fails is not noted: it ends the turn.
pub(super) async fn make<T: Serialize + DeserializeOwned>(
    journal: &dyn Journal,
    step: Step<'_>,
    making: impl Future<Output = Result<T, AgentError>>,
    tokens: impl Fn(&T) -> u64,
) -> Result<(T, Option<u64>), AgentError> {
    let name = step.name;
    match journal.step(step).await? {
        NextStep::Replayed(StepOutcome { result, label, tokens }) => {
            context::hear(label);
            let made = result.ok().and_then(|result| serde_json::from_value(result).ok());
            let damaged = || JournalError::Damaged { what: format!("a row of {name:?} holds no result") };
            Ok((made.ok_or_else(damaged)?, Some(tokens)))
        }
        NextStep::Denied(denied) => Err(AgentError::Rejected(denied.to_string())),
        NextStep::Ask(ask) => Err(AgentError::Parked(ask.rest())),
        NextStep::Go(intent, permit) => {
            let made = making.await?;
            let result = serde_json::to_value(&made);
            let result = result.map_err(|error| AgentError::internal("its journal cannot be written", error))?;
            let outcome = StepOutcome { result: Ok(result), tokens: tokens(&made), label: context::label() };
            journal.done(intent, &outcome, permit.rows).await?;
            Ok((made, None))
        }
    }
}
