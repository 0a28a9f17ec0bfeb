//! What owners do with groups: they bring up applications of agents, workflows and schedules, host agents that stand for groups,
//! and answer what workflows ask. What is decided without a node is pure.

mod apps;
mod machine;
mod serving;

pub use apps::{AppError, AppOrder, AppOutcome, apply, find, names, remove, running};
pub use machine::app::{AppPlan, Difference, PartChange, PlanError};
pub use machine::parts::{APPS, AppInventory, GroupParts, PartKind, WORKFLOWS};
pub use machine::question::{NoQuestion, asking, one_task};
pub use serving::serve;
