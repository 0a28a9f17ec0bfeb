//! Why an endpoint gives no answer.

use std::error::Error as _;
use std::time::Duration;

use crate::journal::JournalError;
use crate::tools::Denied;

/// How long an endpoint may take to answer, and between two pieces of an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Why an endpoint did not answer, or failed during the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered {status}: {said}")]
    Status { status: u16, said: String },
    #[error("it answered with an error: {0}")]
    Error(String),
    #[error("it sent nothing for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("it sent a malformed chat completion: {0}")]
    Malformed(String),
    #[error("it ended in the middle of an answer")]
    Cut,
    #[error("the request was cancelled")]
    Cancelled,
    /// The agent's gate did not let the request out.
    #[error(transparent)]
    Denied(Denied),
    /// Somebody is asked whether it lets the request out, and the turn ends until then.
    #[error(transparent)]
    Journal(JournalError),
}

impl EndpointError {
    /// That it cannot be reached, with all causes.
    pub fn unreachable(error: reqwest::Error) -> EndpointError {
        // The URL may hold a secret.
        let error = error.without_url();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        EndpointError::Unreachable(text)
    }

    /// The status by which the endpoint refused the credentials that it was sent, if it did.
    pub fn refused(&self) -> Option<u16> {
        match self {
            EndpointError::Status { status: status @ (401 | 403), .. } => Some(*status),
            _ => None,
        }
    }

    /// The text for callers, without what the endpoint sent, which may be private to its owner.
    pub fn brief(&self) -> String {
        match self {
            EndpointError::Status { status, .. } => format!("it answered {status}"),
            EndpointError::Unreachable(_) => "it cannot be reached".to_owned(),
            EndpointError::Error(_) => "it answered with an error".to_owned(),
            EndpointError::Malformed(_) => "it sent a malformed chat completion".to_owned(),
            EndpointError::Silent
            | EndpointError::Cut
            | EndpointError::Cancelled
            | EndpointError::Denied(_)
            | EndpointError::Journal(_) => self.to_string(),
        }
    }
}
