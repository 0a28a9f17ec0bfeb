//! An answer that is late begins as a stream of events, which says something as often as the streams of the other faces: proxies
//! give up on a server that says nothing for a minute.

use std::future::ready;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::time::timeout;

use crate::batch;

/// How long an answer may take to begin, and how long a stream that began without it says nothing.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// The method that begins a session.
const INITIALIZE: &str = "initialize";
/// What is no event: clients pass it over.
const COMMENT: &[u8] = b":\n\n";

/// Pieces of a body.
type Pieces = BoxStream<'static, Result<Bytes, axum::Error>>;

/// The answer to the request of that id, if it begins within [`SILENCE_MAX`]; else a stream of events that begins now and
/// ends with that answer. Whoever drops either gives the answer up. The answer that begins a session is waited for: which session
/// it is stands before its body.
pub(crate) async fn in_time(mut answer: BoxFuture<'static, Response>, id: Value, method: &str) -> Response {
    if method == INITIALIZE {
        return answer.await;
    }
    match timeout(SILENCE_MAX, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => begun(answer, id),
    }
}

fn begun(answer: BoxFuture<'static, Response>, id: Value) -> Response {
    let rest = stream::unfold(Some((answer, id)), |waits| async move {
        let (mut answer, id) = waits?;
        Some(match timeout(SILENCE_MAX, &mut answer).await {
            Ok(answer) => (pieces(answer, &id).await, None),
            Err(_) => (comment(), Some((answer, id))),
        })
    });
    let all = stream::once(ready(comment())).chain(rest).flatten();
    let mut begun = Response::new(Body::from_stream(all));
    begun.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(batch::EVENTS));
    begun.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    begun
}

fn comment() -> Pieces {
    stream::once(ready(Ok(Bytes::from_static(COMMENT)))).boxed()
}

/// An answer as events. What was to be its status is in its message.
async fn pieces(answer: Response, id: &Value) -> Pieces {
    if batch::is_events(answer.headers()) {
        return answer.into_body().into_data_stream().boxed();
    }
    let message = batch::message_of(answer, id).await;
    stream::once(ready(Ok(Bytes::from(format!("data: {message}\n\n"))))).boxed()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;

    const CALL: &str = "tools/call";

    fn after(seconds: u64, answer: Response) -> BoxFuture<'static, Response> {
        Box::pin(async move {
            sleep(Duration::from_secs(seconds)).await;
            answer
        })
    }

    fn message() -> Value {
        json!({ "jsonrpc": "2.0", "id": 7, "result": { "done": true } })
    }

    fn kind(answer: &Response) -> &str {
        answer.headers()[header::CONTENT_TYPE].to_str().expect("text")
    }

    /// All that comes, where nothing is silent for long.
    async fn said(answer: Response) -> String {
        let mut pieces = answer.into_body().into_data_stream();
        let (mut said, mut before) = (String::new(), Instant::now());
        while let Some(piece) = pieces.next().await {
            assert!(before.elapsed() < SILENCE_MAX + Duration::from_secs(1), "{:?} after {said:?}", before.elapsed());
            before = Instant::now();
            said += std::str::from_utf8(&piece.expect("a piece")).expect("text");
        }
        said
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_time_is_as_it_is_and_a_late_one_is_a_stream_that_is_never_silent_for_long() {
        let soon = in_time(after(14, batch::failed(StatusCode::BAD_REQUEST, &message())), json!(7), CALL).await;
        assert_eq!((kind(&soon), soon.status()), ("application/json", StatusCode::BAD_REQUEST));
        assert_eq!(said(soon).await, message().to_string());
        let late = in_time(after(601, batch::failed(StatusCode::OK, &message())), json!(7), CALL).await;
        assert_eq!((kind(&late), late.status()), ("text/event-stream", StatusCode::OK));
        assert_eq!(said(late).await, format!("{}data: {}\n\n", ":\n\n".repeat(40), message()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_begins_late_has_its_name() {
        let mut begun = batch::failed(StatusCode::OK, &message());
        begun.headers_mut().insert("mcp-session-id", HeaderValue::from_static("s-1"));
        let late = in_time(after(61, begun), json!(7), INITIALIZE).await;
        assert_eq!((kind(&late), late.headers()["mcp-session-id"].as_bytes()), ("application/json", &b"s-1"[..]));
        assert_eq!(said(late).await, message().to_string());
    }

    #[tokio::test(start_paused = true)]
    async fn late_events_follow_as_they_come_and_what_is_no_message_is_named() {
        let mut events = Response::new(Body::from("data: 1\n\ndata: 2\n\n"));
        events.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(batch::EVENTS));
        assert_eq!(said(in_time(after(16, events), json!(7), CALL).await).await, ":\n\ndata: 1\n\ndata: 2\n\n");
        let mut none = Response::new(Body::from("there is no room"));
        *none.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let told = said(in_time(after(16, none), json!(7), CALL).await).await;
        assert!(told.contains("\"id\":7") && told.contains("503"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_hangs_up_gives_a_late_answer_up() {
        let (kept, mut gone) = tokio::sync::oneshot::channel::<()>();
        let late = in_time(
            Box::pin(async move {
                let answer = std::future::pending::<Response>().await;
                drop(kept);
                answer
            }),
            json!(7),
            CALL,
        )
        .await;
        assert_eq!(gone.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Empty));
        drop(late);
        assert_eq!(gone.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Closed));
    }
}
