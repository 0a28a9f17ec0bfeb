//! The workflows of a group: runs whose steps the state turns into tasks by itself, and schedules.
//!
//! A run is a part of the replicated state: whichever member leads, or starts again, knows which steps completed. When the
//! task of a step ends, the entry that ends it also submits the tasks of the steps that come next, with ids that follow from
//! the run, the step, the item and the round. So no step whose completion was committed is executed again, and none is
//! submitted twice.

mod engine;
mod flows;
mod render;
mod rows;
mod run;
mod runs;
mod schedules;
mod verified;

pub use flows::Flows;
pub use rows::FlowRow;
pub(super) use rows::Reading;
pub use run::{Item, ItemState, RUN_RESULTS_MAX, RUNS_BYTES_MAX, Run, RunState, StepNow, StepState};
pub use runs::{RUNS_FINISHED_MAX, RUNS_UNFINISHED_MAX, Runs};
pub use schedules::{ALARM_FAILURES, Omissions, SCHEDULES_MAX, Scheduled, Schedules};

#[cfg(test)]
mod tests;
