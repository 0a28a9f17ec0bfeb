//! The receiving side: streams that peers open, their frames verified, their calls handed to [`Inbound`].

use std::sync::Arc;

use althing_protocol::{Frame, FrameKind, PublicKey};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::caller::Caller;
use crate::error::StreamError;
use crate::keys::{self, KEYS};
use crate::lanes::Priority;
use crate::machine::nearness::Holder;
use crate::network::{BoxedStream, Incoming};
use crate::places::StreamPlace;
use crate::service::{Request, Shared};
use crate::signed::SignedStream;

/// What a call comes to.
pub enum Answer {
    /// One body, and the call is over.
    Response(Vec<u8>),
    /// A body that says why not.
    Error(Vec<u8>),
    /// Bodies as they come; the first `Err` ends the call. The next one is asked for when the one before was taken.
    Events(BoxStream<'static, Result<Vec<u8>, Vec<u8>>>),
}

/// Who gets the verified calls of a protocol. When the caller goes away the future, or the stream of the answer, is
/// dropped.
pub trait Inbound: Send + Sync + 'static {
    /// Answers one call.
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer>;

    /// How soon the answer to it is wanted.
    fn priority(&self, _request: &Request) -> Priority {
        Priority::default()
    }
}

/// Accepts streams until the network ends. Only spawns: an accept loop that waits loses streams silently.
pub(crate) async fn accept(shared: Arc<Shared>, protocol: &'static str, mut incoming: Incoming, to: Arc<dyn Inbound>) {
    while let Some((peer, raw)) = incoming.recv().await {
        let (shared, to) = (shared.clone(), to.clone());
        tokio::spawn(async move {
            let Some(place) = shared.admit(peer, protocol).await else {
                shared.refuse(peer, protocol, &"it has too many streams open");
                return;
            };
            let served = tokio::select! {
                biased;
                () = place.ended() => Err(StreamError::Displaced),
                served = serve(&shared, protocol, peer, raw, to, &place) => served,
            };
            match served {
                Ok(()) | Err(StreamError::Closed) => {}
                Err(StreamError::Io(reason)) => tracing::debug!(%peer, protocol, %reason, "stream broke"),
                // That others need the room is no offence.
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
    place: &StreamPlace,
) -> Result<(), StreamError> {
    // What opening takes is larger than what serving takes, and over soon: it is not to be kept as long as that.
    let (mut stream, hello) = Box::pin(SignedStream::accept(raw, shared.opening(protocol, peer))).await?;
    let membership = shared.note_owner(peer, &hello);
    if let Some(shown) = &membership
        && protocol != KEYS
    {
        Box::pin(keys::ensure(shared, peer, shown)).await;
    }
    let caller = || Caller { node: peer, owner: membership.as_ref().and_then(|shown| shared.owner_by(shown)) };
    let mut nearness = shared.nearness(&caller());
    if !place.proven(nearness) {
        return Err(StreamError::Displaced);
    }
    loop {
        stream.regard(nearness);
        let idle = shared.idle_timeout(nearness);
        let Some((frame, reserved)) = stream.receive_within(idle).await? else { return Ok(()) };
        if frame.kind != FrameKind::Request {
            return Err(StreamError::Unexpected(name(frame.kind)));
        }
        // Looked at with each call: a stream may outlive what was shown when it was opened.
        let caller = caller();
        nearness = shared.nearness(&caller);
        // Nothing more is read of this stream meanwhile.
        shared.pace(&caller).await;
        place.busy(nearness);
        let holder = Holder { peer, nearness, origin: shared.network.origin(peer) };
        let request = Request { holder: Some(holder), ..Request::from_frame(frame) };
        let priority = to.priority(&request);
        let answering = to.call(caller, request);
        drop(reserved);
        if !answer(&mut stream, answering, priority).await? {
            return Ok(());
        }
        place.idle();
    }
}

/// Runs one call and sends what it comes to. False when the caller cancelled it: the stream is over.
async fn answer(
    stream: &mut SignedStream,
    answering: BoxFuture<'static, Answer>,
    priority: Priority,
) -> Result<bool, StreamError> {
    let answer = tokio::select! {
        biased;
        answer = answering => answer,
        interrupted = stream.receive_meanwhile() => return cancelled(interrupted),
    };
    match answer {
        Answer::Response(body) => stream.send(Frame::new(FrameKind::Response, body), priority).await?,
        Answer::Error(body) => stream.send(Frame::new(FrameKind::Error, body), priority).await?,
        Answer::Events(mut events) => loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                interrupted = stream.receive_meanwhile() => return cancelled(interrupted),
            };
            match event {
                Some(Ok(body)) => stream.send(Frame::new(FrameKind::Event, body), priority).await?,
                Some(Err(body)) => break stream.send(Frame::new(FrameKind::Error, body), priority).await?,
                None => break stream.send(Frame::new(FrameKind::End, Vec::new()), priority).await?,
            }
        },
    }
    Ok(true)
}

/// The caller spoke, or left, while its call was being answered.
fn cancelled(interrupted: Result<Frame, StreamError>) -> Result<bool, StreamError> {
    match interrupted {
        Ok(frame) if frame.kind == FrameKind::Cancel => Ok(false),
        Ok(frame) => Err(StreamError::Unexpected(name(frame.kind))),
        Err(StreamError::Closed) => Ok(false),
        Err(reason) => Err(reason),
    }
}

pub(crate) fn name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Request => "request",
        FrameKind::Response => "response",
        FrameKind::Event => "event",
        FrameKind::End => "end",
        FrameKind::Error => "error",
        FrameKind::Cancel => "cancel",
    }
}
