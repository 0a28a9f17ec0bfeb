//! Lines of the log, as text or as JSON: each tells the trace that it belongs to.

use std::fmt;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use serde::{Deserialize, Serialize};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object on each line.
    Json,
}

/// The trace and the span in which a line is written, in hexadecimal; none outside traces.
fn current() -> Option<(String, String)> {
    Context::map_current(|context| {
        let span = context.span();
        let at = span.span_context();
        at.is_valid().then(|| (at.trace_id().to_string(), at.span_id().to_string()))
    })
}

/// A line of tracing's, with ` trace=…` at its end.
pub struct TextLines(pub Format<Full>);

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match current() {
            Some((trace, _)) => writeln!(to, "{} trace={trace}", line.trim_end()),
            None => writeln!(to, "{}", line.trim_end()),
        }
    }
}

/// An object of tracing's, with `trace_id` and `span_id`.
pub struct JsonLines(pub Format<Json>);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let object = line.trim_end();
        match (current(), object.strip_suffix('}')) {
            (Some((trace, span)), Some(open)) => {
                writeln!(to, r#"{open},"trace_id":"{trace}","span_id":"{span}"}}"#)
            }
            _ => writeln!(to, "{object}"),
        }
    }
}
