//! What is recorded of a turn that ended, with its end, and of what somebody says of its calls.

use a2a::TaskState;
use althing_call::{Trace, chain};
use althing_execution::{EndedTurn, GivenWork, ToldCall};
use althing_protocol::audit::AuditOutcome;
use althing_protocol::object::Handoff;
use althing_protocol::{AgentRef, Label};
use althing_store::Batch;
use serde_json::Value;

use crate::machine::session::Choice;
use crate::tasks::first_response::Outcome;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;

/// Rows for the batch in which the end of a turn is written that left a task: `row` is that of the task.
pub(super) fn of_task(
    runner: &TaskRunner,
    live: &LiveTask,
    (state, label, row): (&TaskState, Option<Label>, &[u8]),
) -> Batch {
    // No turn ran where somebody had to consent to it first.
    match live.request.consent {
        Some(_) => Batch::new(),
        None => rows(runner, live, (label, Some(row)), outcome(state)),
    }
}

/// The same of a turn that left no task.
pub(super) fn without_task(runner: &TaskRunner, live: &LiveTask, outcome: &Outcome, label: Option<Label>) -> Batch {
    let outcome = match outcome {
        Outcome::Reply(_) => AuditOutcome::Done,
        Outcome::Refused(_) => AuditOutcome::Refused,
    };
    rows(runner, live, (label, None), outcome)
}

/// Rows for the batch in which it is written what `by` says of a call in doubt, step `step`: the choice, and what it brought.
pub(super) fn told(
    runner: &TaskRunner,
    live: &LiveTask,
    (step, name): (u32, &str),
    (choice, brought): (Choice, Option<(&Value, Option<Label>)>),
    by: &str,
) -> Batch {
    let Some(recorder) = runner.recorder().get() else { return Batch::new() };
    let bound = runner.host().binding(&live.agent);
    let manifest = bound.as_ref().map(|binding| &binding.bound.manifest);
    recorder.told(&ToldCall {
        agent: &live.agent,
        task: &live.id,
        step,
        name,
        principals: &chain::written(&live.request.call.principals),
        label: brought.and_then(|(_, label)| label),
        contract: manifest.map_or("", |manifest| manifest.contract_digest.as_str()),
        binding: bound.as_ref().map_or("", |binding| &*binding.hash),
        outcome: match choice {
            Choice::Done => AuditOutcome::Done,
            Choice::Again => AuditOutcome::InDoubt,
            Choice::Failed => AuditOutcome::Failed,
        },
        result: brought.map(|(result, _)| result),
        by,
    })
}

/// Rows for the batch in which it is written that an agent gave its work away by itself, or that the work stays after all: the handoff
/// with its id, and the task that the work becomes. `live` is the turn of the agent's task, if one runs.
pub(super) fn given(
    runner: &TaskRunner,
    (agent, live): (&AgentRef, Option<&LiveTask>),
    (id, work, becomes): (&str, &Handoff, &str),
    outcome: AuditOutcome,
) -> Batch {
    let Some(recorder) = runner.recorder().get() else { return Batch::new() };
    let bound = runner.host().binding(agent);
    let manifest = bound.as_ref().map(|binding| &binding.bound.manifest);
    let principals = live.map(|live| chain::written(&live.request.call.principals)).unwrap_or_default();
    recorder.given(&GivenWork {
        agent,
        task: &work.task_id,
        handoff: id,
        recipient: &work.recipient,
        becomes,
        label: work.label,
        principals: &principals,
        contract: manifest.map_or("", |manifest| manifest.contract_digest.as_str()),
        binding: bound.as_ref().map_or("", |binding| &*binding.hash),
        outcome,
    })
}

fn rows(
    runner: &TaskRunner,
    live: &LiveTask,
    (label_after, row): (Option<Label>, Option<&[u8]>),
    outcome: AuditOutcome,
) -> Batch {
    let Some(recorder) = runner.recorder().get() else { return Batch::new() };
    let call = &live.request.call;
    let bound = runner.host().binding(&live.agent);
    let manifest = bound.as_ref().map(|binding| &binding.bound.manifest);
    let trace = Trace::of(&tracing::Span::current());
    let verdicts = live.request.run.verdicts();
    recorder.ended(&EndedTurn {
        agent: &live.agent,
        task: &live.id,
        has_task: row.is_some(),
        principals: &chain::written(&call.principals),
        label: call.attributes.label,
        label_after,
        contract: manifest.map_or("", |manifest| manifest.contract_digest.as_str()),
        binding: bound.as_ref().map_or("", |binding| &*binding.hash),
        trace: trace.traceparent.as_deref(),
        row: row.unwrap_or_default(),
        outcome,
        verdicts: &verdicts,
    })
}

fn outcome(state: &TaskState) -> AuditOutcome {
    match state {
        TaskState::Rejected => AuditOutcome::Refused,
        TaskState::Failed | TaskState::Canceled => AuditOutcome::Failed,
        _ => AuditOutcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_rests_did_what_it_could_and_one_that_was_cancelled_did_not() {
        for (state, said) in [
            (TaskState::Completed, AuditOutcome::Done),
            (TaskState::InputRequired, AuditOutcome::Done),
            (TaskState::AuthRequired, AuditOutcome::Done),
            (TaskState::Rejected, AuditOutcome::Refused),
            (TaskState::Failed, AuditOutcome::Failed),
            (TaskState::Canceled, AuditOutcome::Failed),
        ] {
            assert_eq!(outcome(&state), said, "{state:?}");
        }
    }
}
