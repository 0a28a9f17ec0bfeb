//! Why a request failed.

pub use althing_failure::Kind;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// What a group may have accepted all the same, though nobody knows: the answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What kind of failure.
    #[schemars(schema_with = "kinds")]
    pub kind: Kind,
    /// What failed, why, and what to do.
    pub message: String,
    /// What may have been accepted all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
}

/// The words of the kinds.
fn kinds(_: &mut SchemaGenerator) -> Schema {
    let kinds =
        [Kind::Invalid, Kind::TooLarge, Kind::NotFound, Kind::Refused, Kind::Unreachable, Kind::NotYet, Kind::Failed];
    schemars::json_schema!({ "type": "string", "enum": kinds })
}

impl Problem {
    /// Of that kind, with nothing in doubt.
    pub fn new(kind: Kind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), doubt: None }
    }

    /// The same, where that may have been accepted in the group of that id or name.
    #[must_use]
    pub fn in_doubt(mut self, group: &str, doubt: Doubt) -> Problem {
        self.message = format!("{}. {}", self.message, doubt.advice(group));
        self.doubt = Some(doubt);
        self
    }
}
