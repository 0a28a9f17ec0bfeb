//! Requests, and the frames that carry them.

use std::sync::Arc;
use std::time::Duration;

use althing_protocol::{Activated, AgentId, AnswerAttributes, Attributes, Frame, FrameKind, StreamBinding};
use bytes::Bytes;

use crate::lanes::Priority;
use crate::machine::trust_level::Holder;

/// A request as its caller signed it, for whoever must prove to others what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedFrame {
    /// The stream that it came on.
    pub stream: Arc<StreamBinding>,
    /// The frame, verified.
    pub bytes: Bytes,
}

/// A request for one operation, to a peer or from one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The operation's name.
    pub operation: String,
    /// The agent that it is addressed to, where the protocol addresses agents.
    pub agent: Option<AgentId>,
    /// How long the caller waits for the answer.
    pub deadline: Option<Duration>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
    /// The principals on whose behalf it is made, the first one first.
    pub principals: Vec<String>,
    /// A2A extension URIs that the client activates.
    pub extensions: Vec<String>,
    /// Those of them that the other side activated, as soon as it answers; of an incoming request, what its answer is to say.
    pub activated: Activated,
    /// Label, session and delegation of the call.
    pub attributes: Attributes,
    /// Those of the answer, as far as it has come; of an incoming request, what its answer is to say.
    pub answer: AnswerAttributes,
    /// The priority of sending it; not sent to the peer, which assigns its own.
    pub priority: Priority,
    /// Of an incoming request: its caller's trust level and origin, as this node determined them.
    pub holder: Option<Holder>,
    /// Of an incoming request, where [`Inbound::keeps_frames`](crate::Inbound::keeps_frames): the frame that carried it.
    pub frame: Option<SignedFrame>,
    /// The parameters.
    pub body: Vec<u8>,
}

impl Request {
    /// `operation` with `body` and nothing else.
    #[must_use]
    pub fn new(operation: &str, body: Vec<u8>) -> Request {
        Request { operation: operation.to_owned(), body, ..Request::default() }
    }

    pub(crate) fn from_frame(frame: Frame) -> Request {
        let attributes = Attributes { label: frame.label, session: frame.session, delegation: frame.delegation };
        Request {
            operation: frame.operation.unwrap_or_default(),
            agent: frame.agent,
            deadline: frame.deadline_ms.map(Duration::from_millis),
            traceparent: frame.traceparent,
            tracestate: frame.tracestate,
            principals: frame.principals.unwrap_or_default(),
            extensions: frame.extensions.unwrap_or_default(),
            activated: Activated::default(),
            attributes,
            answer: AnswerAttributes::default(),
            priority: Priority::default(),
            holder: None,
            frame: None,
            body: frame.body,
        }
    }

    pub(crate) fn into_frame(self, deadline: Duration) -> Frame {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Frame {
            operation: Some(self.operation),
            agent: self.agent,
            deadline_ms: u64::try_from(deadline.as_millis()).ok(),
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            principals: some(self.principals),
            extensions: some(self.extensions),
            ..Frame::new(FrameKind::Request, self.body).with(self.attributes)
        }
    }
}

/// The name of a frame kind in error messages.
pub(crate) fn kind_name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Request => "request",
        FrameKind::Response => "response",
        FrameKind::Event => "event",
        FrameKind::End => "end",
        FrameKind::Error => "error",
        FrameKind::Cancel => "cancel",
    }
}
