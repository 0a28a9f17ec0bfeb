//! Tools as system calls: the only way out of an agent.
//!
//! A call is checked against the contract before it is dispatched, bounded in time and size, hashed (the tool's definition,
//! the arguments, the result), and traced. Only tools that an agent may use are listed for it. A tool is called only while
//! its whole definition is the one that was bound: its server is listed again before each call, once. Calls that are made at once
//! share a listing that began after all of them were asked for.

mod gate;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use althing_protocol::contract::Verify;
use althing_protocol::{AgentRef, Label};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::call_checks::CallChecks;
use crate::context::{self, CallContext};
use crate::decisions::{Decisions, GateRefusal};
use crate::definition::{Pins, Unfit, hash};
use crate::effects::Effects;
use crate::known::Known;
use crate::model_names::model_name;
use crate::output_schemas::OutputSchemas;
use crate::patience;
use crate::profiles::Profiles;
use crate::ruling::RulingAhead;
use crate::run_notes::arguments_hash;
use crate::tool_error::{arguments_of, refused_arguments};
use crate::tool_listings::ToolListings;
use crate::tool_servers::ToolServers;

pub use crate::call_record::CallRecord;
pub use crate::definition::Definition;
pub use crate::fault::Fault;
pub use crate::own_tools::{HAND_OVER, is_within};
pub use crate::ruling::{Ask, Denied, GateVerdict, PendingAsks, Permit, TurnRest};
pub use crate::statements::{ModelClearance, ToolStatements};
pub use crate::tool_call::{CallKind, Permission, ToolCall};
pub use crate::tool_error::ToolError;
pub use crate::tool_server::ToolServer;
pub use gate::{ContractGate, MakeGate, ToolGate, contract_gates};

/// How long a tool may take, since it told last how far it is.
const PATIENCE: Duration = Duration::from_secs(120);
/// Arguments of a call, bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 256 << 10;
/// A result, bytes of JSON; a longer one is refused, not cut. A picture of 3 MiB in base64 fits, with what is written around it.
pub const RESULT_BYTES_MAX: usize = (4 << 20) + (32 << 10);
/// What is said of a longer one, wherever that is found out.
pub const RESULT_TOO_LONG: &str = "its answer has more than 4 MiB";
/// Listings for one call to a server whose tools keep changing.
const LISTINGS_MAX: usize = 3;

/// One agent's tools.
pub struct Tools {
    servers: ToolServers,
    decisions: Decisions,
    listings: ToolListings,
    effects: Effects,
    profiles: Profiles,
    /// What is asked after calls.
    checks: CallChecks,
    outputs: OutputSchemas,
}

impl Tools {
    /// The tools of these servers that the gate allows.
    #[must_use]
    pub fn new(agent: AgentRef, servers: BTreeMap<String, Arc<dyn ToolServer>>, gate: Arc<dyn ToolGate>) -> Tools {
        let servers = ToolServers::new(servers);
        Tools {
            listings: ToolListings::new(&servers),
            servers,
            decisions: Decisions::new(agent, gate),
            effects: Effects::default(),
            profiles: Profiles::default(),
            checks: CallChecks::default(),
            outputs: OutputSchemas::default(),
        }
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

    /// The tools that the contract names and that are unfit, with the reason.
    #[must_use]
    pub fn unfit(&self) -> BTreeMap<String, Unfit> {
        let mut unfit = self.known().unfit().clone();
        unfit.retain(|name, _| self.may(name));
        unfit
    }

    pub(crate) fn may(&self, name: &str) -> bool {
        self.decisions.lists(name) == Permission::Allowed
    }

    pub(crate) fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.listings.known()
    }

    pub(crate) fn servers(&self) -> &ToolServers {
        &self.servers
    }

    /// Whether there are no servers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The tools that the agent may use, by their names for models; none of a server that does not answer.
    pub async fn listed(&self) -> BTreeMap<String, Definition> {
        self.offered().await.into_iter().map(|(name, tool)| (model_name(&name), tool)).collect()
    }

    /// The same, by `server/tool`.
    pub(crate) async fn offered(&self) -> Pins {
        self.listings.list_all(&self.servers, &self.decisions).await;
        let mut all = self.known().fit().clone();
        all.retain(|name, _| self.may(name));
        all
    }

