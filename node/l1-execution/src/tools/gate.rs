//! May this system call run?

use althing_protocol::Contract;
use althing_protocol::contract::covers;
use serde_json::Value;

/// A call that an agent wants to make.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// Who.
    pub agent: &'a str,
    /// `server/tool`.
    pub tool: &'a str,
    /// Hash of the tool's definition; empty when it is not known.
    pub definition: &'a str,
    /// What it is called with.
    pub arguments: &'a Value,
}

/// A call that may not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("denied: {reason}")]
pub struct Denied {
    /// Why, and what to do.
    pub reason: String,
}

/// Decides on every system call. Without an answer nothing is dispatched.
pub trait ToolGate: Send + Sync + 'static {
    /// May the agent know of the tool?
    fn lists(&self, agent: &str, tool: &str) -> bool;

    /// May the call be made?
    ///
    /// # Errors
    /// [`Denied`], with the reason.
    fn check(&self, call: &ToolCall<'_>) -> Result<(), Denied>;
}

/// The contract alone: what its `capabilities` name may be called, everything else is denied.
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

    /// What a contract says.
    #[must_use]
    pub fn of(contract: &Contract) -> ContractGate {
        ContractGate { capabilities: contract.capabilities.clone(), consent_for: contract.security.consent_for.clone() }
    }
}

/// Does one of them name the tool?
fn names(patterns: &[String], tool: &str) -> bool {
    tool.contains('/') && patterns.iter().any(|pattern| covers(pattern, tool))
}

impl ToolGate for ContractGate {
    fn lists(&self, _: &str, tool: &str) -> bool {
        names(&self.capabilities, tool) && !names(&self.consent_for, tool)
    }

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
            let call = ToolCall { agent: "a", tool, definition: "", arguments: &Value::Null };
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
