//! Calls of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Problem;

/// Calls an agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CallLine {
    /// The nodes that host the agent, and which is called.
    Explain(CallExplanation),
    /// An A2A `StreamResponse`.
    Event(Value),
    /// Why it ended.
    Error(Problem),
}

/// The A2A `StreamResponse` that shows a task as it is by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskEvent {
    /// As its agent's node shows it, with what other versions of A2A add.
    pub task: Value,
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallExplanation {
    /// The nodes in question; not written where no agent is meant.
    #[serde(flatten)]
    pub hosts: Option<CallHosts>,
    /// How one is chosen, or why no agent is meant.
    pub why: String,
}

/// The nodes that host an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallHosts {
    /// Its urn, by which it is called.
    pub agent: String,
    /// Their DIDs, in the order in which they are asked.
    pub hosts: Vec<String>,
    /// Which is asked first; none where nobody hosts it.
    pub chosen: Option<String>,
}

/// A task that a call began was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCancellation {
    /// The id of the task.
    pub cancelled: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::golden::assert_json;

    #[test]
    fn a_call_is_told_line_by_line() {
        let hosts = CallHosts {
            agent: "urn:x".to_owned(),
            hosts: vec!["did:key:z6Mk".to_owned()],
            chosen: Some("did:key:z6Mk".to_owned()),
        };
        let found = CallExplanation { hosts: Some(hosts), why: "least loaded".to_owned() };
        let nobody = CallHosts { agent: "urn:x".to_owned(), hosts: Vec::new(), chosen: None };
        let nowhere = CallExplanation { hosts: Some(nobody), why: "least loaded".to_owned() };
        let unknown = CallExplanation { hosts: None, why: "no agent".to_owned() };
        assert_json(
            &found,
            r#"{"agent":"urn:x","hosts":["did:key:z6Mk"],"chosen":"did:key:z6Mk","why":"least loaded"}"#,
        );
        assert_json(&nowhere, r#"{"agent":"urn:x","hosts":[],"chosen":null,"why":"least loaded"}"#);
        assert_json(&unknown, r#"{"why":"no agent"}"#);
        assert_json(&CallCancellation { cancelled: Some("7".to_owned()) }, r#"{"cancelled":"7"}"#);
        let shown = TaskEvent { task: serde_json::json!({ "id": "7", "more": 1 }) };
        assert_json(&shown, r#"{"task":{"id":"7","more":1}}"#);
        let event = r#"{"event":{"message":{"parts":[{"text":"hello","more":1}]}}}"#;
        let lines = [r#"{"explain":{"why":"no agent"}}"#, event, r#"{"error":{"kind":"failed","message":"no"}}"#];
        for json in lines {
            let line: CallLine = serde_json::from_str(json).expect("it has the shape of a line");
            assert_eq!(serde_json::to_string(&line).expect("a line is JSON"), json);
        }
        let failed = CallLine::Error(Problem::new(Kind::Failed, "no"));
        assert_eq!(serde_json::to_string(&failed).expect("a line is JSON"), lines[2]);
    }
}
