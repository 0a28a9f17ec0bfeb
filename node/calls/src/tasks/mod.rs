//! The life of tasks on the hosting node.

mod accept;
mod arrivals;
pub(crate) mod live;
mod live_tasks;
pub(crate) mod opening;
pub(crate) mod runner;
pub(crate) mod store;
mod turn;

pub(crate) use accept::Taken;
pub use runner::HostedAgent;
pub(crate) use runner::{TaskRunner, internal};
pub use store::{TASK_SUMMARIES, TASKS, TaskStoreError};
