//! Stopping agents at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `POST /stop` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Which agent, by name or id; all agents of the owner where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether others' nodes are told to refuse it too.
    #[serde(default)]
    pub revoke: bool,
}

/// What `POST /stop` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopReply {
    /// As it was named; none where all were.
    pub agent: Option<String>,
    /// Whether others' nodes are told to refuse it: now, or by an earlier order.
    pub revoked: bool,
    /// Whether this node has it, or knows of a node that does.
    pub known: bool,
    /// The owner's other nodes that are connected.
    pub nodes: Vec<StopNode>,
    /// How many questions to people about what is stopped are over on this node by that, with each yes that was not used.
    #[serde(default)]
    pub questions: usize,
    /// Why they could not be ended, and wait on; none where they are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended: Option<String>,
}

/// Another node of the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopNode {
    /// Its DID.
    pub node: String,
    /// Why it did not hear of it; none where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn one_agent_is_stopped_or_all_are() {
        let all: StopRequest = serde_json::from_str("{}").expect("all of them");
        assert_json(&all, r#"{"revoke":false}"#);
        assert_json(
            &StopRequest { agent: Some("clerk".to_owned()), revoke: true },
            r#"{"agent":"clerk","revoke":true}"#,
        );
        let heard = StopNode { node: "did:n".to_owned(), why: None };
        let missed = StopNode { node: "did:m".to_owned(), why: Some("timed out".to_owned()) };
        let (nodes, unended) = (vec![heard, missed], None);
        let reply = StopReply { agent: None, revoked: false, known: true, nodes, questions: 2, unended };
        let nodes = r#"[{"node":"did:n"},{"node":"did:m","why":"timed out"}]"#;
        let text = format!(r#"{{"agent":null,"revoked":false,"known":true,"nodes":{nodes},"questions":2}}"#);
        assert_json(&reply, &text);
        let unended = Some("the disk is full".to_owned());
        let reply = StopReply { nodes: Vec::new(), questions: 0, unended, ..reply };
        let text =
            r#"{"agent":null,"revoked":false,"known":true,"nodes":[],"questions":0,"unended":"the disk is full"}"#;
        assert_json(&reply, text);
    }
}
