//! Handoffs: the work of a task goes to another agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Hands the work of a task to another agent: what `POST /tasks/{task}/handoff` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandoffRequest {
    /// Who is to do the work: a name or an id.
    pub agent: String,
    /// What is still to be done, where the node makes the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
    /// What must be true of the result, where the node makes the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checklist: Vec<String>,
    /// The document, perhaps with sign-offs; the node makes one if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
    /// Whether the document is only made, and shown, for people to fill and to sign.
    #[serde(default)]
    pub draft: bool,
}

/// What `POST /tasks/{task}/handoff` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HandoffReply {
    /// The document was made, and not offered.
    Draft(HandoffDraft),
    /// It was offered.
    Outcome(HandoffOutcome),
}

/// A handoff that nobody signed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffDraft {
    /// The document, as `docs/handoffs.md` says.
    pub document: Value,
}

/// What became of a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffOutcome {
    /// Its id, a UUID.
    pub handoff: String,
    /// The task whose work it is.
    pub task: String,
    /// The agent to which it was offered.
    pub recipient: String,
    /// What became of it.
    pub state: HandoffCondition,
    /// The recipient's task, with whose result the task ends; where the work is given away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
    /// The handoff by which the recipient has the work; where it is a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// Why it was rejected, by a word that does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it was rejected, or waits, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What became of a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HandoffCondition {
    /// The recipient has the work.
    Given,
    /// It is offered again, for as long as it is in force and the node runs; the task's agent goes on meanwhile.
    Waiting,
    /// The recipient has the work by another handoff.
    Duplicate,
    /// The task's agent still has the work: the recipient does not take it.
    Rejected,
    /// The task's agent still has the work: nobody answered.
    Unanswered,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_handoff_is_asked_for_with_as_much_as_somebody_says() {
        let short: HandoffRequest = serde_json::from_value(json!({ "agent": "auditor" })).expect("a request");
        let none = || Vec::new();
        let wanted = HandoffRequest {
            agent: "auditor".to_owned(),
            remaining: none(),
            checklist: none(),
            document: None,
            draft: false,
        };
        assert_eq!(short, wanted);
        let full = HandoffRequest { remaining: vec!["Page 8.".to_owned()], draft: true, ..wanted };
        assert_json(&full, r#"{"agent":"auditor","remaining":["Page 8."],"draft":true}"#);
        assert!(serde_json::from_value::<HandoffRequest>(json!({ "agent": "a", "to": "b" })).is_err());
    }

    #[test]
    fn what_became_of_a_handoff_is_told_with_what_belongs_to_it() {
        let given = HandoffOutcome {
            handoff: "h-1".to_owned(),
            task: "t-1".to_owned(),
            recipient: "urn:a".to_owned(),
            state: HandoffCondition::Given,
            becomes: Some("t-2".to_owned()),
            original: None,
            reason: None,
            message: None,
        };
        assert_json(
            &HandoffReply::Outcome(given.clone()),
            r#"{"handoff":"h-1","task":"t-1","recipient":"urn:a","state":"given","becomes":"t-2"}"#,
        );
        let rejected = HandoffOutcome {
            state: HandoffCondition::Rejected,
            becomes: None,
            reason: Some("label".to_owned()),
            message: Some("No.".to_owned()),
            ..given
        };
        assert_json(
            &rejected,
            concat!(
                r#"{"handoff":"h-1","task":"t-1","recipient":"urn:a","state":"rejected","reason":"label","#,
                r#""message":"No."}"#
            ),
        );
        let draft = HandoffReply::Draft(HandoffDraft { document: json!({ "task_id": "t-1" }) });
        assert_json(&draft, r#"{"document":{"task_id":"t-1"}}"#);
    }
}
