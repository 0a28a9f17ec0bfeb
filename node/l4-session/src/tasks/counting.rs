//! Tells whoever counts what came of turns.

use std::sync::Arc;

use a2a::{Task, TaskState, TaskStatus};
use althing_call::CallMetadata;
use althing_execution::run_notes::TurnFacts;
use althing_execution::{AgentState, TurnSuccess};
use althing_protocol::{AgentId, AgentRef};
use althing_td::Effect;

use crate::tasks::course::{self, TurnCourse};
use crate::tasks::first_response::Outcome;
use crate::tasks::live::{LiveTask, TurnRequest};
use crate::tasks::outcome::{CountOutcomes, TurnCopy, TurnOutcome};
use crate::tasks::runner::TaskRunner;

/// What is noted of calls that may have changed something: all but those that did not reach their tool.
const MADE: [&str; 3] = ["done", "error", "failed"];

/// Tells whoever counts what came of a turn that is over; of one that rests nothing before it is.
pub(super) async fn tell(runner: &TaskRunner, live: &LiveTask) {
    if live.course.rests() {
        return;
    }
    // No other one can have rested.
    let rested = live.request.journal.as_ref().and_then(|_| runner.live().take_rested(&live.id));
    let Some(counter) = counter_of(runner, &live.agent.id) else { return };
    let outcome = of(runner, live, counter.copies(&live.agent.id));
    counter.count(since_beginning(rested, outcome)).await;
}

/// Keeps what came by now of a turn that rests. Called before it can go on.
pub(super) fn rest(runner: &TaskRunner, live: &LiveTask) {
    live.course.rested();
    let rested = runner.live().take_rested(&live.id);
    if counter_of(runner, &live.agent.id).is_some() {
        let outcome = since_beginning(rested, of(runner, live, false));
        runner.live().keep_rested(live.id.clone(), outcome);
    }
}

/// Tells of the turn of a task that rested and does not go on: that says nothing of its agent, and its calls were made.
pub(super) async fn tell_rested(runner: &TaskRunner, task: &str) {
    let Some(outcome) = runner.live().take_rested(task) else { return };
    if let Some(counter) = counter_of(runner, &outcome.agent.id) {
        counter.count(outcome).await;
    }
}

/// Who counts what comes of turns of an agent, if somebody does.
fn counter_of(runner: &TaskRunner, agent: &AgentId) -> Option<Arc<dyn CountOutcomes>> {
    runner.live().counter().filter(|counter| counter.counts(agent)).cloned()
}

/// What came of a turn, with what had come of it when it rested. Calls from before are noted again where it is told them again, and are
/// the same ones; of those before a checkpoint it is told nothing.
fn since_beginning(rested: Option<TurnOutcome>, outcome: TurnOutcome) -> TurnOutcome {
    let Some(TurnOutcome { first, mut effects, .. }) = rested else { return outcome };
    let mut again = outcome.effects.clone();
    effects.retain(|tool| match again.iter().position(|other| other == tool) {
        Some(at) => {
            again.swap_remove(at);
            false
        }
        None => true,
    });
    effects.extend(outcome.effects);
    TurnOutcome { first: first.or(outcome.first), effects, ..outcome }
}

/// Counts a turn that is over among those of its agent that went well, or did not.
pub(super) fn count_success(runner: &TaskRunner, live: &LiveTask) {
    let state = live.lock().record.task.status.state.clone();
    let is_whole = state == TaskState::Completed || matches!(live.answer.outcome(), Some(Outcome::Reply(_)));
    let host = runner.host();
    let success = success((course_of(live, &state), &state), is_whole, || host.verifies(&live.agent));
    if let Some(success) = success {
        althing_execution::count_success(host, &live.agent, success);
    }
}

