//! Two versions of an agent that divide its calls: which of them answers, what comes of that, and what is on disk of it.
//!
//! What decides is `althing_verification::machine::rollout`; here are its rows, its clock, and the agents. A change is on disk
//! before the next call is routed by it, and a file takes the place of another one in the same write as the decision to do so.

mod consent;
mod conversation_room;
mod divided;
mod error;
mod held_models;
mod jobs;
mod loops;
mod models;
mod news_decisions;
mod news_gossip;
mod news_port;
mod news_service;
mod node_rollouts;
mod open_decision;
mod orders;
mod origin;
mod records;
mod report;
mod rows;
mod shadow_runs;
mod shadows;
mod starts;
mod troubles;
mod unwritten;
mod version;

pub use error::RolloutError;
pub(crate) use models::follow_models;
pub(crate) use news_decisions::follow_news;
pub(crate) use news_gossip::gossip;
pub use news_port::ROLLOUTS_PROTOCOL;
pub(crate) use news_service::serve;
pub use node_rollouts::{CaseResult, Rollouts};
pub(crate) use orders::follow;
pub use orders::{RolloutPlan, RolloutUnit, abort, begin, begin_unasked, changes, promote};
pub use report::{RolloutPhase, RolloutReport, ShadowReport, SignalReport, VersionReport, report, shares};
pub use rows::stored_agents;
pub(crate) use rows::{ROLLOUT_CONVERSATIONS, ROLLOUTS};
pub(crate) use shadow_runs::follow_shadows;
pub(crate) use starts::start_others;
pub use troubles::{RolloutFault, RolloutTrouble, troubles};

#[cfg(test)]
mod tests;
