//! Agents that are made of what exists already.

use althing_td::{Callers, Environment, Sandbox, ToolServerSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Folder;

/// Adopts what exists already.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// Where it is, or how it is started.
    #[schemars(with = "Map<String, Value>")]
    pub at: ToolServerSpec,
    /// Where its program starts, and relative paths in its command.
    pub folder: Folder,
    /// The agent's name here; by default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who may call it.
    #[schemars(with = "Value")]
    pub callers: Callers,
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
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    #[schemars(with = "Map<String, Value>")]
    pub env: Environment,
    /// When what its program needs is offered instead.
    #[serde(default)]
    pub offers: Offers,
    /// Whether only to show what would be published.
    pub dry_run: bool,
}

/// When it is offered what a program needs beyond what it is granted, and the program is not adopted before that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptRequest {
    /// Its name.
    pub name: String,
    /// The digest of what was shown; none: only show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What its program is granted beside what its file says.
    #[serde(default, skip_serializing_if = "Sandbox::is_default")]
    #[schemars(with = "Value")]
    pub grants: Sandbox,
    /// When what its program needs is offered instead.
    #[serde(default)]
    pub offers: Offers,
}
