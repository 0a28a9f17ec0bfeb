//! What is made of tasks that are over: a case of one, or a replay from its tape.

use std::sync::Arc;

use a2a::{Message, Role, TaskState};
use althing_calls::{Rehearsal, Script, StepsError, TaskTape};
use althing_execution::tools::CallKind;
use althing_protocol::AgentRef;
use althing_verification::machine::cases::{Case, Cases, Expectation, ToolRule};
use althing_verification::machine::tape::{
    Playback, ReplayVerdict, Tape, TapeError, TurnOutput, answer_text, compare, message_text, state_word, turn_output,
};
use althing_verification::{Player, Trial};

use super::error::TestError;
use crate::operations::Operations;

/// A task as a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCase {
    /// Its line in a file of cases.
    pub line: String,
    /// Whether a tape answers it.
    pub is_recorded: bool,
}

/// What came of running a task again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReplay {
    /// The agent, in the version that ran now.
    pub agent: AgentRef,
    /// Each turn of the task, in their order: the id of its message, and whether it is the same.
    pub turns: Vec<(String, ReplayVerdict)>,
}

impl TaskReplay {
    /// Whether all turns are the same.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.turns.iter().all(|(_, verdict)| *verdict == ReplayVerdict::Equal)
    }

    /// The turns by the ids of their messages, each with where it differs, in words.
    #[must_use]
    pub fn differences(&self) -> Vec<(String, Vec<String>)> {
        let words = |verdict: &ReplayVerdict| match verdict {
            ReplayVerdict::Equal => Vec::new(),
            ReplayVerdict::Differs(differences) => differences.iter().map(ToString::to_string).collect(),
        };
        self.turns.iter().map(|(message, verdict)| (message.clone(), words(verdict))).collect()
    }
}

/// The tasks of the agents of a node, as far as tapes and notes tell of them.
pub struct RecordedTasks<'a>(pub &'a Operations);

