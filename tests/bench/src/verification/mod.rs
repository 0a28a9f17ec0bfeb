//! Verification beside what it stands on, in one run: a schema gate beside a bare validator, turns without gates and calls under a
//! rollout beside those that know nothing of either, turns that are kept beside those that are not, and limits of signals beside the
//! job of a control loop.

mod rollout;
mod schema;
mod signals;
mod tapes;
mod turns;

use crate::before::Before;
use crate::figures::Goals;

/// Prints all figures; false if one misses its goal, or is not measured.
pub async fn run() -> bool {
    println!("verification: gates, tapes and rollouts, on the disk of {}", std::env::temp_dir().display());
    let mut goals = Goals::default();
    schema::run(&mut goals);
    turns::run(&mut goals).await;
    tapes::run(&mut goals).await;
    let mut fine = rollout::run(&mut goals).await;
    fine &= signals::run(&mut goals).await;
    fine &= match Before::named("the first piece of a stream and control loops, as before") {
        Some(before) => {
            before.calls(&mut goals).await;
            before.loops(&mut goals).await
        }
        None => false,
    };
    fine & goals.are_met()
}
