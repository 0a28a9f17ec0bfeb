//! Tests of the agents of this node: cases, tapes and replays. `althing-verification` judges; here a case is run on the agent, beside
//! the tasks of the node, and what came of it is handed over to be judged.

mod comparison;
mod error;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;

use a2a::{Message, Role, TaskState};
use althing_calls::{Rehearsal, RehearsalError, Script, StepsError, TaskTape};
use althing_execution::tools::CallKind;
use althing_node::rollouts::CaseResult;
use althing_protocol::{AgentId, AgentRef};
use althing_verification::machine::cases::{Case, Cases, Expectation, ToolRule};
use althing_verification::machine::evidence::{CaseRuns, Criteria, Estimate, RepeatError, pass_all, pass_any};
use althing_verification::machine::report::{CaseReport, CaseRun, Floor, Interval, Report, Scorer, Verdict};
use althing_verification::machine::silent::call_norm;
use althing_verification::machine::tape::{
    ReplayVerdict, Tape, TurnOutput, answer_text, compare, message_text, state_word, turn_output,
};
use althing_verification::{Player, Trial};

use crate::operations::Operations;

pub use error::{TEST_RUNS_MAX, TestError};

/// How often the intervals of a report may be wrong.
const ALPHA: f64 = 0.05;

/// Tests the agents of a node.
pub struct AgentTests<'a>(pub &'a Operations);

/// What is tested, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TestOrder {
    /// The agent: its name, or its id.
    pub agent: String,
    /// The file of cases.
    pub cases: String,
    /// How often each case is run.
    pub runs: u32,
    /// How texts are compared; none: as by default.
    pub scorer: Option<String>,
    /// The least share of cases that are right in all runs, 0 to 1; none: all runs of all cases are right.
    pub floor: Option<f64>,
    /// The servers whose tools may have effects, where models and tools are asked for real; none where tapes answer.
    pub live: Option<BTreeSet<String>>,
    /// Whether a run is judged only if no call was denied to it.
    pub is_strict: bool,
}

/// What is compared, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareOrder {
    /// The older one and the newer one: a name, `NAME@VERSION`, or an id.
    pub versions: [String; 2],
    /// The file of cases.
    pub cases: String,
    /// How often each case is run by both. From a tape the same comes each time: there it counts once.
    pub runs: u32,
    /// Keys of `metadata` whose values divide the cases into slices.
    pub slices: Vec<String>,
    /// Whether shares of what is right are compared, in place of passes.
    pub is_scored: bool,
    /// How texts are compared; none: as by default.
    pub scorer: Option<String>,
    /// By what it is decided.
    pub criteria: Criteria,
    /// The servers whose tools may have effects, where models and tools are asked for real; none where tapes answer.
    pub live: Option<BTreeSet<String>>,
}

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

