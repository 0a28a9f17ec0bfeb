//! Calls of tools in turns that have a journal: they are answered from it, or made under their keys.

pub(crate) mod change;
mod checkpoint;

use std::sync::{Arc, Mutex, PoisonError};

use althing_protocol::hex;
use althing_store::Batch;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task_local;

use crate::agent::AgentError;
use crate::context;
use crate::decisions::Decisions;
use crate::definition::hash;
use crate::journal::{
    Checkpoint, Effect, Intent, Journal, JournalError, NextStep, Reading, Replay, Step, StepOutcome, TurnRights,
};
use crate::ruling::{GateVerdict, Permit, RulingAhead, TurnRest};
use crate::tool_call::{Permission, ToolCall};
use crate::tools::{CallRecord, ToolError, Tools};

pub(crate) use checkpoint::{check_save, save_between};
pub use checkpoint::{checkpoint, save};

/// The member of `_meta` of a tool call (MCP) that holds its key.
pub const META: &str = "dev.althing/call";

task_local! {
    /// The intent of the call that is made here.
    static CALL: Intent;
}

/// The key of the call that is made here: the same for each attempt at it, and of no other call. None where the turn has no
/// journal.
#[must_use]
pub fn current_key() -> Option<[u8; 32]> {
    CALL.try_with(|intent| intent.key).ok()
}

/// The same, as it is told to others: 64 hexadecimal digits.
#[must_use]
pub fn current_key_text() -> Option<String> {
    current_key().map(|key| hex(&key))
}

/// The agent and the node to which the call that is made here led when it was made first.
pub(crate) fn current_callee() -> Option<String> {
    CALL.try_with(|intent| intent.callee.clone()).ok().flatten()
}

impl Tools {
    /// Answers a call from the journal of its turn, or makes it if the gate allows it: `ruling` is what the gate said of it
    /// ahead, if it did. What the agent hears is in the journal before it hears it, also why there is no result.
    pub(crate) async fn journalled(
        &self,
        journal: &dyn Journal,
        call: &ToolCall<'_>,
        ruling: Option<RulingAhead>,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let (name, arguments) = (call.tool, call.arguments);
        let served = self.servers().find(name);
        let callee = served.and_then(|(_, server, tool)| server.callee(tool));
        // What was ruled ahead is looked at as late as that: other calls may have taken long since then.
        let gate: BoxFuture<'_, GateVerdict> = Box::pin(self.decisions().rule(call, ruling));
        let effect = effect_now(self, name).await;
        let listing = Mutex::new(None);
        let meanwhile = match effect {
            Effect::Keyed | Effect::Final => {
                let list: BoxFuture<'_, ()> = Box::pin(async {
                    let listed = self.list_before_call(name).await;
                    *listing.lock().unwrap_or_else(PoisonError::into_inner) = listed;
                });
                Some(list)
            }
            Effect::None | Effect::Repeatable => None,
        };
        let step = Step { kind: call.kind, name, arguments, effect, callee, gate: Some(gate), meanwhile };
        let (intent, permit) = match journal.step(step).await? {
            NextStep::Go(intent, permit) => (intent, permit),
            NextStep::Denied(denied) => return Err(denied.into()),
            NextStep::Ask(ask) => return Err(JournalError::Parked(ask.rest()).into()),
            NextStep::Replayed(StepOutcome { result, label, .. }) => {
                context::hear(label);
                let result = result.map_err(ToolError::Replayed)?;
                if let Some((_, server, tool)) = served {
                    server.replayed(tool, &result);
                }
                record.result = Some(hash(&result));
                return Ok(result);
            }
        };
        let listed = listing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let made = CALL.scope(intent.clone(), self.bounded(name, arguments, listed, record)).await;
        end(self.decisions(), journal, call, (intent, permit), made).await
    }
}

/// Tells the gate and the journal what came of a call, before the agent hears it: also that it was not sent, since another attempt
/// works on its group's task by now. Without that row nobody would know whether it took place.
async fn end(
    decisions: &Decisions,
    journal: &dyn Journal,
    call: &ToolCall<'_>,
    (intent, permit): (Intent, Permit),
    made: Result<Value, ToolError>,
) -> Result<Value, ToolError> {
    let settled = decisions.settle(call, &permit, made.as_ref()).await;
    let mut rows = permit.rows;
    rows.append(settled);
    let (result, failure) = match made {
        Err(error) => (Err(error.to_string()), Some(error)),
        Ok(result) => (Ok(result), None),
    };
    let outcome = StepOutcome { result, tokens: 0, label: context::label() };
    journal.done(intent, &outcome, rows).await?;
    match failure {
        Some(error) => Err(error),
        None => outcome.result.map_err(ToolError::Replayed),
    }
}

/// A journal whose first error ends its turn, whatever the agent makes of it. So does what somebody is asked first.
pub(crate) struct JournalGuard {
    journal: Arc<dyn Journal>,
    error: watch::Sender<Option<JournalError>>,
}

