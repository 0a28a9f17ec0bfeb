//! The trace of a run: the decisions of the nodes, in order, as lines of text. Two runs of one seed have the same trace.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::{Digest, hex};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};

/// Lines that are kept; the digest covers all lines.
const LINES_MAX: usize = 2_000_000;

/// Records a trace.
#[derive(Clone)]
pub struct Recorder {
    begun: Instant,
    trace: Arc<Mutex<Trace>>,
}

/// A trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// One line for each decision: milliseconds, then the decision.
    pub lines: Vec<String>,
    /// Lines that were not kept.
    pub more: usize,
    digest: Digest,
}

impl Trace {
    fn note(&mut self, line: String) {
        self.digest = althing_protocol::digest(&[&self.digest[..], line.as_bytes()].concat());
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    /// The digest, which is equal for equal traces.
    #[must_use]
    pub fn digest(&self) -> String {
        hex(&self.digest)
    }

    /// The whole trace as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |mut text, line| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            text
        })
    }
}

impl Recorder {
    /// Starts a trace now, in the time of the runtime.
    #[must_use]
    pub fn begin() -> Recorder {
        Recorder { begun: Instant::now(), trace: Arc::default() }
    }

    /// Writes a line.
    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        let line = format!("{} {what}", self.begun.elapsed().as_millis());
        self.lock().note(line);
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().expect("no writer of the trace panics")
    }
}

/// The log events of the layers are decisions, too.
impl<S: tracing::Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.note(format_args!("{}", line.0));
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
