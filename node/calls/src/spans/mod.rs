//! Recent spans of this node, in memory and bounded in bytes, so that a call can be followed over the nodes that it passed
//! when no collector is configured. A node asks others of its owner for their spans of a trace with a signed call,
//! [`TRACE`]; it answers that call to them only. By the same call they follow what the turns of a task did.

mod gather;
mod ring;
mod run_wire;
mod runs;
mod service;
mod span;

pub use gather::{Gathered, NodeSpan, TraceNameError, Traces, Untold};
pub use ring::{RING_BYTES_MAX, RingProcessor, SpanRing};
pub use run_wire::RUNS_BYTES_MAX;
pub use runs::{Lineage, LineageGap, LineageTask};
pub use service::{SPANS_BYTES_MAX, SPANS_MAX, TRACE, TraceService};
pub use span::{Span, Summary};
