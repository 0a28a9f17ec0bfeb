//! What came of a turn, for whoever counts that.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::TaskState;
use althing_execution::{AgentError, AgentState};
use althing_protocol::{AgentId, AgentRef};
use futures::future::BoxFuture;

use crate::tasks::first_response::Outcome;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;

/// With what the reason of a turn begins whose answer a gate of its contract refused.
const GATE_REFUSED: &str = "GATE_REFUSED";

/// How a turn went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnCourse {
    /// It ended with an answer, or with a question.
    Good,
    /// It failed.
    Failed,
    /// A gate refused its answer, after all repairs.
    Refused,
    /// Its agent's program ended, or the agent broke down.
    Crashed,
    /// It says nothing of its agent: it was cancelled, it goes on later, or its node is to blame.
    Open,
}

/// What came of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnOutcome {
    /// The agent, in the version that was given the message.
    pub agent: AgentRef,
    /// On whose behalf the message came, as the task's owner is written.
    pub caller: String,
    /// The id of the conversation.
    pub context: String,
    /// The id of the message.
    pub message: String,
    /// How it went.
    pub course: TurnCourse,
    /// How long its first output took.
    pub first: Option<Duration>,
}

/// Counts what comes of turns.
pub trait CountOutcomes: Send + Sync + 'static {
    /// Whether turns of an agent are counted: asked at the end of each turn, and answered at once.
    fn counts(&self, agent: &AgentId) -> bool;

    /// Counts a turn. What that changes holds, and is on disk, when this is over.
    fn count(&self, outcome: TurnOutcome) -> BoxFuture<'_, ()>;
}

/// What is noted of a turn for that while it runs.
#[derive(Default)]
pub(crate) struct CourseNotes {
    fault: OnceLock<TurnCourse>,
    first: OnceLock<Duration>,
}

impl CourseNotes {
    /// Its agent emitted something after that time; only the first counts.
    pub fn emitted(&self, after: Duration) {
        let _ = self.first.set(after);
    }

    /// It ended with an error.
    pub fn failed(&self, error: &AgentError) {
        let _ = self.fault.set(course(error));
    }

    /// It panicked.
    pub fn broke_down(&self) {
        let _ = self.fault.set(TurnCourse::Crashed);
    }
}

/// What an error says of the agent.
fn course(error: &AgentError) -> TurnCourse {
    match error {
        AgentError::Failed(why) if why.starts_with(GATE_REFUSED) => TurnCourse::Refused,
        AgentError::Failed(_)
        | AgentError::Rejected(_)
        | AgentError::Refused { .. }
        | AgentError::NotA2a(_)
        | AgentError::Down { .. } => TurnCourse::Failed,
        AgentError::Busy(_)
        | AgentError::Internal(_)
        | AgentError::Journal(_)
        | AgentError::Parked(_)
        | AgentError::Cancelled => TurnCourse::Open,
    }
}

/// What the state of a task says of the agent whose turn left it so.
fn course_of(state: &TaskState) -> TurnCourse {
    match state {
        TaskState::Completed | TaskState::InputRequired | TaskState::AuthRequired => TurnCourse::Good,
        TaskState::Failed | TaskState::Rejected => TurnCourse::Failed,
        _ => TurnCourse::Open,
    }
}

/// Tells whoever counts what came of a turn that is over.
pub(super) async fn tell(runner: &TaskRunner, live: &LiveTask) {
    let counter = runner.live().counter().filter(|counter| counter.counts(&live.agent.id)).cloned();
    let Some(counter) = counter else { return };
    let outcome = of(runner, live);
    counter.count(outcome).await;
}

fn of(runner: &TaskRunner, live: &LiveTask) -> TurnOutcome {
    let record = live.record();
    let course = match (live.course.fault.get(), live.answer.outcome()) {
        (Some(fault), _) => *fault,
        (None, Some(Outcome::Reply(_))) => TurnCourse::Good,
        // It could not be written.
        (None, Some(Outcome::Refused(_))) => TurnCourse::Open,
        (None, None) => course_of(&record.task.status.state),
    };
    let has_crashed = course == TurnCourse::Failed && is_restarting(runner, &live.agent);
    TurnOutcome {
        agent: live.agent.clone(),
        caller: String::from(record.scope),
        context: record.task.context_id,
        message: live.request.message_id.clone(),
        course: if has_crashed { TurnCourse::Crashed } else { course },
        first: live.course.first.get().copied(),
    }
}

/// Whether the program of an agent ended, and is started again.
fn is_restarting(runner: &TaskRunner, agent: &AgentRef) -> bool {
    let all = runner.host().status();
    let mut versions = all.iter().filter(|status| status.name == agent.name() && status.version == agent.version);
    versions.any(|status| matches!(status.state, AgentState::Restarting { .. }))
}

/// Who counts, where somebody does.
pub(crate) type Counter = OnceLock<Arc<dyn CountOutcomes>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_is_not_to_blame_for_says_nothing_of_it() {
        let text = || "it has no order 7".to_owned();
        let down = AgentError::Down { agent: "shop".to_owned(), why: text() };
        let refused = AgentError::Failed("GATE_REFUSED: the gate `schema` did not let the answer pass".to_owned());
        for (error, expected) in [
            (AgentError::Failed(text()), TurnCourse::Failed),
            (AgentError::Rejected(text()), TurnCourse::Failed),
            (AgentError::Refused { code: -32_600, message: text(), details: Vec::new() }, TurnCourse::Failed),
            (down, TurnCourse::Failed),
            (refused, TurnCourse::Refused),
            (AgentError::Busy(text()), TurnCourse::Open),
            (AgentError::Internal("the store"), TurnCourse::Open),
            (AgentError::Cancelled, TurnCourse::Open),
        ] {
            assert_eq!(course(&error), expected, "{error}");
        }
        let states = [TaskState::Completed, TaskState::InputRequired, TaskState::Failed, TaskState::Canceled];
        let expected = [TurnCourse::Good, TurnCourse::Good, TurnCourse::Failed, TurnCourse::Open];
        assert_eq!(states.map(|state| course_of(&state)), expected);
    }

    #[test]
    fn the_first_output_and_the_first_fault_count() {
        let notes = CourseNotes::default();
        notes.emitted(Duration::from_millis(3));
        notes.emitted(Duration::from_millis(9));
        notes.failed(&AgentError::Cancelled);
        notes.broke_down();
        assert_eq!(notes.first.get(), Some(&Duration::from_millis(3)));
        assert_eq!(notes.fault.get(), Some(&TurnCourse::Open));
    }
}