impl AgentTests<'_> {
    /// A case of a task that is over: what was said to the agent, what it answered, and, of one that is recorded, the tools that it
    /// called.
    ///
    /// # Errors
    /// [`TestError`].
    pub fn case(&self, task: &str) -> Result<TaskCase, TestError> {
        let tape = self.0.hosting.own_tasks().task_tape(task)?;
        let state = &tape.task.status.state;
        if !matches!(state, TaskState::Completed | TaskState::InputRequired) {
            return Err(TestError::NoAnswer { task: task.to_owned(), state: state_word(state) });
        }
        let texts: Option<Vec<String>> = messages(&tape).map(message_text).collect();
        let texts = texts.ok_or_else(|| TestError::NoText { task: task.to_owned() })?;
        let answer = answer_text(&tape.task);
        let targets: Vec<String> = (!answer.is_empty()).then_some(answer).into_iter().collect();
        let is_recorded = is_whole(&tape);
        let expectation = Expectation {
            tools: is_recorded.then(|| ToolRule::Exact(tools(&tape))),
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
        let mut rehearsal = self.0.hosting.own_tasks().rehearsal(&tape.agent, Some(first.version.as_str()))?;
        let agent = rehearsal.agent().clone();
        let mut turns = Vec::new();
        for (place, (turn, message)) in tape.turns.iter().zip(messages(&tape)).enumerate() {
            let player = Player::new(Tape::new(turn.clone(), &agent.id.to_string())?);
            let trial = Arc::new(Trial::taped(player));
            rehearsal.turn(message.clone(), Script::Recorded(&tape, place), trial.clone()).await;
            let played = trial.playback().expect("a taped trial has what it played");
            let task = rehearsal.task().expect("a turn from a tape leaves a task");
            let is = turn_output(&rehearsal.binding(), task);
            let was = match place + 1 == tape.turns.len() {
                true => turn_output(&turn.binding, &tape.task),
                // How it ended between two messages is not known of the task any more.
                false => TurnOutput { binding: turn.binding.clone(), ..is.clone() },
            };
            turns.push((turn.message.clone(), compare(&was, &is, &played)));
        }
        Ok(TaskReplay { agent, turns })
    }

    /// The cases of a file.
    ///
    /// # Errors
    /// [`TestError::Cases`]; [`TestError::Runs`], where there are too many, or none.
    pub fn cases(text: &str) -> Result<Cases, TestError> {
        let cases = Cases::read(text.as_bytes())?;
        if cases.is_empty() || cases.len() > TEST_RUNS_MAX {
            return Err(TestError::Runs { cases: cases.len(), runs: 1 });
        }
        Ok(cases)
    }

    /// Gives cases to both versions of an agent whose rollout is under way, and counts what came of them there. Models and tools are
    /// asked; calls that may change something are denied. A case counts as nothing that cannot be judged with both.
    pub async fn weigh(&self, agent: &str, cases: &Cases) {
        let live = Some(BTreeSet::new());
        let order = TestOrder { agent: agent.to_owned(), runs: 1, live, is_strict: true, ..TestOrder::default() };
        for case in cases {
            let Some([stable, new]) = self.0.rollouts.versions(agent) else { return };
            let stable = self.run(&order, case, Scorer::default(), &stable).await;
            let new = self.run(&order, case, Scorer::default(), &new).await;
            if let (Some(stable), Some(new)) = (result(&stable), result(&new)) {
                self.0.rollouts.count_case(agent, [stable, new]).await;
            }
        }
    }

    /// Runs the cases of a file.
    ///
    /// # Errors
    /// [`TestError`]: nothing was run.
    pub async fn test(&self, order: &TestOrder) -> Result<Report, TestError> {
        let cases = Cases::read(order.cases.as_bytes())?;
        let runs = usize::try_from(order.runs).unwrap_or(usize::MAX);
        if runs == 0 || cases.len().saturating_mul(runs) > TEST_RUNS_MAX {
            return Err(TestError::Runs { cases: cases.len(), runs: order.runs });
        }
        let scorer = scorer(order.scorer.as_deref())?;
        let agent = self.rehearsal(&order.agent, None)?.agent().clone();
        let mut all = Vec::with_capacity(cases.len());
        for case in &cases {
            let mut report = CaseReport { id: case.id.clone(), runs: Vec::with_capacity(runs) };
            for _ in 0..runs {
                report.runs.push(self.run(order, case, scorer, &agent).await);
            }
            all.push(report);
        }
        // What a tape says again is no evidence of its own.
        let counted = if order.live.is_some() { runs } else { 1 };
        self.note_calls(&agent, &cases, &all, counted);
        Ok(report(order, &agent, scorer, all))
    }

    /// Notes how many tools the right ones of so many runs of each case called: its other turns are compared with that.
    fn note_calls(&self, agent: &AgentRef, cases: &Cases, reports: &[CaseReport], counted: usize) {
        let checks = self.0.host.checks(agent);
        let mut runs = Vec::new();
        for (case, report) in cases.into_iter().zip(reports) {
            for run in report.runs.iter().take(counted).filter(|run| run.verdict == Verdict::Pass) {
                let own = run.tools.iter().filter(|tool| !checks.contains(tool)).count();
                runs.push((count(case.messages.len()), count(own)));
            }
        }
        if !runs.is_empty() {
            self.0.host.set_call_norm(agent, call_norm(&runs));
        }
    }

    /// A conversation with an agent of this node, by its name or its id; with that version of it, if it runs.
    fn rehearsal(&self, agent: &str, version: Option<&str>) -> Result<Rehearsal, RehearsalError> {
        let id = agent.parse::<AgentId>().ok();
        let rehearsal = self.0.hosting.own_tasks().rehearsal(id.as_ref().map_or(agent, AgentId::name), version)?;
        match id {
            Some(id) if id != rehearsal.agent().id => Err(RehearsalError::NotHere { agent: agent.to_owned() }),
            _ => Ok(rehearsal),
        }
    }
}

/// The scorer of that word; without one the usual one.
fn scorer(word: Option<&str>) -> Result<Scorer, TestError> {
    match word {
        Some(word) => Scorer::of(word).ok_or_else(|| TestError::Scorer { word: word.to_owned() }),
        None => Ok(Scorer::default()),
    }
}

/// What counts of a case; none of one that cannot be judged.
fn result(run: &CaseRun) -> Option<CaseResult> {
    let is_right = match run.verdict {
        Verdict::Pass => true,
        Verdict::Fail(_) => false,
        Verdict::Undecided(_) => return None,
    };
    Some(CaseResult { is_right, first_token_ms: run.figures.first_token_ms })
}

fn report(order: &TestOrder, agent: &AgentRef, scorer: Scorer, cases: Vec<CaseReport>) -> Report {
    let counts = |case: &CaseReport| {
        let (passed, runs) = case.counts();
        CaseRuns { passed, runs }
    };
    let counts: Vec<CaseRuns> = cases.iter().map(counts).collect();
    let interval = |of: fn(&[CaseRuns], u32, f64) -> Result<Estimate, RepeatError>| {
        let known = of(&counts, order.runs, ALPHA).ok()?.interval;
        Some(Interval { low: known.low, high: known.high })
    };
    Report {
        agent: agent.name().to_owned(),
        version: agent.version.to_string(),
        scorer,
        k: order.runs,
        pass_hat_interval: interval(pass_all),
        pass_at_interval: interval(pass_any),
        cases,
        floor: order.floor.map(|share| Floor { share }),
    }
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

/// What was said to the agent of a task, the first message first.
fn messages(tape: &TaskTape) -> impl Iterator<Item = &Message> {
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
