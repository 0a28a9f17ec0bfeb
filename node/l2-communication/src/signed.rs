//! One stream with its opening done: frames go out sealed and come in verified.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::limits::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES_MAX, HELLO_BYTES_MAX};
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{
    Challenge, Frame, FrameOpener, FrameSealer, Hello, OwnerProof, PublicKey, SecretKey, StreamBinding,
};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::StreamError;
use crate::frames::{Frames, Reserved};
use crate::lanes::{Lanes, Priority};
use crate::machine::nearness::{Holder, Nearness};
use crate::network::BoxedStream;

/// Bytes of the length in front of each frame.
const PREFIX: usize = 4;
/// A peer that takes nothing of a frame for this long holds up its own stream, and memory of ours.
const TAKE_PATIENCE: Duration = Duration::from_secs(60);
/// Room that a stream has while nothing comes: a node has hundreds of them.
const IDLE_BYTES: usize = 1 << 10;
/// Room for what is coming, made again and again until a frame is whole; no more than is missing of it.
const ROOM_BYTES: usize = 16 << 10;

/// Frames up to this are not counted: all the streams that there may be hold 16 MiB of them.
const UNCOUNTED: usize = 4 << 10;

/// What both openings need to know.
pub(crate) struct Opening<'a> {
    pub network: &'a str,
    pub protocol: &'static str,
    pub key: &'a SecretKey,
    pub peer: PublicKey,
    pub challenge: Challenge,
    pub membership: Option<Arc<OwnerProof>>,
    pub timeout: Duration,
    pub lanes: Arc<Lanes>,
    /// Whose frames come in, and what bounds them.
    pub holder: Holder,
    pub frames: Arc<Frames>,
}

/// A stream on which both sides said hello.
pub(crate) struct SignedStream {
    raw: BoxedStream,
    inbox: BytesMut,
    /// When the frame began that is coming in, where somebody waits for its end.
    begun: Option<Instant>,
    /// Leave for its bytes, when there are many.
    reserved: Option<Reserved>,
    holder: Holder,
    frames: Arc<Frames>,
    sealer: FrameSealer,
    opener: FrameOpener,
    frame_timeout: Duration,
    /// Those who write to the same peer.
    lanes: Arc<Lanes>,
    /// The membership that this side showed.
    shown: Option<Arc<OwnerProof>>,
}

impl SignedStream {
    /// The side that opened `raw`; also hands out what the other side said.
    pub async fn open(raw: BoxedStream, opening: Opening<'_>) -> Result<(SignedStream, Hello), StreamError> {
        SignedStream::greet(raw, opening, true).await
    }

    /// The side that accepted `raw`; also hands out what the opener said.
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
            // Both write first and read second: one round trip, and no order to agree on.
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
            frames: opening.frames,
            sealer: FrameSealer::new(&binding, opening.key.clone()),
            opener: FrameOpener::new(&binding, me),
            frame_timeout: opening.timeout,
            lanes: opening.lanes,
            shown: opening.membership,
        };
        Ok((stream, theirs))
    }

    /// Seals and sends one frame; waits while the peer takes none, and behind what is more urgent.
    pub async fn send(&mut self, frame: Frame, priority: Priority) -> Result<(), StreamError> {
        let sealed = prefixed(&self.sealer.seal(frame)?);
        // Whoever waits to begin is not slow.
        let turn = self.lanes.queue(priority).await;
        let writing = self.lanes.write(&mut self.raw, &sealed, priority, turn);
        timeout(TAKE_PATIENCE, writing).await.map_err(|_| StreamError::Slow("take a frame"))??;
        Ok(())
    }

    /// The next frame, verified. Cancel-safe: a dropped call loses nothing.
    pub async fn receive(&mut self) -> Result<Frame, StreamError> {
        self.read(FRAME_BYTES_MAX).await.map(|(frame, _)| frame)
    }

    /// The next frame, and the leave for its bytes, which it holds until it is handed on. It must be complete within the
    /// stream's frame timeout once it began; `None` when none begins within `idle`.
    pub async fn receive_within(&mut self, idle: Duration) -> Result<Option<(Frame, Option<Reserved>)>, StreamError> {
        if self.inbox.is_empty() {
            let Ok(begun) = timeout(idle, fill(&mut self.raw, &mut self.inbox, IDLE_BYTES)).await else {
                return Ok(None);
            };
            begun?;
        }
        self.read_in_time(FRAME_BYTES_MAX).await.map(Some)
    }

    /// What comes while a call is answered: a cancel, which is short, or nothing. Cancel-safe; a frame that began must be
    /// complete within the stream's frame timeout, however often this is called meanwhile.
    pub async fn receive_meanwhile(&mut self) -> Result<Frame, StreamError> {
        if self.inbox.is_empty() {
            fill(&mut self.raw, &mut self.inbox, IDLE_BYTES).await?;
        }
        self.read_in_time(FRAME_HEAD_BYTES_MAX).await.map(|(frame, _)| frame)
    }

    /// Its peer is this near now.
    pub fn regard(&mut self, nearness: Nearness) {
        self.holder.nearness = nearness;
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
        // Room is made as bytes arrive, not because they were announced.
        while self.inbox.len() < PREFIX + len {
            let room = ROOM_BYTES.min(PREFIX + len - self.inbox.len());
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
        Ok((self.opener.open(&split_frame(&mut self.inbox, len))?, reserved))
    }

    /// True when it is not fit for another call: it [`is_closed`](Self::is_closed), or this side showed another membership
    /// on it than `shows`, which will end before.
    pub fn is_spent(&mut self, shows: Option<&OwnerProof>) -> bool {
        !self.shows(shows) || self.is_closed()
    }

    /// Is that the membership which this side showed when the stream was opened?
    pub fn shows(&self, membership: Option<&OwnerProof>) -> bool {
        self.shown.as_deref() == membership
    }

    /// True when the peer closed the stream, or wrote when it had nothing to say.
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

/// `frame` behind its length, in one piece, so that it leaves in one write.
fn prefixed(frame: &[u8]) -> Vec<u8> {
    let len = u32::try_from(frame.len()).expect("frames are below 2 MiB");
    let mut bytes = Vec::with_capacity(PREFIX + frame.len());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(frame);
    bytes
}

/// The length of the frame that comes.
async fn read_length(raw: &mut BoxedStream, inbox: &mut BytesMut, max: usize) -> Result<usize, StreamError> {
    while inbox.len() < PREFIX {
        fill(raw, inbox, IDLE_BYTES).await?;
    }
    let len = u32::from_be_bytes([inbox[0], inbox[1], inbox[2], inbox[3]]) as usize;
    if len > max { Err(StreamError::FrameLength { len, max }) } else { Ok(len) }
}

/// Takes a frame that is there.
fn split_frame(inbox: &mut BytesMut, len: usize) -> BytesMut {
    inbox.advance(PREFIX);
    let frame = inbox.split_to(len);
    if inbox.is_empty() {
        // The room of this frame goes with it.
        *inbox = BytesMut::new();
    }
    frame
}

/// Reads what is there, at least one byte; `room` is made for it.
async fn fill(raw: &mut BoxedStream, inbox: &mut BytesMut, room: usize) -> Result<(), StreamError> {
    inbox.reserve(room);
    match raw.read_buf(inbox).await? {
        0 if inbox.is_empty() => Err(StreamError::Closed),
        0 => Err(StreamError::Io(io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}
