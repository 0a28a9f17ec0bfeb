//! Gates of agents for a node whose governance is opened after what runs its agents was made.

use std::sync::{Arc, OnceLock};

use althing_execution::tools::{
    Denied, GateVerdict, MakeGate, Permission, Permit, ToolCall, ToolError, ToolGate, ToolStatements,
};
use althing_protocol::{AgentRef, Contract};
use althing_store::Batch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

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
                    let gate = governance.gate(base(agent, contract, said), agent, contract, said.clone());
                    Arc::new(StopGate::new(stops.clone(), gate))
                }
                None => Arc::new(ShutGate),
            }
        })
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
