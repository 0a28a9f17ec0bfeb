//! The lifecycle of tasks on the hosting node.

mod accept;
mod figures;
pub(crate) mod first_response;
mod in_flight;
mod keeping;
pub(crate) mod live;
mod live_tasks;
mod reads;
pub(crate) mod runner;
pub(crate) mod store;
mod turn;

pub(crate) use accept::Accepted;
pub use figures::{AgentFigures, DURATION_BOUNDS_S};
pub use runner::HostedAgent;
pub(crate) use runner::{TaskRunner, internal, unkept};
pub use store::{TASK_SUMMARIES, TASKS, TaskStoreError};
