//! yamux, with the data that it hands to noise counted, by parsing the headers of its frames.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::Ready;
use futures::{AsyncRead, AsyncWrite};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use libp2p::yamux;

use crate::closing::ClosingMuxer;
use crate::egress::Egress;

/// Bytes that noise may hold before they are flushed to the socket: one yamux frame.
const UNFLUSHED_MAX: usize = 16 << 10;
/// Reads of one connection before it yields. A frame takes two; the tasks that they wake run in between.
const READS_AT_ONCE: u32 = 32;
/// Bytes of a yamux frame header (yamux specification, "Framing").
const HEADER: usize = 12;
/// The type of data frames; in the others the length field means something else.
const DATA: u8 = 0;

/// yamux; what its streams write counts as backlog until noise has it.
#[derive(Clone)]
pub(crate) struct CountedYamux(pub yamux::Config);

impl UpgradeInfo for CountedYamux {
    type Info = &'static str;
    type InfoIter = std::iter::Once<&'static str>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.protocol_info()
    }
}

type Muxer<C> = ClosingMuxer<yamux::Muxer<Sending<C>>>;

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for CountedYamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_inbound(self, io: C, name: &'static str) -> Self::Future {
        let egress = Egress::new(false);
        let upgraded = self.0.upgrade_inbound(Sending::new(io, egress.clone()), name).into_inner();
        futures::future::ready(upgraded.map(|muxer| ClosingMuxer::new(muxer, egress)))
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for CountedYamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_outbound(self, io: C, name: &'static str) -> Self::Future {
        let egress = Egress::new(true);
        let upgraded = self.0.upgrade_outbound(Sending::new(io, egress.clone()), name).into_inner();
        futures::future::ready(upgraded.map(|muxer| ClosingMuxer::new(muxer, egress)))
    }
}

/// The connection below yamux: flushes noise before it holds too much, and counts the data that passes.
pub(crate) struct Sending<C> {
    inner: C,
    egress: Arc<Egress>,
    unflushed: usize,
    frames: FrameParser,
    /// Reads since the last time that it had nothing to read, or yielded.
    reads: u32,
}

impl<C> Sending<C> {
    fn new(inner: C, egress: Arc<Egress>) -> Sending<C> {
        Sending { inner, egress, unflushed: 0, frames: FrameParser::default(), reads: 0 }
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
        let data = self.frames.data_in(&buf[..n]);
        if data > 0 {
            self.egress.on_sent(data);
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

/// Parses what yamux writes, to tell data from headers.
#[derive(Default)]
struct FrameParser {
    header: [u8; HEADER],
    have: usize,
    /// Bytes of data until the next header.
    data: usize,
}

impl FrameParser {
    /// How much of the next `bytes` is data.
    fn data_in(&mut self, mut bytes: &[u8]) -> usize {
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
            let mut frames = FrameParser::default();
            let data: usize = wire.chunks(cut).map(|bytes| frames.data_in(bytes)).sum();
            assert_eq!(data, 305, "in pieces of {cut}");
        }
    }

    #[test]
    fn a_busy_connection_yields_between_reads() {
        let mut bytes = &[7_u8; 40][..];
        let mut sending = Sending::new(&mut bytes, Egress::new(false));
        let waker = futures::task::noop_waker();
        let mut cx = Context::from_waker(&waker);
        let mut read = || Pin::new(&mut sending).poll_read(&mut cx, &mut [0; 1]).is_ready();
        let reads: Vec<bool> = (0..41).map(|_| read()).collect();
        assert_eq!(reads.iter().position(|ready| !ready), Some(32));
        assert_eq!(reads.iter().filter(|ready| **ready).count(), 40, "and goes on after that");
    }
}
