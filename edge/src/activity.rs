//! Tracks whether a connection is idle. HTTP/2 connections do not time out by themselves: a client that answers pings, or
//! one that sends a request and reads no byte of the answer, would hold its connection forever.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes of an answer that are handed to hyper at once. hyper asks for more when it could send them, which shows that the
/// client reads them.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The running requests of one connection, until the end of their answers.
#[derive(Debug)]
pub struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    next: u64,
    /// Since when each waits for the client to read; none while the node itself has nothing to send.
    running: BTreeMap<u64, Option<Instant>>,
    /// When the last request ended.
    ended: Instant,
    /// Since when a request's head is awaited: the first one, or another of which something has come.
    head: Option<Instant>,
}

impl Default for Activity {
    fn default() -> Activity {
        let now = Instant::now();
        Activity(Mutex::new(Requests { next: 0, running: BTreeMap::new(), ended: now, head: Some(now) }))
    }
}

impl Activity {
    fn begin(self: &Arc<Self>) -> RequestGuard {
        let mut requests = self.lock();
        let number = requests.next;
        requests.next += 1;
        requests.running.insert(number, None);
        requests.head = None;
        RequestGuard { activity: self.clone(), number }
    }

    /// Waits until the connection was idle for `limit`: no request came, or no answer was read.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            match self.idle_since().map(|since| since + limit) {
                Some(end) if end <= Instant::now() => return,
                Some(end) => tokio::time::sleep_until(end).await,
                // A wait that begins from now on cannot exceed the limit before.
                None => tokio::time::sleep(limit).await,
            }
        }
    }

    /// Waits until a request's head is awaited for `limit`: the first one, or one that has begun.
    pub async fn head_is_late(&self, limit: Duration) {
        loop {
            let since = self.lock().head;
            match since.map(|since| since + limit) {
                Some(end) if end <= Instant::now() => return,
                Some(end) => tokio::time::sleep_until(end).await,
                // One that begins from now on is not late before.
                None => tokio::time::sleep(limit).await,
            }
        }
    }

    /// Something came from the client.
    fn read(&self) {
        let mut requests = self.lock();
        if requests.running.is_empty() && requests.head.is_none() {
            requests.head = Some(Instant::now());
        }
    }

    /// Since when the connection is idle, if it is.
    fn idle_since(&self) -> Option<Instant> {
        let requests = self.lock();
        if requests.running.is_empty() {
            return Some(requests.ended);
        }
        requests.running.values().flatten().min().copied()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("no holder of the requests panics")
    }
}

/// A running request, until this is dropped.
struct RequestGuard {
    activity: Arc<Activity>,
    number: u64,
}

impl RequestGuard {
    /// An answer waits for the client from now on.
    fn offer(&self) {
        self.activity.lock().running.insert(self.number, Some(Instant::now()));
    }

    /// The client has read all; more is to come.
    fn taken(&self) {
        self.activity.lock().running.insert(self.number, None);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut requests = self.activity.lock();
        requests.running.remove(&self.number);
        requests.ended = Instant::now();
    }
}

/// A connection that tells when something comes from the client.
pub struct WatchedStream<S> {
    stream: S,
    /// None where heads are not told from other frames: in HTTP/2, whose pings do not count.
    activity: Option<Arc<Activity>>,
}

impl<S> WatchedStream<S> {
    /// Of a connection that speaks HTTP/2, or an earlier version.
    pub fn of(stream: S, activity: &Arc<Activity>, is_http2: bool) -> WatchedStream<S> {
        WatchedStream { stream, activity: (!is_http2).then(|| activity.clone()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, to);
        if to.filled().len() > before
            && let Some(activity) = &self.activity
        {
            activity.read();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Counts a request until its answer has ended.
pub async fn count(State(activity): State<Arc<Activity>>, request: Request, next: Next) -> Response {
    let guard = activity.begin();
    let answer = next.run(request).await;
    guard.offer();
    answer.map(|body| Body::new(TrackedBody { body, rest: Bytes::new(), guard }))
}

/// An answer's body, in chunks.
struct TrackedBody {
    body: Body,
    /// What it gave and was not handed to hyper yet.
    rest: Bytes,
    guard: RequestGuard,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let polled = Pin::new(&mut this.body).poll_frame(context);
            let Poll::Ready(frame) = polled else {
                this.guard.taken();
                return Poll::Pending;
            };
            this.guard.offer();
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        } else {
            this.guard.offer();
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES_MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, of_body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(of_body.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests;
