//! One request whose body is sent as it comes, and whose answer is read as it comes, to exactly where it was addressed.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http_body::{Frame, SizeHint};
use reqwest::header::{HOST, HeaderMap};
use reqwest::{Body, Method, StatusCode};
use tokio::time::Instant;

use crate::{CONNECT_MAX, Fetch, FetchError, Given, Url, why};

/// What is sent.
#[derive(Debug)]
pub struct StreamRequest {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Its headers; those with secrets should be marked as sensitive. `host` is left out: it is that of the URL.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
}

/// The limits of a stream in both directions.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    /// Bytes of the body that is sent.
    pub sent: usize,
    /// Bytes of the body that comes.
    pub received: usize,
    /// How long nothing may move before the answer begins: the time to its first byte, once the request is sent.
    pub first: Duration,
    /// How long nothing may move after that.
    pub idle: Duration,
    /// From the first look-up to the last byte.
    pub whole: Duration,
}

/// What comes back, whatever its status: its body is still to be read.
#[derive(Debug)]
pub struct StreamReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: ReplyBody,
}

impl Fetch {
    /// Sends a request whose body may be a stream, and gives the answer once it begins. Redirects are not followed.
    /// What is left of the request's body is sent while the answer is read. Whoever drops the answer's body, ends the
    /// connection.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn open(
        &self,
        given: Given,
        request: StreamRequest,
        limits: StreamLimits,
    ) -> Result<StreamReply, FetchError> {
        self.check(&request.url, given)?;
        let client = if given == Given::Operator { &self.free } else { &self.guarded };
        let StreamRequest { method, url, mut headers, body } = request;
        headers.remove(HOST);
        let watch = Arc::new(Watch::new(limits));
        let body = Body::wrap(Upload { body, watch: watch.clone() });
        let asked = client.request(method, url).headers(headers).body(body).send();
        let response = watch.over(limits.first, asked).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = ReplyBody { chunks: response.bytes_stream().boxed(), watch, received: 0 };
        Ok(StreamReply { status, headers, body })
    }
}

/// The body of an answer, read chunk by chunk.
pub struct ReplyBody {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    watch: Arc<Watch>,
    received: usize,
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody").field("received", &self.received).finish_non_exhaustive()
    }
}

impl ReplyBody {
    /// The next bytes, as they come; none at the end. After an error there is nothing more to read.
    ///
    /// # Errors
    /// [`FetchError::TooLong`], [`FetchError::TooLate`], [`FetchError::TooMuch`] and [`FetchError::Transport`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        // The reader may have taken its time.
        self.watch.touch();
        let chunks = &mut self.chunks;
        let next = async { chunks.next().await.transpose() };
        let Some(chunk) = self.watch.over(self.watch.limits.idle, next).await? else { return Ok(None) };
        self.received = self.received.saturating_add(chunk.len());
        if self.received > self.watch.limits.received {
            return Err(FetchError::TooLong(self.watch.limits.received));
        }
        Ok(Some(chunk))
    }

    /// Bytes of it that have come.
    #[must_use]
    pub fn received(&self) -> usize {
        self.received
    }

    /// Bytes of the request's body that have been sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.watch.sent.load(Ordering::Relaxed)
    }
}

/// What both directions of a stream share: when something moved, and when all has to be over.
struct Watch {
    limits: StreamLimits,
    end: Instant,
    moved: Mutex<Instant>,
    sent: AtomicUsize,
}

impl Watch {
    fn new(limits: StreamLimits) -> Watch {
        let now = Instant::now();
        Watch { limits, end: now + limits.whole, moved: Mutex::new(now), sent: AtomicUsize::new(0) }
    }

    fn touch(&self) {
        *self.moved.lock().expect("no holder panics") = Instant::now();
    }

    /// Ends once nothing has moved for so long.
    async fn quiet(&self, time: Duration) {
        loop {
            let until = *self.moved.lock().expect("no holder panics") + time;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Does it, unless nothing moves for so long, or all has to be over.
    async fn over<T>(&self, quiet: Duration, doing: impl Future<Output = reqwest::Result<T>>) -> Result<T, FetchError> {
        tokio::select! {
            done = doing => done.map_err(failure),
            () = self.quiet(quiet) => Err(FetchError::TooLate(quiet.as_millis())),
            () = tokio::time::sleep_until(self.end) => Err(FetchError::TooLate(self.limits.whole.as_millis())),
        }
    }
}

/// The client itself bounds the time of connecting, and no other.
fn failure(error: reqwest::Error) -> FetchError {
    let is_late = error.is_timeout();
    match why(error) {
        FetchError::Transport(_) if is_late => FetchError::TooLate(CONNECT_MAX.as_millis()),
        other => other,
    }
}

/// A request's body, whose bytes are counted as they are taken.
struct Upload {
    body: Body,
    watch: Arc<Watch>,
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let count = frame.data_ref().map_or(0, Bytes::len);
        let sent = this.watch.sent.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        this.watch.touch();
        if sent > this.watch.limits.sent {
            return Poll::Ready(Some(Err(FetchError::TooMuch(this.watch.limits.sent).into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
