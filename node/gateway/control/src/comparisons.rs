//! Comparisons of two versions in the control API: for the owner, on the node's machine, as tests of agents are.

use std::sync::Arc;

use althing_api::{
    CasePair, ComparisonReply, ComparisonReport, ComparisonRequest, ComparisonVerdict, LiveTest, PairFigures, PairGap,
    TestedVersion,
};
use althing_operations::test_evidence::{Criteria, PairSummary, Verdict};
use althing_operations::{AgentTests, CompareOrder, Operations, test_report};
use axum::Json;
use axum::extract::State;

use crate::body::Body;
use crate::error::Answer;
use crate::requester::Requester;

/// `POST /comparisons`
pub async fn compare(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<ComparisonRequest>,
) -> Answer<ComparisonReply> {
    requester.check_owner()?;
    let ComparisonRequest { before, after, cases, runs, margin, seed, slices, scores, scorer, live } = request;
    let usual = Criteria::default();
    let order = CompareOrder {
        versions: [before, after],
        cases,
        runs: runs.unwrap_or(1),
        slices,
        is_scored: scores,
        scorer,
        criteria: Criteria { margin: margin.unwrap_or(usual.margin), seed: seed.unwrap_or(usual.seed), ..usual },
        live: live.map(|LiveTest { test_servers }| test_servers.into_iter().collect()),
    };
    let report = AgentTests(&node).compare(&order).await?;
    Ok(Json(ComparisonReply { table: report.table(), report: told(report) }))
}

fn told(report: test_report::ComparisonReport) -> ComparisonReport {
    let (verdict, needed) = word(report.verdict());
    let test_report::ComparisonReport { versions, scorer, runs, criteria, comparison, cases, gaps } = report;
    let [before, after] =
        versions.map(|test_report::TestedVersion { agent, version }| TestedVersion { agent, version });
    let whole = comparison.as_ref().map(|comparison| figures(&comparison.whole));
    let (slices, against) = comparison.map(|comparison| (comparison.slices, comparison.against)).unwrap_or_default();
    ComparisonReport {
        before,
        after,
        scorer: scorer.word().to_owned(),
        runs,
        margin: criteria.margin,
        alpha: criteria.alpha,
        seed: criteria.seed,
        verdict,
        needed,
        whole,
        slices: slices.iter().map(|(name, slice)| (name.clone(), figures(slice))).collect(),
        against,
        cases: cases
            .into_iter()
            .map(|test_report::CasePair { id, before, after }| CasePair { id, before, after })
            .collect(),
        gaps: gaps.into_iter().map(|test_report::PairGap { case, reason }| PairGap { case, reason }).collect(),
    }
}

fn figures(summary: &PairSummary) -> PairFigures {
    let PairSummary { pairs, cases, broken, mended, difference, interval, p, verdict } = *summary;
    let (verdict, needed) = word(verdict);
    let interval = (interval.low, interval.high);
    PairFigures { pairs, cases, broken, mended, difference, interval, p, verdict, needed }
}

/// A verdict, with how much would decide where that is open.
fn word(verdict: Verdict) -> (ComparisonVerdict, Option<u64>) {
    match verdict {
        Verdict::Better => (ComparisonVerdict::Better, None),
        Verdict::NoWorse => (ComparisonVerdict::NoWorse, None),
        Verdict::Worse => (ComparisonVerdict::Worse, None),
        Verdict::Undecided { pairs } => (ComparisonVerdict::Undecided, pairs),
    }
}
