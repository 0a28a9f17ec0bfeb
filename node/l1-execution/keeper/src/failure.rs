//! What could not be done for a program.

use std::fmt::Display;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// A step that could not be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}: {why}")]
pub struct Failure {
    /// What was to be done, as it stands after "cannot": `start "python3"`.
    pub step: String,
    /// The system's reason.
    pub why: String,
    /// Whether this machine lacks what the step needs, or the account may not have it: another level may do.
    #[serde(default)]
    pub is_lacking: bool,
}

impl Failure {
    /// A step, and why it could not be done.
    pub fn of(step: impl Into<String>, why: impl Display) -> Failure {
        Failure { step: step.into(), why: why.to_string(), is_lacking: false }
    }

    /// A step that the system refused.
    pub(crate) fn by(step: impl Into<String>, why: Errno) -> Failure {
        let is_lacking = matches!(why, Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EOPNOTSUPP);
        Failure { is_lacking, ..Failure::of(step, explained(why)) }
    }

    /// A step that this machine cannot do.
    pub(crate) fn lacking(step: impl Into<String>, why: impl Display) -> Failure {
        Failure { is_lacking: true, ..Failure::of(step, why) }
    }
}

fn explained(why: Errno) -> String {
    match why {
        Errno::ENOSYS => format!("{why} (Linux 5.12 or later has it)"),
        Errno::ELOOP => format!("{why} (a part of the path was exchanged for a link meanwhile)"),
        why => why.to_string(),
    }
}
