//! The requests and errors of the control API.

use althing_calls::OperationError;
use althing_failure::Kind;
use althing_node::{NodeError, SecretError};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod attesting;
mod groups;
mod registries;
mod routing;

pub use attesting::{AttestRequest, MeasureRequest};
pub use groups::{
    AmendGroup, AppRequest, CreateGroup, GroupRequest, JoinGroup, OverlapRule, ScheduleRequest, ScheduledWork,
    ServeGroup, SubmitTask, TaskRequest, WorkflowRequest,
};
pub use registries::{
    AddRegistry, ApproveRequest, InstallRequest, MarkRequest, MemberRequest, OrganiseRequest, ProveRequest,
    PublishRequest, PurgeRequest, RejectRequest, UpdateRequest,
};
pub use routing::{RouteChannel, RouteEvaluation, RouteFile, RouteRequest};

/// Calls an agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallRequest {
    /// Identifier or name.
    pub agent: String,
    /// The message.
    pub text: String,
    /// The task to continue.
    pub task: Option<String>,
    /// Whether to report which nodes host the agent.
    pub explain: bool,
    /// Whether an untrusted publisher's agent may be called.
    #[serde(default)]
    pub anyone: bool,
}

/// One line of a call's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallLine {
    /// The nodes that host the agent, and which is called.
    Explain(Value),
    /// An A2A `StreamResponse`.
    Event(Value),
    /// Why it ended.
    Error(Problem),
}

/// Adds or runs an agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddRequest {
    /// Its file, as read.
    pub file: althing_td::AgentFile,
    /// Where relative paths in it start.
    pub folder: std::path::PathBuf,
    /// The files that were read for it; absolute. No program writes them while it is added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<std::path::PathBuf>,
    /// The id of its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The digest of what `POST /adding` showed of its programs, where somebody agreed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}

/// Adopts what exists already.
#[derive(Debug, Serialize, Deserialize)]
pub struct AdoptRequest {
    /// Where it is, or how it is started.
    pub at: althing_td::ToolServerSpec,
    /// Where its program starts, and relative paths in its command.
    pub folder: std::path::PathBuf,
    /// The agent's name here; by default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who may call it.
    pub callers: althing_td::Callers,
    /// Origins beside its own to which the forms of a Thing may lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Which Things of a directory, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub things: Vec<String>,
    /// All Things of a directory.
    #[serde(default)]
    pub all: bool,
    /// The variables that its program is given.
    #[serde(default, skip_serializing_if = "althing_node::Environment::is_empty")]
    pub env: althing_node::Environment,
    /// When what its program needs is offered instead.
    #[serde(default)]
    pub offers: Offers,
    /// Whether only to show what would be published.
    pub dry_run: bool,
}

/// When it is offered what a program needs beyond what it is granted, and the program is not adopted before that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Offers {
    /// Never: a program that does not answer is an error, and another one is adopted with what it is granted.
    #[default]
    Never,
    /// Where the program does not answer.
    Unanswered,
    /// Also where it answers, and was refused something.
    Always,
}

/// Accepts an adopted agent as it is now, or only shows that.
#[derive(Debug, Serialize, Deserialize)]
pub struct AcceptRequest {
    /// Its name.
    pub name: String,
    /// The digest of what was shown; none: only show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What its program is granted beside what its file says.
    #[serde(default, skip_serializing_if = "althing_td::Sandbox::is_default")]
    pub grants: althing_td::Sandbox,
    /// When what its program needs is offered instead.
    #[serde(default)]
    pub offers: Offers,
}

/// Shows the messages that pass; none of the members: all.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TapRequest {
    /// About this agent, by name or id.
    pub agent: Option<String>,
    /// To or from this node, by its DID.
    pub peer: Option<String>,
    /// Of protocols whose name has this in it.
    pub protocol: Option<String>,
}

/// Shows what the programs of an agent of this node said.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogsRequest {
    /// The agent's name.
    pub agent: String,
    /// Whether what they say from now on is shown too.
    #[serde(default)]
    pub follow: bool,
}

/// Reserves what a contract needs on another node.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReserveRequest {
    /// The other node's DID.
    pub node: String,
    /// The agent file with the contract.
    pub file: Option<althing_td::AgentFile>,
    /// Lease, seconds.
    pub lease_s: u64,
    /// The id of a reservation to release instead.
    pub cancel: Option<String>,
}

/// One line about an agent that runs for `althing run`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunLine {
    /// It runs now.
    Runs(Value),
    /// Its status, once a second.
    Status(Value),
    /// It could not be run, or was stopped.
    Error(Problem),
}

/// An operation on a memory namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryRequest {
    /// Stores a text of a source.
    Add {
        /// The source's name.
        source: String,
        /// The text.
        text: String,
    },
    /// Searches for passages that resemble a question.
    Search {
        /// The question.
        question: String,
        /// Maximum number of passages.
        most: usize,
    },
    /// Shows a passage, or the value of a key; or when and why it was deleted.
    Show {
        /// Its id, or the key.
        what: String,
    },
    /// Deletes a source, a passage's source, or a key.
    Forget {
        /// A source, a passage's id, or a key.
        what: String,
    },
    /// Lists its content.
    List,
}

/// Trusts a node or publisher, or stops to trust it.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    /// Whether it is trusted from now on.
    pub trusted: bool,
}

/// What a group may have accepted all the same, though nobody knows: the answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Doubt {
    /// The task of that id.
    Task(String),
    /// The run of a workflow of that id.
    Run(String),
}

impl Doubt {
    /// What it is, and its id.
    #[must_use]
    pub fn named(&self) -> (&'static str, &str) {
        match self {
            Doubt::Task(id) => ("task", id),
            Doubt::Run(id) => ("run", id),
        }
    }

    /// How to find out, in the group of that id or name.
    #[must_use]
    pub fn advice(&self, group: &str) -> String {
        match self {
            Doubt::Task(id) => format!("The task {id} may have been accepted: `althing task show {group} {id}`"),
            Doubt::Run(id) => format!("The run {id} may have begun: `althing workflow show {group} {id}`"),
        }
    }
}

/// An error of the control API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of failure.
    pub kind: Kind,
    /// What failed, why, and what to do.
    pub message: String,
    /// What may have been accepted all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), doubt: None }
    }

    /// The same, where that may have been accepted in the group of that id or name.
    pub(crate) fn in_doubt(mut self, group: &str, doubt: Doubt) -> Problem {
        self.message = format!("{}. {}", self.message, doubt.advice(group));
        self.doubt = Some(doubt);
        self
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
        let status = StatusCode::from_u16(self.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

impl From<NodeError> for Problem {
    fn from(error: NodeError) -> Problem {
        Problem::new(error.kind(), error.to_string())
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Problem {
        Problem::new(error.kind(), error.to_string())
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Problem {
        Problem::new(error.kind(), error.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_problem_has_the_status_and_the_json_that_it_always_had() {
        let table = [
            (Kind::Invalid, "invalid"),
            (Kind::NotFound, "notFound"),
            (Kind::Refused, "refused"),
            (Kind::Unreachable, "unreachable"),
            (Kind::NotYet, "notYet"),
            (Kind::Failed, "failed"),
        ];
        for (kind, name) in table {
            let response = Problem::new(kind, "no").into_response();
            assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{name}");
            let body = axum::body::to_bytes(response.into_body(), 1_024).await.expect("a short body");
            assert_eq!(String::from_utf8_lossy(&body), json!({ "kind": name, "message": "no" }).to_string());
        }
    }
}