impl RecordedTasks<'_> {
    /// A case of a task that is over: what was said to the agent, what it answered last, where that is known, and, of one that is
    /// recorded, the tools that it called.
    ///
    /// # Errors
    /// [`TestError`].
    pub async fn case(&self, task: &str) -> Result<TaskCase, TestError> {
        let tape = self.0.hosting.own_tasks().task_tape(task)?;
        let state = &tape.task.status.state;
        if !matches!(state, TaskState::Completed | TaskState::InputRequired) {
            return Err(TestError::NoAnswer { task: task.to_owned(), state: state_word(state) });
        }
        let texts: Option<Vec<String>> = messages(&tape).map(message_text).collect();
        let texts = texts.ok_or_else(|| TestError::NoText { task: task.to_owned() })?;
        let answer = tape.answered().map(|task| answer_text(&task)).unwrap_or_default();
        let targets: Vec<String> = (!answer.is_empty()).then_some(answer).into_iter().collect();
        let is_recorded = is_whole(&tape);
        let tools = if is_recorded { Some(self.called(&tape).await) } else { None };
        let expectation = Expectation {
            tools: tools.map(ToolRule::Exact),
            label: tape.label,
            task: is_recorded.then(|| task.to_owned()),
            ..Expectation::default()
        };
        let mut cases = Cases::default();
        cases.add(Case::new(task, &texts, &targets, &expectation)?)?;
        Ok(TaskCase { line: cases.text().trim_end().to_owned(), is_recorded })
    }

    /// Runs a task again, from its tape.
    ///
    /// # Errors
    /// [`TestError`].
    pub async fn replay(&self, task: &str) -> Result<TaskReplay, TestError> {
        let tape = self.0.hosting.own_tasks().task_tape(task)?;
        let state = &tape.task.status.state;
        if !state.is_terminal() && *state != TaskState::InputRequired {
            return Err(TestError::NotOver { task: task.to_owned(), state: state_word(state) });
        }
        let Some(first) = tape.turns.first() else {
            return Err(StepsError::NoJournal { task: task.to_owned(), agent: tape.agent.clone() }.into());
        };
        if !is_whole(&tape) {
            let (turns, messages) = (tape.turns.len(), messages(&tape).count());
            return Err(TestError::Gaps { task: task.to_owned(), turns, messages });
        }
        let rehearsal = self.0.hosting.own_tasks().rehearsal(&tape.agent, Some(first.version.as_str()))?;
        let (agent, mut turns) = (rehearsal.agent().clone(), Vec::new());
        for (place, played) in play(&tape, rehearsal).await?.into_iter().enumerate() {
            let turn = &tape.turns[place];
            let was = match place + 1 == tape.turns.len() {
                true => turn_output(&turn.binding, &tape.task),
                // How it ended between two messages is not known of the task any more.
                false => TurnOutput { binding: turn.binding.clone(), ..played.output.clone() },
            };
            turns.push((turn.message.clone(), compare(&was, &played.output, &played.playback)));
        }
        Ok(TaskReplay { agent, turns })
    }

    /// The tools that the agent called in all turns of a task, in their order. Which calls were those of checks no tape says: an agent
    /// with checks is told its tape once more, and where that goes another way, the calls of no tool count that checks.
    async fn called(&self, tape: &TaskTape) -> Vec<String> {
        let mut all = tools(tape);
        let version = tape.turns.first().map(|turn| turn.version.as_str());
        let Ok(rehearsal) = self.0.hosting.own_tasks().rehearsal(&tape.agent, version) else { return all };
        let checks = self.0.host.checks(rehearsal.agent());
        if !all.iter().any(|tool| checks.contains(tool)) {
            return all;
        }
        match play(tape, rehearsal).await {
            Ok(turns) if turns.iter().all(|turn| turn.playback.missing().is_none()) => {
                turns.into_iter().flat_map(|turn| turn.tools).collect()
            }
            _ => {
                all.retain(|tool| !checks.contains(tool));
                all
            }
        }
    }
}

/// A turn that was told its tape again.
struct PlayedTurn {
    output: TurnOutput,
    playback: Playback,
    /// What the agent called.
    tools: Vec<String>,
}

/// Runs all turns of a task again, from its tape.
async fn play(tape: &TaskTape, mut rehearsal: Rehearsal) -> Result<Vec<PlayedTurn>, TapeError> {
    let agent = rehearsal.agent().id.to_string();
    let mut turns = Vec::new();
    for (place, (turn, message)) in tape.turns.iter().zip(messages(tape)).enumerate() {
        let trial = Arc::new(Trial::taped(Player::new(Tape::new(turn.clone(), &agent)?)));
        rehearsal.turn(message.clone(), Script::Recorded(tape, place), trial.clone()).await;
        let playback = trial.playback().expect("a taped trial has what it played");
        let task = rehearsal.task().expect("a turn from a tape leaves a task");
        let output = turn_output(&rehearsal.binding(), task);
        turns.push(PlayedTurn { output, playback, tools: trial.notes().tools });
    }
    Ok(turns)
}

/// What was said to the agent of a task, the first message first.
pub(super) fn messages(tape: &TaskTape) -> impl Iterator<Item = &Message> {
    tape.task.history.iter().flatten().filter(|message| message.role == Role::User)
}

/// Whether each message of a task has its tape.
fn is_whole(tape: &TaskTape) -> bool {
    let told = messages(tape).map(|message| message.message_id.as_str());
    !tape.turns.is_empty() && told.eq(tape.turns.iter().map(|turn| turn.message.as_str()))
}

/// The tools that were called in all turns of a task, in their order.
fn tools(tape: &TaskTape) -> Vec<String> {
    let steps = tape.turns.iter().flat_map(|turn| &turn.steps);
    steps.filter(|step| step.kind == CallKind::Tool).map(|step| step.name.clone()).collect()
}
