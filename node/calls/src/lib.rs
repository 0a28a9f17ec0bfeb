//! The path of a call, outgoing and incoming, shared by every face. What is done with tasks is in L4 (`althing_session`).
//!
//! **Inputs**: operations with their JSON as received, from a face (outgoing) or from L2 (incoming). **Outputs**: the
//! operation's JSON, one body or a stream of events, or an [`OperationError`] of A2A's table.
//!
//! **Invariants**: whether a call goes out, and whether what came in is done, is decided before anything of it is, by one
//! [`Decide`] that is handed in, which is [`ByContract`] where there is no other; a message is sent to one host at a time, and
//! to another one only where the one before did not take it.
//!
//! **Never knows**: HTTP, JSON-RPC envelopes, the command line.

mod accepted_messages;
mod agent_answer;
mod agent_caller;
mod agent_versions;
mod by_contract;
mod elsewhere;
pub mod finding;
mod handoffs;
mod hosting;
mod incoming;
mod lists;
pub mod machine;
mod outgoing;
mod own_tasks;
pub mod reserve;
pub mod spans;
mod target;
mod version_choice;
mod versions;

pub use agent_caller::AgentCaller;
pub use althing_call::{
    AllowedAgents, Asker, CallMetadata, CallRequest, Callee, Consent, Decide, Decision, IncomingRequest, Judgement,
    Operation, OperationError, OperationRequest, OutgoingRequest, Principal, Purpose, Redirect, Refusal, Reply,
    RpcCode, Service, Target, TargetChoice, Trace, is_user_name,
};
pub use althing_communication::Priority;
pub use althing_discovery::Among;
pub use althing_discovery::{Candidate, TrustRelation};
pub use althing_execution::agent::OwnCard;
pub use althing_session::{
    ANSWERS, AgentFigures, CallDoubt, CountOutcomes, DURATION_BOUNDS_S, DigestCheck, DraftWords, GroupAttempt,
    HANDOFFS_IN, HANDOFFS_OUT, HandoffError, HandoffProgress, HandoffState, HandoverError, HostedAgent, LATENCY,
    MoveError, Notification, PUSH_CONFIGS, PUSH_OUTBOX, PostError, Postman, REMOTE_TASKS, RecordedTurn, Rehearsal,
    RehearsalError, Resolution, ResolutionError, RestartRefusal, RowKind, RowSummary, RunCall, RunCallee, RunRecord,
    SESSION_HEADS, SESSION_ROWS, STALE, Script, SessionState, SessionSummary, Signer, StepsError, TASK_SUMMARIES,
    TASKS, TaskPack, TaskRefusal, TaskRuns, TaskStoreError, TaskTape, TaskVerdict, Tenure, Tenures, TurnCopy,
    TurnCourse, TurnEnd, TurnLoss, TurnOutcome, TurnSteps, VerdictError,
};
pub use by_contract::{ByContract, RevocationCheck};
pub use elsewhere::Elsewhere;
pub use handoffs::HandoffOrderError;
pub use hosting::Hosting;
pub use incoming::Incoming;
pub use outgoing::{Calls, Figures, KnownAgent};
pub use own_tasks::OwnTasks;
pub use reserve::{RESERVE, Reservation, ReservationError, ReservationService};
pub use versions::{NewCall, Versions};

/// Stream protocol of the A2A operations.
pub const CALL: &str = "/althing/call/1";
/// The A2A protocol binding of [`CALL`] (`protocol/SPEC.md`).
pub const BINDING: &str = "https://althing.dev/bindings/libp2p/v1";
