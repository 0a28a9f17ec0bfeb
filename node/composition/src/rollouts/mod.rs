//! Two versions of an agent that divide its calls: which of them answers, what comes of that, and what is on disk of it.
//!
//! What decides is `althing_verification::machine::rollout`; here are its rows, its clock, and the agents. A change is on disk
//! before the next call is routed by it, and a file takes the place of another one in the same write as the decision to do so.

mod divided;
mod error;
mod node_rollouts;
mod orders;
mod report;
mod rows;
mod shadow_runs;
mod shadows;
mod version;

pub use error::RolloutError;
pub use node_rollouts::{CaseResult, Rollouts};
pub use orders::{RolloutPlan, RolloutUnit, abort, begin, changes, promote};
pub(crate) use orders::{follow, start_others};
pub use report::{RolloutPhase, RolloutReport, ShadowReport, SignalReport, VersionReport, report, shares};
pub use rows::stored_agents;
pub(crate) use rows::{ROLLOUT_CONVERSATIONS, ROLLOUTS};
pub(crate) use shadow_runs::follow_shadows;

#[cfg(test)]
mod tests;
