//! Agents of a node.

use std::path::PathBuf;

use althing_td::AgentFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Problem;

/// Adds or runs an agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddRequest {
    /// Its file, as read.
    pub file: AgentFile,
    /// Where relative paths in it start.
    pub folder: PathBuf,
    /// The files that were read for it, its own first and without links; absolute. No program writes them while it is added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PathBuf>,
    /// The id of its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The digest of what `POST /adding` showed, where somebody agreed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
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
