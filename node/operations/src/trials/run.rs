//! One run of a case.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Message, Part, Role, Task, TaskState};
use althing_calls::{Among, RecordedTurn, Rehearsal, Script, TaskTape, TurnCourse};
use althing_execution::run_notes::Judgement;
use althing_protocol::{AgentId, AgentRef};
use althing_verification::machine::cases::Case;
use althing_verification::machine::model_cost::ModelCost;
use althing_verification::machine::report::{CaseRun, JudgeWord, Observation, RunFigures, Scorer, judge};
use althing_verification::machine::tape::{Tape, answer_data, answer_text, message_text, state_word};
use althing_verification::{Player, Trial};

use super::recorded::messages;
use super::{AgentTests, TestOrder};
use crate::routing::{NodeRouter, RouteMode};

/// Whom a turn asks what it would ask.
enum Source<'a> {
    /// The tape of a task.
    Tape(&'a TaskTape),
    /// Nobody, since there is no tape: an agent that asks nothing answers all the same.
    Nobody,
    /// Models and tools; of these servers those too that may have effects.
    Live(&'a BTreeSet<String>),
}

/// What came of a case's conversation, beside the task.
#[derive(Default)]
struct Course {
    tools: Vec<String>,
    /// The tools whose calls the test denied.
    denied: Vec<String>,
    tokens: u64,
    cost: ModelCost,
    /// Why a call was denied, the first one that was.
    denial: Option<String>,
    first: Option<Duration>,
    whole: Duration,
    /// What was asked that is on no tape.
    missing: Option<String>,
}

impl AgentTests<'_> {
    pub(super) async fn run(&self, order: &TestOrder, case: &Case, scorer: Scorer, agent: &AgentRef) -> CaseRun {
        of_case(case, scorer, self.seen(order, case, agent).await)
    }

    /// What a run brought, or why it was not made.
    async fn seen(
        &self,
        order: &TestOrder,
        case: &Case,
        agent: &AgentRef,
    ) -> Result<(Observation, RunFigures), String> {
        let tape = match (&order.live, &case.expectation.task) {
            (None, Some(task)) => Some(self.tape(task, case)?),
            _ => None,
        };
        let source = match (&order.live, &tape) {
            (Some(servers), _) => Source::Live(servers),
            (None, Some(tape)) => Source::Tape(tape),
            (None, None) => Source::Nobody,
        };
        let found = self.found(order, case, &agent.id).await?;
        let rehearsal = self.0.hosting.own_tasks().rehearsal(agent.name(), Some(&*agent.version));
        let mut rehearsal = rehearsal.map_err(|error| error.to_string())?;
        // Another version would be judged in its name.
        if rehearsal.agent() != agent {
            return Err(format!("version {} of {} does not run here any more", agent.version, agent.name()));
        }
        let course = self.play(case, &source, &mut rehearsal).await?;
        if let Some(why) = course.denial.as_ref().filter(|_| order.is_strict) {
            return Err(format!("a call was denied to it: {why}"));
        }
        let answered = rehearsal.answered();
        let answer = match (&course.missing, &source, &answered) {
            (Some(missing), Source::Nobody, _) => {
                return Err(format!(
                    "the case names no task whose tape would answer what the agent asks ({missing}): make the case of a task that \
                     is recorded, or run the test live"
                ));
            }
            (None, _, Some(task)) => answer(task),
            _ => None,
        };
        let missing = course.missing;
        let data = answered.as_ref().and_then(answer_data).cloned();
        let is_live = order.live.is_some();
        let figures = RunFigures {
            duration_ms: milliseconds(course.whole),
            first_token_ms: course.first.filter(|_| is_live).map(milliseconds),
            tokens: Some(course.tokens),
            cost: course.cost.micros(),
        };
        let is_refused = rehearsal.course() == Some(TurnCourse::Refused);
        let seen = Observation {
            answer,
            missing,
            data,
            agent: found,
            tools: course.tools,
            denied: course.denied,
            obstacle: None,
            is_refused,
            unjudged: rehearsal.unjudged(),
            judges: first_words(rehearsal.judgements()),
            denial: course.denial,
        };
        Ok((seen, figures))
    }

    /// The tape that a case names, if it fits.
    fn tape(&self, task: &str, case: &Case) -> Result<TaskTape, String> {
        let tape = self.0.hosting.own_tasks().task_tape(task).map_err(|error| error.to_string())?;
        let (turns, messages) = (tape.turns.len(), case.messages.len());
        if turns != messages {
            return Err(format!(
                "task {task} has {turns} turns with a tape, and the case {messages} messages: record the task anew, with `record: \
                 tape` in its agent's contract, and make the case of that"
            ));
        }
        Ok(tape)
    }

    /// Whom the first message is for: where the case says who it should be, the agent that a route finds, and else the one that is
    /// tested. Where nothing is asked outside, a route goes by words alone.
    pub(super) async fn found(
        &self,
        order: &TestOrder,
        case: &Case,
        agent: &AgentId,
    ) -> Result<Option<(String, String)>, String> {
        if case.expectation.agent.is_none() {
            return Ok(Some((agent.name().to_owned(), agent.to_string())));
        }
        let mode = if order.live.is_some() { RouteMode::Hybrid } else { RouteMode::Keyword };
        let first = case.messages.first().map(String::as_str).unwrap_or_default();
        let routed = NodeRouter(self.0).route(first, mode, Among::Near).await;
        let routed = routed.map_err(|error| format!("the message was not routed: {error}"))?;
        match <[_; 1]>::try_from(routed.chosen) {
            Ok([one]) => Ok(Some((one.name, one.agent))),
            Err(_) => Ok(None),
        }
    }

    /// Gives the agent the messages of a case, one after the other.
    async fn play(&self, case: &Case, source: &Source<'_>, rehearsal: &mut Rehearsal) -> Result<Course, String> {
        let agent = rehearsal.agent().id.to_string();
        let mut course = Course::default();
        for (place, text) in case.messages.iter().enumerate() {
            let said = Message::new(Role::User, vec![Part::text(text.as_str())]);
            let taped = |turn: RecordedTurn| {
                let tape = Tape::new(turn, &agent).map_err(|error| error.to_string())?;
                Ok::<Trial, String>(Trial::taped(Player::new(tape)))
            };
            let (trial, message, script) = match source {
                Source::Tape(tape) => {
                    let turn = tape.turns.get(place).ok_or("the tape has fewer turns")?.clone();
                    // As it was sent, if its text is the same.
                    let sent = messages(tape).find(|message| message.message_id == turn.message);
                    let same = sent.filter(|sent| message_text(sent).as_ref() == Some(text)).cloned();
                    let message = same.unwrap_or(Message { message_id: turn.message.clone(), ..said });
                    (taped(turn)?, message, Script::Recorded(tape, place))
                }
                Source::Nobody => (taped(empty(&agent))?, said, Script::New(case.expectation.label)),
                Source::Live(servers) => {
                    let trial = Trial::live(self.0.store.clone(), (*servers).clone(), self.0.entropy().bytes());
                    (trial, said, Script::New(case.expectation.label))
                }
            };
            let trial = Arc::new(trial);
            let times = rehearsal.turn(message, script, trial.clone()).await;
            let notes = trial.notes();
            course.tools.extend(notes.tools);
            course.denied.extend(notes.denied_tools);
            course.denial = course.denial.or(notes.denial);
            course.tokens = course.tokens.saturating_add(notes.tokens);
            course.cost.add_all(notes.cost);
            course.first = course.first.or(times.first);
            course.whole = course.whole.saturating_add(times.whole);
            course.missing = trial.playback().and_then(|played| played.missing().map(ToString::to_string));
            if course.missing.is_some() {
                break;
            }
        }
        Ok(course)
    }
}

