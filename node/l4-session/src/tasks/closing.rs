//! How a turn is closed: what is left of its task is written, then told.

use std::time::Duration;

use a2a::{Message, Part, Role, StreamResponse, TaskState};
use althing_call::{OperationError, Trace};
use althing_protocol::{Digest, Label};
use althing_store::Batch;

use crate::machine::answers::{self, AnswerRow};
use crate::machine::listing::NotedFailure;
use crate::machine::record::Record;
use crate::machine::recovery;
use crate::machine::run::{RunContext, RunRecord};
use crate::machine::session::Doubt;
use crate::machine::task;
use crate::push::Notes;
use crate::tasks::expiry;
use crate::tasks::first_response::Outcome;
use crate::tasks::live::{Ending, LiveTask};
use crate::tasks::persistence::PersistenceState;
use crate::tasks::recording;
use crate::tasks::runner::{TaskRunner, internal};
use crate::tasks::store::{self, Encoded, TaskStoreError};
use crate::tasks::verdicts;

/// Fails a task whose turn does not go on.
pub(super) async fn fail(runner: &TaskRunner, live: &LiveTask, reason: String) {
    finish(runner, live, Some(TaskState::Failed), Some(reason)).await;
}

/// Tells those who asked for push notifications.
pub(super) async fn push(runner: &TaskRunner, live: &LiveTask, event: Option<StreamResponse>) {
    if let Some(event) = event {
        runner.store().push().note(&live.id, Some(&event), runner.now_ms()).await;
    }
}

/// Writes the task's idle state to disk, then sends the event.
pub(super) async fn finish(runner: &TaskRunner, live: &LiveTask, state: Option<TaskState>, reason: Option<String>) {
    let (mut record, ending) = {
        let mut now = live.lock();
        (now.labelled(), now.ending.take())
    };
    let doubts = doubts(live);
    if state.is_none() {
        note_doubts(live, &doubts);
    }
    let (state, message, metadata) = match (state, ending) {
        (Some(state), _) => (state, recovery::with_doubts(reason, &doubts).map(status_message), None),
        (None, Some(Ending::Reply(mut message))) if !live.is_left() && live.withdraw_task_id() => {
            // The agent's own task and context ids have no meaning here.
            message.task_id = None;
            message.context_id = message.context_id.map(|_| record.task.context_id);
            finish_without_task(runner, live, Outcome::Reply(message)).await;
            return;
        }
        (None, Some(Ending::Reply(message))) => (TaskState::Completed, Some(message), None),
        (None, Some(Ending::Status(state, message, metadata))) => (state, message, metadata),
        (None, None) => (TaskState::Completed, None, None),
    };
    let merged = task::merge(&mut record.task.metadata, metadata.clone());
    let (state, message) = match merged {
        Ok(()) => (state, message),
        Err(error) => (TaskState::Failed, Some(status_message(error.to_string()))),
    };
    let event = task::with_metadata(task::set_status(&mut record.task, state, message, runner.now()), metadata);
    add_run(runner, live, &mut record);
    let mut notes = runner.store().push().plan(&live.id, Some(&event), runner.now_ms());
    if let Some(journal) = &live.request.journal {
        journal.end(&mut notes.rows).await;
    }
    runner.store().handoffs().close(&live.id, &mut notes.rows);
    verdicts::end(runner, live, &mut notes.rows);
    record.begin = None;
    let mut kept = live.persistence.lock().await;
    if let Err(error) = write_recorded(runner, live, &record, notes).await {
        // It is not on disk, so it must not be acknowledged.
        tracing::error!(task = record.task.id, %error, "a task's final state could not be written");
        match *kept {
            PersistenceState::NotYet => {
                *kept = PersistenceState::Never;
                refuse_unwritten(live, runner, error).await;
            }
            PersistenceState::Yes | PersistenceState::Never => fail_unwritten(live, runner).await,
        }
        return;
    }
    *kept = PersistenceState::Yes;
    drop(kept);
    runner.store().handoffs().forget(&live.id);
    if live.request.journal.as_ref().is_some_and(|journal| journal.is_restartable()) {
        expiry::expire_later(runner);
    }
    let over = record.task.status.state.clone();
    live.change(|now| {
        now.record = record;
        now.close(live.answer.outcome());
        Some(event)
    })
    .await;
    end_kept(runner, live, over);
}

/// The calls of a turn that must not be made twice, were let go, and have no result.
fn doubts(live: &LiveTask) -> Vec<Doubt> {
    live.request.journal.as_ref().map(|journal| journal.final_calls().all()).unwrap_or_default()
}

/// Says which calls an agent did not wait for that ended its turn by itself: the answer is the agent's own, and says nothing of them.
fn note_doubts(live: &LiveTask, doubts: &[Doubt]) {
    for Doubt { seq, name, .. } in doubts {
        tracing::warn!(
            agent = live.agent.name(),
            task = live.id,
            step = seq,
            call = name.as_str(),
            "an agent ended its turn before a call was over that must not be made twice: whether it takes place is not known"
        );
    }
}

