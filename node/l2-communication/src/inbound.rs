//! The receiving side: accepts streams, verifies their frames, and hands their calls to [`Inbound`].

use std::sync::Arc;

use althing_protocol::{Activated, AnswerAttributes, Attributes, Frame, FrameKind, PublicKey};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::error::StreamError;
use crate::keys::{self, KEYS};
use crate::lanes::Priority;
use crate::machine::caller::Caller;
use crate::machine::trust_level::Holder;
use crate::network::{BoxedStream, Incoming};
use crate::request::{Request, kind_name};
use crate::shared::Shared;
use crate::signed::{Opening, SignedStream};
use crate::stream_slots::StreamSlot;

/// The answer to a call.
pub enum Answer {
    /// One body, which ends the call.
    Response(Vec<u8>),
    /// The body of an error frame.
    Error(Vec<u8>),
    /// A stream of bodies; the first `Err` ends the call. The next one is polled when the one before was sent.
    Events(BoxStream<'static, Result<Vec<u8>, Vec<u8>>>),
}

/// Serves the verified calls of a protocol. When the caller disconnects or cancels, the future, or the stream of the answer,
/// is dropped.
pub trait Inbound: Send + Sync + 'static {
    /// Answers one call.
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer>;

    /// Whether requests come with the frames that carried them, which takes as much memory again while they are served.
    fn keeps_frames(&self) -> bool {
        false
    }

    /// The priority of sending the answer.
    fn priority(&self, _request: &Request) -> Priority {
        Priority::default()
    }
}

/// Accepts streams until the network ends. The loop only spawns: one that waited would lose streams silently.
pub(crate) async fn accept(shared: Arc<Shared>, protocol: &'static str, mut incoming: Incoming, to: Arc<dyn Inbound>) {
    while let Some((peer, raw)) = incoming.recv().await {
        let (shared, to) = (shared.clone(), to.clone());
        tokio::spawn(async move {
            let Some(slot) = shared.admit(peer, protocol).await else {
                shared.refuse(peer, protocol, &"it has too many streams open");
                return;
            };
            let served = tokio::select! {
                biased;
                () = slot.ended() => Err(StreamError::Displaced),
                served = serve(&shared, protocol, peer, raw, to, &slot) => served,
            };
            match served {
                Ok(()) | Err(StreamError::Closed) => {}
                Err(StreamError::Io(reason)) => tracing::debug!(%peer, protocol, %reason, "stream broke"),
                // Making room for others is not the peer's fault.
                Err(StreamError::Displaced) => tracing::debug!(%peer, protocol, "stream ended for another"),
                Err(reason) => shared.refuse(peer, protocol, &reason),
            }
        });
    }
}

async fn serve(
    shared: &Shared,
    protocol: &'static str,
    peer: PublicKey,
    raw: BoxedStream,
    to: Arc<dyn Inbound>,
    slot: &StreamSlot,
) -> Result<(), StreamError> {
    // Boxed: the future that opens a stream is larger than the one that serves it, and short-lived.
    let opening = Opening { keeps_frames: to.keeps_frames(), ..shared.opening(protocol, peer) };
    let (mut stream, hello) = Box::pin(SignedStream::accept(raw, opening)).await?;
    let membership = shared.note_owner(peer, &hello);
    if let Some(shown) = &membership
        && protocol != KEYS
    {
        Box::pin(keys::ensure(shared, peer, shown)).await;
    }
    let caller = || Caller { node: peer, owner: membership.as_ref().and_then(|shown| shared.owner_by(shown)) };
    let mut trust = shared.trust_level(&caller());
    if !slot.proven(trust) {
        return Err(StreamError::Displaced);
    }
    loop {
        stream.set_trust(trust);
        let idle = shared.idle_timeout(trust);
        let Some((frame, reserved)) = stream.receive_within(idle).await? else { return Ok(()) };
        if frame.kind != FrameKind::Request {
            return Err(StreamError::Unexpected(kind_name(frame.kind)));
        }
        // Checked for each call: a stream may outlive the membership that was shown when it was opened.
        let caller = caller();
        trust = shared.trust_level(&caller);
        // The stream is not read meanwhile.
        shared.throttle(&caller).await;
        slot.busy(trust);
        let holder = Holder { peer, trust, origin: shared.network.origin(peer) };
        let signed = stream.take_kept();
        let request = Request { holder: Some(holder), frame: signed, ..Request::from_frame(frame) };
        let priority = to.priority(&request);
        let head = AnswerHead::of(&request);
        let answering = to.call(caller, request);
        drop(reserved);
        if !answer(&mut stream, answering, priority, head).await? {
            return Ok(());
        }
        slot.idle();
    }
}

/// Awaits the answer to one call and sends it. False when the caller cancelled the call, which ends the stream.
async fn answer(
    stream: &mut SignedStream,
    answering: BoxFuture<'static, Answer>,
    priority: Priority,
    mut head: AnswerHead,
) -> Result<bool, StreamError> {
    let answer = tokio::select! {
        biased;
        answer = answering => answer,
        interrupted = stream.receive_meanwhile() => return cancelled(interrupted),
    };
    match answer {
        Answer::Response(body) => stream.send(head.put_on(Frame::new(FrameKind::Response, body)), priority).await?,
        Answer::Error(body) => stream.send(Frame::new(FrameKind::Error, body), priority).await?,
        Answer::Events(mut events) => loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                interrupted = stream.receive_meanwhile() => return cancelled(interrupted),
            };
            match event {
                Some(Ok(body)) => stream.send(head.put_on(Frame::new(FrameKind::Event, body)), priority).await?,
                Some(Err(body)) => break stream.send(Frame::new(FrameKind::Error, body), priority).await?,
                None => break stream.send(Frame::new(FrameKind::End, Vec::new()), priority).await?,
            }
        },
    }
    Ok(true)
}

/// What the frames of an answer say beside their bodies, as whoever answers makes it known.
struct AnswerHead {
    /// The extensions that were activated; none once the first frame has named them.
    activated: Option<Activated>,
    attributes: AnswerAttributes,
    /// What the frames so far said.
    before: Attributes,
}

impl AnswerHead {
    fn of(request: &Request) -> AnswerHead {
        AnswerHead {
            activated: Some(request.activated.clone()),
            attributes: request.answer.clone(),
            before: Attributes::default(),
        }
    }

    /// The next frame of the answer, with what it says.
    fn put_on(&mut self, frame: Frame) -> Frame {
        let named = self.activated.take().map(|activated| activated.get().to_vec());
        let attributes = self.attributes.get().after(&self.before);
        self.before.join(&attributes);
        Frame { extensions: named.filter(|named| !named.is_empty()), ..frame.with(attributes) }
    }
}

/// The caller sent a frame, or closed the stream, while its call was being answered.
fn cancelled(interrupted: Result<Frame, StreamError>) -> Result<bool, StreamError> {
    match interrupted {
        Ok(frame) if frame.kind == FrameKind::Cancel => Ok(false),
        Ok(frame) => Err(StreamError::Unexpected(kind_name(frame.kind))),
        Err(StreamError::Closed) => Ok(false),
        Err(reason) => Err(reason),
    }
}
