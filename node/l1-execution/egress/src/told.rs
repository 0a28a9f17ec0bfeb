//! What the node is told of each connection, and the span of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_fetch::FetchError;
use tracing::Span;

/// A host that a program asked for, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The host, as URLs spell it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of what a program asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The host is connected to; of a request: it answers.
    Reached,
    /// The agent file does not name the host.
    Denied {
        /// What would have to stand there under `sandbox: egress`.
        write: String,
    },
    /// Who decides on what its file names does not admit it.
    Forbidden {
        /// What decided, for the program and its owner.
        why: String,
    },
    /// It was not reached, or what was sent or came was cut off.
    Failed {
        /// Why; with addresses, so for the owner alone.
        why: String,
    },
}

/// Who is told of each [`Event`]; called in the middle of the work, so it does not block.
pub type Told = Arc<dyn Fn(Event) + Send + Sync>;

/// Which traces the connections of a program belong to; asked in the middle of the work, so it does not block.
pub trait Traces: Send + Sync {
    /// Whether a connection that begins now is told at all; where not, it has no span.
    fn is_told(&self) -> bool;

    /// Makes a span that begins now, and has no trace yet, a part of the trace that it belongs to. What it leaves as it is begins
    /// a trace.
    fn join(&self, span: &Span);
}

/// Each connection is a trace.
pub(crate) struct Apart;

impl Traces for Apart {
    fn is_told(&self) -> bool {
        true
    }

    fn join(&self, _: &Span) {}
}

/// What a program asked for, from the question to the last byte: a span, and events.
pub(crate) struct Exchange {
    span: Span,
    told: Told,
    host: String,
    port: u16,
    is_over: AtomicBool,
}

impl Exchange {
    pub(crate) fn begin(told: &Told, traces: &dyn Traces, host: &str, port: u16) -> Exchange {
        let span = if traces.is_told() { Exchange::begun(host, port) } else { Span::none() };
        if !span.is_none() {
            traces.join(&span);
        }
        Exchange { span, told: told.clone(), host: host.to_owned(), port, is_over: AtomicBool::new(false) }
    }

    fn begun(host: &str, port: u16) -> Span {
        // The names are those of OpenTelemetry's conventions where there are any.
        tracing::info_span!(
            parent: None,
            "egress",
            otel.kind = "client",
            server.address = host,
            server.port = port,
            network.transport = "tcp",
            gen_ai.agent.name = tracing::field::Empty,
            althing.binding.hash = tracing::field::Empty,
            althing.egress.outcome = tracing::field::Empty,
            althing.egress.sent = tracing::field::Empty,
            althing.egress.received = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
        )
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The host is connected to, or answers.
    pub(crate) fn reached(&self) {
        self.span.record("althing.egress.outcome", "reached");
        self.tell(Outcome::Reached);
    }

    /// The agent file does not name it.
    pub(crate) fn denied(&self, write: &str) {
        self.fail("denied", "denied");
        self.tell(Outcome::Denied { write: write.to_owned() });
    }

    /// Who decides does not admit it.
    pub(crate) fn forbidden(&self, why: &str) {
        self.fail("denied", "forbidden");
        self.tell(Outcome::Forbidden { why: why.to_owned() });
    }

    /// It failed, or what came of it was cut off; what is told first counts.
    pub(crate) fn failed(&self, error: &FetchError) {
        self.broke(kind(error), error.to_string());
    }

    /// It failed for a reason of a few values, and more words for the owner.
    pub(crate) fn broke(&self, kind: &'static str, why: String) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.fail("failed", kind);
            self.tell(Outcome::Failed { why });
        }
    }

    /// Bytes of what was sent and of what came, without heads of messages.
    pub(crate) fn counted(&self, sent: u64, received: u64) {
        self.span.record("althing.egress.sent", sent).record("althing.egress.received", received);
    }

    fn fail(&self, outcome: &'static str, kind: &'static str) {
        self.span.record("althing.egress.outcome", outcome).record("error.type", kind);
        // This sets the status to an error too.
        self.span.record("otel.status_description", kind);
    }

    fn tell(&self, outcome: Outcome) {
        (self.told)(Event { host: self.host.clone(), port: self.port, outcome });
    }
}

/// Why it failed, in few values.
fn kind(error: &FetchError) -> &'static str {
    match error {
        FetchError::Url(_) => "refused",
        FetchError::Blocked { .. } | FetchError::Elsewhere(_) => "blocked",
        FetchError::Unresolved(_) => "unresolved",
        FetchError::TooLong(_) | FetchError::TooMuch(_) => "too_large",
        FetchError::TooLate(_) => "timeout",
        FetchError::Closed => "closed",
        FetchError::Redirects(_) | FetchError::Status(_) | FetchError::Transport(_) => "transport",
    }
}