/// Writes a task as its turn left it, with what is recorded of the turn.
async fn write_recorded(
    runner: &TaskRunner,
    live: &LiveTask,
    record: &Record,
    mut notes: Notes,
) -> Result<(), TaskStoreError> {
    let encoded = Encoded::of(record)?;
    notes.rows.append(recording::of_task(runner, live, (&record.task.status.state, record.label, encoded.bytes())));
    runner.store().write_telling(encoded, notes).await
}

/// Adds what is kept of the turn that ends to its task, if it began.
fn add_run(runner: &TaskRunner, live: &LiveTask, record: &mut Record) {
    let node = runner.signer().node().did();
    let trace = Trace::of(&tracing::Span::current()).traceparent;
    let context = RunContext {
        message: &live.request.message_id,
        agent: (live.agent.name(), &*live.agent.version),
        node: &node,
        ended_ms: runner.now_ms(),
        traceparent: trace.as_deref(),
        resumed: live.request.elapsed > Duration::ZERO,
    };
    if let Some(run) = RunRecord::of(&context, live.request.run.facts(), &record.task) {
        record.runs.add(run);
    }
}

pub(super) async fn write(runner: &TaskRunner, record: &Record, notes: Notes) -> Result<(), TaskStoreError> {
    runner.store().write_telling(Encoded::of(record)?, notes).await
}

/// Why a turn ended, as the task's status message; a reason that is too long is cut.
pub(super) fn status_message(mut reason: String) -> Message {
    reason.truncate(reason.floor_char_boundary(task::REASON_BYTES_MAX));
    Message::new(Role::Agent, vec![Part::text(reason)])
}

/// The agent refused the message with an error of its own. True if no task remains; false if the agent had made a task
/// before, which remains as failed.
pub(super) async fn refuse(runner: &TaskRunner, live: &LiveTask, error: &OperationError) -> bool {
    if live.lock().begun || live.cancel.is_cancelled() || !live.withdraw_task_id() {
        live.answer.settle(Outcome::Refused(error.clone()));
        return false;
    }
    finish_without_task(runner, live, Outcome::Refused(error.clone())).await;
    true
}

/// Ends the turn without a task: a new task is deleted, a continued one is restored. This is on disk before the answer is
/// sent, so that a power cut cannot bring the task back after it.
async fn finish_without_task(runner: &TaskRunner, live: &LiveTask, outcome: Outcome) {
    let mut record = live.record();
    record.begin = None;
    let mut notes = Notes::default();
    // The rows of its journal go with it.
    if let Some(journal) = &live.request.journal {
        journal.close(&mut notes.rows).await;
    }
    let answered = answered(live, &record, &outcome, runner.now_ms()).into_iter();
    let answers = runner.store().answers();
    let mut on_disk = live.persistence.lock().await;
    let mut changed = Vec::new();
    let kept = match live.request.before.clone() {
        None if *on_disk == PersistenceState::NotYet => {
            answers.write(answered.collect(), runner.now_ms()).await;
            Ok(())
        }
        None => {
            notes.rows.append(recording::without_task(runner, live, &outcome, record.label));
            changed = answers.put(answered, runner.now_ms(), &mut notes.rows);
            runner.store().forget(&live.id, notes.rows).await
        }
        Some(before) => {
            notes.rows.append(recording::without_task(runner, live, &outcome, record.label));
            changed = answers.put(answered, runner.now_ms(), &mut notes.rows);
            task::undo_continue(&mut record.task, before);
            write(runner, &record, notes).await
        }
    };
    *on_disk = PersistenceState::Never;
    drop(on_disk);
    let mut event = match &outcome {
        Outcome::Reply(message) => Some(StreamResponse::Message(message.clone())),
        Outcome::Refused(_) => None,
    };
    if let Err(error) = kept {
        answers.recount(&changed);
        tracing::error!(task = live.id, %error, "a task without a result could not be deleted or restored");
        // The answer is sent; the task that stays on disk is set to failed.
        let now_ms = runner.now().timestamp_millis();
        let (failure, doubts) = note_unwritten(runner, live, now_ms).await;
        event = Some(store::fail(&mut record.task, (failure, doubts.as_deref()), now_ms));
    }
    let state = record.task.status.state.clone();
    live.answer.settle(outcome.clone());
    live.change(|now| {
        now.record = record;
        now.close(Some(outcome));
        event
    })
    .await;
    end_turn(runner, live, if task::is_idle(&state) { state } else { TaskState::Completed });
}

