//! Asks the gate of an agent: what it permits is done, and the gate is told how that ended. Where somebody is asked first, the
//! turn ends and goes on later, if it can; else the call waits for the answer.

use std::fmt::Display;
use std::sync::Arc;

use althing_protocol::AgentRef;
use althing_store::Batch;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::AgentError;
use crate::context::{self, CallContext};
use crate::journal::JournalError;
use crate::ruling::{Ask, Denied, GateVerdict, Permit, RulingAhead};
use crate::statements::ModelClearance;
use crate::steps::change;
use crate::tool_call::{CallKind, Permission, ToolCall};
use crate::tool_error::{ToolError, failure};
use crate::tools::ToolGate;

/// What is on record of a call that was permitted and not made.
const DECIDED_ANEW: &str = "what it was permitted by changed before it was made: it was decided anew";

/// Why something is not done that the gate decides on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GateRefusal {
    /// The gate denied it.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The turn ends here.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl GateRefusal {
    /// How the turn ends with it; `told` says what is denied.
    pub fn rejection(self, told: impl FnOnce(Denied) -> String) -> AgentError {
        match self {
            GateRefusal::Denied(denied) => AgentError::Rejected(told(denied)),
            GateRefusal::Journal(error) => error.into(),
        }
    }
}

impl From<GateRefusal> for ToolError {
    fn from(refusal: GateRefusal) -> ToolError {
        match refusal {
            GateRefusal::Denied(denied) => denied.into(),
            GateRefusal::Journal(error) => error.into(),
        }
    }
}

/// Whether the turn that runs here ends where that is asked, and goes on when it is answered.
fn parks(ask: &Ask) -> bool {
    let journal = context::current_journal().filter(|journal| journal.is_parkable());
    journal.inspect(|journal| journal.park(&ask.rest())).is_some()
}

/// Asks the gate of an agent.
pub(crate) struct Decisions {
    agent: AgentRef,
    gate: Arc<dyn ToolGate>,
}

impl Decisions {
    /// What asks that gate of an agent.
    pub fn new(agent: AgentRef, gate: Arc<dyn ToolGate>) -> Decisions {
        Decisions { agent, gate }
    }

    /// The agent of which the gate is asked.
    pub fn agent(&self) -> &AgentRef {
        &self.agent
    }

