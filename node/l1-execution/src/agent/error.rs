//! Why a turn fails.

use std::time::Duration;

use crate::journal::JournalError;
use crate::ruling::TurnRest;

/// What is told of a failure in place of what an agent says of it.
pub const UNWORDED_FAILURE: &str = "it failed; the node's log says why";
/// The same of an answer that is none.
const UNWORDED_ANSWER: &str = "something else than A2A; the node's log says why";
/// The same of an agent that does not run.
const UNWORDED_STATE: &str = "`ps` on its node says why";
/// The same of a step that is another one than in the journal of its turn; and of that one.
const UNWORDED_STEPS: [&str; 2] = ["one that the node's log names", "another one"];

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The agent is not running now.
    #[error("agent {agent:?} is not running: {why}")]
    Down {
        /// Which.
        agent: String,
        /// What happened to it.
        why: String,
    },
    /// The agent rejected the request.
    #[error("rejected: {0}")]
    Rejected(String),
    /// What the agent needs does not answer now: the same request may succeed in a moment.
    #[error("{0}")]
    Busy(String),
    /// What it may use in a time was used up, or all its models were busy, before it began: by other calls, and not by its fault.
    #[error("rejected: {0}")]
    Exhausted(String),
    /// The agent failed.
    #[error("{0}")]
    Failed(String),
    /// A gate refused its answer, after all repairs; what is said of that may be shown to the caller.
    #[error("{0}")]
    GateRefused(String),
    /// A part of this node that the agent uses failed. The details, with paths and addresses, are only in the log, for the
    /// operator.
    #[error("{0}; the log of its node says why")]
    Internal(&'static str),
    /// The program that the agent is, or its server, ended, broke off or did not answer. The details are only in the log, as above.
    #[error("{0}; the log of its node says why")]
    Breakdown(&'static str),
    /// The agent broke down in the middle of a turn, such as a component that trapped.
    #[error("{0}")]
    Crash(String),
    /// It was stopped: its turn needed more than its contract gives one, of the processor or of memory.
    #[error("{0}")]
    OverBudget(String),
    /// The agent answered with an error of A2A or of JSON-RPC.
    #[error("{message}")]
    Refused {
        /// JSON-RPC code.
        code: i32,
        /// The message of the agent.
        message: String,
        /// The `data` of the error, if it is a list.
        details: Vec<serde_json::Value>,
    },
    /// The agent's program answered with something that is not A2A.
    #[error("the agent's program answered with {0}")]
    NotA2a(String),
    /// The agent's program answered with more than is read; what is said of that.
    #[error("the agent's program answered with too much: {0}")]
    TooLong(&'static str),
    /// The journal of the turn cannot go on.
    #[error(transparent)]
    Journal(JournalError),
    /// Somebody is asked about a call of the turn, which goes on when that is answered.
    #[error("{0}")]
    Parked(TurnRest),
    /// The receiver of the outputs is gone: the turn was cancelled.
    #[error("the turn was cancelled")]
    Cancelled,
}

impl From<JournalError> for AgentError {
    fn from(error: JournalError) -> AgentError {
        match error {
            JournalError::Parked(parking) => AgentError::Parked(parking),
            error => AgentError::Journal(error),
        }
    }
}

impl AgentError {
    /// Whether the turn has not ended: it goes on later, and makes again what it made since it began.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self, AgentError::Parked(_) | AgentError::Journal(JournalError::Preempted))
    }

    /// The same without the agent's own words, which no gate judged; and those, for the log. `own_failures`: whether the agent
    /// itself words its failures. What a program answers that is no A2A, and what a turn calls, is the agent's word in any case. What
    /// is left is worded by the node, or by gates.
    #[must_use]
    pub fn without_words(self, own_failures: bool) -> (AgentError, Option<String>) {
        let told = || UNWORDED_FAILURE.to_owned();
        match self {
            AgentError::Failed(why) | AgentError::Rejected(why) if own_failures => {
                (AgentError::Failed(told()), Some(why))
            }
            AgentError::Crash(why) if own_failures => (AgentError::Crash(told()), Some(why)),
            AgentError::OverBudget(why) if own_failures => (AgentError::OverBudget(told()), Some(why)),
            // Of a component that is not started again, why is what its code said.
            AgentError::Down { agent, why } if own_failures => {
                (AgentError::Down { agent, why: UNWORDED_STATE.to_owned() }, Some(why))
            }
            AgentError::Refused { code, message, .. } => {
                (AgentError::Refused { code, message: told(), details: Vec::new() }, Some(message))
            }
            AgentError::NotA2a(what) => (AgentError::NotA2a(UNWORDED_ANSWER.to_owned()), Some(what)),
            AgentError::Journal(JournalError::Diverged { seq, was, came }) => {
                let words = format!("step {seq} is {came}, and was {was}");
                let [came, was] = UNWORDED_STEPS.map(str::to_owned);
                (AgentError::Journal(JournalError::Diverged { seq, was, came }), Some(words))
            }
            error @ (AgentError::Failed(_)
            | AgentError::Rejected(_)
            | AgentError::Crash(_)
            | AgentError::OverBudget(_)
            | AgentError::Down { .. }
            | AgentError::Busy(_)
            | AgentError::Exhausted(_)
            | AgentError::GateRefused(_)
            | AgentError::TooLong(_)
            | AgentError::Internal(_)
            | AgentError::Breakdown(_)
            | AgentError::Journal(_)
            | AgentError::Parked(_)
            | AgentError::Cancelled) => (error, None),
        }
    }

    /// A turn is refused at once: it would begin after `wait`, and its contract aims at a first output after `aim`.
    pub(crate) fn crowded(wait: Duration, aim: Duration) -> AgentError {
        AgentError::Busy(format!(
            "this node is crowded: it would begin in {} ms, and its contract aims at a first output after {} ms; try \
             again in {} ms",
            wait.as_millis(),
            aim.as_millis(),
            wait.saturating_sub(aim).as_millis().max(1)
        ))
    }

    /// `what` is shown to the caller; `detail` goes to the log.
    #[must_use]
    pub fn internal(what: &'static str, detail: impl std::fmt::Display) -> AgentError {
        tracing::warn!(%detail, "a turn failed: {what}");
        AgentError::Internal(what)
    }

    /// The same of the agent's own program or server.
    #[must_use]
    pub fn breakdown(what: &'static str, detail: impl std::fmt::Display) -> AgentError {
        tracing::warn!(%detail, "a turn failed: {what}");
        AgentError::Breakdown(what)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diverged(was: &str, came: &str) -> AgentError {
        AgentError::Journal(JournalError::Diverged { seq: 3, was: was.to_owned(), came: came.to_owned() })
    }

    #[test]
    fn of_a_failure_no_word_of_its_agent_is_left() {
        let refused = AgentError::Refused { code: -32_000, message: "three".to_owned(), details: vec![json!("three")] };
        for (error, own_failures, is_worded) in [
            (AgentError::Failed("three".to_owned()), true, true),
            (AgentError::Rejected("three".to_owned()), true, true),
            (AgentError::Failed("no model answers".to_owned()), false, false),
            (refused.clone(), true, true),
            (refused, false, true),
            (AgentError::GateRefused("the gate says why".to_owned()), true, false),
            (AgentError::NotA2a("an event with the name \"three\"".to_owned()), true, true),
            (AgentError::NotA2a("an event with the name \"three\"".to_owned()), false, true),
            (AgentError::TooLong("its answer has more than 4 MiB"), true, false),
            (AgentError::Down { agent: "clerk".to_owned(), why: "it failed at three".to_owned() }, true, true),
            (AgentError::Crash("wasm trap at three".to_owned()), true, true),
            (AgentError::OverBudget("memory of three".to_owned()), true, true),
            (diverged("shop/three", "shop/look"), false, true),
            (diverged("shop/look", "shop/three"), true, true),
        ] {
            let (left, words) = error.clone().without_words(own_failures);
            assert_eq!(words.is_some_and(|words| words.contains("three")), is_worded, "{error:?}");
            assert_eq!(left == error, !is_worded, "{error:?}");
            assert!(!format!("{left:?}").contains("three"), "{left:?}");
        }
    }
}
