//! A stream after both hellos: outgoing frames are sealed, incoming ones verified.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::limits::{ANSWER_FRAME_BYTES_MAX, FRAME_BYTES_MAX, FRAME_HEAD_BYTES_MAX, HELLO_BYTES_MAX};
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{
    AgentId, Challenge, Frame, FrameKind, FrameOpener, FrameSealer, Hello, OwnerProof, PublicKey, SecretKey,
    StreamBinding,
};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::StreamError;
use crate::frames::{Frames, Reserved};
use crate::lanes::{Lanes, Priority};
use crate::machine::trust_level::{Holder, TrustLevel};
use crate::network::BoxedStream;
use crate::request::SignedFrame;
use crate::tap::Tap;

/// Bytes of the length in front of each frame.
const PREFIX: usize = 4;
/// A frame that the peer does not accept within this ends the stream, whose buffer it occupies.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The receive buffer of an idle stream, of which a node has hundreds.
const IDLE_BYTES: usize = 1 << 10;
/// The step by which the receive buffer grows until a frame is complete, and no further than its end.
const GROW_BYTES: usize = 16 << 10;

/// Frames up to this are not counted: the maximum number of streams holds 16 MiB of them.
const UNCOUNTED: usize = 4 << 10;

/// The parameters of opening or accepting a stream.
pub(crate) struct Opening<'a> {
    pub network: &'a str,
    pub protocol: &'static str,
    pub key: &'a SecretKey,
    pub peer: PublicKey,
    pub challenge: Challenge,
    pub membership: Option<Arc<OwnerProof>>,
    pub timeout: Duration,
    pub lanes: Arc<Lanes>,
    /// The peer, and the budget of its frames.
    pub holder: Holder,
    pub frames: Arc<Frames>,
    pub tap: Arc<Tap>,
    /// Each received frame is kept until the next one, or until it is taken.
    pub keeps_frames: bool,
}

/// The last frame of a stream whose frames are kept.
struct LastFrame {
    stream: Arc<StreamBinding>,
    frame: Option<Bytes>,
}

/// A stream on which both sides have sent their hello.
pub(crate) struct SignedStream {
    raw: BoxedStream,
    inbox: BytesMut,
    /// When the incomplete incoming frame began, where it has a deadline.
    begun: Option<Instant>,
    /// The grant for its bytes, when it is counted.
    reserved: Option<Reserved>,
    holder: Holder,
    protocol: &'static str,
    tap: Arc<Tap>,
    /// The agent of the last request that was copied: its answers are about it too.
    about: Option<AgentId>,
    frames: Arc<Frames>,
    sealer: FrameSealer,
    opener: FrameOpener,
    /// The last frame that was received, where frames are kept.
    kept: Option<LastFrame>,
    frame_timeout: Duration,
    /// The priority queues of the peer.
    lanes: Arc<Lanes>,
    /// The membership that this side showed.
    shown: Option<Arc<OwnerProof>>,
}

impl SignedStream {
    /// Opens a signed stream on `raw`, which this side opened; also gives the peer's hello.
    pub async fn open(raw: BoxedStream, opening: Opening<'_>) -> Result<(SignedStream, Hello), StreamError> {
        SignedStream::greet(raw, opening, true).await
    }

    /// Accepts a signed stream on `raw`, which the peer opened; also gives the peer's hello.
    pub async fn accept(raw: BoxedStream, opening: Opening<'_>) -> Result<(SignedStream, Hello), StreamError> {
        SignedStream::greet(raw, opening, false).await
    }

