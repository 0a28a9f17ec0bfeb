//! Frames: the messages of two nodes on a stream, each signed by its sender.

use minicbor::{Decode, Encode};

use crate::Digest;
use crate::attributes::Attributes;
use crate::cbor;
use crate::identity::{AgentId, PublicKey, SecretKey};
use crate::label::Label;
use crate::limits::{
    ANSWER_BYTES_MAX, ANSWER_FRAME_BYTES_MAX, BODY_BYTES_MAX, DELEGATION_BYTES_MAX, EXTENSIONS_MAX, FRAME_BYTES_MAX,
    OPERATION_BYTES_MAX, PRINCIPAL_BYTES_MAX, PRINCIPALS_MAX, TRACE_BYTES_MAX,
};
use crate::sign1::{self, Sign1Error};
use crate::stream::StreamBinding;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FrameKind {
    /// Opener → acceptor: an operation and its body.
    #[n(1)]
    Request,
    /// Acceptor → opener: the answer; the call is over.
    #[n(2)]
    Response,
    /// Acceptor → opener: one event of a streamed answer.
    #[n(3)]
    Event,
    /// Acceptor → opener: a streamed answer is complete.
    #[n(4)]
    End,
    /// Acceptor → opener: the call failed; the body holds the error. The call is over.
    #[n(5)]
    Error,
    /// Opener → acceptor: the answer is no longer wanted.
    #[n(6)]
    Cancel,
}

/// The content of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Frame {
    /// Its kind.
    #[n(0)]
    pub kind: FrameKind,
    /// Request: the operation, such as `SendMessage`.
    #[n(4)]
    pub operation: Option<String>,
    /// Request: the called agent, if the protocol addresses agents.
    #[n(5)]
    pub agent: Option<AgentId>,
    /// Request: the deadline in milliseconds. Relative, so that clocks need not agree.
    #[n(6)]
    pub deadline_ms: Option<u64>,
    /// Request: W3C `traceparent`.
    #[n(7)]
    pub traceparent: Option<String>,
    /// Request: W3C `tracestate`.
    #[n(8)]
    pub tracestate: Option<String>,
    /// Request: the chain of principals, the origin first, without the sending node itself.
    #[n(9)]
    pub principals: Option<Vec<String>>,
    /// Request: A2A extension URIs that the client activates; answers: those that were.
    #[n(10)]
    pub extensions: Option<Vec<String>>,
    /// The operation's JSON as received, or another protocol's CBOR.
    #[cbor(n(11), with = "minicbor::bytes")]
    pub body: Vec<u8>,
    /// Request, response, event: the label of the data in it.
    #[n(12)]
    pub label: Option<Label>,
    /// Request, response, event: the session that it belongs to.
    #[cbor(n(13), with = "minicbor::bytes")]
    pub session: Option<Digest>,
    /// Request, response, event: by whose authority the caller acts.
    #[cbor(n(14), with = "minicbor::bytes")]
    pub delegation: Option<Vec<u8>>,
}

impl Frame {
    /// A frame of `kind` with this body and nothing else.
    #[must_use]
    pub fn new(kind: FrameKind, body: Vec<u8>) -> Frame {
        Frame {
            kind,
            operation: None,
            agent: None,
            deadline_ms: None,
            traceparent: None,
            tracestate: None,
            principals: None,
            extensions: None,
            body,
            label: None,
            session: None,
            delegation: None,
        }
    }

    /// This frame with these attributes in place of its own.
    #[must_use]
    pub fn with(self, attributes: Attributes) -> Frame {
        let Attributes { label, session, delegation } = attributes;
        Frame { label, session, delegation, ..self }
    }

