//! The path of a call, outgoing and incoming; the A2A operations and the task store, shared by every face.
//!
//! **Inputs**: operations with their JSON as received, from a face (outgoing) or from L2 (incoming). **Outputs**: the
//! operation's JSON, one body or a stream of events, or an [`OperationError`] of A2A's table.
//!
//! **Invariants**: the caller check comes before anything runs; a task that was acknowledged is on disk; its events
//! reach every subscriber in the same order; a task is shown only to the caller that it belongs to.
//!
//! **Never knows**: HTTP, JSON-RPC envelopes, the command line.

mod agent_caller;
mod elsewhere;
pub mod finding;
mod hosting;
mod incoming;
mod listing;
pub mod machine;
mod outgoing;
mod push;
mod remote;
pub mod reserve;
pub mod spans;
mod tasks;

pub use agent_caller::AgentCaller;
pub use althing_call::{
    CallMetadata, CallRequest, Callee, Operation, OperationError, OperationRequest, Principal, Redirect, Refusal,
    Reply, RpcCode, Trace, is_user_name,
};
pub use althing_communication::Priority;
pub use althing_discovery::Among;
pub use althing_discovery::{Candidate, TrustRelation};
pub use althing_execution::agent::OwnCard;
pub use elsewhere::Elsewhere;
pub use hosting::Hosting;
pub use incoming::Incoming;
pub use machine::time_limit::LATENCY;
pub use outgoing::{Calls, Figures, KnownAgent, TakenBack};
pub use push::{Notification, PUSH_CONFIGS, PUSH_OUTBOX, PostError, Postman};
pub use remote::{REMOTE_TASKS, STALE};
pub use reserve::{RESERVE, Reservation, ReservationError, ReservationService};
pub use tasks::{AgentFigures, DURATION_BOUNDS_S, HostedAgent, TASK_SUMMARIES, TASKS, TaskStoreError};

/// Stream protocol of the A2A operations.
pub const CALL: &str = "/althing/call/1";
/// The A2A protocol binding of [`CALL`] (`protocol/SPEC.md`).
pub const BINDING: &str = "https://althing.dev/bindings/libp2p/v1";
