//! One turn of a task: the agent's outputs are applied to the task, written and sent to listeners, in one order.

use std::pin::Pin;
use std::sync::Arc;

use a2a::{Message, Role, TaskState};
use althing_call::{Consent, OperationError, Trace, chain, traced};
use althing_execution::agent::{Made, Parameters};
use althing_execution::journal::{Journal, TurnRights};
use althing_execution::notes::SessionNotes;
use althing_execution::tools::RESULT_TOO_LONG;
use althing_execution::verdicts::TurnVerdicts;
use althing_execution::{AgentError, Output, Turn};
use tokio::time::Instant;

use crate::machine::record::{Record, WORKING_BYTES_MAX};
use crate::machine::recovery;
use crate::machine::task;
use crate::tasks::closing::{end_turn, finish, push, refuse};
use crate::tasks::events;
use crate::tasks::first_response::Outcome;
use crate::tasks::handoffs::Relay;
use crate::tasks::live::{Ending, LiveState, LiveTask, TurnRequest};
use crate::tasks::notes;
use crate::tasks::parking;
use crate::tasks::persistence::PERSISTED_AFTER;
use crate::tasks::preemption;
use crate::tasks::runner::{STOPPING, TaskRunner};
use crate::tasks::store::TaskStoreError;

/// What stops a turn.
enum Stop {
    /// It ended so.
    End(Result<(), AgentError>),
    /// Its work is given away, and followed by that.
    Relay(Box<Relay>),
}

/// Runs one turn to its end; the task is then idle and on disk. If its work is given away, its agent has stopped, and the task
/// follows what this gives. A turn that makes room for others begins again when they had theirs.
pub(super) async fn run(runner: &TaskRunner, live: &LiveTask) -> Option<Relay> {
    if let Some(relay) = live.relays.take() {
        return Some(relay);
    }
    let event = live.change(|now| {
        let event = task::set_status(&mut now.record.task, TaskState::Working, None, runner.now());
        // An agent that creates tasks itself sends that event itself.
        now.begun.then_some(event)
    });
    push(runner, live, event.await).await;
    // Asked now: before the turn is over the agent may be gone.
    let shows_early = runner.host().shows_early(&live.agent);
    let (stop, begun) = (stopped(runner, live), Instant::now());
    tokio::pin!(stop);
    loop {
        let mut ended = attempt(runner, live, stop.as_mut(), begun).await;
        if matches!(&ended, Stop::End(Err(error)) if preemption::makes_room(live, error)) {
            // Rarely needed, and large.
            match Box::pin(make_room(runner, live, stop.as_mut())).await {
                Some(stopped) => ended = stopped,
                None => continue,
            }
        }
        if shows_early && is_unjudged(live, &ended) {
            // Rarely needed, and large.
            Box::pin(take_back(runner, live)).await;
        }
        match ended {
            // What the agent of work that is given away said last is not heard: the work is not its own any more.
            Stop::Relay(relay) => return Some(*relay),
            Stop::End(ended) => end(runner, live, ended).await,
        }
        return None;
    }
}

/// Whether a turn stops before its answer is judged, and its task goes on.
fn is_unjudged(live: &LiveTask, ended: &Stop) -> bool {
    match ended {
        Stop::Relay(_) => true,
        Stop::End(ended) => live.interruption().is_some() && matches!(ended, Err(AgentError::Cancelled)),
    }
}

/// Takes back what was seen of an answer before anybody judged it, and what stood before in the place of that: else the task could
/// be completed with it.
async fn take_back(runner: &TaskRunner, live: &LiveTask) {
    let events = live.lock().take_back();
    for event in events {
        push(runner, live, live.change(|_| Some(event)).await).await;
    }
}

/// Ends when the turn is to end, wherever its agent is.
async fn stopped(runner: &TaskRunner, live: &LiveTask) -> Stop {
    tokio::select! {
        biased;
        () = live.cancel.cancelled() => Stop::End(Err(AgentError::Cancelled)),
        () = runner.ending().cancelled() => Stop::End(Err(AgentError::Busy(STOPPING.to_owned()))),
        reason = late(live) => Stop::End(Err(AgentError::Failed(reason))),
        relay = live.relays.given() => Stop::Relay(Box::new(relay)),
    }
}