/// What a turn counts as that left its task in that state; nothing where it says nothing of its agent, or is not whole: it asked
/// back. `is_judged`: whether the contract has gates, which let pass what is good.
fn success(
    (course, state): (TurnCourse, &TaskState),
    is_whole: bool,
    is_judged: impl Fn() -> bool,
) -> Option<TurnSuccess> {
    match course {
        // The message was not taken: who sends such as breaks the contract's schema would say how good its agent is.
        _ if *state == TaskState::Rejected => None,
        TurnCourse::Good if !is_whole => None,
        TurnCourse::Good if is_judged() => Some(TurnSuccess::Verified),
        TurnCourse::Good => Some(TurnSuccess::Claimed),
        TurnCourse::Failed
        | TurnCourse::Silent
        | TurnCourse::Refused
        | TurnCourse::Unjudged
        | TurnCourse::Crashed
        | TurnCourse::OverBudget => Some(TurnSuccess::Failed { is_judged: is_judged() }),
        TurnCourse::Open => None,
    }
}

/// How a turn went that left its task in that state.
fn course_of(live: &LiveTask, state: &TaskState) -> TurnCourse {
    course::heard(end_of(live, state), &live.request.run)
}

/// How it ended, whatever was found of it.
fn end_of(live: &LiveTask, state: &TaskState) -> TurnCourse {
    match (live.course.fault(), live.answer.outcome()) {
        (Some(fault), _) => fault,
        (None, Some(Outcome::Reply(_))) => TurnCourse::Good,
        // It could not be written.
        (None, Some(Outcome::Refused(_))) => TurnCourse::Open,
        (None, None) => course::course_of(state),
    }
}

fn of(runner: &TaskRunner, live: &LiveTask, is_copied: bool) -> TurnOutcome {
    let record = live.record();
    let copy = if is_copied { copy(live, &record.task).map(Box::new) } else { None };
    let course = course_of(live, &record.task.status.state);
    let alone = course::heard_alone(end_of(live, &record.task.status.state), &live.request.run);
    let has_crashed = course == TurnCourse::Failed && is_restarting(runner, &live.agent);
    let tools = runner.host().tools(&live.agent);
    let effect_of = |tool: &str| tools.as_ref().map_or(Effect::Final, |tools| tools.effect_of(tool));
    TurnOutcome {
        agent: live.agent.clone(),
        caller: String::from(record.scope),
        context: record.task.context_id,
        message: live.request.message_id.clone(),
        course: if has_crashed { TurnCourse::Crashed } else { course },
        alone: if has_crashed { TurnCourse::Crashed } else { alone },
        first: live.course.first(),
        effects: effects(&live.request.run.facts(), effect_of),
        copy,
    }
}

/// The calls among these that may have changed something.
fn effects(facts: &TurnFacts, effect_of: impl Fn(&str) -> Effect) -> Vec<String> {
    let made = facts.calls.iter().filter(|call| MADE.contains(&call.outcome));
    made.filter(|call| effect_of(&call.tool) != Effect::None).map(|call| call.tool.clone()).collect()
}

/// What a copy of a turn is given, and the task as the turn left it; none where its message is not kept.
fn copy(live: &LiveTask, task: &Task) -> Option<(TurnCopy, Task)> {
    let asked = &live.request;
    let message = task.history.iter().flatten().rfind(|message| message.message_id == asked.message_id)?.clone();
    // Nothing that the caller or the task gets: not where answers add their labels, no journal, no lease.
    let call = CallMetadata {
        extensions: asked.call.extensions.clone(),
        attributes: asked.call.attributes.clone(),
        principals: asked.call.principals.clone(),
        holder: asked.call.holder,
        ..CallMetadata::default()
    };
    let request = TurnRequest {
        call,
        metadata: asked.metadata.clone(),
        accepted_output_modes: asked.accepted_output_modes.clone(),
        history_length: asked.history_length,
        message_id: asked.message_id.clone(),
        within: asked.within,
        ..TurnRequest::default()
    };
    let mut task = task.clone();
    if let Some(Outcome::Reply(message)) = live.answer.outcome() {
        task.status = TaskStatus { state: TaskState::Completed, message: Some(message), timestamp: None };
    }
    Some((TurnCopy { message, request }, task))
}

