//! The messages that pass.

use althing_protocol::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Shows the messages that pass; none of the members: all.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapRequest {
    /// About this agent, by name or id.
    pub agent: Option<String>,
    /// To or from this node, by its DID.
    pub peer: Option<String>,
    /// Of protocols whose name has this in it.
    pub protocol: Option<String>,
}

/// A line of the answer: a message, or that some were not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TapLine {
    /// Messages are missing before the next one.
    Gap(TapGap),
    /// A message.
    Message(Box<TapMessage>),
}

/// Messages that passed too fast to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TapGap {
    /// How many.
    pub missed: u64,
}

/// A message that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TapMessage {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// To this node, or from it.
    pub direction: TapDirection,
    /// The other node's DID.
    pub peer: String,
    /// The protocol of its stream.
    pub protocol: String,
    /// `request`, `response`, `event`, `end`, `error` or `cancel`.
    pub kind: String,
    /// The operation of a request.
    pub operation: Option<String>,
    /// The id of the agent that a request is for, or the request that is answered.
    pub agent: Option<String>,
    /// For whom a request is made.
    pub principals: Vec<String>,
    /// How long its sender waits, milliseconds.
    pub deadline_ms: Option<u64>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// The label of the data.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub label: Option<Label>,
    /// The session, in hexadecimal.
    pub session: Option<String>,
    /// Bytes of a delegation.
    pub delegation_bytes: Option<usize>,
    /// Bytes of the body.
    pub bytes: usize,
    /// The beginning of the body.
    pub body: TapBody,
}

/// Which way a message passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TapDirection {
    /// From the other node.
    In,
    /// To it.
    Out,
}

/// The beginning of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TapBody {
    /// As text.
    Text(String),
    /// Where it is no text.
    Bytes {
        /// In hexadecimal.
        hex: String,
    },
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::DataLabel;

    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_message_is_told_with_what_it_does_not_have() {
        let answer = TapMessage {
            at_ms: 1_700_000_000_000,
            direction: TapDirection::In,
            peer: "did:key:z6Mk".to_owned(),
            protocol: "/althing/call/1".to_owned(),
            kind: "response".to_owned(),
            operation: None,
            agent: None,
            principals: Vec::new(),
            deadline_ms: None,
            traceparent: None,
            label: None,
            session: None,
            delegation_bytes: None,
            bytes: 2,
            body: TapBody::Bytes { hex: "00ff".to_owned() },
        };
        let request = TapMessage {
            direction: TapDirection::Out,
            kind: "request".to_owned(),
            operation: Some("SendMessage".to_owned()),
            agent: Some("urn:althing:z6Mk:echo".to_owned()),
            principals: vec!["local".to_owned()],
            deadline_ms: Some(30_000),
            traceparent: Some("00-0a-0b-01".to_owned()),
            label: Some(Label { level: DataLabel::Internal, trusted: true }),
            session: Some("00".repeat(32)),
            delegation_bytes: Some(7),
            body: TapBody::Text("{}".to_owned()),
            ..answer.clone()
        };
        assert_json(
            &TapLine::Message(Box::new(answer)),
            concat!(
                r#"{"atMs":1700000000000,"direction":"in","peer":"did:key:z6Mk","protocol":"/althing/call/1","kind":"response","#,
                r#""operation":null,"agent":null,"principals":[],"deadlineMs":null,"traceparent":null,"label":null,"session":null,"#,
                r#""delegationBytes":null,"bytes":2,"#,
                r#""body":{"hex":"00ff"}}"#,
            ),
        );
        assert_json(
            &TapLine::Message(Box::new(request)),
            concat!(
                r#"{"atMs":1700000000000,"direction":"out","peer":"did:key:z6Mk","protocol":"/althing/call/1","kind":"request","#,
                r#""operation":"SendMessage","agent":"urn:althing:z6Mk:echo","principals":["local"],"deadlineMs":30000,"#,
                r#""traceparent":"00-0a-0b-01","label":{"level":"internal","trusted":true},"#,
                r#""session":"0000000000000000000000000000000000000000000000000000000000000000","delegationBytes":7,"#,
                r#""bytes":2,"body":"{}"}"#,
            ),
        );
        assert_json(&TapLine::Gap(TapGap { missed: 9 }), r#"{"missed":9}"#);
    }
}
