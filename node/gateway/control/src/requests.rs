//! What is asked of a node over its control API, and how it says that something failed.

use althing_calls::{OperationError, Refusal};
use althing_node::NodeError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Asks for one agent's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallRequest {
    /// Identifier or name.
    pub agent: String,
    /// What is said.
    pub text: String,
    /// The task that goes on.
    pub task: Option<String>,
    /// Say where the agent is, too.
    pub explain: bool,
    /// A stranger's agent of that name will do.
    #[serde(default)]
    pub anyone: bool,
}

/// One line of a call's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallLine {
    /// Where the agent is, and which nodes could have been asked.
    Explain(Value),
    /// An A2A `StreamResponse`.
    Event(Value),
    /// Why it ended.
    Error(Problem),
}

/// Asks for an agent to be run.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddRequest {
    /// Its file, as read.
    pub file: althing_td::AgentFile,
    /// Where relative paths in it start.
    pub folder: std::path::PathBuf,
    /// What was reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

/// Asks another node to hold what a contract needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReserveRequest {
    /// The other node's DID.
    pub node: String,
    /// The agent file whose contract is held for.
    pub file: Option<althing_td::AgentFile>,
    /// For how long, seconds.
    pub lease_s: u64,
    /// Give this one back instead.
    pub cancel: Option<String>,
}

/// How an agent runs that was added.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunLine {
    /// It runs now.
    Runs(Value),
    /// How it is, once a second.
    Status(Value),
    /// It could not be run, or was stopped.
    Error(Problem),
}

/// Does something with a namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryRequest {
    /// Keeps a text of a source.
    Add {
        /// Where it is from.
        source: String,
        /// The text.
        text: String,
    },
    /// Looks for what resembles a question.
    Search {
        /// What is looked for.
        question: String,
        /// Passages at most.
        most: usize,
    },
    /// A passage, or the value under a key; or what became of it.
    Show {
        /// Its id, or the key.
        what: String,
    },
    /// Forgets a source, a passage's source, or a key.
    Forget {
        /// A source, a passage's id, or a key.
        what: String,
    },
    /// What is in it.
    List,
}

/// Asks for trust to be given or taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    /// Or trusted no longer.
    pub trusted: bool,
}

/// What kind of failure it is; the command line has an exit code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// What was asked is wrong.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It is not allowed.
    Refused,
    /// Another node cannot be reached, or did not answer in time.
    Unreachable,
    /// It cannot be told yet; it is tried again.
    NotYet,
    /// It went wrong.
    Failed,
}

/// How a node says that something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of failure.
    pub kind: Kind,
    /// What failed, why, and what to do.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(Kind::Invalid, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Problem {
        Problem::new(Kind::Failed, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (StatusCode::UNPROCESSABLE_ENTITY, Json(self)).into_response()
    }
}

impl From<althing_node::Kind> for Kind {
    fn from(kind: althing_node::Kind) -> Kind {
        match kind {
            althing_node::Kind::Invalid => Kind::Invalid,
            althing_node::Kind::NotFound => Kind::NotFound,
            althing_node::Kind::Refused => Kind::Refused,
            althing_node::Kind::NotYet => Kind::NotYet,
            althing_node::Kind::Failed => Kind::Failed,
        }
    }
}

impl From<NodeError> for Problem {
    fn from(error: NodeError) -> Problem {
        Problem::new(error.kind().into(), error.to_string())
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Problem {
        let kind = match error.refusal {
            Refusal::AgentUnknown | Refusal::AgentNotHere | Refusal::TaskNotFound | Refusal::MethodNotFound => {
                Kind::NotFound
            }
            Refusal::CallerNotAllowed => Kind::Refused,
            Refusal::AgentUnreachable | Refusal::DeadlineExceeded | Refusal::OfNewerNode(_) => Kind::Unreachable,
            _ => Kind::Failed,
        };
        Problem::new(kind, error.message)
    }
}
