//! How commands fail: a sentence for people, a stable exit code for scripts.

use althing_control::{Kind, Problem};
use althing_node::network_key::NetworkKeyFileError;
use althing_node::{NodeError, OwnerError, SecretError};
use serde_json::json;

use crate::commands::plain;

/// Exit codes; they do not change.
pub mod code {
    /// The operation failed.
    pub const FAILED: u8 = 1;
    /// The command line or a file is wrong (clap's own code too).
    pub const USAGE: u8 = 2;
    /// No node of that name runs.
    pub const NO_NODE: u8 = 3;
    /// No such agent, task or peer.
    pub const NOT_FOUND: u8 = 4;
    /// The other side refused.
    pub const REFUSED: u8 = 5;
    /// The other side cannot be reached, or did not answer in time.
    pub const UNREACHABLE: u8 = 6;
    /// It cannot be told yet; it is tried again.
    pub const LATER: u8 = 7;
    /// It was measured, and a goal was missed.
    pub const GOAL_MISSED: u8 = 8;
    /// Interrupted with Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

/// The exit code of a failure of that kind.
fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::Invalid => code::USAGE,
        Kind::NotFound => code::NOT_FOUND,
        Kind::Refused => code::REFUSED,
        Kind::Unreachable => code::UNREACHABLE,
        Kind::NotYet => code::LATER,
        Kind::Failed => code::FAILED,
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::new(code_of(problem.kind), problem.message)
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Failure {
        Failure::new(code_of(error.kind().into()), error.to_string())
    }
}

impl From<OwnerError> for Failure {
    fn from(error: OwnerError) -> Failure {
        Failure::new(code_of(error.kind().into()), error.to_string())
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Failure {
        Failure::new(code_of(error.kind().into()), error.to_string())
    }
}

impl From<NetworkKeyFileError> for Failure {
    fn from(error: NetworkKeyFileError) -> Failure {
        Failure::new(code_of(error.kind().into()), error.to_string())
    }
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(code::FAILED, message)
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(code::USAGE, message)
    }

    /// An outcome that the command's own output has told already: nothing is added to it but the exit code.
    pub fn shown(code: u8) -> Failure {
        Failure::new(code, "")
    }

    /// Prints it to standard error, as JSON where that was asked for; nothing where all was shown.
    pub fn print(&self, as_json: bool) {
        if self.message.is_empty() {
            return;
        }
        if as_json {
            eprintln!("{}", json!({ "error": { "exitCode": self.code, "message": self.message } }));
        } else {
            // It may hold what a peer said.
            eprintln!("althing: {}", plain(&self.message, &std::io::stderr()));
        }
    }
}
