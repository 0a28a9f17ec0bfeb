//! How a turn went, as far as its agent is to blame for that.

use std::sync::OnceLock;
use std::time::Duration;

use a2a::TaskState;
use althing_execution::AgentError;
use althing_execution::run_notes::RunNotes;

/// Who gives a turn less time than this is to blame where it does not end in that, and not its agent: else any caller could say how
/// good an agent is.
const WITHIN_LEAST: Duration = Duration::from_secs(30);

/// How a turn went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnCourse {
    /// It ended with an answer, or with a question.
    Good,
    /// It failed.
    Failed,
    /// Its answer is complete, and something in it failed in silence.
    Silent,
    /// A gate refused its answer, after all repairs.
    Refused,
    /// A gate could not judge its answer, which is held back for that: whether it is good nobody knows.
    Unjudged,
    /// Its agent's program ended, or the agent broke down.
    Crashed,
    /// It was stopped, as it needed more than the contract gives a turn.
    OverBudget,
    /// It says nothing of its agent: it was cancelled, it goes on later, or its node, its caller's haste or the calls of others are to
    /// blame.
    Open,
}

/// What is noted of a turn while it runs, for whoever counts what came of it.
#[derive(Default)]
pub(crate) struct CourseNotes {
    fault: OnceLock<TurnCourse>,
    first: OnceLock<Duration>,
    rests: OnceLock<()>,
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

    /// It did not end within the time that its caller gave it.
    pub fn missed(&self, within: Duration) {
        let _ = self.fault.set(missed(within));
    }

    /// It panicked.
    pub fn broke_down(&self) {
        let _ = self.fault.set(TurnCourse::Crashed);
    }

    /// It is not over: it goes on when somebody has answered.
    pub fn rested(&self) {
        let _ = self.rests.set(());
    }

    /// Whether it is not over.
    pub fn rests(&self) -> bool {
        self.rests.get().is_some()
    }

    /// How it went, if it ended with an error or panicked; the first one counts.
    pub fn fault(&self) -> Option<TurnCourse> {
        self.fault.get().copied()
    }

    /// How long its first output took; none if it had none.
    pub fn first(&self) -> Option<Duration> {
        self.first.get().copied()
    }
}

/// What an error says of the agent.
pub(super) fn course(error: &AgentError) -> TurnCourse {
    match error {
        AgentError::GateRefused(_) => TurnCourse::Refused,
        AgentError::Crash(_) => TurnCourse::Crashed,
        AgentError::OverBudget(_) => TurnCourse::OverBudget,
        AgentError::Failed(_)
        | AgentError::Rejected(_)
        | AgentError::Refused { .. }
        | AgentError::NotA2a(_)
        | AgentError::TooLong(_)
        | AgentError::Breakdown(_)
        | AgentError::Down { .. } => TurnCourse::Failed,
        AgentError::Busy(_)
        | AgentError::Exhausted(_)
        | AgentError::Internal(_)
        | AgentError::Journal(_)
        | AgentError::Parked(_)
        | AgentError::Cancelled => TurnCourse::Open,
    }
}

/// What it says of the agent that a turn did not end within the time that its caller gave it.
pub(super) fn missed(within: Duration) -> TurnCourse {
    if within < WITHIN_LEAST { TurnCourse::Open } else { TurnCourse::Failed }
}

/// What the state of a task says of the agent whose turn left it so.
pub(super) fn course_of(state: &TaskState) -> TurnCourse {
    match state {
        TaskState::Completed | TaskState::InputRequired | TaskState::AuthRequired => TurnCourse::Good,
        TaskState::Failed | TaskState::Rejected => TurnCourse::Failed,
        _ => TurnCourse::Open,
    }
}

/// How a turn went that ended so, by what was noted of it.
pub(super) fn heard(course: TurnCourse, run: &RunNotes) -> TurnCourse {
    match course {
        TurnCourse::Good if !run.facts().findings.is_empty() => TurnCourse::Silent,
        TurnCourse::Refused if run.facts().unjudged.is_some() => TurnCourse::Unjudged,
        course => course,
    }
}

