//! The context of the turn that runs here, in a task-local, and the trace spans of that turn.

use std::sync::Arc;

use althing_protocol::Attributes;
use althing_protocol::contract::{DataLabel, Observability};
use tokio::task_local;
use tracing::Span;

use crate::lease::{Lease, Superseded};

/// The context of one turn.
#[derive(Clone, Default)]
pub(crate) struct CallContext {
    /// The hash of the manifest that the agent was bound to; every span of the turn carries it.
    pub binding_hash: Arc<str>,
    /// The task that it works on.
    pub task: Arc<str>,
    /// W3C `traceparent` of the turn, when it is traced.
    pub trace: Option<Arc<str>>,
    /// The label of the data that the agent works with, by its contract.
    pub label: DataLabel,
    /// Label, session and delegation of the call that it answers.
    pub attributes: Arc<Attributes>,
    /// On whose behalf the turn runs, the origin first.
    pub principals: Arc<[String]>,
    /// What traces may record of it.
    pub observability: Observability,
    /// The lease under which it runs, if it is for a task of a group.
    pub lease: Option<Lease>,
}

/// Bytes of a text on a span.
const RECORDED_BYTES_MAX: usize = 4 << 10;

/// A span of the current turn; none where its contract disables traces.
pub(crate) fn span(make: impl FnOnce() -> Span) -> Span {
    if current().observability == Observability::None { Span::none() } else { make() }
}

/// Records content on a span, where the contract allows that.
pub(crate) fn record(span: &Span, field: &str, text: impl FnOnce() -> String) {
    if current().observability == Observability::Content && !span.is_none() {
        let text = text();
        span.record(field, &text[..text.floor_char_boundary(RECORDED_BYTES_MAX)]);
    }
}

task_local! {
    pub(crate) static CALL_CONTEXT: CallContext;
}

/// The context of the turn that runs here; the default outside turns.
pub(crate) fn current() -> CallContext {
    CALL_CONTEXT.try_with(CallContext::clone).unwrap_or_default()
}

/// On whose behalf the turn that runs here is, the origin first; nobody outside turns.
#[must_use]
pub fn current_principals() -> Arc<[String]> {
    current().principals
}

/// The lease of the turn that runs here; none outside turns, and in those that are for no task of a group.
#[must_use]
pub fn current_lease() -> Option<Lease> {
    current().lease
}

/// Whether the turn that runs here may still act.
pub(crate) fn check_lease() -> Result<(), Superseded> {
    current_lease().map_or(Ok(()), |lease| lease.check())
}

/// The hash of the manifest of the turn that runs here; empty outside turns.
pub(crate) fn binding_hash() -> Arc<str> {
    current().binding_hash
}