    /// A copy of its attributes.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        Attributes { label: self.label, session: self.session, delegation: self.delegation.clone() }
    }

    fn has_attributes(&self) -> bool {
        self.label.is_some() || self.session.is_some() || self.delegation.is_some()
    }

    fn has_request_members(&self) -> bool {
        self.agent.is_some()
            || self.deadline_ms.is_some()
            || self.traceparent.is_some()
            || self.tracestate.is_some()
            || self.principals.is_some()
    }

    /// Whether the opener of the stream (`by_opener`), or else the acceptor, may send this kind.
    fn check_direction(&self, by_opener: bool) -> Result<(), FrameError> {
        let openers = matches!(self.kind, FrameKind::Request | FrameKind::Cancel);
        if openers == by_opener {
            Ok(())
        } else {
            Err(FrameError::Shape("the opener of a stream asks and cancels, the acceptor answers".to_owned()))
        }
    }

    fn check(&self) -> Result<(), FrameError> {
        let long = |text: &Option<String>, max: usize| text.as_ref().is_some_and(|text| text.len() > max);
        let many = |list: &Option<Vec<String>>, count: usize| {
            list.as_ref().is_some_and(|list| list.len() > count || list.iter().any(|s| s.len() > PRINCIPAL_BYTES_MAX))
        };
        let is_answer = matches!(self.kind, FrameKind::Response | FrameKind::Event);
        let body_bytes_max = if is_answer { ANSWER_BYTES_MAX } else { BODY_BYTES_MAX };
        let member = if self.body.len() > body_bytes_max {
            "body"
        } else if long(&self.operation, OPERATION_BYTES_MAX) {
            "operation"
        } else if long(&self.traceparent, TRACE_BYTES_MAX) || long(&self.tracestate, TRACE_BYTES_MAX) {
            "trace context"
        } else if many(&self.principals, PRINCIPALS_MAX) {
            "principals"
        } else if many(&self.extensions, EXTENSIONS_MAX) {
            "extensions"
        } else if self.delegation.as_ref().is_some_and(|bytes| bytes.len() > DELEGATION_BYTES_MAX) {
            "delegation"
        } else if (self.kind == FrameKind::Request) != self.operation.is_some() {
            return Err(FrameError::Shape("a request, and only a request, names an operation".to_owned()));
        } else if self.kind != FrameKind::Request && self.has_request_members() {
            return Err(FrameError::Shape("members 5 to 9 belong to a request".to_owned()));
        } else if !is_answer && self.kind != FrameKind::Request && self.has_attributes() {
            return Err(FrameError::Shape("members 12 to 14 belong to a request, a response or an event".to_owned()));
        } else if self.delegation.as_ref().is_some_and(Vec::is_empty) {
            return Err(FrameError::Shape("it has a delegation that holds nothing".to_owned()));
        } else {
            return Ok(());
        };
        Err(FrameError::TooLong(member))
    }
}

/// The content of a frame with its binding to its stream and position.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Bound {
    #[n(0)]
    counter: u64,
    #[cbor(n(1), with = "minicbor::bytes")]
    to: [u8; 32],
    #[cbor(n(2), with = "minicbor::bytes")]
    stream: [u8; 8],
    #[n(3)]
    frame: Frame,
}

/// Why a frame is refused. Its stream is closed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The envelope is malformed, or its signature is invalid.
    #[error("frame refused: {0}")]
    Envelope(#[from] Sign1Error),
    /// Signed by another key than the peer's.
    #[error("frame refused: signed by {signer} on a stream with {peer}")]
    WrongKey {
        /// The signer.
        signer: PublicKey,
        /// The peer of the stream.
        peer: PublicKey,
    },
    /// Addressed to another node.
    #[error("frame refused: it is addressed to {0}")]
    WrongAudience(PublicKey),
    /// Signed for another stream: a replay, or a mixed-up sender.
    #[error("frame refused: it belongs to another stream")]
    WrongStream,
    /// The wrong counter: a replay, a loss or a reordering within the stream.
    #[error("frame refused: counter {got} where {expected} comes next")]
    WrongCounter {
        /// The counter of the frame.
        got: u64,
        /// The expected counter.
        expected: u64,
    },
    /// A member is longer than allowed.
    #[error("frame refused: its {0} is longer than allowed")]
    TooLong(&'static str),
    /// Verified, but not of a frame's shape.
    #[error("frame refused: {0}")]
    Shape(String),
}

/// Signs the frames that this side sends on one stream.
pub struct FrameSealer {
    key: SecretKey,
    to: PublicKey,
    stream: [u8; 8],
    aad: Vec<u8>,
    /// Whether the sender is the side that opened the stream.
    by_opener: bool,
    next: u64,
}

impl FrameSealer {
    /// For the side that holds `key`, which must be the binding's opener or acceptor.
    #[must_use]
    pub fn new(binding: &StreamBinding, key: SecretKey) -> FrameSealer {
        let me = key.public();
        let to = if me == binding.opener { binding.acceptor } else { binding.opener };
        FrameSealer { key, to, stream: binding.id(), aad: binding.aad(me), by_opener: me == binding.opener, next: 0 }
    }

    /// Signs the next frame.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] or [`FrameError::Shape`]: the frame would be refused by any receiver.
    pub fn seal(&mut self, frame: Frame) -> Result<Vec<u8>, FrameError> {
        self.seal_behind(0, frame)
    }

    /// The same, behind so many zero bytes, which are for what goes before the frame: a long one is not copied for that.
    ///
    /// # Errors
    /// As [`FrameSealer::seal`].
    pub fn seal_behind(&mut self, room: usize, frame: Frame) -> Result<Vec<u8>, FrameError> {
        frame.check()?;
        frame.check_direction(self.by_opener)?;
        let bound = Bound { counter: self.next, to: *self.to.as_bytes(), stream: self.stream, frame };
        self.next += 1;
        Ok(sign1::seal_value(room, &bound, &self.aad, &self.key))
    }
}

/// Verifies the frames that the peer sends on one stream.
pub struct FrameOpener {
    me: PublicKey,
    peer: PublicKey,
    stream: [u8; 8],
    aad: Vec<u8>,
    /// Whether the sender is the side that opened the stream.
    by_opener: bool,
    next: u64,
}

impl FrameOpener {
    /// For the side `me`, which must be the binding's opener or acceptor.
    #[must_use]
    pub fn new(binding: &StreamBinding, me: PublicKey) -> FrameOpener {
        let peer = if me == binding.opener { binding.acceptor } else { binding.opener };
        let by_opener = peer == binding.opener;
        FrameOpener { me, peer, stream: binding.id(), aad: binding.aad(peer), by_opener, next: 0 }
    }

    /// Verifies the next frame.
    ///
    /// # Errors
    /// See [`FrameError`]; nothing of a refused frame may be acted on.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Frame, FrameError> {
        let context =
            Context { peer: self.peer, me: self.me, stream: self.stream, aad: &self.aad, by_opener: self.by_opener };
        let bound = context.open(bytes, Some(self.next))?;
        self.next += 1;
        Ok(bound.frame)
    }
}

