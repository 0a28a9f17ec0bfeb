//! The requests and errors of the control API.

use althing_calls::{OperationError, Refusal};
use althing_node::NodeError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// The id of its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
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

/// Forms a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateGroup {
    /// Its name.
    pub name: String,
    /// Who may write: `owners`, `members` or `anyone`.
    pub write: String,
    /// Members that vote, at most.
    pub voters_max: u8,
}

/// Joins a group.
#[derive(Debug, Serialize, Deserialize)]
pub struct JoinGroup {
    /// The ticket, as text.
    pub ticket: String,
}

/// An operation on a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupRequest {
    /// Makes a ticket for a node.
    Invite {
        /// Its DID.
        node: String,
        /// For how long it is valid, seconds.
        life_s: u64,
    },
    /// This node leaves.
    Leave {
        /// What this node has of the group is removed, without asking the group.
        forget: bool,
    },
    /// Removes a node.
    Expel {
        /// Its DID.
        node: String,
    },
    /// Ends the group.
    Dissolve,
    /// Hands over the lead.
    Transfer {
        /// To this node, a DID.
        node: String,
    },
    /// Shows the group.
    Status,
    /// Writes a value.
    Set {
        /// Its key.
        key: String,
        /// The value.
        value: String,
        /// Only if it has this version; 0: only if there is none.
        if_version: Option<u64>,
    },
    /// Reads a value.
    Get {
        /// Its key.
        key: String,
        /// As it has arrived here, without asking the leader.
        stale: bool,
    },
    /// Removes a value.
    Remove {
        /// Its key.
        key: String,
        /// Only if it has this version.
        if_version: Option<u64>,
    },
    /// Lists keys.
    Keys {
        /// Those that begin so.
        prefix: String,
        /// As they have arrived here, without asking the leader.
        stale: bool,
    },
}

/// A task for a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitTask {
    /// The capability that the member's agent must have.
    pub capability: Option<String>,
    /// Or the agent's name.
    pub agent: Option<String>,
    /// What is to be done: a text, or an A2A message as JSON.
    pub text: String,
    /// `low`, `normal`, `high` or `critical`.
    pub priority: String,
    /// In how many seconds it must have ended.
    pub deadline_s: Option<u64>,
    /// The tasks that must complete before it begins.
    pub after: Vec<String>,
    /// A second task with the same key is not submitted.
    pub key: Option<String>,
    /// How often it is attempted, at most.
    pub attempts: u8,
    /// For how many seconds a member has it without a sign of life.
    pub lease_s: u64,
    /// Labels that the member must have.
    pub labels: Vec<String>,
    /// Memory that the member must have free, MiB.
    pub memory_mib: Option<u32>,
    /// Processor cores that it must have.
    pub cores: Option<u32>,
    /// Disk that it must have free, MiB.
    pub disk_mib: Option<u32>,
    /// GPUs that it must have.
    pub gpus: Option<u32>,
    /// The latency class in which it must run agents: `hrt`, `srt` or `dt`.
    pub class: Option<String>,
    /// What only one task may use at a time.
    pub resources: Vec<String>,
}

/// An operation on the tasks of a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskRequest {
    /// Submits one.
    Submit(Box<SubmitTask>),
    /// Lists them.
    List {
        /// Those that ended too.
        finished: bool,
    },
    /// Shows one.
    Show {
        /// Which.
        task: String,
        /// Also what each member lacks for it; known at the leader.
        explain: bool,
    },
    /// Cancels one.
    Cancel {
        /// Which.
        task: String,
    },
    /// Makes one wait for another.
    Depend {
        /// Which.
        task: String,
        /// For this one.
        on: String,
    },
    /// Shows what one waits for, and what waits for it.
    Deps {
        /// Which.
        task: String,
    },
}

/// Trusts a node or publisher, or stops to trust it.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    /// Whether it is trusted from now on.
    pub trusted: bool,
}

/// The kind of a failure; the command line has an exit code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The request is invalid.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It is not allowed.
    Refused,
    /// Another node cannot be reached, or did not answer in time.
    Unreachable,
    /// It is not known yet; the node tries again.
    NotYet,
    /// It failed.
    Failed,
}

/// An error of the control API.
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