    /// Lists a server; gives the version of the listing.
    pub(crate) async fn list(&self, name: &str, server: &Arc<dyn ToolServer>) -> Result<u64, Fault> {
        self.listings.list((name, server), &self.decisions).await
    }

    /// Lists the server of a tool that is about to be called; none where that need not be, or there is no such server.
    pub(crate) async fn list_before_call(&self, name: &str) -> Option<Result<u64, Fault>> {
        self.listings.list_before_call(name, &self.servers, &self.decisions).await
    }

    /// Calls a tool by its name for models, or by `server/tool`.
    pub async fn invoke(&self, name: &str, arguments: &str) -> (Result<Value, ToolError>, CallRecord) {
        self.invoke_ruled(name, arguments, None).await
    }

    /// The same, on which the gate ruled that before, if it did.
    pub(crate) async fn invoke_ruled(
        &self,
        name: &str,
        arguments: &str,
        ruling: Option<RulingAhead>,
    ) -> (Result<Value, ToolError>, CallRecord) {
        let (outcome, record) = self.made(name, arguments, ruling).await;
        match outcome {
            // Boxed, or each call would have room for one more.
            Ok(result) if !self.checks.is_empty() => {
                let make = |by: String, arguments: String| async move { self.made(&by, &arguments, None).await.0 };
                let told = self.checks.tell((record.tool.as_str(), arguments), result, &self.effects, make);
                (Ok(Box::pin(told).await), record)
            }
            outcome => (outcome, record),
        }
    }

    /// Makes a call, and asks no check about it.
    async fn made(
        &self,
        name: &str,
        arguments: &str,
        ruling: Option<RulingAhead>,
    ) -> (Result<Value, ToolError>, CallRecord) {
        let name = self.known().real_name(name);
        let begun = Instant::now();
        let mut record = CallRecord::of(name.clone(), self.known().expected(&name));
        let span = record.span(self.decisions.agent().name());
        context::record(&span, "gen_ai.tool.call.arguments", || arguments.to_owned());
        let dispatched = self.dispatch(&name, arguments, ruling, &mut record).instrument(span.clone());
        let outcome = dispatched.await;
        record.end(self.decisions.agent().name(), &span, (&outcome, begun.elapsed()));
        record.keep_name(self.listings.has(&name));
        context::run_notes().add_call(record.facts(self.servers.callee_of(&name, outcome.as_ref().ok())));
        (outcome, record)
    }

    async fn dispatch(
        &self,
        name: &str,
        arguments: &str,
        ruling: Option<RulingAhead>,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let (arguments, turn, label) = self.filled(name, arguments)?;
        record.arguments = arguments_hash(&arguments);
        let made = self.decided(name, &arguments, &turn, ruling, record);
        let outcome = match label {
            // Whoever sends them on says their label too.
            Some(_) => Box::pin(context::CALL_CONTEXT.scope(turn.clone(), made)).await,
            None => made.await,
        };
        match outcome {
            Ok(result) if self.profiles.hides(name) => {
                let served = self.servers.find(name).map(|(_, server, tool)| (&**server, tool));
                self.profiles.hidden(&turn, name, served, &result)
            }
            outcome => outcome,
        }
    }

    /// The arguments of a call with what handles in them stand for, the turn that makes it, and the label of what was hidden.
    pub(crate) fn filled(&self, name: &str, arguments: &str) -> Result<(Value, CallContext, Option<Label>), ToolError> {
        let most = self.servers.arguments_max(name).unwrap_or(ARGUMENTS_BYTES_MAX);
        let arguments = arguments_of(name, arguments, most)?;
        let mut turn = context::now();
        let filled =
            turn.hidden.lock().unwrap_or_else(PoisonError::into_inner).fill(arguments, most, self.profiles.hide_any());
        let (arguments, label) = filled.map_err(|error| refused_arguments(name, error.to_string()))?;
        turn.attributes.send(label);
        Ok((arguments, turn, label))
    }

