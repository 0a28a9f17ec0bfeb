//! What a node answers about what exists already.

use althing_td::{AgentFile, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::AgentAddition;

/// What `POST /adopt` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AdoptReply {
    /// A program does not answer, and what it needs is offered.
    Unanswered(UnansweredProgram),
    /// A directory is there.
    Directory(ThingDirectory),
    /// An agent is there, or what becomes one.
    Agent(Box<AgentAdoption>),
}

/// What `POST /adopt/accept` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AcceptReply {
    /// A program does not answer, and what it needs is offered.
    Unanswered(UnansweredProgram),
    /// The agent as it is now.
    Agent(Box<AgentAcceptance>),
}

/// A program that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnansweredProgram {
    /// Why it does not.
    pub unanswered: String,
    /// What it needs, and can be granted.
    pub needs: ProgramNeeds,
}

/// What a program needs beyond what it is granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramNeeds {
    /// What its file would grant with it.
    #[schemars(with = "Value")]
    pub sandbox: Sandbox,
    /// The block of its file that would grant it.
    pub block: String,
    /// Each of it in words.
    pub words: Vec<String>,
    /// What it was refused, in words.
    pub refused: Vec<String>,
    /// Whether it was refused more than that.
    pub more_refused: bool,
}

/// What was found, and the agent file for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDraft {
    /// `A2A agent`, `MCP server` or `Thing`.
    pub kind: String,
    /// What is written of it, and published.
    #[schemars(with = "Map<String, Value>")]
    pub file: AgentFile,
    /// What its programs would reach, in words.
    pub reaches: Vec<String>,
    /// What of it is left out.
    pub left_out: Vec<DraftOmission>,
    /// The digest of all that is agreed to: whoever agrees to it agrees to exactly that.
    pub digest: String,
    /// Who signed the card of an A2A agent, in words.
    pub signature: Option<String>,
    /// For each tool of a Thing, the method and the address to which it leads.
    pub requests: Vec<String>,
}

/// Something that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftOmission {
    /// Which of it.
    pub what: String,
    /// Why that is so.
    pub why: String,
}

/// Something that was adopted, or only looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentAdoption {
    /// What was found.
    #[serde(flatten)]
    pub draft: AgentDraft,
    /// Whether its name is taken here; not written where it was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<bool>,
    /// The agent that it became; not written where it was only looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<AgentAddition>,
    /// What its program needs beyond what it is granted; not written where nothing is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<ProgramNeeds>,
    /// What its program was refused, in words, where nothing is offered; not written where that is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Whether it was refused more than that; written beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_refused: Option<bool>,
}

/// An adopted agent as it is now, accepted or only looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentAcceptance {
    /// What was found.
    #[serde(flatten)]
    pub draft: AgentDraft,
    /// What of it is another than what was agreed to.
    pub changes: Vec<DraftChange>,
    /// What its program needs beyond what it is granted; not written where nothing is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<ProgramNeeds>,
    /// What its program was refused, in words, where nothing is offered; not written where that is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Whether it was refused more than that; written beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_refused: Option<bool>,
    /// The agent that it became; not written where it was only looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<AgentAddition>,
}

/// A change of what was agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftChange {
    /// What: `skill book.seat`, `tool thing/dim: inputSchema`.
    pub what: String,
    /// What it was; empty if there was none.
    pub old: String,
    /// What it is; empty if there is none.
    pub new: String,
}

/// Which Things of a directory are adopted, or could be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThingDirectory {
    /// `directory of Things`.
    pub kind: String,
    /// Those that can be chosen.
    pub things: Vec<ThingEntry>,
    /// How many more there are that cannot.
    pub without_id: usize,
    /// Some of these.
    pub left_out: Vec<DraftOmission>,
    /// What became of those that were chosen; not written where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopted: Vec<ThingAdoption>,
}

/// A Thing of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThingEntry {
    /// Its id, by which it is chosen.
    pub id: String,
    /// Its title for people.
    pub title: String,
    /// Where the directory has its description.
    pub url: String,
}

/// What became of a Thing that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ThingAdoption {
    /// It was not adopted.
    Failure(ThingFailure),
    /// It was adopted, or only looked at.
    Agent(Box<AgentAdoption>),
}

/// A Thing that was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThingFailure {
    /// Its id in the directory.
    pub id: String,
    /// Why it was not.
    pub failed: String,
}

#[cfg(test)]
mod tests;
