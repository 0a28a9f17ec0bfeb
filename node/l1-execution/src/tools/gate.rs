//! The gate of system calls: decides whether a call may run, and is told how it ended.

use std::sync::Arc;

use althing_protocol::Contract;
use althing_protocol::contract::covers;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use super::ToolError;

/// A system call of an agent.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// The agent.
    pub agent: &'a str,
    /// `server/tool`.
    pub tool: &'a str,
    /// Hash of the tool's definition; empty when it is not known.
    pub definition: &'a str,
    /// The arguments.
    pub arguments: &'a Value,
    /// On whose behalf, the origin first.
    pub principals: &'a [String],
}

/// A denied call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("denied: {reason}")]
pub struct Denied {
    /// Why, and what to do.
    pub reason: String,
}

/// Decides on every system call of an agent, and is told the outcome of those that it allowed. No call is dispatched without
/// a decision. A call whose turn was dropped after the decision is not settled: its outcome is unknown.
pub trait ToolGate: Send + Sync + 'static {
    /// Whether the agent may see the tool.
    fn lists(&self, agent: &str, tool: &str) -> bool;

    /// Decides whether the call may run. May take long, since a person may have to be asked.
    ///
    /// # Errors
    /// [`Denied`], with the reason.
    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, Result<(), Denied>>;

    /// Is told the outcome of an allowed call, before the agent is.
    fn settle<'a>(&'a self, call: &'a ToolCall<'a>, outcome: Result<&'a Value, &'a ToolError>) -> BoxFuture<'a, ()>;
}

/// Makes the gate for a contract.
pub type MakeGate = Arc<dyn Fn(&Contract) -> Arc<dyn ToolGate> + Send + Sync>;

/// Gates that decide by the contract alone.
#[must_use]
pub fn contract_gates() -> MakeGate {
    Arc::new(|contract| Arc::new(ContractGate::of(contract)))
}

/// Allows what `capabilities` of the contract name, and denies everything else.
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
    fn lists(&self, _: &str, tool: &str) -> bool {
        names(&self.capabilities, tool) && !names(&self.consent_for, tool)
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, Result<(), Denied>> {
        std::future::ready(self.check(call)).boxed()
    }

    fn settle<'a>(&'a self, _: &'a ToolCall<'a>, _: Result<&'a Value, &'a ToolError>) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}

impl ContractGate {
    fn check(&self, call: &ToolCall<'_>) -> Result<(), Denied> {
        if self.lists(call.agent, call.tool) {
            return Ok(());
        }
        if names(&self.capabilities, call.tool) {
            let reason = format!(
                "the contract of {} wants a person's consent for {:?} (`security.consent_for`), and this node has \
                 nobody to ask",
                call.agent, call.tool
            );
            return Err(Denied { reason });
        }
        let reason = format!(
            "the contract of {} does not name {:?} among its `capabilities`",
            call.agent,
            call.tool.chars().take(120).collect::<String>()
        );
        Err(Denied { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tools_of_a_server_are_none_of_a_server_whose_name_begins_like_it() {
        let gate = ContractGate::new(vec!["files/*".to_owned(), "mail/send".to_owned()]);
        let may = |tool: &str| {
            let call = ToolCall { agent: "a", tool, definition: "", arguments: &Value::Null, principals: &[] };
            assert_eq!(gate.check(&call).is_ok(), gate.lists("a", tool), "{tool}");
            gate.lists("a", tool)
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
}