    /// Makes a call of a turn, if the gate allows it.
    async fn decided(
        &self,
        name: &str,
        arguments: &Value,
        turn: &CallContext,
        ruling: Option<RulingAhead>,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let definition = record.definition.clone();
        let journal = turn.rights.journal.as_deref().filter(|_| self.servers.is_step(name, arguments));
        let is_journalled = journal.is_some();
        let level = self.servers.level(name);
        let call = ToolCall { is_journalled, level, ..self.decisions.call(turn, name, &definition, arguments) };
        if let Some(journal) = journal {
            // Boxed, or each call would have room for it.
            return Box::pin(self.journalled(journal, &call, ruling, record)).await;
        }
        // The gate decides first, so that a denied agent does not learn whether the tool exists.
        let permit = self.decisions.permit(&call, ruling).await?;
        let outcome = match arguments.is_object() {
            true => self.bounded(name, arguments, None, record).await,
            false => Err(refused_arguments(name, "they are no object".to_owned())),
        };
        drop(self.decisions.settle(&call, &permit, outcome.as_ref()).await);
        outcome
    }

    /// Calls a tool; a result that is too long is an error. `listed`: what the listing for the call gave, if that was made.
    pub(crate) async fn bounded(
        &self,
        name: &str,
        arguments: &Value,
        listed: Option<Result<u64, Fault>>,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let called = self.call(name, arguments, listed, record).await;
        // Of why there is no answer the same is said as of an answer. What is hidden is not given to the turn.
        let is_hidden = called.is_ok() && self.profiles.hides(name);
        if let (Ok(_) | Err(ToolError::Fault { .. }), Some((_, server, tool))) = (&called, self.servers.find(name))
            && !is_hidden
        {
            context::hear(self.profiles.result_label(name, (&**server, tool), context::whole_label()));
        }
        let result = called?;
        if result.to_string().len() > RESULT_BYTES_MAX {
            let fault = Fault::Failed(RESULT_TOO_LONG.to_owned());
            return Err(ToolError::Fault { tool: name.to_owned(), fault });
        }
        record.result = Some(hash(&result));
        let schema = || self.known().output_schema(name);
        record.breaks_schema = self.outputs.breaks(&record.definition, schema, &result);
        Ok(result)
    }

    /// Calls a tool if its current definition is the bound one.
    async fn call(
        &self,
        name: &str,
        arguments: &Value,
        mut listed: Option<Result<u64, Fault>>,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let unknown = || ToolError::Unknown(name.to_owned());
        let fault = |fault| ToolError::Fault { tool: name.to_owned(), fault };
        let (_, server, tool) = self.servers.find(name).ok_or_else(unknown)?;
        for _ in 0..LISTINGS_MAX {
            let made = match listed.take() {
                Some(made) => Some(made),
                None => self.list_before_call(name).await,
            };
            let listing = made.transpose().map_err(fault)?.unwrap_or(0);
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
    pub fn permitted<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        arguments: &Value,
        work: impl Future<Output = Result<T, String>>,
    ) -> impl Future<Output = Result<T, String>> {
        self.decisions.permitted(name, arguments, work)
    }

    /// Runs `work` if the gate allows it: see [`Decisions::gated`].
    pub(crate) fn gated<T, E: Display>(
        &self,
        kind: CallKind,
        name: &str,
        arguments: &Value,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<Result<T, E>, GateRefusal>> {
        self.decisions.gated(kind, name, arguments, work)
    }

    /// What its tools do outside.
    pub(crate) fn effects(&self) -> &Effects {
        &self.effects
    }

    /// What is said of them besides.
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// What asks the gate.
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// The same, of whose effects that is said.
    #[must_use]
    pub(crate) fn with_effects(mut self, effects: Effects) -> Tools {
        self.effects = effects;
        self
    }

    /// The same, of which that is said.
    #[must_use]
    pub(crate) fn with_profiles(mut self, profiles: Profiles) -> Tools {
        self.profiles = profiles;
        self
    }

    /// The same, with the checks that a contract wants after calls.
    #[must_use]
    pub(crate) fn with_checks(mut self, verify: &Verify) -> Tools {
        self.checks = CallChecks::of(verify);
        self
    }

    /// Stops all servers.
    pub async fn stop(&self) {
        self.servers.stop().await;
    }
}

#[cfg(test)]
mod tests;
