//! Tests of agents in the control API: cases of tasks, what came of cases, and tasks that are run again. All of that is for the
//! owner, on the node's machine: it shows what was said in tasks, and runs agents without asking who may call them.

use std::sync::Arc;

use althing_api::{
    CaseReport, CaseRun, JudgeAgreement, JudgeVerdict, LiveTest, ReplayRequest, ShareEstimate, TaskCase, TaskReplay,
    TestOutcome, TestReply, TestReport, TestRequest, TurnReplay,
};
use althing_operations::test_evidence::Interval;
use althing_operations::test_report::{self, Agreement, JudgeWord, Outcome, Report, Verdict};
use althing_operations::{AgentTests, Operations, RecordedTasks, TestError, TestOrder};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::Body;
use crate::error::{Answer, ApiError};
use crate::requester::Requester;

impl From<TestError> for ApiError {
    fn from(error: TestError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

/// `GET /tasks/{task}/case`
pub async fn case(
    State(node): State<Arc<Operations>>,
    Path(task): Path<String>,
    requester: Requester,
) -> Answer<TaskCase> {
    requester.check_owner()?;
    let case = RecordedTasks(&node).case(&task).await?;
    Ok(Json(TaskCase { case: case.line, recorded: case.is_recorded }))
}

/// `POST /replay`
pub async fn replay(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(ReplayRequest { task }): Body<ReplayRequest>,
) -> Answer<TaskReplay> {
    requester.check_owner()?;
    let replay = RecordedTasks(&node).replay(&task).await?;
    let turn = |(message, differences): (String, Vec<String>)| TurnReplay { message, differences };
    let (equal, agent) = (replay.is_equal(), &replay.agent);
    let (agent, version) = (agent.name().to_owned(), agent.version.to_string());
    Ok(Json(TaskReplay { task, agent, version, equal, turns: replay.differences().into_iter().map(turn).collect() }))
}

/// `POST /tests`
pub async fn test(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<TestRequest>,
) -> Answer<TestReply> {
    requester.check_owner()?;
    let TestRequest { agent, cases, runs, scorer, floor, live, effects_elsewhere, junit } = request;
    if floor.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Err(ApiError::invalid("the floor is a share: write a number from 0 to 1"));
    }
    let live = live.map(|LiveTest { test_servers }| test_servers.into_iter().collect());
    let order = TestOrder {
        agent,
        cases,
        runs: runs.unwrap_or(1),
        scorer,
        floor,
        live,
        is_strict: false,
        accepts_effects: effects_elsewhere,
    };
    let report = AgentTests(&node).test(&order).await?;
    let written = junit.then(|| report.junit()).transpose();
    let junit = written.map_err(|error| ApiError::failed(error.to_string()))?;
    Ok(Json(TestReply { table: report.table(), report: told(&report), junit }))
}

fn told(report: &Report) -> TestReport {
    let share = |estimate: Option<f64>, interval: Option<Interval>| ShareEstimate {
        estimate,
        interval: interval.map(|Interval { low, high }| (low, high)),
    };
    TestReport {
        agent: report.agent.clone(),
        version: report.version.clone(),
        scorer: report.scorer.word().to_owned(),
        verdict: word(report.outcome()),
        k: report.k,
        pass_hat: share(report.pass_hat(), report.pass_hat_interval),
        pass_at: share(report.pass_at(), report.pass_at_interval),
        floor: report.floor.map(|floor| floor.share),
        elsewhere: report.is_elsewhere,
        cases: report.cases.iter().map(of_case).collect(),
        judges: report.agreements.iter().map(of_judge).collect(),
    }
}

/// How far a judge agrees with labelled cases.
pub(crate) fn of_judge(agreement: &Agreement) -> JudgeAgreement {
    JudgeAgreement {
        judge: agreement.judge.clone(),
        agreed: agreement.agreed,
        asked: agreement.asked,
        interval: agreement.interval.map(|Interval { low, high }| (low, high)),
    }
}

fn of_case(case: &test_report::CaseReport) -> CaseReport {
    let (passed, decided) = case.counts();
    let runs = case.runs.iter().map(of_run).collect();
    CaseReport { id: case.id.clone(), verdict: word(case.outcome()), passed, decided, runs }
}

fn of_run(run: &test_report::CaseRun) -> CaseRun {
    let (verdict, reasons) = match &run.verdict {
        Verdict::Pass => (TestOutcome::Pass, Vec::new()),
        Verdict::Fail(findings) => (TestOutcome::Fail, findings.iter().map(ToString::to_string).collect()),
        Verdict::Undecided(why) => (TestOutcome::Undecided, vec![why.clone()]),
    };
    let figures = run.figures;
    CaseRun {
        verdict,
        reasons,
        agent: run.agent.clone(),
        tools: run.tools.clone(),
        denied: run.denied.clone(),
        duration_ms: figures.duration_ms,
        first_token_ms: figures.first_token_ms,
        tokens: figures.tokens,
        tokens_per_second: figures.tokens_per_second(),
        cost: figures.cost,
        judges: run
            .judges
            .iter()
            .map(|JudgeWord { judge, passed }| JudgeVerdict { judge: judge.clone(), passed: *passed })
            .collect(),
    }
}

fn word(outcome: Outcome) -> TestOutcome {
    match outcome {
        Outcome::Pass => TestOutcome::Pass,
        Outcome::Fail => TestOutcome::Fail,
        Outcome::Undecided => TestOutcome::Undecided,
    }
}