/// Verifies a frame that the opener of a stream sent once, at whatever place: of what one side signed somebody else makes sure
/// later. Of frames that arrive a [`FrameOpener`] also verifies the order.
///
/// # Errors
/// See [`FrameError`]; never [`FrameError::WrongCounter`].
pub fn verify_request(binding: &StreamBinding, bytes: &[u8]) -> Result<Frame, FrameError> {
    let (peer, me) = (binding.opener, binding.acceptor);
    let context = Context { peer, me, stream: binding.id(), aad: &binding.aad(peer), by_opener: true };
    let frame = context.open(bytes, None)?.frame;
    if frame.kind == FrameKind::Request { Ok(frame) } else { Err(FrameError::Shape("it is no request".to_owned())) }
}

/// The body in the payload of a frame's envelope, which is not verified here.
pub(crate) fn body_of(payload: &[u8]) -> Option<Vec<u8>> {
    minicbor::decode::<Bound>(payload).ok().map(|bound| bound.frame.body)
}

/// What all frames of one side of a stream are signed for.
struct Context<'a> {
    peer: PublicKey,
    me: PublicKey,
    stream: [u8; 8],
    aad: &'a [u8],
    by_opener: bool,
}

impl Context<'_> {
    /// The verified frame; `expected` is its counter, if that must be a certain one.
    fn open(&self, bytes: &[u8], expected: Option<u64>) -> Result<Bound, FrameError> {
        let bytes_max = if self.by_opener { FRAME_BYTES_MAX } else { ANSWER_FRAME_BYTES_MAX };
        let envelope = sign1::read_known(bytes, bytes_max, Some(self.peer))?;
        if envelope.signer() != self.peer {
            return Err(FrameError::WrongKey { signer: envelope.signer(), peer: self.peer });
        }
        // Unverified claims of the payload only select the error; the signature below covers all of it.
        let bound: Bound =
            minicbor::decode(envelope.payload()).map_err(|error| FrameError::Shape(error.to_string()))?;
        if bound.to != *self.me.as_bytes() {
            let not_a_key = |_| FrameError::Shape("it is addressed to no key".to_owned());
            return Err(FrameError::WrongAudience(PublicKey::from_bytes(bound.to).map_err(not_a_key)?));
        }
        if bound.stream != self.stream {
            return Err(FrameError::WrongStream);
        }
        let payload = envelope.verify(self.aad)?;
        if let Some(expected) = expected.filter(|expected| bound.counter != *expected) {
            return Err(FrameError::WrongCounter { got: bound.counter, expected });
        }
        bound.frame.check()?;
        bound.frame.check_direction(self.by_opener)?;
        if !cbor::is_written_as(&bound, payload) {
            return Err(FrameError::Shape("members that this version does not know".to_owned()));
        }
        Ok(bound)
    }
}