    async fn greet(
        mut raw: BoxedStream,
        opening: Opening<'_>,
        opens: bool,
    ) -> Result<(SignedStream, Hello), StreamError> {
        let mine = Hello {
            version: FRAME_VERSION,
            challenge: opening.challenge,
            network: opening.network.to_owned(),
            owner: opening.membership.as_deref().cloned(),
        };
        let greeting = prefixed(&mine.encode());
        let mut inbox = BytesMut::new();
        let exchange = async {
            // Both sides write before they read, which takes one round trip.
            raw.write_all(&greeting).await?;
            raw.flush().await?;
            let len = read_length(&mut raw, &mut inbox, HELLO_BYTES_MAX).await?;
            while inbox.len() < PREFIX + len {
                fill(&mut raw, &mut inbox, IDLE_BYTES).await?;
            }
            Ok(split_frame(&mut inbox, len))
        };
        let bytes = timeout(opening.timeout, exchange).await;
        let bytes = bytes.unwrap_or(Err(StreamError::Slow("open the stream")))?;
        let theirs = Hello::decode(&bytes, opening.network)?;
        let me = opening.key.public();
        let (opener, acceptor) = if opens { (me, opening.peer) } else { (opening.peer, me) };
        let (opener_challenge, acceptor_challenge) =
            if opens { (mine.challenge, theirs.challenge) } else { (theirs.challenge, mine.challenge) };
        let binding = StreamBinding {
            network: mine.network,
            protocol: opening.protocol.to_owned(),
            opener,
            acceptor,
            opener_challenge,
            acceptor_challenge,
        };
        let stream = SignedStream {
            raw,
            inbox,
            begun: None,
            reserved: None,
            holder: opening.holder,
            protocol: opening.protocol,
            tap: opening.tap,
            about: None,
            frames: opening.frames,
            sealer: FrameSealer::new(&binding, opening.key.clone()),
            opener: FrameOpener::new(&binding, me),
            kept: opening.keeps_frames.then(|| LastFrame { stream: Arc::new(binding), frame: None }),
            frame_timeout: opening.timeout,
            lanes: opening.lanes,
            shown: opening.membership,
        };
        Ok((stream, theirs))
    }

    /// Seals and sends one frame; waits for flow control, and for more urgent frames.
    pub async fn send(&mut self, frame: Frame, priority: Priority) -> Result<(), StreamError> {
        if self.tap.is_on() {
            self.copy(false, &frame);
        }
        let mut sealed = self.sealer.seal_behind(PREFIX, frame)?;
        let length = length_of(sealed.len() - PREFIX);
        sealed[..PREFIX].copy_from_slice(&length);
        // Waiting for its turn does not count against the timeout.
        let turn = self.lanes.queue(priority).await;
        let writing = self.lanes.write(&mut self.raw, &sealed, priority, turn);
        timeout(WRITE_TIMEOUT, writing).await.map_err(|_| StreamError::Slow("take a frame"))??;
        Ok(())
    }

    /// Copies a frame for the owner who looks.
    fn copy(&mut self, incoming: bool, frame: &Frame) {
        if frame.kind == FrameKind::Request {
            self.about.clone_from(&frame.agent);
        }
        self.tap.copy(incoming, (self.holder.peer, self.protocol), self.about.clone(), frame);
    }

    /// The next frame of an answer, verified. Cancel-safe: a dropped call loses nothing.
    pub async fn receive(&mut self) -> Result<Frame, StreamError> {
        self.read(ANSWER_FRAME_BYTES_MAX).await.map(|(frame, _)| frame)
    }

    /// The next frame, and the grant for its bytes, to be held until it is handed on. It must be complete within the frame
    /// timeout once it began; `None` when none begins within `idle`.
    pub async fn receive_within(&mut self, idle: Duration) -> Result<Option<(Frame, Option<Reserved>)>, StreamError> {
        if self.inbox.is_empty() {
            let Ok(begun) = timeout(idle, fill(&mut self.raw, &mut self.inbox, IDLE_BYTES)).await else {
                return Ok(None);
            };
            begun?;
        }
        self.read_in_time(FRAME_BYTES_MAX).await.map(Some)
    }

    /// The frame that arrives while a call is answered: a cancel, which is short. Cancel-safe; a frame that began must be complete
    /// within the frame timeout, however often this is called meanwhile.
    pub async fn receive_meanwhile(&mut self) -> Result<Frame, StreamError> {
        if self.inbox.is_empty() {
            fill(&mut self.raw, &mut self.inbox, IDLE_BYTES).await?;
        }
        self.read_in_time(FRAME_HEAD_BYTES_MAX).await.map(|(frame, _)| frame)
    }

    /// The last frame as it was received, where frames are kept.
    pub fn take_kept(&mut self) -> Option<SignedFrame> {
        let kept = self.kept.as_mut()?;
        Some(SignedFrame { stream: kept.stream.clone(), bytes: kept.frame.take()? })
    }

