//! The tasks of a group: who works on what, until when, and in which order.
//!
//! A task is assigned with a fencing token and a lease. The token is higher than each one before it, so that what a member
//! reports counts only while it has the task; a result is therefore recorded once. All is decided from the entries of the
//! log and their times, the same on every member.

mod commands;
mod dependencies;
mod expiry;
mod index;
mod item;
mod items;
mod lifecycle;
mod resources;
mod rows;
mod steps;
mod turns;
mod watch;

pub use commands::Asker;
pub use item::{Ended, Held, REFUSED_MAX, Refusals, State, TASK_LIFE_MS, Why, WorkItem};
pub use items::{
    INPUT_BYTES_MAX, TASKS_CONTENDING_MAX, TASKS_FINISHED_MAX, TASKS_UNFINISHED_MAX, WORK_BYTES_MAX, WorkItems,
};
pub use lifecycle::Work;
pub use resources::{CONFLICTS_MAX, Conflict, RESOURCES_MAX, Resource, Resources};
pub use rows::WorkRow;
pub use steps::{SIGNATURE_STEPS, Steps};
pub use watch::Finished;

#[cfg(test)]
mod tests;
