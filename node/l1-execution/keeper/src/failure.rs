//! What could not be done for a program.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// A step that could not be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}: {why}")]
pub struct Failure {
    /// What was to be done, as it stands after "cannot": `start "python3"`.
    pub step: String,
    /// The system's reason.
    pub why: String,
}

impl Failure {
    /// A step, and why it could not be done.
    pub fn of(step: impl Into<String>, why: impl Display) -> Failure {
        Failure { step: step.into(), why: why.to_string() }
    }
}
