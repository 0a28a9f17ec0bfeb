//! How much of what the streams of a connection wrote is still to be sent. What yamux, noise and the socket hold cannot
//! be overtaken any more; L2 hands them little where something more urgent may come.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker, ready};

use althing_communication::network::RawStream;
use althing_protocol::PublicKey;
use futures::future::Ready;
use futures::{AsyncRead, AsyncWrite};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use libp2p::yamux;
use tokio::io::ReadBuf;

use crate::closing::Closing;

/// Bytes that noise may hold before they must be in the socket: one frame of yamux's.
const UNFLUSHED_MAX: usize = 16 << 10;
/// Reads of one connection before others have their turn. A frame takes two; what each sets going is done in between.
const READS_AT_ONCE: u32 = 32;
/// Bytes in front of each of yamux's frames (yamux specification, "Framing").
const HEADER: usize = 12;
/// The type of those that carry data; what is the length of the others is none.
const DATA: u8 = 0;

/// Bytes of one connection that wait to be sent.
#[derive(Default)]
pub(crate) struct Egress {
    waiting: AtomicUsize,
    sent: AtomicU64,
    wanting_room: Mutex<Vec<Waker>>,
    /// Whether this side dialled.
    dialled: bool,
}

impl Egress {
    fn new(dialled: bool) -> Arc<Egress> {
        Arc::new(Egress { dialled, ..Egress::default() })
    }

    /// A stream is about to write that much: it may be sent before that is told.
    pub fn writes(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// It wrote that much less than it was about to.
    pub fn wrote_less(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting.fetch_sub(bytes, Ordering::AcqRel);
            self.wake();
        }
    }

    fn sent(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        self.wanting_room.lock().expect("no holder of the wakers panics").drain(..).for_each(Waker::wake);
    }

    fn poll_room(&self, cx: &mut Context<'_>, below: usize) -> Poll<()> {
        if self.waiting.load(Ordering::Acquire) < below {
            return Poll::Ready(());
        }
        {
            let mut wanting = self.wanting_room.lock().expect("no holder of the wakers panics");
            if !wanting.iter().any(|waker| waker.will_wake(cx.waker())) {
                wanting.push(cx.waker().clone());
            }
        }
        // What was sent in between woke nobody.
        if self.waiting.load(Ordering::Acquire) < below { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Connections that are just being made, by peer: whoever takes one over claims what it sends.
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

    /// Of the oldest connection to that peer that nobody claimed, dialled by this side or by the other. Of two that dial
    /// each other at once, one connection is of either kind.
    pub fn claim(&self, peer: PublicKey, dialled: bool) -> Option<Arc<Egress>> {
        let mut all = self.0.lock().expect("no holder of the connections panics");
        let connections = all.get_mut(&peer)?;
        let of_kind = |egress: &Weak<Egress>| egress.upgrade().is_some_and(|egress| egress.dialled == dialled);
        let place = connections.iter().position(of_kind)?;
        connections.remove(place).upgrade()
    }
}

/// A stream that knows how much waits on its connection.
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

/// yamux, measured: what its streams write counts as waiting until noise has it.
#[derive(Clone)]
pub(crate) struct Multiplexing(pub yamux::Config);

impl UpgradeInfo for Multiplexing {
    type Info = &'static str;
    type InfoIter = std::iter::Once<&'static str>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.protocol_info()
    }
}

type Muxer<C> = Closing<yamux::Muxer<Sending<C>>>;

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for Multiplexing {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_inbound(self, io: C, name: &'static str) -> Self::Future {
        let egress = Egress::new(false);
        let upgraded = self.0.upgrade_inbound(Sending::new(io, egress.clone()), name).into_inner();
        futures::future::ready(upgraded.map(|muxer| Closing::new(muxer, egress)))
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for Multiplexing {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_outbound(self, io: C, name: &'static str) -> Self::Future {
        let egress = Egress::new(true);
        let upgraded = self.0.upgrade_outbound(Sending::new(io, egress.clone()), name).into_inner();
        futures::future::ready(upgraded.map(|muxer| Closing::new(muxer, egress)))
    }
}

/// What is below yamux: noise, given no more than it can hand on, and what passes counted.
pub(crate) struct Sending<C> {
    inner: C,
    egress: Arc<Egress>,
    unflushed: usize,
    frames: Frames,
    /// Since there was nothing to read, or others had their turn.
    reads: u32,
}

impl<C> Sending<C> {
    fn new(inner: C, egress: Arc<Egress>) -> Sending<C> {
        Sending { inner, egress, unflushed: 0, frames: Frames::default(), reads: 0 }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Sending<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.reads == READS_AT_ONCE {
            self.reads = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.reads = if read.is_ready() { self.reads + 1 } else { 0 };
        read
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Sending<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unflushed >= UNFLUSHED_MAX {
            ready!(self.as_mut().poll_flush(cx))?;
        }
        let n = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.unflushed += n;
        let data = self.frames.pass(&buf[..n]);
        if data > 0 {
            self.egress.sent(data);
        }
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.unflushed = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

/// Tells the data in what yamux writes from the rest of it.
#[derive(Default)]
struct Frames {
    header: [u8; HEADER],
    have: usize,
    /// Bytes of data until the next header.
    data: usize,
}

impl Frames {
    /// How much of `bytes`, which come next, is data.
    fn pass(&mut self, mut bytes: &[u8]) -> usize {
        let mut data = 0;
        while !bytes.is_empty() {
            let n = if self.data > 0 {
                let n = self.data.min(bytes.len());
                self.data -= n;
                data += n;
                n
            } else {
                let n = (HEADER - self.have).min(bytes.len());
                self.header[self.have..self.have + n].copy_from_slice(&bytes[..n]);
                self.have += n;
                if self.have == HEADER {
                    self.have = 0;
                    let [_, kind, .., a, b, c, d] = self.header;
                    self.data = if kind == DATA { u32::from_be_bytes([a, b, c, d]) as usize } else { 0 };
                }
                n
            };
            bytes = &bytes[n..];
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u8, length: u32) -> Vec<u8> {
        let mut bytes = vec![0, kind, 0, 0, 0, 0, 0, 1];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    }

    #[test]
    fn data_is_told_from_headers_however_they_are_cut() {
        // A window update's length is no data; nor is a ping's.
        let mut wire = header(1, 262_144);
        for (length, kind) in [(5, DATA), (7, 2), (0, DATA), (300, DATA)] {
            wire.extend(header(kind, length));
            if kind == DATA {
                wire.extend(vec![0xff; length as usize]);
            }
        }
        for cut in 1..=wire.len() {
            let mut frames = Frames::default();
            let data: usize = wire.chunks(cut).map(|bytes| frames.pass(bytes)).sum();
            assert_eq!(data, 305, "in pieces of {cut}");
        }
    }

    #[test]
    fn whoever_sends_much_is_read_in_turns() {
        let mut bytes = &[7_u8; 40][..];
        let mut sending = Sending::new(&mut bytes, Egress::new(false));
        let waker = futures::task::noop_waker();
        let mut cx = Context::from_waker(&waker);
        let mut read = || Pin::new(&mut sending).poll_read(&mut cx, &mut [0; 1]).is_ready();
        let reads: Vec<bool> = (0..41).map(|_| read()).collect();
        assert_eq!(reads.iter().position(|ready| !ready), Some(32));
        assert_eq!(reads.iter().filter(|ready| **ready).count(), 40, "and goes on after that");
    }

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
        egress.sent(1);
        assert!(egress.poll_room(&mut cx, 100).is_ready());
    }
}
