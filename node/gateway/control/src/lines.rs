//! Answers that go on: a value on each line.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};

/// Lines of JSON, each as soon as it is there.
pub fn ndjson<T: serde::Serialize>(lines: impl Stream<Item = T> + Send + 'static) -> Response {
    let bytes = lines.map(|line| {
        serde_json::to_vec(&line).map(|mut line| {
            line.push(b'\n');
            line
        })
    });
    ([("content-type", "application/x-ndjson")], Body::from_stream(bytes)).into_response()
}
