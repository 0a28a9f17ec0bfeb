//! The backlog of a connection: bytes that its streams wrote and that are not sent yet. Frames in yamux, noise and the socket
//! cannot be overtaken, so L2 keeps the backlog small where a more urgent frame may come.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use althing_communication::network::RawStream;
use althing_protocol::PublicKey;
use tokio::io::ReadBuf;

/// Bytes of one connection that wait to be sent.
#[derive(Default)]
pub(crate) struct Egress {
    waiting: AtomicUsize,
    sent: AtomicU64,
    /// Tasks that wait for the backlog to shrink.
    wakers: Mutex<Vec<Waker>>,
    /// Whether this side dialled.
    dialled: bool,
}

impl Egress {
    pub fn new(dialled: bool) -> Arc<Egress> {
        Arc::new(Egress { dialled, ..Egress::default() })
    }

    /// A stream is about to write that much. Counted before the write, which may be sent at once.
    pub fn writes(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// It wrote that many bytes less than announced.
    pub fn wrote_less(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting.fetch_sub(bytes, Ordering::AcqRel);
            self.wake();
        }
    }

    /// yamux handed that many bytes of data on.
    pub fn on_sent(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        self.wakers.lock().expect("no holder of the wakers panics").drain(..).for_each(Waker::wake);
    }

    fn poll_room(&self, cx: &mut Context<'_>, below: usize) -> Poll<()> {
        if self.waiting.load(Ordering::Acquire) < below {
            return Poll::Ready(());
        }
        {
            let mut wakers = self.wakers.lock().expect("no holder of the wakers panics");
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
        }
        // Checked again: bytes that were sent in between woke no waker.
        if self.waiting.load(Ordering::Acquire) < below { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The backlogs of new connections, by peer, until their connection handler claims them.
#[derive(Clone, Default)]
pub(crate) struct Egresses(Arc<Mutex<BTreeMap<PublicKey, Vec<Weak<Egress>>>>>);

impl Egresses {
    pub fn add(&self, peer: PublicKey, egress: &Arc<Egress>) {
        let mut all = self.0.lock().expect("no holder of the connections panics");
        all.retain(|_, connections| {
            connections.retain(|egress| egress.strong_count() > 0);
            !connections.is_empty()
        });
        all.entry(peer).or_default().push(Arc::downgrade(egress));
    }

    /// The backlog of the oldest unclaimed connection to that peer, dialled by this side or by the other: when both dial at once
    /// there is one of each kind.
    pub fn claim(&self, peer: PublicKey, dialled: bool) -> Option<Arc<Egress>> {
        let mut all = self.0.lock().expect("no holder of the connections panics");
        let connections = all.get_mut(&peer)?;
        let of_kind = |egress: &Weak<Egress>| egress.upgrade().is_some_and(|egress| egress.dialled == dialled);
        let at = connections.iter().position(of_kind)?;
        connections.remove(at).upgrade()
    }
}

/// A stream with the backlog of its connection.
pub(crate) struct Measured<S> {
    pub stream: S,
    pub egress: Option<Arc<Egress>>,
}

impl<S: tokio::io::AsyncRead + Unpin> tokio::io::AsyncRead for Measured<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: tokio::io::AsyncWrite + Unpin> tokio::io::AsyncWrite for Measured<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> RawStream for Measured<S> {
    fn poll_room(&mut self, cx: &mut Context<'_>, below: usize) -> Poll<()> {
        self.egress.as_ref().map_or(Poll::Ready(()), |egress| egress.poll_room(cx, below))
    }

    fn sent(&self) -> Option<u64> {
        self.egress.as_ref().map(|egress| egress.sent.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_what_it_sends() {
        let (all, peer) = (Egresses::default(), althing_protocol::SecretKey::from_seed(&[1; 32]).public());
        let (mine, theirs) = (Egress::new(true), Egress::new(false));
        all.add(peer, &theirs);
        all.add(peer, &mine);
        assert!(Arc::ptr_eq(&all.claim(peer, true).expect("it is there"), &mine));
        assert!(all.claim(peer, true).is_none(), "claimed once");
        drop(theirs);
        assert!(all.claim(peer, false).is_none(), "gone");
    }

    #[test]
    fn room_is_told_when_it_comes() {
        let egress = Egress::default();
        let waker = futures::task::noop_waker();
        let mut cx = Context::from_waker(&waker);
        egress.writes(150);
        egress.wrote_less(50);
        assert!(egress.poll_room(&mut cx, 100).is_pending());
        assert!(egress.poll_room(&mut cx, 101).is_ready());
        egress.on_sent(1);
        assert!(egress.poll_room(&mut cx, 100).is_ready());
    }
}
