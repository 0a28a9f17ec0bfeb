//! The end of a call's span: that of a stream lasts until the stream ends or is dropped, and a call that fails says so.

use std::pin::Pin;
use std::task::{Context, Poll};

use althing_protocol::PublicKey;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use serde::Deserialize;
use tracing::Span;

use crate::error::{OperationError, Refusal};
use crate::operation::Operation;
use crate::request::Reply;

/// What a span of a failed task says in `error.type`.
pub const FAILED: &str = "TASK_STATE_FAILED";

/// The span of a call, on the caller's side.
#[must_use]
pub fn client(operation: Operation) -> Span {
    tracing::info_span!(
        "a2a.client",
        otel.kind = "client",
        rpc.method = operation.name(),
        agent = tracing::field::Empty,
        peer = tracing::field::Empty,
        althing.binding.hash = tracing::field::Empty,
        althing.agent.candidates = tracing::field::Empty,
        althing.host.candidates = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
        otel.status_description = tracing::field::Empty,
    )
}

/// The span of a redirect by a node, in a turn with that manifest.
#[must_use]
pub fn redirect(from: &PublicKey, fence: u64, binding_hash: &str) -> Span {
    let span = tracing::info_span!(
        "a2a.redirect",
        otel.kind = "internal",
        peer = %from,
        fence,
        althing.binding.hash = tracing::field::Empty,
    );
    bound(&span, binding_hash);
    span
}

/// Records the manifest of the turn that a span is part of; nothing outside turns, where there is none.
pub fn bound(span: &Span, binding_hash: &str) {
    if !binding_hash.is_empty() {
        span.record("althing.binding.hash", binding_hash);
    }
}

/// Records on a span why what it is of failed: a reason of few values, never text of an agent.
pub fn fail(span: &Span, why: &str) {
    span.record("error.type", why);
    // This sets the status to an error too.
    span.record("otel.status_description", why);
}

/// Records that an operation was refused.
pub fn refused(span: &Span, error: &OperationError) {
    let why = match &error.refusal {
        // Any text of a peer.
        Refusal::OfNewerNode(_) => "_OTHER",
        known => known.reason(),
    };
    fail(span, why);
}

/// Records how a call ends, which may be later: with its stream. `is_message`: its answer tells how a task went.
pub fn ended(span: &Span, answered: Result<Reply, OperationError>, is_message: bool) -> Result<Reply, OperationError> {
    match answered {
        Err(error) => {
            refused(span, &error);
            Err(error)
        }
        Ok(Reply::One(body)) => {
            if is_message && tells_failure(&body) {
                fail(span, FAILED);
            }
            Ok(Reply::One(body))
        }
        Ok(Reply::Events(events)) => {
            let lasting = Lasting { events: Some(events), span: span.clone(), is_message };
            Ok(Reply::Events(lasting.boxed()))
        }
    }
}

/// Whether an answer, or an event of a stream, says that its task failed.
fn tells_failure(body: &[u8]) -> bool {
    // Nearly none does: only what has the word in it is read.
    if !std::str::from_utf8(body).is_ok_and(|body| body.contains(FAILED)) {
        return false;
    }
    let told: Told = serde_json::from_slice(body).unwrap_or_default();
    let task = told.task.or(told.status_update);
    task.and_then(|task| task.status).is_some_and(|status| status.state == FAILED)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    task: Option<OfTask>,
    status_update: Option<OfTask>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfTask {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    state: String,
}

/// A stream of events with the span of its call, which ends when the stream does.
struct Lasting {
    /// None when it has ended.
    events: Option<BoxStream<'static, Result<Vec<u8>, OperationError>>>,
    span: Span,
    is_message: bool,
}

impl Stream for Lasting {
    type Item = Result<Vec<u8>, OperationError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        let polled = this.span.in_scope(|| events.poll_next_unpin(context));
        match &polled {
            Poll::Ready(Some(Ok(event))) if this.is_message && tells_failure(event) => {
                fail(&this.span, FAILED);
                this.is_message = false;
            }
            Poll::Ready(Some(Err(error))) => refused(&this.span, error),
            Poll::Ready(None) => this.end(),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }
}

impl Lasting {
    fn end(&mut self) {
        let span = std::mem::replace(&mut self.span, Span::none());
        // A span ends when it is left for the last time.
        span.in_scope(|| self.events = None);
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_is_told_by_an_answer_and_by_an_event() {
        let task = r#"{"task":{"id":"1","status":{"state":"TASK_STATE_FAILED"}}}"#;
        let event = r#"{"statusUpdate":{"taskId":"1","status":{"state":"TASK_STATE_FAILED","timestamp":"x"}}}"#;
        let done = r#"{"task":{"id":"1","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
        let quoted = r#"{"message":{"parts":[{"data":{"status":{"state":"TASK_STATE_FAILED"}}}]}}"#;
        let told = [task, event, done, quoted, "[]", "no JSON"].map(|body| tells_failure(body.as_bytes()));
        assert_eq!(told, [true, true, false, false, false, false]);
    }

    #[test]
    fn a_stream_keeps_its_span_until_it_ends_or_is_dropped() {
        let refusal = OperationError::internal("no more");
        let all_events = [Ok(b"{}".to_vec()), Err(refusal)];
        let events = futures::stream::iter(all_events.clone()).boxed();
        let mut lasting = Lasting { events: Some(events), span: Span::none(), is_message: true };
        let all = futures::executor::block_on((&mut lasting).collect::<Vec<_>>());
        assert_eq!(all, all_events);
        assert!(lasting.events.is_none(), "nothing of the call is kept after its end");
    }
}
