//! Tests of the agents of this node: cases, tapes and replays. `althing-verification` judges; here a case is run on the agent, beside
//! the tasks of the node, and what came of it is handed over to be judged.

mod comparison;
mod elsewhere;
mod error;
mod judges;
mod recorded;
mod run;
mod servers;
mod subject;

use std::collections::BTreeSet;

use althing_calls::{Rehearsal, RehearsalError};
use althing_node::rollouts::CaseResult;
use althing_protocol::{AgentId, AgentRef};
use althing_verification::machine::cases::Cases;
use althing_verification::machine::evidence::{CaseRuns, Criteria, Estimate, RepeatError, pass_all, pass_any};
use althing_verification::machine::report::{CaseReport, CaseRun, Floor, Report, Scorer, Verdict, agreements};
use althing_verification::machine::silent::call_norm;

use crate::operations::Operations;

use servers::AgentServers;
use subject::Subject;

pub use error::{TEST_RUNS_MAX, TestError};
pub use judges::JudgeAgreements;
pub use recorded::{RecordedTasks, TaskCase, TaskReplay};

/// How often the intervals of a report may be wrong.
const ALPHA: f64 = 0.05;

/// Tests the agents of a node, and for real also those that it may call on others.
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
    /// Whether the owner accepts that an agent of another node may have effects there, which nothing here can keep from it.
    pub accepts_effects: bool,
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

impl AgentTests<'_> {
    /// The cases of a file.
    ///
    /// # Errors
    /// [`TestError::Cases`]; [`TestError::NoCases`]; [`TestError::Runs`], where there are too many.
    pub fn cases(text: &str) -> Result<Cases, TestError> {
        let cases = read(text)?;
        if cases.len() > TEST_RUNS_MAX {
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
        let cases = read(&order.cases)?;
        let runs = usize::try_from(order.runs).unwrap_or(usize::MAX);
        if runs == 0 || cases.len().saturating_mul(runs) > TEST_RUNS_MAX {
            return Err(TestError::Runs { cases: cases.len(), runs: order.runs });
        }
        let scorer = scorer(order.scorer.as_deref())?;
        let subject = Box::pin(self.subject(order)).await?;
        if let Subject::Here(agent) = &subject {
            AgentServers::of(&self.0.host, &[agent]).check(order.live.as_ref(), &order.agent)?;
        }
        let mut all = Vec::with_capacity(cases.len());
        for case in &cases {
            let (id, grade) = (case.id.clone(), case.expectation.verdict);
            let mut report = CaseReport { id, grade, runs: Vec::with_capacity(runs) };
            for _ in 0..runs {
                report.runs.push(match &subject {
                    Subject::Here(agent) => self.run(order, case, scorer, agent).await,
                    Subject::Elsewhere { agent, .. } => Box::pin(self.run_elsewhere(order, case, scorer, agent)).await,
                });
            }
            all.push(report);
        }
        let report = report(order, &subject, scorer, all);
        if let Subject::Here(agent) = &subject {
            self.0.judges.note(agent.name(), &report.agreements);
            // What a tape says again is no evidence of its own.
            let counted = if order.live.is_some() { runs } else { 1 };
            self.note_calls(agent, &cases, &report.cases, counted);
        }
        Ok(report)
    }

    /// Notes how many tools the right ones of so many runs of each case called: its other turns are compared with that.
    fn note_calls(&self, agent: &AgentRef, cases: &Cases, reports: &[CaseReport], counted: usize) {
        let mut runs = Vec::new();
        for (case, report) in cases.into_iter().zip(reports) {
            for run in report.runs.iter().take(counted).filter(|run| run.verdict == Verdict::Pass) {
                runs.push((count(case.messages.len()), count(run.tools.len())));
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

/// The cases of a file that has some: of none, a test would say nothing.
fn read(file: &str) -> Result<Cases, TestError> {
    let cases = Cases::read(file.as_bytes())?;
    if cases.is_empty() { Err(TestError::NoCases) } else { Ok(cases) }
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

fn report(order: &TestOrder, subject: &Subject, scorer: Scorer, cases: Vec<CaseReport>) -> Report {
    let counts = |case: &CaseReport| {
        let (passed, runs) = case.counts();
        CaseRuns { passed, runs }
    };
    let counts: Vec<CaseRuns> = cases.iter().map(counts).collect();
    let interval = |of: fn(&[CaseRuns], u32, f64) -> Result<Estimate, RepeatError>| {
        of(&counts, order.runs, ALPHA).ok().map(|known| known.interval)
    };
    Report {
        agent: subject.name().to_owned(),
        version: subject.version(),
        scorer,
        k: order.runs,
        pass_hat_interval: interval(pass_all),
        pass_at_interval: interval(pass_any),
        agreements: agreements(&cases, ALPHA),
        cases,
        floor: order.floor.map(|share| Floor { share }),
        is_elsewhere: matches!(subject, Subject::Elsewhere { .. }),
    }
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}