/// The rights of a turn with a guard of its journal, if it has one.
pub(crate) fn guarded(rights: &TurnRights) -> (TurnRights, Option<Arc<JournalGuard>>) {
    let guard = |journal: &Arc<dyn Journal>| {
        Arc::new(JournalGuard { journal: journal.clone(), error: watch::Sender::new(None) })
    };
    let guard = rights.journal.as_ref().map(guard);
    let journal = guard.clone().map(|guard| guard as Arc<dyn Journal>);
    (TurnRights { lease: rights.lease.clone(), journal }, guard)
}

impl JournalGuard {
    /// Does the work of the turn, until it ends or its journal fails.
    pub async fn run(&self, working: impl Future<Output = Result<(), AgentError>> + Unpin) -> Result<(), AgentError> {
        let ended = tokio::select! {
            biased;
            error = self.failed() => return Err(error.into()),
            ended = working => ended,
        };
        self.check()?;
        ended
    }

    /// Ends when the journal fails.
    async fn failed(&self) -> JournalError {
        let mut changes = self.error.subscribe();
        loop {
            let error = changes.borrow_and_update().clone();
            match error {
                Some(error) => return error,
                // It cannot be closed: this holds a sender.
                None => drop(changes.changed().await),
            }
        }
    }

    fn check(&self) -> Result<(), JournalError> {
        self.error.borrow().clone().map_or(Ok(()), Err)
    }

    /// Notes the first error.
    fn noted<T>(&self, came: Result<T, JournalError>) -> Result<T, JournalError> {
        came.inspect_err(|error| {
            self.error.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(|| error.clone());
                is_first
            });
        })
    }
}

impl Journal for JournalGuard {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(async move {
            self.check()?;
            match self.noted(self.journal.step(step).await)? {
                NextStep::Ask(ask) => self.noted(Err(JournalError::Parked(ask.rest()))),
                next => Ok(next),
            }
        })
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.check()?;
            self.noted(self.journal.done(intent, outcome, rows).await)
        })
    }

    fn ahead(&self) -> BoxFuture<'_, usize> {
        self.journal.ahead()
    }

    fn is_parkable(&self) -> bool {
        self.journal.is_parkable()
    }

    fn park(&self, rest: &TurnRest) {
        // What it gives back is the error itself, which ends the turn.
        let _ = self.noted::<()>(Err(JournalError::Parked(rest.clone())));
    }

    fn replay(&self) -> Option<&dyn Replay> {
        self.journal.replay().map(|_| self as &dyn Replay)
    }

    fn is_tape(&self) -> bool {
        self.journal.is_tape()
    }

    fn refuse_answer(&self, name: &str, whose: &str) -> Option<JournalError> {
        self.noted::<()>(Err(self.journal.refuse_answer(name, whose)?)).err()
    }

    fn asks_nobody(&self) -> bool {
        self.journal.asks_nobody()
    }

    fn is_paused(&self) -> bool {
        self.journal.is_paused()
    }

    fn goes_on(&self) -> bool {
        self.journal.goes_on()
    }
}

impl JournalGuard {
    /// What the journal has for code that runs again; only asked where it has that.
    fn replayed(&self) -> Result<&dyn Replay, JournalError> {
        self.check()?;
        self.journal.replay().ok_or(JournalError::Write)
    }
}

impl Replay for JournalGuard {
    fn seed(&self) -> [u8; 32] {
        self.journal.replay().map(|replay| replay.seed()).unwrap_or_default()
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        self.noted(self.replayed()?.read_clock(now))
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.journal.replay()?.checkpoint()
    }

    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { self.noted(self.replayed()?.save(checkpoint).await) })
    }

    fn save_between<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<bool, JournalError>> {
        Box::pin(async move { self.noted(self.replayed()?.save_between(checkpoint).await) })
    }

    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        changes: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { self.noted(self.replayed()?.done_with(intent, outcome, changes).await) })
    }
}

/// What a tool does outside if it is called once more: of the node's own it is known, of others the owner says it. A hint of
/// a server about its own tools counts for nothing.
fn effect(tools: &Tools, name: &str) -> Effect {
    let own = tools.servers().find(name).and_then(|(_, server, tool)| server.effect(tool));
    own.unwrap_or_else(|| tools.effects().of(name))
}

/// The same as of now: whom a call reaches may decide it, unless the owner says that it does once what it is told twice with one
/// key.
async fn effect_now(tools: &Tools, name: &str) -> Effect {
    // For what the agent may not call nobody is looked for.
    let listed = tools.servers().find(name).filter(|_| tools.decisions().lists(name) != Permission::Denied);
    let found = listed.and_then(|(_, server, tool)| server.callee_effect(tool));
    match found.filter(|_| tools.effects().said(name) != Some(Effect::Keyed)) {
        Some(found) => found.await,
        None => effect(tools, name),
    }
}

#[cfg(test)]
mod tests;
