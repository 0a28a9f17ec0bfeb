//! Recent spans of this node, in memory and bounded in bytes, so that a call can be followed over the nodes that it passed
//! when no collector is configured. A node asks others of its owner for their spans of a trace with a signed call,
//! [`TRACE`]; it answers that call to them only.

mod gather;
mod ring;
mod service;
mod span;

pub use gather::{Gathered, NodeSpan, TraceNameError, Traces, Untold};
pub use ring::{RING_BYTES_MAX, RingProcessor, SpanRing};
pub use service::{SPANS_BYTES_MAX, SPANS_MAX, TRACE, TraceService};
pub use span::{Span, Summary};
