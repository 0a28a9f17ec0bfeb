//! Tools as system calls: the only way out of an agent.
//!
//! A call is checked against the contract before it is dispatched, bounded in time and size, hashed (the tool's definition,
//! the arguments, the result), and traced. Only tools that an agent may use are listed for it. A tool is called only while
//! its whole definition is the one that was bound: its server is listed again before each call, once.

mod gate;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::{AgentRef, binding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use crate::context;
use crate::definition::{Pins, Unfit, hash};
use crate::effects::Effects;
use crate::journal::JournalError;
use crate::known::{Known, model_name, real_name};
use crate::lease::Superseded;
use crate::patience;
use crate::relayed::Relayed;
use crate::steps::change;

pub use crate::definition::Definition;
pub use crate::fault::Fault;
pub use crate::tool_call::{CallKind, Permission, ToolCall};
pub use crate::tool_server::ToolServer;
pub use gate::{ContractGate, Denied, MakeGate, ToolGate, contract_gates};

/// How long a tool may take, since it told last how far it is.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a server may take to list its tools.
const LISTING: Duration = Duration::from_secs(20);
/// Arguments of a call, bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 256 << 10;
/// A result, bytes of JSON; a longer one is refused, not cut. A picture of 3 MiB in base64 fits, with what is written around it.
pub const RESULT_BYTES_MAX: usize = (4 << 20) + (32 << 10);
/// What is said of a longer one, wherever that is found out.
pub const RESULT_TOO_LONG: &str = "its answer has more than 4 MiB";
/// Listings for one call to a server whose tools keep changing.
const LISTINGS_MAX: usize = 3;

/// Why a tool call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The gate denied it.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// The turn works on a group's task that another member has by now.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The journal of the turn cannot go on, and the turn ends.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It failed before the node ended, and the turn that goes on is told so in the same words.
    #[error("{0}")]
    Replayed(String),
    /// It is not the tool that was bound, or may not be shown to models. The text quotes nothing of the tool.
    #[error("{}: {tool:?} is suspended and not called: {}", unfit.reason(), unfit.brief())]
    Unfit {
        /// Which tool.
        tool: String,
        /// The reason.
        unfit: Unfit,
    },
    /// There is no such tool.
    #[error("there is no tool {0:?}")]
    Unknown(String),
    /// Its arguments are no JSON object, or too long.
    #[error("the arguments of {tool:?} are refused: {reason}")]
    Arguments {
        /// Which tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// Its server failed.
    #[error("{tool:?} failed: {fault}")]
    Fault {
        /// Which tool.
        tool: String,
        /// How.
        fault: Fault,
    },
}

/// The record of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// `server/tool`.
    pub tool: String,
    /// Hash of its definition.
    pub definition: String,
    /// Hash of its arguments.
    pub arguments: String,
    /// Hash of its result, when there was one.
    pub result: Option<String>,
    /// How long it took.
    pub took_us: u64,
    /// `done`, `error` (of the tool), `denied`, `changed` (not the tool that was bound), `superseded` (the turn's group task
    /// was given to another member) or `failed`.
    pub outcome: &'static str,
}

/// One agent's tools.
pub struct Tools {
    pub(crate) agent: AgentRef,
    pub(crate) servers: BTreeMap<String, Arc<dyn ToolServer>>,
    gate: Arc<dyn ToolGate>,
    known: Mutex<Known>,
    pub(crate) effects: Effects,
}

impl Tools {
    /// The tools of these servers that the gate allows.
    #[must_use]
    pub fn new(agent: AgentRef, servers: BTreeMap<String, Arc<dyn ToolServer>>, gate: Arc<dyn ToolGate>) -> Tools {
        Tools { agent, servers, gate, known: Mutex::default(), effects: Effects::default() }
    }

    /// Pins these definitions: only they may be called from now on. The first pins stay.
    pub fn pin(&self, definitions: Pins) {
        self.known().pin(definitions);
    }

    /// The pinned definitions, once the agent is bound.
    #[must_use]
    pub fn pins(&self) -> Option<Pins> {
        self.known().pins().cloned()
    }

    /// The definitions to pin of these tools: those of servers that are not the node's own.
    #[must_use]
    pub fn pinnable(&self, bound: &[binding::Tool]) -> Pins {
        let foreign = |name: &str| self.server(name).is_some_and(|(_, server, _)| !server.is_own());
        let foreign = bound.iter().map(|tool| tool.name.as_str()).filter(|name| foreign(name));
        self.known().pinnable(foreign)
    }

    /// The tools that the contract names and that are unfit, with the reason.
    #[must_use]
    pub fn unfit(&self) -> BTreeMap<String, Unfit> {
        let mut unfit = self.known().unfit().clone();
        unfit.retain(|name, _| self.may(name));
        unfit
    }

