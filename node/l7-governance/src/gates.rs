//! Gates of agents for a node whose governance is opened after what runs its agents was made.

use std::sync::{Arc, OnceLock};

use althing_execution::grants::{AskGrant, Grant};
use althing_execution::tools::{
    Denied, GateVerdict, MakeGate, Permission, Permit, ToolCall, ToolError, ToolGate, ToolStatements,
};
use althing_protocol::{AgentRef, Contract};
use althing_store::Batch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::act::Act;
use crate::admission::{PolicyRefusal, admit, admit_now};
use crate::gate::AgentGate;
use crate::governance::Governance;
use crate::stops::{StopGate, Stops};

/// Makes the gates of agents. Until governance is connected every call is denied.
#[derive(Clone, Default)]
pub struct Gates {
    governance: Arc<OnceLock<Governance>>,
    stops: Stops,
}

impl Gates {
    /// Governance is there. The first one counts.
    pub fn connect(&self, governance: &Governance) {
        // Another one would have other rows in the same store.
        let _ = self.governance.set(governance.clone());
    }

    /// Which agents are stopped.
    #[must_use]
    pub fn stops(&self) -> &Stops {
        &self.stops
    }

    /// Makes gates that ask `base` first, which goes by contracts.
    #[must_use]
    pub fn make(&self, base: MakeGate) -> MakeGate {
        let (of, stops) = (self.governance.clone(), self.stops.clone());
        Arc::new(move |agent: &AgentRef, contract: &Contract, said: &ToolStatements| -> Arc<dyn ToolGate> {
            match of.get() {
                Some(governance) => {
                    let gate = AgentGate::new(governance, base(agent, contract, said), (agent, contract), said.clone());
                    Arc::new(StopGate::new(stops.clone(), gate))
                }
                None => Arc::new(ShutGate),
            }
        })
    }
}

/// Asks governance whether something may be done; until it is connected nothing may.
///
/// # Errors
/// [`PolicyRefusal`].
pub async fn admit_by(gates: &Gates, act: &Act<'_>) -> Result<(), PolicyRefusal> {
    match gates.governance.get() {
        Some(governance) => admit(governance, act).await,
        None => Err(PolicyRefusal::too_early(act)),
    }
}

/// Asks governance about what agents are given when they start; until it is connected they are given nothing.
#[must_use]
pub fn ask_grants(gates: &Gates) -> AskGrant {
    let of = gates.governance.clone();
    Arc::new(move |agent: &str, grant: Grant<'_>| {
        let act = act_of(agent, grant);
        let asked = match of.get() {
            Some(governance) => admit_now(governance, &act),
            None => Err(PolicyRefusal::too_early(&act)),
        };
        asked.map_err(|forbidden| forbidden.to_string())
    })
}

fn act_of<'a>(agent: &'a str, grant: Grant<'a>) -> Act<'a> {
    match grant {
        Grant::Secret { name, host } => Act::Secret { agent, name, host },
        Grant::Model { name, host, clearance } => Act::BindModel { agent, name, host, clearance },
        Grant::Server { name, host } => Act::BindServer { agent, name, host },
        Grant::Everywhere => Act::Egress { agent, host: "*", port: None, method: None, pattern: None },
    }
}

/// The gate of an agent that was started before governance.
struct ShutGate;

impl ToolGate for ShutGate {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Denied
    }

    fn decide<'a>(&'a self, _: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        let reason = "the node is starting and decides about nothing yet; try again in a moment".to_owned();
        std::future::ready(GateVerdict::Deny(Denied { reason })).boxed()
    }

    fn settle<'a>(
        &'a self,
        _: &'a ToolCall<'a>,
        _: &'a Permit,
        _: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        std::future::ready(Batch::new()).boxed()
    }
}
