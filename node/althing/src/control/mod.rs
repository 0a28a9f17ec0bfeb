//! The control socket: HTTP over a Unix socket (0600) in the data directory, between the command line and its node.

pub mod agents;
pub mod client;
mod memory;
pub mod reserve;
pub mod server;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Asks for one agent's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallRequest {
    pub agent: String,
    pub text: String,
    pub task: Option<String>,
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
    Error { exit_code: u8, message: String },
}

/// Asks for an agent to be run.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddRequest {
    pub file: althing_td::AgentFile,
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
    pub file: Option<althing_td::AgentFile>,
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
    Error { exit_code: u8, message: String },
}

/// Does something with a namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryRequest {
    /// Keeps a text of a source.
    Add { source: String, text: String },
    /// Looks for what resembles a question.
    Search { question: String, most: usize },
    /// A passage, or the value under a key; or what became of it.
    Show { what: String },
    /// Forgets a source, a passage's source, or a key.
    Forget { what: String },
    /// What is in it.
    List,
}

/// Asks for trust to be given or taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    pub trusted: bool,
}

/// How the server says that something failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Problem {
    pub exit_code: u8,
    pub message: String,
}
