//! A model endpoint without a model: it answers after a known time, and records when it did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_execution::realtime::now_ns;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::stream;
use serde_json::{Value, json};

use crate::error::BenchError;

/// Time to the first word.
pub const FIRST: Duration = Duration::from_millis(100);
/// Time between two words.
const BETWEEN: Duration = Duration::from_millis(10);

/// Timestamps of one request; monotonic nanoseconds of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub received_ns: u64,
    pub first_ns: u64,
    pub hung_up_ns: u64,
    /// Words of the answer so far.
    pub words: u64,
}

/// A running stub.
#[derive(Clone)]
pub struct Stub {
    pub url: String,
    seen: Arc<Mutex<BTreeMap<String, Times>>>,
}

impl Stub {
    /// On a free port of loopback, until the process ends.
    pub async fn start() -> Result<Stub, BenchError> {
        let failed =
            |error: std::io::Error| BenchError::not_measured(format!("the stub endpoint does not start: {error}"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let url = format!("http://{}/v1", listener.local_addr().map_err(failed)?);
        let stub = Stub { url, seen: Arc::default() };
        let router = Router::new().route("/v1/chat/completions", post(answer)).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(stub)
    }

    /// The timestamps of the request whose message was `asked`.
    pub fn times(&self, asked: &str) -> Option<Times> {
        self.seen.lock().ok()?.get(asked).copied()
    }

    fn note(&self, asked: &str, note: impl FnOnce(&mut Times)) {
        if let Ok(mut seen) = self.seen.lock() {
            note(seen.entry(asked.to_owned()).or_default());
        }
    }
}

/// Records when its client stops reading.
struct Answering {
    stub: Stub,
    asked: String,
    words: u64,
    said: u64,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stub.note(&self.asked, |times| times.hung_up_ns = now_ns());
    }
}

/// `NAME WORDS`: answers with that many words.
async fn answer(State(stub): State<Stub>, body: Bytes) -> Response {
    let received_ns = now_ns();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let asked = last.and_then(|said| said["content"].as_str()).unwrap_or_default().to_owned();
    let words = asked.split(' ').nth(1).and_then(|words| words.parse().ok()).unwrap_or(1);
    stub.note(&asked, |times| times.received_ns = received_ns);
    let answering = Answering { stub, asked, words, said: 0 };
    let pieces = stream::unfold(Some(answering), |answering| async {
        let mut answering = answering?;
        tokio::time::sleep(if answering.said == 0 { FIRST } else { BETWEEN }).await;
        if answering.said == 0 {
            answering.stub.note(&answering.asked, |times| times.first_ns = now_ns());
        }
        answering.said += 1;
        let said = answering.said;
        answering.stub.note(&answering.asked, |times| times.words = said);
        let over = answering.said >= answering.words;
        let finish = if over { json!("stop") } else { Value::Null };
        let piece = json!({ "choices": [{ "delta": { "content": "word " }, "finish_reason": finish }] });
        let end = if over { "data: [DONE]\n\n" } else { "" };
        let bytes = Bytes::from(format!("data: {piece}\n\n{end}"));
        Some((Ok::<Bytes, std::convert::Infallible>(bytes), (!over).then_some(answering)))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
}
