//! Why a request failed.

pub use althing_failure::{AgentStep, CallStep, GroupStep, KeyStep, Kind, NodeStep, RegistryStep, Remedy};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What a group may have accepted all the same, though nobody knows: the answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutcomeUnknown")]
pub enum OutcomeDoubt {
    /// The task of that id.
    Task(String),
    /// The run of a workflow of that id.
    Run(String),
}

impl OutcomeDoubt {
    /// What it is, and its id.
    #[must_use]
    pub fn named(&self) -> (&'static str, &str) {
        match self {
            OutcomeDoubt::Task(id) => ("task", id),
            OutcomeDoubt::Run(id) => ("run", id),
        }
    }

    /// What may be so, as a sentence without its full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            OutcomeDoubt::Task(id) => format!("The task {id} may have been accepted"),
            OutcomeDoubt::Run(id) => format!("The run {id} may have begun"),
        }
    }

    /// How to find out, in the group of that id or name.
    #[must_use]
    pub fn remedy(&self, group: &str) -> Remedy {
        let group = group.to_owned();
        let step = match self {
            OutcomeDoubt::Task(id) => GroupStep::ShowTask { group, task: id.clone() },
            OutcomeDoubt::Run(id) => GroupStep::ShowRun { group, run: id.clone() },
        };
        step.into()
    }
}

/// An error of the control API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What kind of failure.
    #[schemars(schema_with = "kinds")]
    pub kind: Kind,
    /// What failed, where and why; it names no command.
    pub message: String,
    /// What may have been accepted all the same.
    #[serde(rename = "doubt", default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<OutcomeDoubt>,
    /// What to do next, where that is a step of its own. Whoever shows the message says it in words of their own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_step")]
    pub remedy: Option<Box<Remedy>>,
}

/// A step that is known here. A newer node may name others; its message is shown all the same.
pub(crate) fn known_step<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Remedy>>, D::Error> {
    let told = Option::<Value>::deserialize(deserializer)?;
    Ok(told.and_then(|step| serde_json::from_value(step).ok()))
}

/// The words of the kinds.
fn kinds(_: &mut SchemaGenerator) -> Schema {
    let kinds = [
        Kind::Invalid,
        Kind::TooLarge,
        Kind::NotFound,
        Kind::Refused,
        Kind::Conflict,
        Kind::Unreachable,
        Kind::Busy,
        Kind::NotYet,
        Kind::Failed,
    ];
    schemars::json_schema!({ "type": "string", "enum": kinds })
}

impl Problem {
    /// Of that kind, where nothing was accepted.
    pub fn new(kind: Kind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), unknown: None, remedy: None }
    }

    /// The same, with what to do next, if that is a step of its own.
    #[must_use]
    pub fn with_remedy(self, remedy: Option<Remedy>) -> Problem {
        Problem { remedy: remedy.map(Box::new), ..self }
    }

    /// The same, where that may have been accepted in the group of that id or name.
    #[must_use]
    pub fn with_unknown(mut self, group: &str, unknown: OutcomeDoubt) -> Problem {
        self.message = format!("{}. {}", self.message, unknown.sentence());
        self.remedy = Some(Box::new(unknown.remedy(group)));
        self.unknown = Some(unknown);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_problem_says_what_to_do_next_where_that_is_a_step() {
        let problem = Problem::new(Kind::NotFound, "this node has no agent \"echo\"");
        assert_json(&problem, r#"{"kind":"notFound","message":"this node has no agent \"echo\""}"#);
        assert_json(
            &problem.with_remedy(Some(AgentStep::List.into())),
            concat!(
                r#"{"kind":"notFound","message":"this node has no agent \"echo\"","#,
                r#""remedy":{"agents":"list"}}"#
            ),
        );
        assert_json(
            &Problem::new(Kind::Unreachable, "lost").with_unknown("team", OutcomeDoubt::Run("0b".to_owned())),
            concat!(
                r#"{"kind":"unreachable","message":"lost. The run 0b may have begun","doubt":{"run":"0b"},"#,
                r#""remedy":{"groups":{"showRun":{"group":"team","run":"0b"}}}}"#
            ),
        );
    }

    #[test]
    fn a_step_of_a_newer_node_is_left_out_and_the_message_is_not() {
        for remedy in [r#"{"dances":"waltz"}"#, r#"{"agents":{"waltz":"echo"}}"#, "7", "null"] {
            let json = format!(r#"{{"kind":"failed","message":"no","remedy":{remedy}}}"#);
            let problem: Problem = serde_json::from_str(&json).expect("a problem");
            assert_eq!(problem, Problem::new(Kind::Failed, "no"), "{remedy}");
        }
    }
}
