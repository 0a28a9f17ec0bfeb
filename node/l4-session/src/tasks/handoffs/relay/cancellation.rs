//! The task of work that is given away is cancelled, and so is the one that the work became, as far as that can be known.

use std::time::Duration;

use a2a::Task;
use althing_call::{Operation, OperationError, Refusal, Reply};
use althing_execution::AgentError;
use tokio::time::{Instant, sleep};

use super::{RelayRun, Stop};
use crate::machine::handoff::{COMMIT_WITHIN_MS, RETRY_FIRST_MS, RETRY_MAX_MS};

impl RelayRun<'_> {
    /// The task is cancelled while nobody knows whether the work has begun: an answer to a commit may be lost, and a commit may be on
    /// its way. That the recipient has no such task yet says nothing until it would not heed one any more.
    pub(super) async fn call_off(&self, task: &str) -> Stop {
        let last = Instant::now() + Duration::from_millis(COMMIT_WITHIN_MS);
        let mut wait_ms = RETRY_FIRST_MS;
        loop {
            let is_late = Instant::now() > last;
            match self.ask_of(Operation::CancelTask, task).await {
                Err(error) if error.refusal == Refusal::TaskNotFound && !is_late => {}
                Err(error) if error.refusal == Refusal::TaskNotFound => return AgentError::Cancelled.into(),
                answered => return self.told(task, answered).await,
            }
            tokio::select! {
                biased;
                () = self.runner.ending().cancelled() => return Stop::Node,
                () = sleep(Duration::from_millis(wait_ms)) => {}
            }
            wait_ms = (2 * wait_ms).min(RETRY_MAX_MS);
        }
    }

    /// The task is cancelled while the recipient works on it.
    pub(super) async fn cancelled(&self, task: &str) -> Stop {
        match self.ask_of(Operation::CancelTask, task).await {
            Err(error) if error.refusal == Refusal::TaskNotFound => AgentError::Cancelled.into(),
            answered => self.told(task, answered).await,
        }
    }

    /// What the recipient says of a cancellation, other than that it has no such task.
    async fn told(&self, task: &str, answered: Result<Reply, OperationError>) -> Stop {
        let Err(error) = answered else { return AgentError::Cancelled.into() };
        // It may have ended meanwhile.
        let ended = self.task(task).await.ok().filter(|found: &Task| found.status.state.is_terminal());
        if let Some(found) = ended {
            return self.result(found).await.err().unwrap_or(Stop::Over);
        }
        let recipient = &self.row.signed.body.recipient;
        let why = format!(
            "task {task} of {recipient} could not be cancelled, and may go on: {}; ask {recipient} for it before the work is given \
             to anybody again",
            error.message
        );
        AgentError::Failed(why).into()
    }
}
