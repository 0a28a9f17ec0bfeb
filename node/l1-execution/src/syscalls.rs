//! What an agent can ask of its node: there is no other way out.

use std::sync::Arc;

use althing_protocol::contract::Observability;
use tokio::task_local;
use tracing::Span;

use crate::allowance::Allowance;
use crate::memory::Memory;
use crate::tools::Tools;

/// What is known of a turn wherever it runs.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// The hash of the manifest that it was bound by; it stands on every span of the turn.
    pub binding: Arc<str>,
    /// Who asked for it, the origin first.
    pub principals: Arc<[String]>,
    /// What traces tell of it.
    pub observability: Observability,
}

/// Bytes of a text on a span.
const TOLD_BYTES_MAX: usize = 4 << 10;

/// A span of what the turn that runs here does; none where its contract wants nothing told.
pub(crate) fn span(make: impl FnOnce() -> Span) -> Span {
    if around().observability == Observability::None { Span::none() } else { make() }
}

/// Tells what was said, where the contract wants that told.
pub(crate) fn tell(span: &Span, field: &str, text: impl FnOnce() -> String) {
    if around().observability == Observability::Content && !span.is_none() {
        let text = text();
        span.record(field, &text[..text.floor_char_boundary(TOLD_BYTES_MAX)]);
    }
}

task_local! {
    pub(crate) static AROUND: Around;
}

/// What is known of the turn that runs here; nothing outside turns.
pub(crate) fn around() -> Around {
    AROUND.try_with(Around::clone).unwrap_or_default()
}

/// The hash of the manifest of the turn that runs here; empty outside turns.
pub(crate) fn binding() -> Arc<str> {
    around().binding
}

/// The system calls of one agent.
#[derive(Clone)]
pub struct SystemCalls {
    /// Tools, as far as its contract names them.
    pub tools: Arc<Tools>,
    /// What it keeps, where its contract lets it.
    pub memory: Option<Memory>,
    /// What it may cost.
    pub allowance: Arc<Allowance>,
}