/// Waits for those for whom the turn makes room, and puts it back to its beginning; gives what stops it meanwhile.
async fn make_room(runner: &TaskRunner, live: &LiveTask, stop: Pin<&mut impl Future<Output = Stop>>) -> Option<Stop> {
    tokio::select! {
        biased;
        stopped = stop => return Some(stopped),
        () = preemption::rest(live) => {}
    }
    preemption::rewind(runner, live).await.err().map(|error| Stop::End(Err(error)))
}

/// Runs the agent of a turn from the turn's beginning, until it ends or is stopped. It has stopped then.
async fn attempt(
    runner: &TaskRunner,
    live: &LiveTask,
    mut stop: Pin<&mut impl Future<Output = Stop>>,
    begun: Instant,
) -> Stop {
    let record = live.record();
    let id = record.task.id.clone();
    // A task that waits to be written is that of an agent without system calls.
    let notes = (!live.request.waits).then(|| notes::of(runner, &live.agent, &record));
    let turn = turn_of(record, &live.request, notes, Some(live.verdicts()));
    let (output, mut outputs) = Output::channel();
    // Boxed: a task is moved several times until it runs.
    let mut working = Box::pin(runner.host().turn(&live.agent, turn, output));
    let long = tokio::time::sleep(PERSISTED_AFTER);
    tokio::pin!(long);
    let (mut outcome, mut waits) = (None, live.request.waits);
    let ended = loop {
        tokio::select! {
            biased;
            stopped = stop.as_mut() => break stopped,
            made = outputs.recv() => match made {
                Some(made) => {
                    live.course.emitted(begun.elapsed());
                    if let Err(error) = apply(runner, live, made).await { break Stop::End(Err(error)) }
                }
                // All outputs were applied; how the turn ended comes from `working`.
                None => match outcome.take() {
                    Some(outcome) => break Stop::End(outcome),
                    None => break Stop::End(working.as_mut().await),
                },
            },
            ended = &mut working, if outcome.is_none() => outcome = Some(ended),
            () = &mut long, if waits => {
                waits = false;
                // Not beside the turn: an output may need the same write.
                if let Err(error) = runner.keep_shown(live).await {
                    tracing::warn!(task = id, %error, "a task that goes on cannot be written yet");
                }
            }
        }
    };
    // Before what it waits for is dropped: others work for it while this node is away.
    if let (Stop::End(ended), Some(journal)) = (&ended, &live.request.journal)
        && goes_on(runner, live, ended)
    {
        journal.pause();
    }
    ended
}

/// Ends a turn; its task is then idle and on disk, but where the turn goes on when its node is up again.
pub(super) async fn end(runner: &TaskRunner, live: &LiveTask, ended: Result<(), AgentError>) {
    if let Err(error) = &ended {
        live.course.failed(error);
    }
    if goes_on(runner, live, &ended) {
        leave(runner, live).await;
        return;
    }
    if let (Err(AgentError::Parked(rest)), Some(_)) = (&ended, &live.request.journal) {
        // Rarely needed, and large.
        Box::pin(parking::park(runner, live, rest)).await;
        return;
    }
    if let (Err(AgentError::Journal(error)), Some(journal)) = (&ended, &live.request.journal)
        && recovery::may_restart(error)
    {
        journal.keep_for_restart();
    }
    let ended = match refusal(&ended) {
        Some(error) => {
            if refuse(runner, live, &error).await {
                traced::refused(&tracing::Span::current(), &error);
                return;
            }
            Err(AgentError::Failed(error.message))
        }
        None => ended,
    };
    let (state, message) = match (end_state(ended), live.interruption()) {
        ((Some(TaskState::Canceled), _), Some(why)) => (Some(TaskState::InputRequired), Some(why.to_owned())),
        (end, _) => end,
    };
    finish(runner, live, state, message).await;
    if matches!(live.lock().record.task.status.state, TaskState::Failed) {
        traced::fail(&tracing::Span::current(), traced::FAILED);
    }
    tracing::debug!(
        agent = live.agent.name(),
        task = live.id,
        state = ?live.record().task.status.state,
        label = live.record().label.map(tracing::field::display),
        "turn ended"
    );
}