/// What is remembered of the turn's message, if its id is a key and a message answers it.
fn answered(live: &LiveTask, record: &Record, outcome: &Outcome, now_ms: u64) -> Option<(Digest, AnswerRow)> {
    let Outcome::Reply(answer) = outcome else { return None };
    let id = &live.request.message_id;
    let message = record.task.history.iter().flatten().rfind(|message| message.message_id == *id);
    let message = message.filter(|_| answers::is_key(id))?;
    let label = Label::of_both(record.label, live.said().label());
    let name = answers::name_of(&record.agent, &String::from(record.scope), id);
    let row = AnswerRow::of(message, answer, label, now_ms);
    Some((name, row.paid_by(answers::payer_of_task(record.crowd.as_deref(), record.scope))))
}

/// Ends the turn: wakes whoever waits; the task is read from disk from now on. Listeners are dropped, except for
/// subscriptions to a task that is not terminal.
pub(super) fn end_turn(runner: &TaskRunner, live: &LiveTask, state: TaskState) {
    let id = live.record().task.id;
    let over = state.is_terminal();
    // Under one lock: a message that continues the task must not find this turn, nor be dropped with it.
    runner.live().finish(&id, || {
        let mut now = live.lock();
        now.running = false;
        let mut listeners = std::mem::take(&mut now.listeners);
        listeners.retain(|listener| listener.is_subscription && !over);
        listeners
    });
    live.state.send_replace(state);
}

/// Ends the turn of a task that is kept, and says so.
pub(super) fn end_kept(runner: &TaskRunner, live: &LiveTask, state: TaskState) {
    end_turn(runner, live, state.clone());
    runner.live().tell_end(live, state);
}

/// The turn panicked: its task fails.
pub(crate) async fn fail_panicked(runner: &TaskRunner, live: &LiveTask, reason: &str) {
    tracing::error!(task = live.record().task.id, reason, "a turn panicked");
    finish(runner, live, Some(TaskState::Failed), Some("the agent broke down".to_owned())).await;
}

/// A task of which nobody was told could not be written: the message is refused, as if it had not come.
async fn refuse_unwritten(live: &LiveTask, runner: &TaskRunner, error: TaskStoreError) {
    let refused = Outcome::Refused(internal(error));
    live.answer.settle(refused.clone());
    live.lock().close(Some(refused));
    end_turn(runner, live, TaskState::Failed);
}

/// The final state of a task could not be written: listeners are told that it failed, and which of its calls are in doubt. The reason
/// is only in the log.
pub(super) async fn fail_unwritten(live: &LiveTask, runner: &TaskRunner) {
    let now_ms = runner.now().timestamp_millis();
    let (failure, doubts) = note_unwritten(runner, live, now_ms).await;
    let event = live.change(|now| {
        now.record.task.artifacts = None;
        let event = store::fail(&mut now.record.task, (failure, doubts.as_deref()), now_ms);
        now.close(live.answer.outcome());
        Some(event)
    });
    push(runner, live, event.await).await;
    end_kept(runner, live, TaskState::Failed);
}

/// Notes that a task failed whose end could not be written, in few bytes: there may be room for these. The rows of a turn with calls
/// in doubt stay with that. Gives what the task says of its end, and of these calls.
async fn note_unwritten(runner: &TaskRunner, live: &LiveTask, now_ms: i64) -> (NotedFailure, Option<String>) {
    let Some(journal) = live.request.journal.as_ref().filter(|journal| journal.ledger().rows > 0) else {
        let failure = NotedFailure::ResultNotKept;
        runner.store().note_failures(std::slice::from_ref(&live.id), failure, now_ms).await;
        return (failure, None);
    };
    let (failure, mut rows) = (NotedFailure::CallsNotKept, Batch::new());
    let mut doubts = recovery::with_doubts(None, &doubts(live));
    let mut end = None;
    if let Some(doubts) = &mut doubts {
        doubts.truncate(doubts.floor_char_boundary(task::REASON_BYTES_MAX));
        let named = doubts.as_str();
        tracing::error!(
            agent = live.agent.name(),
            task = live.id,
            named,
            "the end of a turn with calls in doubt is not written"
        );
        end = journal.put_stay(&mut rows).await;
    }
    let is_noted = runner.store().note_unwritten(&live.id, (failure, doubts.clone()), rows, now_ms).await;
    let (journals, turn) = (runner.store().journals(), journal.turn().prefix());
    match end {
        // What the disk says of the task is that its turn goes on when the node starts again, with these rows.
        _ if !is_noted => journals.release(&turn),
        Some(end) => {
            journals.stay(turn, live.id.clone(), end).await;
            expiry::expire_later(runner);
        }
        None => {}
    }
    (failure, doubts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let long = status_message("ü".repeat(task::REASON_BYTES_MAX));
        let text = long.text().expect("a text");
        assert_eq!((text.len(), text.chars().all(|letter| letter == 'ü')), (task::REASON_BYTES_MAX, true));
        assert_eq!(
            status_message("odd".to_owned() + &"ü".repeat(task::REASON_BYTES_MAX)).text().map(str::len),
            Some(4_095)
        );
        assert_eq!(status_message("short".to_owned()).text(), Some("short"));
    }
}
