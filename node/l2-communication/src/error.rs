//! Why a stream or a call fails.

use althing_protocol::stream::HelloError;
use althing_protocol::{FrameError, PublicKey};

use crate::network::OpenError;

/// Why a signed stream ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection broke, or the peer closed the stream in the middle.
    #[error("the stream broke: {0}")]
    Io(#[from] std::io::Error),
    /// The peer closed the stream between frames.
    #[error("the peer closed the stream")]
    Closed,
    /// The peer announced a frame longer than allowed.
    #[error("the peer announced a frame of {len} bytes; at most {max} are allowed")]
    FrameLength {
        /// Announced.
        len: usize,
        /// Allowed.
        max: usize,
    },
    /// The peer did not act in time.
    #[error("the peer did not {0} in time")]
    Slow(&'static str),
    /// Too many streams are open, or too many frames incomplete: this one was displaced.
    #[error("displaced: too many streams or frames are open here, and others have priority; try again")]
    Displaced,
    /// The opening was refused.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// A frame was refused.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame came that is not allowed there.
    #[error("the peer sent an unexpected {0} frame")]
    Unexpected(&'static str),
}

/// Why a call to a peer failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No stream to the peer.
    #[error("no stream to {peer}: {reason}")]
    Unreachable {
        /// Who was called.
        peer: PublicKey,
        /// Why.
        reason: OpenError,
    },
    /// The stream failed during the call: whether it took effect is unknown.
    #[error("the call to {peer} broke off: {reason}")]
    Broken {
        /// Who was called.
        peer: PublicKey,
        /// Why.
        reason: StreamError,
    },
    /// The deadline passed.
    #[error("{peer} did not answer within {after_ms} ms")]
    Deadline {
        /// Who was called.
        peer: PublicKey,
        /// The deadline, milliseconds.
        after_ms: u64,
    },
    /// The peer answered with an error; its body says which.
    #[error("{peer} refused the call")]
    Refused {
        /// Who was called.
        peer: PublicKey,
        /// The body of its error frame.
        body: Vec<u8>,
    },
    /// The request itself breaks a rule of the protocol.
    #[error(transparent)]
    Request(#[from] FrameError),
}
