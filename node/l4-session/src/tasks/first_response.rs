//! The first response to a message: a task, a message and nothing else, or an error. An agent that may answer without a
//! task decides this with its first output.

use std::sync::OnceLock;

use a2a::{Message, Task};
use althing_call::OperationError;
use tokio::sync::oneshot;

use crate::tasks::events::TaskEvents;

/// The first response to a streaming message.
pub(crate) enum FirstResponse {
    /// The task and its further events.
    Task(Task, TaskEvents),
    /// The agent's message; no task follows.
    Reply(Message),
    /// The agent's error.
    Refused(OperationError),
}

/// The result of a turn that leaves no task.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// A message.
    Reply(Message),
    /// The agent's error.
    Refused(OperationError),
}

/// The result of a turn, if it left no task.
#[derive(Default)]
pub(crate) struct Answer {
    /// Set before the turn is over, if it leaves no task or its agent ended it with an error.
    outcome: OnceLock<Outcome>,
}

impl Answer {
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().cloned()
    }

    /// Sets the outcome; only the first call counts.
    pub fn settle(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl From<Outcome> for FirstResponse {
    fn from(outcome: Outcome) -> FirstResponse {
        match outcome {
            Outcome::Reply(message) => FirstResponse::Reply(message),
            Outcome::Refused(error) => FirstResponse::Refused(error),
        }
    }
}

/// Receives a first response.
pub(crate) type FirstResponseReceiver = oneshot::Receiver<FirstResponse>;
