//! Counts what passes on a connection, bounds it, and knows when nothing does.

use std::io::{Error, IoSlice, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What passed on a connection with a program.
pub(crate) struct Traffic {
    /// From the program.
    sent: AtomicU64,
    /// To the program.
    received: AtomicU64,
    moved: Mutex<Instant>,
}

impl Traffic {
    pub(crate) fn new() -> Traffic {
        Traffic { sent: AtomicU64::new(0), received: AtomicU64::new(0), moved: Mutex::new(Instant::now()) }
    }

    /// Bytes from the program.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes to the program.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends once nothing has passed for so long.
    pub(crate) async fn quiet(&self, time: Duration) {
        loop {
            let until = *self.moved.lock().expect("no holder panics") + time;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn count(&self, counter: &AtomicU64, bytes: usize, most: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        *self.moved.lock().expect("no holder panics") = Instant::now();
        let bytes = bytes as u64;
        if counter.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > most {
            return Err(Error::other(format!("more than {most} bytes")));
        }
        Ok(())
    }
}

/// A connection with a program whose bytes are counted, at most so many each way.
pub(crate) struct Meter<S> {
    inner: S,
    traffic: Arc<Traffic>,
    most: u64,
}

impl<S> Meter<S> {
    pub(crate) fn new(inner: S, traffic: Arc<Traffic>, most: u64) -> Meter<S> {
        Meter { inner, traffic, most }
    }

    fn wrote(&self, bytes: usize) -> Poll<Result<usize>> {
        Poll::Ready(self.traffic.count(&self.traffic.received, bytes, self.most).map(|()| bytes))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Meter<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let bytes = buffer.filled().len() - before;
        Poll::Ready(this.traffic.count(&this.traffic.sent, bytes, this.most))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Meter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, bytes))?;
        this.wrote(written)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, all: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, all))?;
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_are_counted_each_way_and_no_more_pass_than_may() {
        let (near, mut far) = duplex(64);
        let traffic = Arc::new(Traffic::new());
        let mut meter = Meter::new(near, traffic.clone(), 8);
        far.write_all(b"12345").await.expect("there is room");
        let mut read = [0; 5];
        meter.read_exact(&mut read).await.expect("it came");
        meter.write_all(b"12345678").await.expect("as many as may");
        assert_eq!((traffic.sent(), traffic.received()), (5, 8));
        let error = meter.write_all(b"9").await.expect_err("one more");
        assert_eq!(error.to_string(), "more than 8 bytes");
        far.write_all(b"6789").await.expect("there is room");
        assert!(meter.read_exact(&mut [0; 4]).await.is_err(), "one more");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_quiet_once_nothing_passed_for_so_long() {
        let (near, mut far) = duplex(64);
        let traffic = Arc::new(Traffic::new());
        let mut meter = Meter::new(near, traffic.clone(), 8);
        let begun = Instant::now();
        let busy = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            far.write_all(b"1").await.expect("there is room");
            meter.read_u8().await.expect("it came");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = busy => {}
            () = traffic.quiet(Duration::from_secs(8)) => {}
        }
        assert_eq!(begun.elapsed().as_secs(), 13);
    }
}
