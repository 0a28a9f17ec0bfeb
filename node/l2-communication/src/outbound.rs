//! The calling side: a unary call borrows an idle stream, a streaming call owns one.

use std::time::Duration;

use althing_protocol::{Activated, AnswerAttributes, Frame, FrameKind, Label, PublicKey};
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::error::{CallError, StreamError};
use crate::lanes::Priority;
use crate::network::OpenError;
use crate::request::{Request, kind_name};
use crate::shared::Shared;
use crate::signed::SignedStream;
use crate::uses::Using;

/// Attempts to open a stream before a call fails.
const OPEN_TRIES: usize = 3;

/// One call and its answer.
pub(crate) async fn unary(
    shared: &Shared,
    peer: PublicKey,
    protocol: &'static str,
    request: Request,
) -> Result<Vec<u8>, CallError> {
    let deadline = request.deadline.unwrap_or(shared.config.default_deadline);
    let calling = async {
        let _using = request.agent.is_some().then(|| shared.uses(peer));
        let _permit = shared.queue(peer, protocol).await;
        let epoch = shared.pool.epoch(peer);
        let mut stream = borrow(shared, peer, protocol).await?;
        let broken = |reason| CallError::Broken { peer, reason };
        let (priority, activation) = (request.priority, Activation::of(&request));
        stream.send(request.into_frame(deadline), priority).await.map_err(broken)?;
        let frame = stream.receive().await.map_err(broken)?;
        let answer = match frame.kind {
            FrameKind::Response => {
                activation.hear(&frame);
                Ok(frame.body)
            }
            FrameKind::Error => Err(CallError::Refused { peer, body: frame.body }),
            kind => return Err(broken(StreamError::Unexpected(kind_name(kind)))),
        };
        shared.pool.give((peer, protocol), stream, &epoch, shared.slots.limits(protocol).idle_max);
        answer
    };
    let late = |_| CallError::Deadline { peer, after_ms: millis(deadline) };
    timeout(deadline, calling).await.map_err(late)?
}

/// One call and the events of its answer.
pub(crate) async fn streaming(
    shared: &Shared,
    peer: PublicKey,
    protocol: &'static str,
    request: Request,
) -> Result<Events, CallError> {
    let patience = request.deadline.unwrap_or(shared.config.default_deadline);
    let opening = async {
        let using = request.agent.is_some().then(|| shared.uses(peer));
        let permit = shared.queue(peer, protocol).await;
        let mut stream = borrow(shared, peer, protocol).await?;
        let (priority, activation) = (request.priority, Activation::of(&request));
        stream
            .send(request.into_frame(patience), priority)
            .await
            .map_err(|reason| CallError::Broken { peer, reason })?;
        Ok(Events { peer, stream, activation, _permit: permit, _using: using })
    };
    let late = |_| CallError::Deadline { peer, after_ms: millis(patience) };
    timeout(patience, opening).await.map_err(late)?
}

async fn borrow(shared: &Shared, peer: PublicKey, protocol: &'static str) -> Result<SignedStream, CallError> {
    if let Some(stream) = shared.pool.take(peer, protocol, shared.own_membership().as_deref()) {
        return Ok(stream);
    }
    // Boxed: the future that opens a stream is larger than that of a call, and short-lived.
    Box::pin(open(shared, peer, protocol)).await
}

async fn open(shared: &Shared, peer: PublicKey, protocol: &'static str) -> Result<SignedStream, CallError> {
    let mut tries = OPEN_TRIES;
    loop {
        let opening = timeout(shared.config.frame_timeout, shared.network.open(peer, protocol));
        tries -= 1;
        let raw = match opening.await.unwrap_or(Err(OpenError::Timeout)) {
            Ok(raw) => raw,
            // One of two connections may be closing.
            Err(OpenError::Io(_)) if tries > 0 => continue,
            Err(reason) => return Err(CallError::Unreachable { peer, reason }),
        };
        match SignedStream::open(raw, shared.opening(protocol, peer)).await {
            Ok((stream, hello)) => {
                shared.note_owner(peer, &hello);
                return Ok(stream);
            }
            // No request was sent yet. A busy peer, or a second connection that is closing, drops streams.
            Err(StreamError::Closed | StreamError::Io(_)) if tries > 0 => {}
            Err(reason) => return Err(CallError::Broken { peer, reason }),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The extensions that a call asks for, and what the peer says of them, and of its answer, beside the content.
struct Activation {
    asked: Vec<String>,
    activated: Activated,
    attributes: AnswerAttributes,
    /// Whether an agent answers: what it says without a label counts as what nobody labelled.
    is_of_agent: bool,
}

impl Activation {
    fn of(request: &Request) -> Activation {
        Activation {
            asked: request.extensions.clone(),
            activated: request.activated.clone(),
            attributes: request.answer.clone(),
            is_of_agent: request.agent.is_some(),
        }
    }

    /// Reads what a frame of an answer says. A refusal says nothing: another host may be asked then.
    fn hear(&self, answer: &Frame) {
        self.activated.name(answer.extensions.iter().flatten().map(String::as_str), &self.asked);
        // What a frame carries is within its bounds: it would not have been opened else.
        let _ = self.attributes.add(&answer.attributes());
        if self.is_of_agent && answer.label.is_none() {
            self.attributes.add_label(Some(Label::UNLABELLED));
        }
    }
}

/// The events of a streamed answer. Dropping it cancels the call.
pub struct Events {
    peer: PublicKey,
    pub(crate) stream: SignedStream,
    activation: Activation,
    _permit: OwnedSemaphorePermit,
    _using: Option<Using>,
}

impl Events {
    /// The next event; `None` once the answer is complete.
    ///
    /// # Errors
    /// [`CallError::Refused`] when the peer ends the answer with an error, [`CallError::Broken`] when the stream fails.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        let peer = self.peer;
        let frame = self.stream.receive().await.map_err(|reason| CallError::Broken { peer, reason })?;
        match frame.kind {
            FrameKind::Event => {
                self.activation.hear(&frame);
                Ok(Some(frame.body))
            }
            FrameKind::End => Ok(None),
            FrameKind::Error => Err(CallError::Refused { peer, body: frame.body }),
            kind => Err(CallError::Broken { peer, reason: StreamError::Unexpected(kind_name(kind)) }),
        }
    }

    /// Cancels the call at once.
    pub async fn cancel(mut self) {
        // A failure closes the stream, which the peer takes for a cancellation.
        let _ = self.stream.send(Frame::new(FrameKind::Cancel, Vec::new()), Priority::Urgent).await;
    }

    /// The events as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>, CallError>> + Send {
        futures::stream::unfold(Some(self), |events| async move {
            let mut events = events?;
            match events.next().await {
                Ok(Some(body)) => Some((Ok(body), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}
