//! Two agents, or two versions of one, that run the same cases.

use std::collections::BTreeSet;

use althing_protocol::AgentRef;
use althing_verification::machine::cases::Cases;
use althing_verification::machine::evidence::{ComparisonError, SLICES_MAX};
use althing_verification::machine::report::{ComparisonReport, Pairs, Scorer, TestedVersion};

use super::error::{TEST_RUNS_MAX, TestError};
use super::servers::AgentServers;
use super::{AgentTests, CompareOrder, TestOrder, read, scorer};

impl AgentTests<'_> {
    /// Has two versions run the same cases, and says what that proves.
    ///
    /// # Errors
    /// [`TestError`]: nothing was run.
    pub async fn compare(&self, order: &CompareOrder) -> Result<ComparisonReport, TestError> {
        let cases = read(&order.cases)?;
        let runs = usize::try_from(order.runs).unwrap_or(usize::MAX);
        if runs == 0 || cases.len().saturating_mul(runs).saturating_mul(2) > TEST_RUNS_MAX {
            return Err(TestError::Pairs { cases: cases.len(), runs: order.runs });
        }
        if !order.criteria.is_sound() {
            return Err(ComparisonError::Criteria.into());
        }
        let slices = cases.slices(&order.slices)?;
        let found = slices.iter().flatten().collect::<BTreeSet<_>>().len();
        if found > SLICES_MAX {
            return Err(ComparisonError::Slices { found }.into());
        }
        let scorer = scorer(order.scorer.as_deref())?;
        let [before, after] = &order.versions;
        let versions = [self.version(before)?, self.version(after)?];
        let servers = AgentServers::of(&self.0.host, &versions.each_ref());
        servers.check(order.live.as_ref(), &format!("{before} or {after}"))?;
        let pairs = self.pairs(order, (&cases, slices.as_slice()), scorer, &versions).await;
        let named =
            versions.map(|agent| TestedVersion { agent: agent.name().to_owned(), version: agent.version.to_string() });
        let (runs, criteria) = (counted_runs(order), order.criteria);
        // Samples of large files are drawn from for seconds.
        let compared = tokio::task::spawn_blocking(move || pairs.report(named, scorer, runs, criteria)).await;
        let compared = compared.map_err(|error| {
            tracing::error!(%error, "a comparison was not carried out to its end");
            TestError::Broken
        })?;
        Ok(compared?)
    }

    async fn pairs(
        &self,
        order: &CompareOrder,
        (cases, slices): (&Cases, &[BTreeSet<String>]),
        scorer: Scorer,
        [before, after]: &[AgentRef; 2],
    ) -> Pairs {
        let asked = TestOrder { live: order.live.clone(), ..TestOrder::default() };
        let mut pairs = Pairs::new(order.is_scored);
        for ((case, of_case), place) in cases.iter().zip(slices).zip(0_u32..) {
            for run in 0..counted_runs(order) {
                // Who comes first finds colder caches: each of both does so as often.
                let is_newer_first = (place ^ run) & 1 == 1;
                let [first, second] = if is_newer_first { [after, before] } else { [before, after] };
                let first = self.run(&asked, case, scorer, first).await.verdict;
                let second = self.run(&asked, case, scorer, second).await.verdict;
                let verdicts = if is_newer_first { [&second, &first] } else { [&first, &second] };
                pairs.add(case, of_case, verdicts);
            }
        }
        pairs
    }

    /// The agent that a word means: `NAME@VERSION` exactly that version, a name or an id the version that it means.
    fn version(&self, word: &str) -> Result<AgentRef, TestError> {
        let (agent, version) = match word.split_once('@') {
            Some((agent, version)) => (agent, Some(version)),
            None => (word, None),
        };
        let found = self.rehearsal(agent, version)?.agent().clone();
        match version {
            Some(version) if version != &*found.version => Err(TestError::Version {
                agent: agent.to_owned(),
                version: version.to_owned(),
                running: found.version.to_string(),
            }),
            _ => Ok(found),
        }
    }
}

/// How often each case is run: what a tape says again is no evidence of its own.
fn counted_runs(order: &CompareOrder) -> u32 {
    if order.live.is_some() { order.runs } else { 1 }
}
