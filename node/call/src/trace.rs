//! W3C trace context in and out of spans, so that a call is one trace across the nodes that it touches.

use std::collections::HashMap;

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The trace context of a call, as in its headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
}

struct Headers(HashMap<String, String>);

impl Injector for Headers {
    fn set(&mut self, key: &str, value: String) {
        self.0.insert(key.to_owned(), value);
    }
}

impl Extractor for Headers {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

fn propagator() -> impl opentelemetry::propagation::TextMapPropagator {
    opentelemetry_sdk::propagation::TraceContextPropagator::new()
}

impl Trace {
    /// Makes the remote span the parent of `span`. Invalid headers are ignored, as W3C requires.
    pub fn continue_in(&self, span: &tracing::Span) {
        let mut headers = HashMap::new();
        headers.extend(self.traceparent.clone().map(|value| ("traceparent".to_owned(), value)));
        headers.extend(self.tracestate.clone().map(|value| ("tracestate".to_owned(), value)));
        if !headers.is_empty() {
            // An error means that no tracing layer is installed.
            let _ = span.set_parent(propagator().extract(&Headers(headers)));
        }
    }

    /// The trace context of `span`, to be sent with a call.
    #[must_use]
    pub fn of(span: &tracing::Span) -> Trace {
        let mut headers = Headers(HashMap::new());
        propagator().inject_context(&span.context(), &mut headers);
        let mut header = |name: &str| headers.0.remove(name).filter(|value| !value.is_empty());
        Trace { traceparent: header("traceparent"), tracestate: header("tracestate") }
    }
}