/// Whether the program of an agent ended, and is started again.
fn is_restarting(runner: &TaskRunner, agent: &AgentRef) -> bool {
    let all = runner.host().status();
    let mut versions = all.iter().filter(|status| status.name == agent.name() && status.version == agent.version);
    versions.any(|status| matches!(status.state, AgentState::Restarting { .. }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use althing_execution::run_notes::CallFacts;
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn a_turn_counts_by_a_verdict_or_by_its_word_and_a_question_does_not_count() {
        let (over, rejected) = (&TaskState::Completed, &TaskState::Rejected);
        let judged = |course| success((course, over), true, || true);
        let claimed = |course| success((course, over), true, || false);
        assert_eq!(judged(TurnCourse::Good), Some(TurnSuccess::Verified));
        assert_eq!(claimed(TurnCourse::Good), Some(TurnSuccess::Claimed));
        let failures =
            [TurnCourse::Failed, TurnCourse::Silent, TurnCourse::Refused, TurnCourse::Unjudged, TurnCourse::Crashed];
        for course in failures {
            let failed = |is_judged| Some(TurnSuccess::Failed { is_judged });
            assert_eq!((judged(course), claimed(course)), (failed(true), failed(false)));
        }
        assert_eq!((judged(TurnCourse::Open), success((TurnCourse::Good, over), false, || true)), (None, None));
        assert_eq!(success((TurnCourse::Failed, rejected), false, || true), None, "it says nothing of the agent");
    }

    #[test]
    fn calls_from_before_a_turn_rested_are_effects_once_whether_or_not_it_is_told_them_again() {
        let of = |first: Option<u64>, effects: &[&str]| TurnOutcome {
            agent: AgentRef::new(PublisherId::from_digest([1; 32]), "shop", "1.0.0").expect("a name"),
            caller: "maria".to_owned(),
            context: "c".to_owned(),
            message: "m".to_owned(),
            course: TurnCourse::Good,
            alone: TurnCourse::Good,
            first: first.map(Duration::from_millis),
            effects: effects.iter().map(|tool| (*tool).to_owned()).collect(),
            copy: None,
        };
        let whole = |rested: Option<TurnOutcome>, outcome: TurnOutcome| {
            let whole = since_beginning(rested, outcome);
            (whole.first.map(|first| first.as_millis()), whole.effects.join(" "))
        };
        let (rested, over) = (of(Some(2), &["mail", "mail", "shop"]), of(Some(9), &["mail", "mail", "shop", "mail"]));
        assert_eq!(whole(None, over.clone()), (Some(9), "mail mail shop mail".to_owned()));
        assert_eq!(whole(Some(rested.clone()), over), (Some(2), "mail mail shop mail".to_owned()));
        // It went on from a checkpoint.
        assert_eq!(whole(Some(rested), of(None, &["shop", "bank"])), (Some(2), "mail mail shop bank".to_owned()));
        assert_eq!(whole(Some(of(None, &[])), of(Some(9), &["mail"])), (Some(9), "mail".to_owned()));
    }

    #[test]
    fn calls_that_reached_a_tool_which_may_change_something_are_effects() {
        let call = |tool: &str, outcome| CallFacts {
            tool: tool.to_owned(),
            definition: String::new(),
            arguments: String::new(),
            result: None,
            outcome,
            breaks_schema: false,
            callee: None,
            is_check: false,
        };
        let outcomes = ["done", "error", "failed", "denied", "changed", "superseded"];
        let calls = outcomes.into_iter().map(|outcome| call("mail/send", outcome)).chain([call("mail/read", "done")]);
        let facts = TurnFacts { calls: calls.collect(), ..TurnFacts::default() };
        let effect_of = |tool: &str| if tool == "mail/read" { Effect::None } else { Effect::Final };
        assert_eq!(effects(&facts, effect_of), ["mail/send"; 3]);
    }
}
