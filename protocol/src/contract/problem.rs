//! What is wrong with a contract.

use std::fmt;

/// One thing to change in a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractProblem {
    /// The field, as a path: `class.period_us`; empty for the whole.
    pub field: String,
    /// The rule, a stable kebab-case name.
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl ContractProblem {
    pub(super) fn new(
        field: impl Into<String>,
        rule: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> ContractProblem {
        ContractProblem { field: field.into(), rule, message: message.into(), fix: fix.into() }
    }
}

impl fmt::Display for ContractProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "the contract" } else { &self.field };
        write!(f, "{field}: {} [{}]. {}", self.message, self.rule, self.fix)
    }
}
