//! How an answer begins, which an agent that may answer without a task decides with what it makes first: with a task,
//! with a message and nothing else, or with a refusal.

use std::sync::OnceLock;

use a2a::{Message, StreamResponse, Task};
use tokio::sync::{mpsc, oneshot};

use crate::error::OperationError;

/// What whoever streams the answer to a message is given first.
pub(crate) enum Opening {
    /// The task, and what happens to it from then on.
    Task(Task, mpsc::Receiver<StreamResponse>),
    /// The agent's message, which is all.
    Reply(Message),
    /// The agent's error.
    Refused(OperationError),
}

/// How a turn ended that leaves no task behind.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// With a message.
    Reply(Message),
    /// With the agent's error.
    Refused(OperationError),
}

/// What is known of a turn's answer.
#[derive(Default)]
pub(crate) struct Answer {
    /// Set before the turn is over, where it leaves no task behind, or where its agent ended it with an error.
    outcome: OnceLock<Outcome>,
}

impl Answer {
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().cloned()
    }

    /// The first one holds.
    pub fn settle(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl From<Outcome> for Opening {
    fn from(outcome: Outcome) -> Opening {
        match outcome {
            Outcome::Reply(message) => Opening::Reply(message),
            Outcome::Refused(error) => Opening::Refused(error),
        }
    }
}

/// Where an opening is awaited.
pub(crate) type Opened = oneshot::Receiver<Opening>;
