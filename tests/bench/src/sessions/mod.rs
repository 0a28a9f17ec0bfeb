//! Sessions beside what they stand on, on one disk and in one run: a step of a turn beside the call and the write that it
//! cannot do without, what a checkpoint takes, turns that go on beside reading their rows, a handoff beside its bytes, two signed calls and a sync; and
//! ten calls that must not be made twice beside Restate.

mod checkpoints;
pub mod desk;
mod handoff;
mod node;
mod program;
mod restate;
pub mod resume;
pub mod step_tool;
mod steps;
mod syncs;

use crate::before::Before;
use crate::figures::Goals;

pub use program::serve as serve_program;
pub use resume::hold;

/// What an idle node may hold more than it did, MiB.
const IDLE_MIB_MAX: f64 = 1.0;

/// Prints all figures; false if one misses its goal, or is not measured.
pub async fn run() -> bool {
    println!("sessions: journalled turns, on the disk of {}", std::env::temp_dir().display());
    let mut goals = Goals::default();
    steps::run(&mut goals).await;
    checkpoints::run().await;
    let mut fine = resume::run(&mut goals).await;
    fine &= handoff::run(&mut goals).await;
    fine &= restate::run(&mut goals).await;
    fine &=
        match Before::named("an idle node, when it is ready, a call that keeps nothing and control loops, as before") {
            Some(before) => {
                before.idle(&mut goals, IDLE_MIB_MAX).await;
                before.calls(&mut goals).await;
                before.loops(&mut goals).await
            }
            None => false,
        };
    fine & goals.are_met()
}
