//! What passes on this node's streams, for an owner who looks: a copy of each verified frame, shortened. Nothing is copied
//! while nobody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_protocol::{AgentId, Attributes, Frame, FrameKind, PublicKey};
use tokio::sync::broadcast;

/// Messages that wait for whoever looks; the oldest make room.
const WAITING: usize = 256;
/// Of a message's body.
const BODY_BYTES_MAX: usize = 2_048;
/// Principals of a message.
const PRINCIPALS_MAX: usize = 8;

/// A message that passed.
#[derive(Debug, Clone)]
pub struct Tapped {
    /// True: from the peer; false: to it.
    pub incoming: bool,
    /// The peer.
    pub peer: PublicKey,
    /// The protocol of its stream.
    pub protocol: &'static str,
    /// What it is.
    pub kind: FrameKind,
    /// The operation of a request.
    pub operation: Option<String>,
    /// The agent that a request is for, or the request that is answered.
    pub agent: Option<AgentId>,
    /// For whom a request is made.
    pub principals: Vec<String>,
    /// How long its sender waits, milliseconds.
    pub deadline_ms: Option<u64>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// Label, session and delegation.
    pub attributes: Attributes,
    /// Bytes of the body.
    pub bytes: usize,
    /// Its beginning.
    pub body: Vec<u8>,
}

/// Where messages are copied to.
#[derive(Debug)]
pub(crate) struct Tap {
    looking: AtomicUsize,
    sender: broadcast::Sender<Arc<Tapped>>,
}

/// Messages as they pass, until it is dropped.
pub struct Taps {
    tap: Arc<Tap>,
    receiver: broadcast::Receiver<Arc<Tapped>>,
}

/// The next message, or how many were missed before it.
#[derive(Debug, Clone)]
pub enum Passed {
    /// A message.
    Message(Arc<Tapped>),
    /// So many passed too fast.
    Missed(u64),
}

impl Tap {
    pub fn new() -> Tap {
        Tap { looking: AtomicUsize::new(0), sender: broadcast::Sender::new(WAITING) }
    }

    pub fn look(self: &Arc<Tap>) -> Taps {
        self.looking.fetch_add(1, Ordering::Relaxed);
        Taps { tap: self.clone(), receiver: self.sender.subscribe() }
    }

    /// Whether anybody looks.
    pub fn is_on(&self) -> bool {
        self.looking.load(Ordering::Relaxed) > 0
    }

    pub fn copy(
        &self,
        incoming: bool,
        (peer, protocol): (PublicKey, &'static str),
        agent: Option<AgentId>,
        frame: &Frame,
    ) {
        let principals = frame.principals.iter().flatten().take(PRINCIPALS_MAX).cloned().collect();
        let tapped = Tapped {
            incoming,
            peer,
            protocol,
            kind: frame.kind,
            operation: frame.operation.clone(),
            agent,
            principals,
            deadline_ms: frame.deadline_ms,
            traceparent: frame.traceparent.clone(),
            attributes: frame.attributes(),
            bytes: frame.body.len(),
            body: frame.body[..frame.body.len().min(BODY_BYTES_MAX)].to_vec(),
        };
        // Whoever looked may be gone by now.
        let _ = self.sender.send(Arc::new(tapped));
    }
}

impl Taps {
    /// The next message; none once the node ends.
    pub async fn next(&mut self) -> Option<Passed> {
        match self.receiver.recv().await {
            Ok(tapped) => Some(Passed::Message(tapped)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Passed::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        self.tap.looking.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn frame(body: usize) -> Frame {
        Frame { operation: Some("SendMessage".to_owned()), ..Frame::new(FrameKind::Request, vec![7; body]) }
    }

    #[tokio::test]
    async fn who_looks_sees_what_passes_shortened_and_what_was_missed() {
        let (tap, peer) = (Arc::new(Tap::new()), SecretKey::from_seed(&[1; 32]).public());
        assert!(!tap.is_on());
        let mut taps = tap.look();
        assert!(tap.is_on());
        tap.copy(true, (peer, "/althing/call/1"), None, &frame(1 << 20));
        let Some(Passed::Message(seen)) = taps.next().await else { panic!("a message") };
        assert_eq!(
            (seen.bytes, seen.body.len(), seen.operation.as_deref()),
            (1 << 20, BODY_BYTES_MAX, Some("SendMessage"))
        );
        (0..WAITING + 10).for_each(|_| tap.copy(false, (peer, "/althing/call/1"), None, &frame(1)));
        assert!(matches!(taps.next().await, Some(Passed::Missed(10))));
        assert!(matches!(taps.next().await, Some(Passed::Message(_))));
        drop(taps);
        assert!(!tap.is_on());
    }
}