    pub(crate) fn may(&self, name: &str) -> bool {
        self.gate.lists(&self.agent, name) == Permission::Allowed
    }

    pub(crate) fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of the tools panics")
    }

    /// The name and the server of a tool, and its name there.
    pub(crate) fn server<'a>(&self, name: &'a str) -> Option<(&'a str, &Arc<dyn ToolServer>, &'a str)> {
        let (server, tool) = name.split_once('/')?;
        Some((server, self.servers.get(server)?, tool))
    }

    /// Whether there are no servers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The tools that the agent may use, by their names for models; none of a server that does not answer.
    pub async fn listed(&self) -> BTreeMap<String, Definition> {
        // All at once: a server that hangs does not delay the others.
        let asked = self.servers.iter().map(|(name, server)| self.list(name, server));
        let answered = futures::future::join_all(asked).await;
        for ((server, port), answer) in self.servers.iter().zip(answered) {
            if let Err(fault) = answer {
                // One that is late because it works has the tools that it had.
                if !(matches!(fault, Fault::Silent(_)) && port.is_busy()) {
                    self.known().silent(server);
                }
                tracing::warn!(agent = self.agent.name(), server, %fault, "a tool server does not answer");
            }
        }
        let known = self.known();
        let fit = known.fit().iter().filter(|(name, _)| self.may(name));
        fit.map(|(name, tool)| (model_name(name), tool.clone())).collect()
    }

    /// Tools that may be asked for, as their servers listed them last, by their names for models.
    pub(crate) fn callable(&self) -> BTreeMap<String, Definition> {
        let mut all = self.known().callable();
        all.retain(|name, _| self.may(name));
        all.into_iter().map(|(name, tool)| (model_name(&name), tool)).collect()
    }

    /// Lists a server; gives the version of the listing.
    pub(crate) async fn list(&self, name: &str, server: &Arc<dyn ToolServer>) -> Result<u64, Fault> {
        let listed = timeout(LISTING, server.listing()).await.map_err(|_| Fault::Silent(LISTING))?;
        Ok(self.take(name, server, listed?))
    }

    /// Lists a server for a call. One that works on another call may answer after that.
    async fn list_for_call(&self, name: &str, server: &Arc<dyn ToolServer>) -> Result<u64, Fault> {
        let listed = patience::while_busy(server.listing(), || server.is_busy(), LISTING, PATIENCE).await?;
        Ok(self.take(name, server, listed?))
    }

    fn take(&self, name: &str, server: &Arc<dyn ToolServer>, (listed, listing): (Vec<Definition>, u64)) -> u64 {
        let listed = (listed, server.left_out());
        let new = self.known().take(name, server.is_own(), listed, |tool| self.may(tool));
        for (tool, unfit) in new {
            let (reason, why) = (unfit.reason(), unfit.brief());
            tracing::warn!(agent = self.agent.name(), tool, reason, why, "a tool is not called");
        }
        self.known().note_version(name, listing);
        listing
    }

    /// Calls a tool by its name for models, or by `server/tool`.
    pub async fn invoke(&self, name: &str, arguments: &str) -> (Result<Value, ToolError>, CallRecord) {
        let name = real_name(name);
        let definition = self.known().expected(&name);
        let begun = Instant::now();
        let mut record = CallRecord {
            tool: name.clone(),
            definition: definition.unwrap_or_default(),
            arguments: String::new(),
            result: None,
            took_us: 0,
            outcome: "failed",
        };
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = context::span(|| {
            tracing::info_span!(
                "execute_tool",
                otel.kind = "client",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = name,
                gen_ai.agent.name = self.agent.name(),
                gen_ai.tool.call.arguments = tracing::field::Empty,
                gen_ai.tool.call.result = tracing::field::Empty,
                althing.tool.definition = record.definition,
                althing.binding.hash = &*context::binding_hash(),
                "error.type" = tracing::field::Empty,
                otel.status_description = tracing::field::Empty,
            )
        });
        context::record(&span, "gen_ai.tool.call.arguments", || arguments.to_owned());
        let dispatched = self.dispatch(&name, arguments, &mut record).instrument(span.clone());
        let outcome = dispatched.await;
        context::record(&span, "gen_ai.tool.call.result", || match &outcome {
            Ok(result) => result.to_string(),
            Err(error) => error.to_string(),
        });
        record.took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        record.outcome = match &outcome {
            Ok(result) if result["isError"] == true => "error",
            Ok(_) => "done",
            Err(ToolError::Denied(_)) => "denied",
            Err(ToolError::Superseded(_)) => "superseded",
            Err(ToolError::Unfit { .. }) => "changed",
            Err(_) => "failed",
        };
        if outcome.is_err() || record.outcome == "error" {
            span.record("error.type", record.outcome);
            // This sets the status to an error too.
            span.record("otel.status_description", record.outcome);
        }
        tracing::info!(
            agent = self.agent.name(),
            tool = record.tool,
            outcome = record.outcome,
            took_us = record.took_us,
            "system call"
        );
        (outcome, record)
    }

    async fn dispatch(&self, name: &str, arguments: &str, record: &mut CallRecord) -> Result<Value, ToolError> {
        let refused = |reason: String| ToolError::Arguments { tool: name.to_owned(), reason };
        if arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(refused(format!("they have {} bytes, and {ARGUMENTS_BYTES_MAX} is the most", arguments.len())));
        }
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments: Value = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
        record.arguments = hash(&arguments);
        // The gate decides first, so that a denied agent does not learn whether the tool exists.
        let (definition, turn) = (record.definition.clone(), context::now());
        let call = ToolCall::of(&self.agent, &turn, name, &definition, &arguments);
        self.gate.decide(&call).await?;
        let outcome = match &turn.rights.journal {
            _ if !arguments.is_object() => Err(refused("they are no object".to_owned())),
            // Boxed, or each call would have room for it.
            Some(journal) => Box::pin(self.journalled(&**journal, &call, record)).await,
            None => self.bounded(name, &arguments, record).await,
        };
        self.gate.settle(&call, outcome.as_ref()).await;
        outcome
    }

    /// Calls a tool; a result that is too long is an error.
    pub(crate) async fn bounded(
        &self,
        name: &str,
        arguments: &Value,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let result = self.call(name, arguments, record).await?;
        if result.to_string().len() > RESULT_BYTES_MAX {
            let fault = Fault::Failed(RESULT_TOO_LONG.to_owned());
            return Err(ToolError::Fault { tool: name.to_owned(), fault });
        }
        record.result = Some(hash(&result));
        Ok(result)
    }

    /// Calls a tool if its current definition is the bound one.
    async fn call(&self, name: &str, arguments: &Value, record: &mut CallRecord) -> Result<Value, ToolError> {
        let unknown = || ToolError::Unknown(name.to_owned());
        let fault = |fault| ToolError::Fault { tool: name.to_owned(), fault };
        let (server_name, server, tool) = self.server(name).ok_or_else(unknown)?;
        for _ in 0..LISTINGS_MAX {
            // A call that waits for its caller was checked when it was made, and its server may do nothing else meanwhile.
            let goes_on = Relayed::current().and_then(|relayed| relayed.request_state);
            let goes_on = goes_on.is_some_and(|state| server.awaits(&state));
            let listing = match goes_on || (server.is_own() && self.known().fit().contains_key(name)) {
                true => 0,
                false => self.list_for_call(server_name, server).await.map_err(fault)?,
            };
            let listed = self.known().listed(name);
            let listed = listed.map_err(|unfit| ToolError::Unfit { tool: name.to_owned(), unfit })?;
            record.definition = listed.ok_or_else(unknown)?;
            // As late as possible: the gate and the listing may have taken long.
            context::check_lease()?;
            let called = server.call_listed(tool, arguments.clone(), listing);
            match patience::of_call(called, PATIENCE).await {
                Err(Fault::Stale) => {}
                called => return called.map_err(fault),
            }
        }
        Err(fault(Fault::Stale))
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
        // Boxed, or the future of each call that awaits this would have room for it more than once.
        let leased = Box::pin(async {
            context::check_lease().map_err(|superseded| superseded.to_string())?;
            change::make(name, arguments, work).await
        });
        let outcome = self.gated(CallKind::Tool, name, arguments, leased).await;
        outcome.map_err(|denied| denied.to_string())?
    }

    /// Runs `work` if the gate allows it, and tells the gate how it ended. Unlike a system call it is not refused because
    /// the turn's lease is over.
    pub(crate) async fn gated<T, E: Display>(
        &self,
        kind: CallKind,
        name: &str,
        arguments: &Value,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, Denied> {
        let turn = context::now();
        let call = ToolCall { kind, ..ToolCall::of(&self.agent, &turn, name, "", arguments) };
        self.gate.decide(&call).await?;
        let outcome = work.await;
        let failed = |error: &E| ToolError::Fault { tool: name.to_owned(), fault: Fault::Failed(error.to_string()) };
        let failure = outcome.as_ref().err().map(failed);
        self.gate.settle(&call, failure.as_ref().map_or(Ok(&Value::Null), Err)).await;
        Ok(outcome)
    }

    /// Stops all servers.
    pub async fn stop(&self) {
        futures::future::join_all(self.servers.values().map(|server| server.stop())).await;
    }
}

#[cfg(test)]
mod tests;
