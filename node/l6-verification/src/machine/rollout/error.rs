//! Why a rollout is refused.

use super::plan::PlanError;

/// Why an order about a rollout is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// One is under way.
    #[error("a rollout of this agent is under way: promote or abort it first")]
    UnderWay,
    /// None is under way.
    #[error("no rollout of this agent is under way")]
    NotUnderWay,
    /// It would replace itself.
    #[error("this is the stable version already: name a file or a release that differs from it")]
    Same,
    /// It was tried.
    #[error("this version went back before: {reason}. Change it, then try again")]
    WentBack {
        /// In words.
        reason: String,
    },
    /// As many earlier versions as may be kept still have conversations.
    #[error(
        "as many earlier versions as may be kept at once still answer for the conversations that began with them: begin it in \
         {minutes} minutes, when the first of these is over, or end them all: remove the agent, and add the new version in its place"
    )]
    Draining {
        /// Until the first of them is over.
        minutes: u64,
    },
    /// The plan cannot be followed.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
