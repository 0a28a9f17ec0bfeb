//! A turn that goes on waits until somebody says what came of each call that is in doubt, but for no longer than a day.

use std::time::Duration;

use a2a::TaskState;
use althing_execution::AgentError;
use althing_execution::journal::JournalError;

use crate::machine::recovery::{self, Failure, Reason};
use crate::machine::session::Doubt;
use crate::machine::task;
use crate::tasks::closing;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::{STOPPING, TaskRunner};
use crate::tasks::turn;

/// Waits until no call of the turn is in doubt; its task says meanwhile which ones are.
///
/// # Errors
/// The turn ends before that.
pub(super) async fn wait(runner: &TaskRunner, live: &LiveTask) -> Result<(), AgentError> {
    let Some(journal) = &live.request.journal else { return Ok(()) };
    let doubts = journal.ledger().doubts;
    if doubts.is_empty() {
        return Ok(());
    }
    let said = closing::status_message(recovery::in_doubt_message(&doubts));
    let tell =
        live.change(|now| Some(task::set_status(&mut now.record.task, TaskState::Working, Some(said), runner.now())));
    closing::push(runner, live, tell.await).await;
    let patience = Duration::from_millis(recovery::patience_ms(&doubts, runner.now_ms()));
    tokio::select! {
        biased;
        () = live.cancel.cancelled() => Err(AgentError::Cancelled),
        () = runner.ending().cancelled() => Err(AgentError::Busy(STOPPING.to_owned())),
        () = journal.resolved() => Ok(()),
        reason = turn::late(live) => Err(AgentError::Failed(reason)),
        () = tokio::time::sleep(patience) => Err(AgentError::Failed(past(&journal.ledger().doubts))),
    }
}

/// Why a task fails whose calls were in doubt for too long.
fn past(doubts: &[Doubt]) -> String {
    let first = doubts.first().map(|doubt| (doubt.seq, doubt.name.clone()));
    let (seq, name) = first.unwrap_or_default();
    let reason = Reason::Journal(JournalError::InDoubt { seq, name });
    Failure { reason, doubts: doubts.to_vec() }.to_string()
}