    /// Sets the trust level of its peer.
    pub fn set_trust(&mut self, trust: TrustLevel) {
        self.holder.trust = trust;
    }

    async fn read_in_time(&mut self, max: usize) -> Result<(Frame, Option<Reserved>), StreamError> {
        let until = *self.begun.get_or_insert_with(Instant::now) + self.frame_timeout;
        let read = timeout_at(until, self.read(max)).await;
        read.unwrap_or(Err(StreamError::Slow("finish a frame")))
    }

    async fn read(&mut self, max: usize) -> Result<(Frame, Option<Reserved>), StreamError> {
        let len = read_length(&mut self.raw, &mut self.inbox, max).await?;
        if len > UNCOUNTED && self.reserved.is_none() {
            self.reserved = Some(self.frames.reserve(self.holder, len));
        }
        if let Some(reserved) = &mut self.reserved {
            reserved.granted().await?;
        }
        // The buffer grows as bytes arrive, not because they were announced.
        while self.inbox.len() < PREFIX + len {
            let room = GROW_BYTES.min(PREFIX + len - self.inbox.len());
            let filling = fill(&mut self.raw, &mut self.inbox, room);
            match &mut self.reserved {
                None => filling.await?,
                Some(reserved) => tokio::select! {
                    biased;
                    () = reserved.ended() => return Err(StreamError::Displaced),
                    filled = filling => filled?,
                },
            }
        }
        self.begun = None;
        let reserved = self.reserved.take();
        let bytes = split_frame(&mut self.inbox, len);
        let frame = self.opener.open(&bytes)?;
        if let Some(kept) = &mut self.kept {
            kept.frame = Some(bytes.freeze());
        }
        if self.tap.is_on() {
            self.copy(true, &frame);
        }
        Ok((frame, reserved))
    }

    /// True when it is not fit for another call: it [`is_closed`](Self::is_closed), or this side showed a membership other than
    /// `shows` on it.
    pub fn is_spent(&mut self, shows: Option<&OwnerProof>) -> bool {
        !self.shows(shows) || self.is_closed()
    }

    /// Did this side show that membership when the stream was opened?
    pub fn shows(&self, membership: Option<&OwnerProof>) -> bool {
        self.shown.as_deref() == membership
    }

    /// True when the peer closed the stream, or sent bytes out of turn.
    pub fn is_closed(&mut self) -> bool {
        use futures::FutureExt as _;
        let closed =
            !self.inbox.is_empty() || fill(&mut self.raw, &mut self.inbox, IDLE_BYTES).now_or_never().is_some();
        if self.inbox.is_empty() {
            self.inbox = BytesMut::new();
        }
        closed
    }
}

/// `frame` with its length in front, so that one write sends both.
fn prefixed(frame: &[u8]) -> Vec<u8> {
    [&length_of(frame.len())[..], frame].concat()
}

/// What stands in front of so many bytes.
fn length_of(len: usize) -> [u8; PREFIX] {
    u32::try_from(len).expect("frames are below 5 MiB").to_be_bytes()
}

/// The length of the next frame.
async fn read_length(raw: &mut BoxedStream, inbox: &mut BytesMut, max: usize) -> Result<usize, StreamError> {
    while inbox.len() < PREFIX {
        fill(raw, inbox, IDLE_BYTES).await?;
    }
    let len = u32::from_be_bytes([inbox[0], inbox[1], inbox[2], inbox[3]]) as usize;
    if len > max { Err(StreamError::FrameLength { len, max }) } else { Ok(len) }
}

/// Splits a complete frame off the buffer.
fn split_frame(inbox: &mut BytesMut, len: usize) -> BytesMut {
    inbox.advance(PREFIX);
    let frame = inbox.split_to(len);
    if inbox.is_empty() {
        // Frees the buffer, which the frame has enlarged.
        *inbox = BytesMut::new();
    }
    frame
}

/// Reads at least one byte, with `room` more bytes in the buffer.
async fn fill(raw: &mut BoxedStream, inbox: &mut BytesMut, room: usize) -> Result<(), StreamError> {
    inbox.reserve(room);
    match raw.read_buf(inbox).await? {
        0 if inbox.is_empty() => Err(StreamError::Closed),
        0 => Err(StreamError::Io(io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}