/// Whether a turn ends with its node, and goes on with it.
fn goes_on(runner: &TaskRunner, live: &LiveTask, ended: &Result<(), AgentError>) -> bool {
    let is_stopped = runner.ending().is_cancelled() && matches!(ended, Err(AgentError::Busy(_)));
    is_stopped && live.request.journal.is_some()
}

/// Leaves a task on disk as it is: its turn goes on when the node is up again. Whoever waits, or follows it, is told so.
pub(super) async fn leave(runner: &TaskRunner, live: &LiveTask) {
    if let Some(journal) = &live.request.journal {
        journal.leave().await;
    }
    let why = events::left_turn();
    let left = Outcome::Refused(why.clone());
    live.answer.settle(left.clone());
    let mut now = live.lock();
    now.close(Some(left));
    now.listeners.iter().for_each(|listener| listener.leave(&why));
    drop(now);
    // As of a task that is over: nobody hears more of it from this node.
    end_turn(runner, live, TaskState::Failed);
}

/// Leaves a task as it is until somebody consents: no turn runs, and its status says to what. A message that continues the task
/// is decided on anew.
pub(crate) async fn rest(runner: &TaskRunner, live: &LiveTask, consent: Consent) {
    finish(runner, live, Some(TaskState::AuthRequired), Some(consent.to)).await;
}

/// Ends, with a reason, when a turn takes longer than its sender lets it.
pub(super) async fn late(live: &LiveTask) -> String {
    match live.request.within {
        Some(within) => {
            tokio::time::sleep(within.saturating_sub(live.request.elapsed)).await;
            live.course.missed(within);
            format!("it did not end within the {} ms that its caller gave it", within.as_millis())
        }
        None => std::future::pending().await,
    }
}

/// What an agent is given of a task, whose newest message is that of the request.
pub(super) fn turn_of(
    record: Record,
    asked: &TurnRequest,
    notes: Option<SessionNotes>,
    verdicts: Option<TurnVerdicts>,
) -> Turn {
    let mut history = record.task.history.unwrap_or_default();
    // What is said after its message, of a turn that waited for somebody's answer, was not there when it began.
    if let Some(at) = history.iter().rposition(|message| message.message_id == asked.message_id) {
        history.truncate(at + 1);
    }
    let message = history.pop().unwrap_or_else(|| Message::new(Role::User, Vec::new()));
    let artifacts = record.task.artifacts.unwrap_or_default();
    let (task_id, context_id) = (record.task.id, record.task.context_id);
    let Trace { traceparent, tracestate } = Trace::of(&tracing::Span::current());
    let parameters = Parameters {
        extensions: asked.call.extensions.clone(),
        activated: asked.call.activated.clone(),
        attributes: asked.call.attributes.clone(),
        answer: asked.call.answer.clone(),
        principals: chain::written(&asked.call.principals),
        traceparent,
        tracestate,
        metadata: asked.metadata.clone(),
        accepted_output_modes: asked.accepted_output_modes.clone(),
        history_length: asked.history_length,
        rights: rights(asked),
        notes,
        verdicts,
        within: asked.within,
        run: asked.run.clone(),
    };
    Turn { task_id, context_id, message, history, artifacts, remembered: record.remembered, parameters }
}

/// By what right a turn acts: that of the call, with the journal of the turn.
fn rights(asked: &TurnRequest) -> TurnRights {
    let journal = asked.journal.clone().map(|journal| -> Arc<dyn Journal> { journal });
    TurnRights { journal, ..asked.call.rights.clone() }
}

