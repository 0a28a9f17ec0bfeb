//! The lifecycle of tasks on the hosting node. [`TaskService`] is what others do with them.

mod accept;
mod answers;
mod begin;
mod cancelling;
mod closing;
mod departures;
mod doubt;
mod figures;
mod first_response;
mod handoffs;
mod handover;
mod in_flight;
mod listing;
mod live;
mod live_tasks;
mod notes;
mod outcome;
mod parking;
mod persistence;
mod push_configs;
mod reads;
mod recording;
mod refusals;
mod rehearsal;
mod replies;
mod restart;
mod resume;
mod runner;
mod runs;
mod sending;
mod service;
mod sessions;
mod standing;
mod start;
mod steps;
mod store;
mod subscribing;
mod tenure;
mod turn;
mod verdicts;

pub use answers::ANSWERS;
pub use figures::{AgentFigures, DURATION_BOUNDS_S};
pub use handoffs::{
    DraftWords, HANDOFF_EXTENSION, HANDOFFS_IN, HANDOFFS_OUT, HandoffCall, HandoffError, HandoffProgress,
    HandoffService, HandoffState, HandoffWay, is_handoff,
};
pub use handover::{HandoverError, freeze, thaw};
pub use live_tasks::TurnEnd;
pub use outcome::{CountOutcomes, TurnCourse, TurnOutcome};
pub use refusals::TaskRefusal;
pub use rehearsal::{REHEARSAL_MAX, Rehearsal, RehearsalError, Script, TaskTape, TurnTimes};
pub use restart::RestartRefusal;
pub use runner::HostedAgent;
pub use runs::TaskRuns;
pub use service::TaskService;
pub use sessions::{CallDoubt, Resolution, ResolutionError, SessionState, SessionSummary, Sessions};
pub use standing::{Recheck, Standing};
pub use steps::{StepsError, TurnSteps};
pub use store::{TASK_SUMMARIES, TASKS, TaskStoreError};
pub use tenure::{Tenure, Tenures};
pub use verdicts::{TaskVerdict, VerdictError};