/// The same by what was found of that turn alone, without what is found of several turns: so a copy of it is judged, which has none
/// before it.
pub(super) fn heard_alone(course: TurnCourse, run: &RunNotes) -> TurnCourse {
    let facts = run.facts();
    match heard(course, run) {
        TurnCourse::Silent if facts.findings.iter().all(|found| facts.findings_of_several.contains(found)) => {
            TurnCourse::Good
        }
        course => course,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_is_not_to_blame_for_says_nothing_of_it() {
        let text = || "it has no order 7".to_owned();
        let down = AgentError::Down { agent: "shop".to_owned(), why: text() };
        let refused = || "GATE_REFUSED: the gate `schema` did not let the answer pass".to_owned();
        for (error, expected) in [
            (AgentError::Failed(text()), TurnCourse::Failed),
            (AgentError::Rejected(text()), TurnCourse::Failed),
            (AgentError::Refused { code: -32_600, message: text(), details: Vec::new() }, TurnCourse::Failed),
            (down, TurnCourse::Failed),
            (AgentError::Breakdown("the agent's program did not answer"), TurnCourse::Failed),
            (AgentError::TooLong("its answer has more than 4 MiB"), TurnCourse::Failed),
            (AgentError::Crash(text()), TurnCourse::Crashed),
            (AgentError::OverBudget(text()), TurnCourse::OverBudget),
            (AgentError::GateRefused(refused()), TurnCourse::Refused),
            // An agent may say so, and yet no gate did.
            (AgentError::Failed(refused()), TurnCourse::Failed),
            (AgentError::Busy(text()), TurnCourse::Open),
            (AgentError::Exhausted(text()), TurnCourse::Open),
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
    fn a_good_answer_in_which_something_failed_in_silence_is_no_good_one() {
        let run = RunNotes::default();
        assert_eq!(heard(TurnCourse::Good, &run), TurnCourse::Good);
        run.add_finding("said-nothing");
        assert_eq!(heard(TurnCourse::Good, &run), TurnCourse::Silent);
        assert_eq!(heard(TurnCourse::Failed, &run), TurnCourse::Failed);
    }

    #[test]
    fn what_is_found_of_several_turns_says_nothing_of_one_alone() {
        let run = RunNotes::default();
        run.add_finding_of_several("same-answer");
        let both = |course| (heard(course, &run), heard_alone(course, &run));
        assert_eq!(both(TurnCourse::Good), (TurnCourse::Silent, TurnCourse::Good));
        assert_eq!(both(TurnCourse::Failed), (TurnCourse::Failed, TurnCourse::Failed));
        run.add_finding("said-nothing");
        assert_eq!(both(TurnCourse::Good), (TurnCourse::Silent, TurnCourse::Silent));
    }

    #[test]
    fn an_answer_that_a_gate_could_not_judge_is_not_one_that_it_refused() {
        let run = RunNotes::default();
        assert_eq!(heard(TurnCourse::Refused, &run), TurnCourse::Refused);
        run.set_unjudged(Some("agents/judge"));
        assert_eq!(heard(TurnCourse::Refused, &run), TurnCourse::Unjudged);
        // What it did otherwise it did.
        for course in [TurnCourse::Crashed, TurnCourse::Failed, TurnCourse::OverBudget, TurnCourse::Open] {
            assert_eq!(heard(course, &run), course);
        }
        // It answered again, and that was judged.
        run.set_unjudged(None);
        assert_eq!(heard(TurnCourse::Refused, &run), TurnCourse::Refused);
    }

    #[test]
    fn a_caller_in_haste_says_nothing_of_an_agent_and_one_with_patience_does() {
        for (within_ms, expected) in [
            (1, TurnCourse::Open),
            (29_999, TurnCourse::Open),
            (30_000, TurnCourse::Failed),
            (86_400_000, TurnCourse::Failed),
        ] {
            let notes = CourseNotes::default();
            notes.missed(Duration::from_millis(within_ms));
            // So the turn ends then.
            notes.failed(&AgentError::Failed("it did not end within the time that its caller gave it".to_owned()));
            assert_eq!(notes.fault(), Some(expected), "{within_ms} ms");
        }
    }

    #[test]
    fn the_first_output_and_the_first_fault_count() {
        let notes = CourseNotes::default();
        notes.emitted(Duration::from_millis(3));
        notes.emitted(Duration::from_millis(9));
        notes.failed(&AgentError::Cancelled);
        notes.broke_down();
        assert_eq!(notes.first(), Some(Duration::from_millis(3)));
        assert_eq!(notes.fault(), Some(TurnCourse::Open));
    }
}