/// The run of a case, judged by what it brought, or not made for that reason.
pub(super) fn of_case(case: &Case, scorer: Scorer, seen: Result<(Observation, RunFigures), String>) -> CaseRun {
    let unmade = |obstacle: String| {
        let seen = Observation { obstacle: Some(obstacle), ..Observation::default() };
        (seen, RunFigures::default())
    };
    let (seen, figures) = seen.unwrap_or_else(unmade);
    let verdict = judge(case, scorer, &seen);
    let agent = seen.agent.map(|(name, _)| name);
    CaseRun { verdict, agent, tools: seen.tools, denied: seen.denied, judges: seen.judges, figures }
}

/// The first word of each judge: what it says of an answer that was made again is not of the one that the case is of.
fn first_words(judgements: Vec<Judgement>) -> Vec<JudgeWord> {
    let mut first: Vec<JudgeWord> = Vec::new();
    for Judgement { judge, passed } in judgements {
        if first.iter().all(|known| known.judge != judge) {
            first.push(JudgeWord { judge, passed });
        }
    }
    first
}

/// A turn in which nothing was asked.
fn empty(agent: &str) -> RecordedTurn {
    RecordedTurn {
        task: String::new(),
        message: String::new(),
        agent: agent.to_owned(),
        version: String::new(),
        binding: String::new(),
        label: None,
        seed: [0; 32],
        readings: Vec::new(),
        checkpoint: None,
        steps: Vec::new(),
    }
}

/// What the agent answered, or why it did not; none if it said nothing. The task has the artifacts alone that its last turn made.
pub(super) fn answer(task: &Task) -> Option<Result<String, String>> {
    let text = answer_text(task);
    match &task.status.state {
        TaskState::Completed | TaskState::InputRequired => {
            (!text.is_empty() || answer_data(task).is_some()).then_some(Ok(text))
        }
        state => {
            let said = task.status.message.as_ref().and_then(message_text).unwrap_or_default();
            Some(Err(format!("the task is {}: {said}", state_word(state))))
        }
    }
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