    /// A system call of the agent in a turn, as the gate sees it.
    pub fn call<'a>(
        &'a self,
        turn: &'a CallContext,
        tool: &'a str,
        definition: &'a str,
        arguments: &'a Value,
    ) -> ToolCall<'a> {
        ToolCall::of(&self.agent, turn, tool, definition, arguments)
    }

    /// Whether the agent may call the tool.
    pub fn lists(&self, tool: &str) -> Permission {
        self.gate.lists(&self.agent, tool)
    }

    /// What the gate says of a call now.
    pub async fn decide(&self, call: &ToolCall<'_>) -> GateVerdict {
        self.gate.decide(call).await
    }

    /// Tells the gate how a call ended.
    pub async fn settle(&self, call: &ToolCall<'_>, permit: &Permit, outcome: Result<&Value, &ToolError>) -> Batch {
        self.gate.settle(call, permit, outcome).await
    }

    /// Gives a permit back by which no call is made.
    pub fn give_back(&self, permit: &Permit) {
        if let Some(receipt) = &permit.receipt {
            self.gate.take_back(receipt);
        }
    }

    /// What the gate says of a call: what it said `ahead`, unless that was a permit which counts no more. Where somebody is asked
    /// first, the answer is waited for, unless the turn ends there.
    pub async fn rule(&self, call: &ToolCall<'_>, ahead: Option<RulingAhead>) -> GateVerdict {
        let mut call = *call;
        match ahead {
            Some(RulingAhead { verdict: GateVerdict::Permit(permit), carries, level })
                if level != call.level || !self.gate.is_current(&call, &permit) =>
            {
                self.give_up(&call, &permit).await;
                // As it was decided, and is if its turn ends here and goes on later.
                call.carries = carries;
            }
            Some(RulingAhead { verdict, .. }) => return verdict,
            None => {}
        }
        loop {
            match self.gate.decide(&call).await {
                GateVerdict::Ask(ask) if parks(&ask) => return GateVerdict::Ask(ask),
                GateVerdict::Ask(ask) => ask.answered.await,
                ruling @ (GateVerdict::Permit(_) | GateVerdict::Deny(_)) => return ruling,
            }
        }
    }

    /// Makes no call by a permit that counts no more.
    async fn give_up(&self, call: &ToolCall<'_>, permit: &Permit) {
        self.give_back(permit);
        // Of one that is journalled nothing is written yet; what the gate wrote of another one wants an end.
        if !call.is_journalled {
            let denied = ToolError::Denied(Denied { reason: DECIDED_ANEW.to_owned() });
            drop(self.gate.settle(call, permit, Err(&denied)).await);
        }
    }

    /// The permit of a call on which that was ruled ahead, or else what the gate says now.
    pub async fn permit(&self, call: &ToolCall<'_>, ahead: Option<RulingAhead>) -> Result<Permit, GateRefusal> {
        match self.rule(call, ahead).await {
            GateVerdict::Permit(permit) => Ok(permit),
            GateVerdict::Deny(denied) => Err(denied.into()),
            GateVerdict::Ask(ask) => Err(JournalError::Parked(ask.rest()).into()),
        }
    }

    /// Runs `work` as a system call without a server, if the gate allows it with these arguments: in a turn that is resumed it
    /// is answered from the journal of the turn.
    ///
    /// # Errors
    /// Why it is denied, or what `work` says.
    pub async fn permitted<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        arguments: &Value,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let check_lease = || context::check_lease().map_err(|superseded| superseded.to_string());
        let turn = context::now();
        let is_journalled = turn.rights.journal.is_some();
        let call = ToolCall { is_journalled, ..self.call(&turn, name, "", arguments) };
        // Boxed, or the future of each call that awaits this would have room for it more than once.
        let Some(journal) = &turn.rights.journal else {
            let leased = Box::pin(async {
                check_lease()?;
                work.await
            });
            return self.closed(&call, leased).await.map_err(|refusal| refusal.to_string())?;
        };
        check_lease()?;
        let ruling: BoxFuture<'_, GateVerdict> = Box::pin(self.rule(&call, None));
        Box::pin(change::make(journal, &call, (&*self.gate, ruling), work)).await
    }

    /// Runs `work` if the gate allows it, and tells the gate how it ended. Unlike a system call it is not refused because
    /// the turn's lease is over.
    pub async fn gated<T, E: Display>(
        &self,
        kind: CallKind,
        name: &str,
        arguments: &Value,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, GateRefusal> {
        let turn = context::now();
        let call = ToolCall { kind, ..self.call(&turn, name, "", arguments) };
        self.closed(&call, work).await
    }

    /// The same of a request to a model that is cleared so far.
    pub async fn gated_request<T, E: Display>(
        &self,
        clearance: ModelClearance,
        name: &str,
        body: &Value,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, GateRefusal> {
        let (turn, kind) = (context::now(), CallKind::Model);
        let call = ToolCall { kind, clearance: Some(clearance), ..self.call(&turn, name, "", body) };
        self.closed(&call, work).await
    }

    /// Runs `work` if the gate allows the call, of which no journal is told, and tells the gate how it ended.
    async fn closed<T, E: Display>(
        &self,
        call: &ToolCall<'_>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, GateRefusal> {
        let permit = self.permit(call, None).await?;
        let outcome = work.await;
        let failed = outcome.as_ref().err().map(|error| failure(call.tool, error));
        drop(self.gate.settle(call, &permit, failed.as_ref().map_or(Ok(&Value::Null), Err)).await);
        Ok(outcome)
    }
}
