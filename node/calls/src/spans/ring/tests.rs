//! The ring is bounded in bytes, whatever spans say, and shows what is in it.

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use proptest::prelude::*;

use super::*;

fn span(trace: u128, id: u64, parent: u64, began_us: u64, attributes: Vec<KeyValue>) -> SpanData {
    let began = UNIX_EPOCH + Duration::from_micros(began_us);
    SpanData {
        span_context: SpanContext::new(trace.into(), id.into(), TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent.into(),
        parent_span_is_remote: false,
        span_kind: SpanKind::Client,
        name: "a2a.client".into(),
        start_time: began,
        end_time: began + Duration::from_micros(5),
        attributes,
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    }
}

#[test]
fn a_trace_is_listed_with_its_first_span_and_what_is_known_of_its_call() {
    let ring = SpanRing::default();
    ring.keep(span(1, 2, 1, 20, vec![KeyValue::new("agent", "urn:a"), KeyValue::new("rpc.method", "GetTask")]));
    ring.keep(span(1, 1, 0, 10, Vec::new()));
    ring.keep(span(2, 3, 0, 30, Vec::new()));
    let recent = ring.recent(10);
    let [newest, oldest] = &recent[..] else { panic!("{recent:?}") };
    assert!(newest.trace.ends_with('2') && newest.spans == 1);
    let said = (oldest.began_us, oldest.took_us, oldest.spans, oldest.operation.as_deref(), oldest.agent.as_deref());
    assert_eq!(said, (10, 15, 2, Some("GetTask"), Some("urn:a")));
    assert_eq!(ring.recent(1).len(), 1);
    let spans = ring.of(TraceId::from(1u128), 10);
    assert_eq!((spans[0].parent.as_deref(), spans[1].parent.as_deref()), (Some("0000000000000001"), None));
    assert_eq!(ring.beginning("0000", 10).len(), 2);
    assert_eq!(ring.beginning(&newest.trace, 10), [TraceId::from(2u128)]);
    assert!(spans.iter().all(|span| span.is_of(&oldest.trace) && !span.is_of(&newest.trace)));
}

#[test]
fn the_oldest_make_room_and_a_span_that_is_too_large_is_not_kept() {
    let ring = SpanRing::default();
    ring.keep(span(9, 9, 0, 1, vec![KeyValue::new("said", "x".repeat(SPAN_BYTES_MAX))]));
    assert_eq!(ring.bytes(), 0);
    for id in 1..=10_000 {
        ring.keep(span(id.into(), id, 0, id, vec![KeyValue::new("said", "x".repeat(1_000))]));
    }
    assert!(ring.bytes() <= RING_BYTES_MAX && ring.bytes() > RING_BYTES_MAX / 2, "{}", ring.bytes());
    assert!(ring.of(TraceId::from(1u128), 10).is_empty(), "it made room");
    assert_eq!(ring.of(TraceId::from(10_000u128), 10).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is kept, in whatever order, what is counted is what is there.
    #[test]
    fn what_is_counted_is_what_is_kept(sizes in prop::collection::vec(0usize..70_000, 1..300)) {
        let ring = SpanRing::default();
        for (id, size) in sizes.iter().enumerate() {
            ring.keep(span(1, id as u64 + 1, 0, 1, vec![KeyValue::new("said", "x".repeat(*size))]));
            let inner = ring.lock();
            prop_assert!(inner.bytes <= RING_BYTES_MAX);
            prop_assert_eq!(inner.bytes, inner.spans.iter().map(|kept| kept.bytes).sum::<usize>());
        }
        for span in ring.of(TraceId::from(1u128), usize::MAX) {
            prop_assert!(span.is_of(&TraceId::from(1u128).to_string()));
        }
    }
}
