//! Begins the turn of a task whose work is given away, where none runs: it was idle, or its node started again.

use std::time::Duration;

use althing_call::OperationError;
use althing_protocol::AgentRef;
use althing_store::Batch;
use tokio::time::sleep;

use super::relays::Relay;
use super::rows::{HANDOFFS_OUT, OutRow};
use crate::machine::handoff::Sender;
use crate::machine::listing::NotedFailure;
use crate::machine::record::Record;
use crate::machine::size::stored_bytes;
use crate::tasks::live::TurnRequest;
use crate::tasks::runner::TaskRunner;
use crate::tasks::start;

/// Between two attempts to follow work, where there is no room for its task.
const ROOM_RETRY: Duration = Duration::from_secs(1);

/// Begins a turn of a task that has none, which follows its work.
pub(super) fn follow(runner: &TaskRunner, agent: AgentRef, record: Record, relay: Relay) -> Result<(), OperationError> {
    let asked = TurnRequest { before: Some(record.task.status.clone()), ..TurnRequest::default() };
    let claim = runner.claim(&agent, &record, None);
    let live = runner.live().begin(&agent, &record, claim, stored_bytes(&record), asked)?;
    // Whoever sent the message may ask for it by its task.
    live.keep_alive();
    live.disclose();
    live.relays.hand(relay);
    start::start(runner, &live);
    Ok(())
}

/// Follows all work that was given away before the node started. Outside a runtime of tokio nothing happens.
pub(super) fn resume(runner: &TaskRunner) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    for id in runner.store().handoffs().all_given() {
        runtime.spawn(Box::pin(resume_task(runner.clone(), id)));
    }
}

async fn resume_task(runner: TaskRunner, id: String) {
    while !runner.ending().is_cancelled() {
        let lock = runner.live().write_lock(&id).await;
        let (record, row) = match read(&runner, &id) {
            Ok(Some(found)) => found,
            Ok(None) => return runner.store().handoffs().drop_row(&id, Batch::new()).await,
            Err(why) => {
                tracing::error!(task = id, why, "a task that was handed over cannot be followed");
                let now_ms = runner.now().timestamp_millis();
                runner.store().note_failures(std::slice::from_ref(&id), NotedFailure::Unreadable, now_ms).await;
                runner.store().push().note(&id, None, runner.now_ms()).await;
                return runner.store().handoffs().drop_row(&id, Batch::new()).await;
            }
        };
        let version = record.version.clone().unwrap_or_default();
        let agent = AgentRef { id: row.signed.body.sender.agent.clone(), version: version.into() };
        let (label, sender) = (record.label, Sender::at(&row.signed, row.stage.clone()));
        match follow(&runner, agent, record, Relay { row, sender, kept: false, label, started: None }) {
            Ok(()) => return tracing::info!(task = id, "the work of a task is followed to whom it was handed over"),
            Err(error) => tracing::debug!(task = id, %error, "there is no room yet for a task that was handed over"),
        }
        drop(lock);
        sleep(ROOM_RETRY).await;
    }
}

/// A task whose work is given away, with what is kept of that; none if it is over.
fn read(runner: &TaskRunner, id: &str) -> Result<Option<(Record, OutRow)>, String> {
    let record = runner.store().read(id).map_err(|error| error.to_string())?;
    let open = |record: &Record| !record.task.status.state.is_terminal() && record.departed.is_none();
    let Some(record) = record.filter(open) else { return Ok(None) };
    let row = runner.store().handoffs().store.read(HANDOFFS_OUT, id.as_bytes()).map_err(|error| error.to_string())?;
    let Some(row) = row else { return Ok(None) };
    let row = OutRow::read(&row, &runner.signer().network).map_err(|error| error.to_string())?;
    Ok(Some((record, row)))
}
