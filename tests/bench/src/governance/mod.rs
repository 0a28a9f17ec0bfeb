//! Governance beside what it stands on, in one run: a decision beside Cedar's own, a call through the gate beside one that a
//! contract alone decides, a recorded step beside a write of the same bytes, and a node with policies beside one without.

mod calls;
mod decisions;
mod idle;
mod kernel_loop;
mod leaves;
mod office;
mod steps;

use crate::before::Before;
use crate::figures::Goals;

/// What an idle node may hold more than it did, MiB.
const IDLE_MIB_MAX: f64 = 3.0;

/// Prints all figures; false if one misses its goal, or is not measured.
pub async fn run() -> bool {
    println!("governance: {} policies, on the disk of {}", office::POLICIES, std::env::temp_dir().display());
    let mut goals = Goals::default();
    decisions::run(&mut goals);
    calls::run(&mut goals).await;
    kernel_loop::run().await;
    steps::run(&mut goals).await;
    leaves::run(&mut goals).await;
    idle::run(&mut goals).await;
    let fine = match Before::named("an idle node and control loops, as before") {
        Some(before) => {
            before.idle(&mut goals, IDLE_MIB_MAX).await;
            before.loops(&mut goals).await
        }
        None => false,
    };
    fine & goals.are_met()
}
