//! Streams that fail when their connection is closed. yamux wakes the tasks that wait on a stream when the other side closes the
//! connection, but not when this side does: a call on it would never end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::egress::Egress;

/// A multiplexer whose streams fail once it is closed.
pub(crate) struct ClosingMuxer<M> {
    inner: M,
    egress: Arc<Egress>,
    closed: CancellationToken,
    /// Fails the streams of a connection that is dropped without being closed, too.
    _dropped: DropGuard,
}

impl<M> ClosingMuxer<M> {
    pub fn new(inner: M, egress: Arc<Egress>) -> ClosingMuxer<M> {
        let closed = CancellationToken::new();
        ClosingMuxer { inner, egress, closed: closed.clone(), _dropped: closed.drop_guard() }
    }

    pub fn egress(&self) -> &Arc<Egress> {
        &self.egress
    }
}

impl<M: StreamMuxer<Substream: Unpin> + Unpin> StreamMuxer for ClosingMuxer<M> {
    type Substream = Substream<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Self::Substream, Self::Error>> {
        let this = self.get_mut();
        Pin::new(&mut this.inner).poll_inbound(cx).map_ok(|inner| Substream::new(inner, &this.closed, &this.egress))
    }

    fn poll_outbound(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Self::Substream, Self::Error>> {
        let this = self.get_mut();
        Pin::new(&mut this.inner).poll_outbound(cx).map_ok(|inner| Substream::new(inner, &this.closed, &this.egress))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let this = self.get_mut();
        this.closed.cancel();
        Pin::new(&mut this.inner).poll_close(cx)
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.get_mut().inner).poll(cx)
    }
}

/// A stream of a [`ClosingMuxer`] multiplexer.
pub(crate) struct Substream<S> {
    inner: S,
    egress: Arc<Egress>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Substream<S> {
    fn new(inner: S, closed: &CancellationToken, egress: &Arc<Egress>) -> Substream<S> {
        Substream { inner, egress: egress.clone(), closed: Box::pin(closed.clone().cancelled_owned()) }
    }

    /// The result of `poll`, or an error when it is pending and the connection is closed.
    fn or_closed<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut S, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match poll(&mut self.inner, cx) {
            Poll::Pending => self.closed.as_mut().poll(cx).map(|()| Err(io::ErrorKind::ConnectionAborted.into())),
            ready => ready,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Substream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.get_mut().or_closed(cx, |inner, cx| Pin::new(inner).poll_read(cx, buf))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Substream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.egress.writes(buf.len());
        let wrote = this.or_closed(cx, |inner, cx| Pin::new(inner).poll_write(cx, buf));
        let bytes = if let Poll::Ready(Ok(bytes)) = wrote { bytes } else { 0 };
        this.egress.wrote_less(buf.len() - bytes);
        wrote
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().or_closed(cx, |inner, cx| Pin::new(inner).poll_flush(cx))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().or_closed(cx, |inner, cx| Pin::new(inner).poll_close(cx))
    }
}
