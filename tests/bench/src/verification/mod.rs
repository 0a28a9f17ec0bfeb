//! Verification beside what it stands on, in one run: a schema gate beside a bare validator, turns without gates and calls under a
//! rollout beside those that know nothing of either, and turns that are kept beside those that are not.

mod rollout;
mod schema;
mod tapes;
mod turns;

use crate::figures::Goals;

/// Prints all figures; false if one misses its goal, or is not measured.
pub async fn run() -> bool {
    println!("verification: gates, tapes and rollouts, on the disk of {}", std::env::temp_dir().display());
    let mut goals = Goals::default();
    schema::run(&mut goals);
    turns::run(&mut goals).await;
    tapes::run(&mut goals).await;
    let fine = rollout::run(&mut goals).await;
    fine & goals.are_met()
}
