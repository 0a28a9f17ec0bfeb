//! Whether anything is asked, answered and taken on a connection. HTTP/2 has no end of its own: a client that answers pings
//! would keep its place for ever, and so would one that asks once and lets no byte of the answer through.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

/// Bytes of an answer that are handed over at once. hyper asks for more when it could pass them on, which is how it is
/// seen here that the client takes them.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The requests of one connection that are under way, until the last piece of their answers.
#[derive(Debug)]
pub struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    next: u64,
    /// Since when each waits for the client to take what is there; none where the node itself has nothing yet.
    under_way: BTreeMap<u64, Option<Instant>>,
    /// When the last one ended.
    ended: Instant,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity(Mutex::new(Requests { next: 0, under_way: BTreeMap::new(), ended: Instant::now() }))
    }
}

impl Activity {
    fn begin(self: &Arc<Self>) -> UnderWay {
        let mut requests = self.lock();
        let number = requests.next;
        requests.next += 1;
        requests.under_way.insert(number, None);
        UnderWay { activity: self.clone(), number }
    }

    /// Waits until the client has left everything to the node for `limit`: it asked nothing, or did not take an answer.
    pub async fn still_for(&self, limit: Duration) {
        loop {
            match self.still_since().map(|since| since + limit) {
                Some(end) if end <= Instant::now() => return,
                Some(end) => tokio::time::sleep_until(end).await,
                // What begins to wait from now on does not have to be looked at before.
                None => tokio::time::sleep(limit).await,
            }
        }
    }

    /// Since when it is the client's turn, if it is.
    fn still_since(&self) -> Option<Instant> {
        let requests = self.lock();
        if requests.under_way.is_empty() {
            return Some(requests.ended);
        }
        requests.under_way.values().flatten().min().copied()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("no holder of the requests panics")
    }
}

/// A request that is under way; dropped, it is not any more.
struct UnderWay {
    activity: Arc<Activity>,
    number: u64,
}

impl UnderWay {
    /// There is something to take, from now on.
    fn offer(&self) {
        self.activity.lock().under_way.insert(self.number, Some(Instant::now()));
    }

    /// All was taken, and more is still to come.
    fn taken(&self) {
        self.activity.lock().under_way.insert(self.number, None);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.activity.lock();
        requests.under_way.remove(&self.number);
        requests.ended = Instant::now();
    }
}

/// Counts a request until its answer has ended.
pub async fn count(State(activity): State<Arc<Activity>>, request: Request, next: Next) -> Response {
    let under_way = activity.begin();
    let answer = next.run(request).await;
    under_way.offer();
    answer.map(|body| Body::new(Counted { body, rest: Bytes::new(), under_way }))
}

/// An answer's body, in pieces.
struct Counted {
    body: Body,
    /// What it gave and was not handed over yet.
    rest: Bytes,
    under_way: UnderWay,
}

impl HttpBody for Counted {
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
                this.under_way.taken();
                return Poll::Pending;
            };
            this.under_way.offer();
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        } else {
            this.under_way.offer();
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
