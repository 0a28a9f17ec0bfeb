//! Governance beside what it stands on, in one run: a decision beside Cedar's own, a call through the gate beside one that a
//! contract alone decides, a recorded step beside a write of the same bytes, and a node with policies beside one without.

mod calls;
mod decisions;
mod idle;
mod leaves;
mod office;
mod steps;

use crate::figures::Goals;

/// Prints all figures; false if one misses its goal.
pub async fn run() -> bool {
    println!("governance: {} policies, on the disk of {}", office::POLICIES, std::env::temp_dir().display());
    let mut goals = Goals::default();
    decisions::run(&mut goals);
    calls::run(&mut goals).await;
    steps::run(&mut goals).await;
    leaves::run(&mut goals).await;
    idle::run(&mut goals).await;
    goals.are_met()
}
