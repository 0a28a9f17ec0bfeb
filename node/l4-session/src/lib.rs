//! L4: the tasks that agents of this node have, from the message that begins one until it is forgotten; who is told of them;
//! on which nodes the tasks are that were begun through this one; and work that goes from one agent to another.
//!
//! **Inputs**: an agent that this node hosts, whose task it is, and a request whose caller was checked; the tasks in other
//! nodes' answers. **Outputs**: the reply of the operation, events to all who subscribed, push notifications through a port
//! ([`Postman`]), or an [`OperationError`](althing_call::OperationError) of A2A's table.
//!
//! **Invariants**: a task that was acknowledged is on disk; its events reach every subscriber in the same order; a task is
//! shown only to the caller that it belongs to, and is not accepted from another node than the one that it is known from, but
//! where that one proves that it handed the task over. A task is on one node at a time. What an agent hears whose turns can begin
//! again is in the journal of the turn before that: when its node ended, the turn goes on, and no call is made twice that must
//! not be. Work that is given to another agent has one owner: it is given away on disk before the other one begins, and its task
//! ends with that one's result.
//!
//! **Never knows**: who may call which agent, where agents are, HTTP, JSON-RPC envelopes.

mod journal;
pub mod listing;
pub mod machine;
mod push;
mod remote;
mod tasks;

pub use althing_td::HandoffFile;
pub use journal::{SESSION_HEADS, SESSION_ROWS};
pub use machine::losses::TurnLoss;
pub use machine::moves::{MoveError, Signer, TaskPack};
pub use machine::record::{Scope, ScopeError};
pub use machine::run::{DigestCheck, RunCall, RunCallee, RunRecord};
pub use machine::session::{
    Damage, GroupAttempt, NoteRows, RecordedStep, RecordedTurn, RowKind, RowSummary, SessionId, call_digest, recorded,
    summaries,
};
pub use machine::time_limit::LATENCY;
pub use push::{Notification, PUSH_CONFIGS, PUSH_OUTBOX, PostError, Postman};
pub use remote::{Follower, REMOTE_TASKS, Remote, STALE, TaskHome};
pub use tasks::{
    ANSWERS, AgentFigures, CallDoubt, CountOutcomes, DURATION_BOUNDS_S, DraftWords, HANDOFF_EXTENSION, HANDOFFS_IN,
    HANDOFFS_OUT, HandoffCall, HandoffError, HandoffGiver, HandoffProgress, HandoffService, HandoffState, HandoffWay,
    HandoverError, HostedAgent, REHEARSAL_MAX, Recheck, Rehearsal, RehearsalError, Resolution, ResolutionError,
    RestartRefusal, Script, SessionState, SessionSummary, Sessions, Standing, StepsError, TASK_SUMMARIES, TASKS,
    TaskRefusal, TaskRuns, TaskService, TaskStoreError, TaskTape, TaskVerdict, Tenure, Tenures, TurnCopy, TurnCourse,
    TurnEnd, TurnOutcome, TurnSteps, TurnTimes, VerdictError, freeze, is_handoff, thaw,
};
