//! Recent traces.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /traces` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceList {
    /// Each of them, the newest first.
    pub traces: Vec<TraceSummary>,
    /// When this was answered, microseconds since 1970 by this node's clock.
    pub now_us: u64,
}

/// A trace, as far as this node has seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSummary {
    /// Which, in lower-case hexadecimal.
    pub trace: String,
    /// When its first span here began, microseconds since 1970.
    pub began_us: u64,
    /// From then to the end of its last span here, microseconds.
    pub took_us: u64,
    /// What its first span did.
    pub name: String,
    /// The operation of its first span that has one.
    pub operation: Option<String>,
    /// Which agent was called.
    pub agent: Option<String>,
    /// How many are kept here.
    pub spans: usize,
    /// Other nodes that it came from, or went to.
    pub nodes: usize,
    /// Whether a span failed.
    pub failed: bool,
}

/// What `GET /traces/{trace}` answers: a trace over all nodes that it passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceDetails {
    /// Which, in lower-case hexadecimal.
    pub trace: String,
    /// The node that tells it.
    pub here: String,
    /// What was done, on this node and on others, in no order.
    pub spans: Vec<TraceSpan>,
    /// Nodes whose spans are missing.
    pub untold: Vec<TraceGap>,
    /// Whether a node left spans out, or there were more nodes than are asked.
    pub more: bool,
}

/// One part of what was done, once it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSpan {
    /// Of which trace, in lower-case hexadecimal.
    pub trace: String,
    /// Its own id, in lower-case hexadecimal.
    pub id: String,
    /// The id of the span that it is part of, on this node or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What was done.
    pub name: String,
    /// `internal`, `client`, `server`, `producer` or `consumer`.
    pub kind: String,
    /// When it began, microseconds since 1970 by its node's clock.
    pub began_us: u64,
    /// How long it took, microseconds.
    pub took_us: u64,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What else is known of it, by the names of OpenTelemetry's conventions where there are any.
    pub attributes: BTreeMap<String, String>,
    /// On which node, by its DID.
    pub node: String,
}

/// A node that a trace passed and that told nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceGap {
    /// Which, by its DID.
    pub node: String,
    /// Why it did not.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn traces_are_listed_with_what_is_not_known_of_them() {
        let unnamed = TraceSummary {
            trace: "0af7".to_owned(),
            began_us: 5,
            took_us: 1_500,
            name: "turn".to_owned(),
            operation: None,
            agent: None,
            spans: 1,
            nodes: 0,
            failed: false,
        };
        let named = TraceSummary {
            operation: Some("SendMessage".to_owned()),
            agent: Some("urn:x".to_owned()),
            failed: true,
            ..unnamed.clone()
        };
        assert_json(
            &TraceList { traces: vec![unnamed, named], now_us: 9_000 },
            concat!(
                r#"{"traces":[{"trace":"0af7","beganUs":5,"tookUs":1500,"name":"turn","operation":null,"agent":null,"#,
                r#""spans":1,"nodes":0,"failed":false},{"trace":"0af7","beganUs":5,"tookUs":1500,"name":"turn","#,
                r#""operation":"SendMessage","agent":"urn:x","spans":1,"nodes":0,"failed":true}],"nowUs":9000}"#,
            ),
        );
    }

    #[test]
    fn spans_are_told_with_their_nodes_and_without_what_they_do_not_have() {
        let root = TraceSpan {
            trace: "0af7".to_owned(),
            id: "01".to_owned(),
            parent: None,
            name: "a2a.server".to_owned(),
            kind: "server".to_owned(),
            began_us: 5,
            took_us: 7,
            failed: None,
            attributes: BTreeMap::new(),
            node: "did:key:z6Mk".to_owned(),
        };
        let part = TraceSpan {
            id: "02".to_owned(),
            parent: Some("01".to_owned()),
            failed: Some("no".to_owned()),
            attributes: BTreeMap::from([("rpc.method".to_owned(), "GetTask".to_owned())]),
            ..root.clone()
        };
        let gap = TraceGap { node: "did:key:z6Mr".to_owned(), why: "it left".to_owned() };
        let here = "did:key:z6Mk".to_owned();
        assert_json(
            &TraceDetails { trace: "0af7".to_owned(), here, spans: vec![root, part], untold: vec![gap], more: false },
            concat!(
                r#"{"trace":"0af7","here":"did:key:z6Mk","spans":[{"trace":"0af7","id":"01","name":"a2a.server","#,
                r#""kind":"server","beganUs":5,"tookUs":7,"attributes":{},"node":"did:key:z6Mk"},{"trace":"0af7","#,
                r#""id":"02","parent":"01","name":"a2a.server","kind":"server","beganUs":5,"tookUs":7,"failed":"no","#,
                r#""attributes":{"rpc.method":"GetTask"},"node":"did:key:z6Mk"}],"#,
                r#""untold":[{"node":"did:key:z6Mr","why":"it left"}],"more":false}"#,
            ),
        );
    }
}
