//! Whether anything is asked or answered on a connection. HTTP/2 has no end of its own: a client that answers pings would
//! keep its place for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;

/// The requests of one connection that are under way, until the last byte of their answers.
#[derive(Debug, Default)]
pub struct Activity {
    under_way: AtomicUsize,
    changed: Notify,
}

impl Activity {
    fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        UnderWay(self.clone())
    }

    /// Waits until nothing has been under way for `limit`.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            if self.under_way.load(Ordering::Acquire) > 0 {
                self.changed.notified().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(limit) => return,
                () = self.changed.notified() => {}
            }
        }
    }
}

/// A request that is under way; dropped, it is not any more.
struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

/// Counts a request until its answer has ended.
pub async fn count(State(activity): State<Arc<Activity>>, request: Request, next: Next) -> Response {
    let under_way = activity.begin();
    next.run(request).await.map(|body| Body::new(Counted { body, _under_way: under_way }))
}

/// An answer's body.
struct Counted {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, serve};
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_or_just_ended_is_not_idle() {
        let activity = Arc::<Activity>::default();
        let limit = Duration::from_secs(60);
        let begun = tokio::time::Instant::now();
        let idle = tokio::spawn({
            let activity = activity.clone();
            async move { activity.idle_for(limit).await }
        });
        tokio::time::sleep(Duration::from_secs(50)).await;
        let (one, two) = (activity.begin(), activity.begin());
        drop(one);
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        assert!(!idle.is_finished(), "an answer is under way");
        drop(two);
        idle.await.expect("it ends");
        assert_eq!(begun.elapsed().as_secs(), 50 + 1_000 + 60);
    }

    /// On the old server this connection lasted for as long as the node.
    #[tokio::test]
    async fn a_connection_that_only_answers_pings_gives_its_place_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("bound");
        let stop = CancellationToken::new();
        let limits = Limits { connections: 1, idle: Duration::from_millis(200), ..Limits::default() };
        let slow = || async {
            // Longer than a connection may be idle.
            tokio::time::sleep(Duration::from_millis(600)).await;
            "answered"
        };
        let router = Router::new().route("/", get(slow));
        let server = tokio::spawn(serve(listener, router, limits, stop.clone()));
        let silent = async {
            let mut stream = TcpStream::connect(at).await.expect("connected");
            // The preface and empty settings; then settings and pings are acknowledged for as long as they come.
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("written");
            loop {
                let mut head = [0; 9];
                if stream.read_exact(&mut head).await.is_err() {
                    return;
                }
                let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                stream.read_exact(&mut body).await.expect("a frame");
                if matches!(head[3], 4 | 6) && head[4] & 1 == 0 {
                    let payload = if head[3] == 6 { body } else { Vec::new() };
                    let answer = [&[0, 0, payload.len() as u8, head[3], 1, 0, 0, 0, 0][..], &payload].concat();
                    // It may have hung up meanwhile.
                    let _ = stream.write_all(&answer).await;
                }
            }
        };
        silent.await;
        // Its place, the only one, is free; and who waits for an answer is not idle.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        let answer = client.get(format!("http://{at}/")).send().await.expect("an answer").text().await;
        assert_eq!(answer.expect("text"), "answered");
        drop(client);
        stop.cancel();
        server.await.expect("it ends");
    }
}
