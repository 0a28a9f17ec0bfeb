//! Agents that were stopped have no effect any more: what they began to do is denied from the moment on at which the order is known.

use std::sync::{Arc, OnceLock};

use althing_execution::tools::{Denied, GateVerdict, Permission, Permit, ToolCall, ToolError, ToolGate};
use althing_protocol::{AgentId, AgentRef};
use althing_store::Batch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::gate::AgentGate;

/// Why an agent is stopped, if it is.
pub type StopLookup = Box<dyn Fn(&AgentId) -> Option<String> + Send + Sync>;

/// Which agents are stopped. Gates are made before the node knows that; nothing runs before it does.
#[derive(Clone, Default)]
pub struct Stops(Arc<OnceLock<StopLookup>>);

impl Stops {
    /// From now on `lookup` says it; only the first call has an effect.
    pub fn connect(&self, lookup: StopLookup) {
        let _ = self.0.set(lookup);
    }

    /// Refuses what a stopped agent wants to do.
    ///
    /// # Errors
    /// [`Denied`], with who stopped it, and what to do.
    pub fn check(&self, agent: &AgentId) -> Result<(), Denied> {
        match self.0.get().and_then(|lookup| lookup(agent)) {
            None => Ok(()),
            Some(why) => Err(Denied { reason: format!("{why}; it may go on once its owner adds it again") }),
        }
    }
}

/// The gate of an agent, which lets nothing through once the agent is stopped.
pub(crate) struct StopGate {
    stops: Stops,
    inner: AgentGate,
}

impl StopGate {
    /// Around a gate, which is asked of agents that are not stopped, and records what is denied to those that are.
    pub fn new(stops: Stops, inner: AgentGate) -> StopGate {
        StopGate { stops, inner }
    }
}

impl ToolGate for StopGate {
    fn lists(&self, agent: &AgentRef, tool: &str) -> Permission {
        match self.stops.check(&agent.id) {
            Ok(()) => self.inner.lists(agent, tool),
            Err(_) => Permission::Denied,
        }
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        async move {
            if let Err(denied) = self.stops.check(&call.agent.id) {
                return self.inner.refuse(call, denied).await;
            }
            let ruling = self.inner.decide(call).await;
            // It may have been stopped while that was decided.
            match self.stops.check(&call.agent.id) {
                // That has its entry already.
                Err(_) if matches!(ruling, GateVerdict::Deny(_)) => ruling,
                Err(denied) => self.inner.refuse(call, denied).await,
                Ok(()) => ruling,
            }
        }
        .boxed()
    }

    fn is_current(&self, call: &ToolCall<'_>, permit: &Permit) -> bool {
        self.stops.check(&call.agent.id).is_ok() && self.inner.is_current(call, permit)
    }

    fn take_back(&self, receipt: &[u8; 16]) {
        self.inner.take_back(receipt);
    }

    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        permit: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        self.inner.settle(call, permit, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn what_is_stopped_is_denied_from_then_on_and_nothing_else_is() {
        let agent = |name: &str| AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name");
        let (stops, stopped) = (Stops::default(), Arc::new(Mutex::new(None::<AgentId>)));
        assert_eq!(stops.check(&agent("echo")), Ok(()), "nothing is known yet");
        let known = stopped.clone();
        stops.clone().connect(Box::new(move |agent| {
            let stopped = known.lock().expect("no panic");
            (stopped.as_ref() == Some(agent)).then(|| format!("{} was stopped by its owner", agent.name()))
        }));
        assert_eq!(stops.check(&agent("echo")), Ok(()));
        *stopped.lock().expect("no panic") = Some(agent("echo"));
        let denied = stops.check(&agent("echo")).expect_err("it is stopped");
        assert!(denied.to_string().contains("echo was stopped by its owner"), "{denied}");
        assert_eq!(stops.check(&agent("other")), Ok(()));
    }
}