/// Applies one output; an error ends the turn.
pub(super) async fn apply(runner: &TaskRunner, live: &LiveTask, made: Made) -> Result<(), AgentError> {
    let size = task::size(&made);
    if task::exceeds_message_limit(&made, &size) {
        let reason =
            format!("a status message has at most {} bytes; an artifact may hold more", task::STATUS_MESSAGE_BYTES_MAX);
        return Err(AgentError::Failed(reason));
    }
    if size.memory_bytes > 0 {
        let grown = runner.live().grow(&live.id, size.memory_bytes);
        grown.map_err(|crowded| AgentError::Failed(crowded.to_string()))?;
    }
    if matches!(made, Made::Begun { .. }) && live.lock().ending.is_none() {
        let unkept = |error: TaskStoreError| AgentError::Failed(error.to_string());
        runner.keep_shown(live).await.map_err(unkept)?;
    }
    let mut failed = None;
    let event = live.change(|now| {
        if let Made::Remember(kept) = &made {
            now.record.remembered = Some(kept.clone());
            return None;
        }
        now.artifact_bytes = now.artifact_bytes.saturating_add(size.artifact_bytes);
        now.stored_bytes = now.stored_bytes.saturating_add(size.stored_bytes);
        if now.artifact_bytes > task::ARTIFACT_BYTES_MAX {
            failed = Some(RESULT_TOO_LONG.to_owned());
            return None;
        }
        if now.stored_bytes > WORKING_BYTES_MAX {
            failed = Some("the task holds as much as one may; begin another".to_owned());
            return None;
        }
        let begins = matches!(made, Made::Begun { .. });
        if now.ending.is_some() && !begins {
            failed = Some("it went on after it had said that it was done".to_owned());
            return None;
        }
        match ending(now, made) {
            Ok(ending) => {
                now.ending = Some(ending);
                None
            }
            Err(made) => {
                now.made.extend(task::artifact_id(&made).map(str::to_owned));
                let stepped = task::step(&mut now.record.task, *made, runner.now());
                now.begun = true;
                // A task whose first state is its last is sent when that is on disk.
                if begins && now.ending.is_none() {
                    now.open();
                }
                stepped.unwrap_or_else(|error| {
                    failed = Some(error.to_string());
                    None
                })
            }
        }
    });
    push(runner, live, event.await).await;
    match failed {
        Some(reason) => Err(AgentError::Failed(reason)),
        None => Ok(()),
    }
}

/// How `made` ends the turn; or `made`, if it does not.
fn ending(now: &LiveState, made: Made) -> Result<Ending, Box<Made>> {
    let rests = |made: &Made| matches!(made, Made::Status(state, _) if task::is_idle(state));
    match made {
        Made::Reply(message) if now.begun => Ok(Ending::Status(TaskState::Completed, Some(message), None)),
        Made::Reply(message) => Ok(Ending::Reply(message)),
        Made::Annotated(made, metadata) if rests(&made) => match *made {
            Made::Status(state, message) => Ok(Ending::Status(state, message, Some(metadata))),
            made => Err(Box::new(made)),
        },
        Made::Status(state, message) if task::is_idle(&state) => Ok(Ending::Status(state, message, None)),
        made => Err(Box::new(made)),
    }
}

/// With what a turn that ended so refuses the request, if nobody has seen its task yet.
fn refusal(ended: &Result<(), AgentError>) -> Option<OperationError> {
    match ended {
        Err(AgentError::Refused { code, message, details }) => {
            Some(OperationError::of_agent(*code, message.clone(), details.clone()))
        }
        Err(AgentError::Busy(why)) => Some(OperationError::busy(why.clone())),
        _ => None,
    }
}

/// The task's state after the turn, unless the agent set it itself.
pub(super) fn end_state(ended: Result<(), AgentError>) -> (Option<TaskState>, Option<String>) {
    match ended {
        Ok(()) => (None, None),
        Err(AgentError::Cancelled) => (Some(TaskState::Canceled), None),
        Err(AgentError::Rejected(reason) | AgentError::Exhausted(reason)) => (Some(TaskState::Rejected), Some(reason)),
        Err(error) => (Some(TaskState::Failed), Some(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_call::Refusal;

    #[test]
    fn an_agent_that_is_busy_refuses_as_an_overloaded_node_does() {
        let busy = refusal(&Err(AgentError::Busy("the group does not answer".to_owned()))).expect("a refusal");
        assert_eq!((busy.refusal, busy.message.as_str()), (Refusal::Overloaded, "the group does not answer"));
        assert_eq!(refusal(&Err(AgentError::Failed("no".to_owned()))), None);
        assert_eq!(refusal(&Ok(())), None);
    }
}
