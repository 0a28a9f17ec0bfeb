//! The gate of an agent: decides whether a system call may run, a model may be asked, or memory may be searched for a
//! message, and is told how it ended.

use std::sync::Arc;

use althing_protocol::contract::covers;
use althing_protocol::{AgentRef, Contract};
use althing_store::Batch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::ruling::{Denied, GateVerdict, Permit};
use crate::statements::ToolStatements;
use crate::tool_call::{CallKind, Permission, ToolCall};
use crate::tool_error::ToolError;

/// Decides on every system call of an agent, and on what the node does for its turns (see [`CallKind`]), and is told the
/// outcome of what it allowed. No call is dispatched without a decision. One that is answered from the journal of its turn is
/// not decided again. A call may be decided several times before it is made: only a permit whose rows are written was used. A
/// call whose turn was dropped after the decision is not settled: its outcome is unknown.
pub trait ToolGate: Send + Sync + 'static {
    /// Whether the agent may call the tool. Models see only those that need no consent: a gate that asks people says of what it
    /// would ask about that it is allowed.
    fn lists(&self, agent: &AgentRef, tool: &str) -> Permission;

    /// Decides whether the call may run. Where a person has to be asked it says so, and does not wait for the answer.
    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict>;

    /// Whether a permit that it gave a while ago still counts: where not, the call is decided anew before it is made. Asked of permits
    /// that were given ahead, and must cost next to nothing.
    fn is_current(&self, _call: &ToolCall<'_>, _permit: &Permit) -> bool {
        true
    }

    /// Takes back the permit of that receipt, by which no call is made: what it was given for may be promised again.
    fn take_back(&self, _receipt: &[u8; 16]) {}

    /// Is told the outcome of a permitted call, before the agent is: the result of a tool, and `null` for what else ended
    /// well. A model's answer may have been streamed by then. Gives rows for the batch of the call's result; of a call that is
    /// not journalled it writes them by itself.
    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        permit: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch>;
}

/// Makes the gate of an agent for its contract and what is said of its tools.
pub type MakeGate = Arc<dyn Fn(&AgentRef, &Contract, &ToolStatements) -> Arc<dyn ToolGate> + Send + Sync>;

/// Gates that decide by the contract alone.
#[must_use]
pub fn contract_gates() -> MakeGate {
    Arc::new(|_, contract, _| Arc::new(ContractGate::of(contract)))
}

/// Allows what `capabilities` of the contract name, and denies all other system calls. It asks nobody: what needs consent it
/// denies, unless a gate around it, which sees by [`ToolGate::lists`] what that is, asks first and decides by itself. What the
/// node does by itself for a turn it allows: the contract has decided on that when the agent was bound, by its `memory` and its
/// `model`.
#[derive(Debug, Clone)]
pub struct ContractGate {
    capabilities: Vec<String>,
    consent_for: Vec<String>,
}

impl ContractGate {
    /// `server/tool` or `server/*`.
    #[must_use]
    pub fn new(capabilities: Vec<String>) -> ContractGate {
        ContractGate { capabilities, consent_for: Vec::new() }
    }

    /// The gate of a contract.
    #[must_use]
    pub fn of(contract: &Contract) -> ContractGate {
        ContractGate { capabilities: contract.capabilities.clone(), consent_for: contract.security.consent_for.clone() }
    }
}

/// Whether one of the patterns names the tool.
fn names(patterns: &[String], tool: &str) -> bool {
    tool.contains('/') && patterns.iter().any(|pattern| covers(pattern, tool))
}

impl ToolGate for ContractGate {
    fn lists(&self, _: &AgentRef, tool: &str) -> Permission {
        match (names(&self.capabilities, tool), names(&self.consent_for, tool)) {
            (true, false) => Permission::Allowed,
            (true, true) => Permission::Ask,
            (false, _) => Permission::Denied,
        }
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        let ruling = match self.check(call) {
            Ok(()) => GateVerdict::Permit(Permit::default()),
            Err(denied) => GateVerdict::Deny(denied),
        };
        std::future::ready(ruling).boxed()
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

impl ContractGate {
    fn check(&self, call: &ToolCall<'_>) -> Result<(), Denied> {
        match call.kind {
            CallKind::Tool => {}
            CallKind::Recall | CallKind::Model => return Ok(()),
        }
        let agent = call.agent.name();
        let reason = match self.lists(call.agent, call.tool) {
            Permission::Allowed => return Ok(()),
            Permission::Ask => format!(
                "the contract of {agent} wants a person's consent for {:?} (`security.consent_for`), and this node has \
                 nobody to ask",
                call.tool
            ),
            Permission::Denied => format!(
                "the contract of {agent} does not name {:?} among its `capabilities`",
                call.tool.chars().take(120).collect::<String>()
            ),
        };
        Err(Denied { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::CallContext;
    use crate::ports::Ports;

    #[test]
    fn all_tools_of_a_server_are_none_of_a_server_whose_name_begins_like_it() {
        let gate = ContractGate::new(vec!["files/*".to_owned(), "mail/send".to_owned()]);
        let agent = Ports::none().agent_ref("a", "1.0.0").expect("a name");
        let may = |tool: &str| {
            let (turn, arguments) = (CallContext::default(), Value::Null);
            let call = ToolCall::of(&agent, &turn, tool, "", &arguments);
            let listed = gate.lists(&agent, tool) == Permission::Allowed;
            assert_eq!(gate.check(&call).is_ok(), listed, "{tool}");
            listed
        };
        for tool in ["files/read", "files/rm", "files/a/b", "mail/send"] {
            assert!(may(tool), "{tool}");
        }
        let others =
            ["files-admin/rm", "filesystem/rm", "files", "files__rm", "xfiles/rm", "mail/send-all", "mail/sen"];
        for tool in others.into_iter().chain(["mail/*", "Files/rm", "/files/rm", ""]) {
            assert!(!may(tool), "{tool}");
        }
    }

    #[test]
    fn what_the_node_does_for_a_turn_needs_no_capability_and_opens_none() {
        let mut gate = ContractGate::new(Vec::new());
        gate.consent_for = vec!["memory/recall".to_owned(), "models/*".to_owned()];
        let agent = Ports::none().agent_ref("a", "1.0.0").expect("a name");
        let (turn, arguments) = (CallContext::default(), Value::Null);
        for (kind, tool) in [(CallKind::Recall, "memory/recall"), (CallKind::Model, "models/small")] {
            let own = ToolCall::of(&agent, &turn, tool, "", &arguments);
            assert_eq!(gate.check(&ToolCall { kind, ..own }), Ok(()), "{tool}");
            assert!(gate.check(&own).is_err(), "the agent itself may not: {tool}");
            assert_eq!(gate.lists(&agent, tool), Permission::Denied);
        }
    }

    #[test]
    fn what_needs_consent_is_neither_allowed_nor_denied() {
        let mut gate = ContractGate::new(vec!["files/*".to_owned()]);
        gate.consent_for = vec!["files/rm".to_owned(), "mail/send".to_owned()];
        let agent = Ports::none().agent_ref("a", "1.0.0").expect("a name");
        let lists = ["files/read", "files/rm", "mail/send"].map(|tool| gate.lists(&agent, tool));
        assert_eq!(lists, [Permission::Allowed, Permission::Ask, Permission::Denied]);
    }
}
