//! The ring: the newest spans of this node, at most [`RING_BYTES_MAX`] of them. A span is moved in when it ends, under a
//! lock that is held for a push and a pop; texts are made when somebody looks.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanId, SpanKind, Status, TraceId};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanProcessor};

use crate::spans::span::{ATTRIBUTES_MAX, Span, Summary, VALUE_BYTES_MAX};

/// Bytes of the spans that are kept.
pub const RING_BYTES_MAX: usize = 4 << 20;
/// Bytes of one span; a larger one is not kept.
const SPAN_BYTES_MAX: usize = 64 << 10;
/// What the allocator needs beside each text.
const TEXT_OVERHEAD: usize = 16;

/// A span that has ended, without what is not shown.
#[derive(Debug)]
struct EndedSpan {
    trace: TraceId,
    id: SpanId,
    parent: SpanId,
    name: Cow<'static, str>,
    kind: SpanKind,
    began: SystemTime,
    ended: SystemTime,
    status: Status,
    attributes: Vec<KeyValue>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Ring {
    spans: VecDeque<EndedSpan>,
    bytes: usize,
}

/// The newest spans of this node.
#[derive(Debug, Default)]
pub struct SpanRing(Mutex<Ring>);

impl SpanRing {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().expect("no holder of the ring panics")
    }

    /// Keeps a span; the oldest make room for it.
    pub fn keep(&self, span: SpanData) {
        let kept = EndedSpan::of(span);
        if kept.bytes > SPAN_BYTES_MAX {
            return;
        }
        let mut ring = self.lock();
        ring.bytes += kept.bytes;
        ring.spans.push_back(kept);
        while ring.bytes > RING_BYTES_MAX {
            let Some(oldest) = ring.spans.pop_front() else { return };
            ring.bytes -= oldest.bytes;
        }
    }

    /// Bytes of the spans that are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The spans of a trace, the newest `most` of them, in the order in which they ended.
    #[must_use]
    pub fn of(&self, trace: TraceId, most: usize) -> Vec<Span> {
        let ring = self.lock();
        let mut spans: Vec<Span> =
            ring.spans.iter().rev().filter(|kept| kept.trace == trace).take(most).map(EndedSpan::shown).collect();
        spans.reverse();
        spans
    }

    /// The newest traces, the newest first, at most `most`.
    #[must_use]
    pub fn recent(&self, most: usize) -> Vec<Summary> {
        let (mut order, mut spans) = (Vec::new(), BTreeMap::<TraceIdOrder, Vec<Span>>::new());
        for kept in self.lock().spans.iter().rev() {
            let key = kept.trace.to_bytes();
            if !spans.contains_key(&key) {
                if order.len() == most {
                    continue;
                }
                order.push(key);
            }
            spans.entry(key).or_default().push(kept.shown());
        }
        order.iter().filter_map(|trace| Summary::of(spans.get(trace)?)).collect()
    }

    /// The traces whose id begins with these characters, at most `most`.
    #[must_use]
    pub fn beginning(&self, with: &str, most: usize) -> Vec<TraceId> {
        let mut found: Vec<TraceId> = Vec::new();
        for kept in self.lock().spans.iter().rev() {
            if found.len() < most && !found.contains(&kept.trace) && kept.trace.to_string().starts_with(with) {
                found.push(kept.trace);
            }
        }
        found
    }
}

/// The bytes of a trace's id, which have an order.
type TraceIdOrder = [u8; 16];

impl EndedSpan {
    fn of(span: SpanData) -> EndedSpan {
        let SpanData {
            span_context,
            parent_span_id,
            span_kind,
            name,
            start_time,
            end_time,
            mut attributes,
            status,
            ..
        } = span;
        attributes.truncate(ATTRIBUTES_MAX);
        let text = |length: usize| length + TEXT_OVERHEAD;
        let said: usize = attributes.iter().map(|pair| text(pair.key.as_str().len()) + value_bytes(&pair.value)).sum();
        let failure = match &status {
            Status::Error { description } => text(description.len()),
            Status::Ok | Status::Unset => 0,
        };
        let held = attributes.capacity() * size_of::<KeyValue>();
        let bytes = size_of::<EndedSpan>() + text(name.len()) + said + failure + held;
        EndedSpan {
            trace: span_context.trace_id(),
            id: span_context.span_id(),
            parent: parent_span_id,
            name,
            kind: span_kind,
            began: start_time,
            ended: end_time,
            status,
            attributes,
            bytes,
        }
    }

    fn shown(&self) -> Span {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Span {
            trace: self.trace.to_string(),
            id: self.id.to_string(),
            parent: (self.parent != SpanId::INVALID).then(|| self.parent.to_string()),
            name: cut(self.name.clone().into_owned(), 128),
            kind: kind_name(&self.kind).to_owned(),
            began_us: micros(self.began.duration_since(UNIX_EPOCH).unwrap_or_default()),
            took_us: micros(self.ended.duration_since(self.began).unwrap_or_default()),
            failed: match &self.status {
                Status::Error { description } => Some(cut(description.clone().into_owned(), VALUE_BYTES_MAX)),
                Status::Ok | Status::Unset => None,
            },
            attributes: self.attributes.iter().map(shown_attribute).collect(),
        }
    }
}

fn shown_attribute(pair: &KeyValue) -> (String, String) {
    (cut(pair.key.as_str().to_owned(), 128), cut(pair.value.as_str().into_owned(), VALUE_BYTES_MAX))
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

fn kind_name(kind: &SpanKind) -> &'static str {
    match kind {
        SpanKind::Client => "client",
        SpanKind::Server => "server",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
        SpanKind::Internal => "internal",
    }
}

/// Bytes on the heap of an attribute's value.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.as_str().len() + TEXT_OVERHEAD,
        Value::Bool(_) | Value::I64(_) | Value::F64(_) => 0,
        // Lists: no span of this program has one; what they would take is at most what they look like.
        other => other.as_str().len() * 2,
    }
}

/// The ring as the end of all spans of this program.
#[derive(Debug)]
pub struct RingProcessor(pub std::sync::Arc<SpanRing>);

impl SpanProcessor for RingProcessor {
    fn on_start(&self, _span: &mut opentelemetry_sdk::trace::Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.keep(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
