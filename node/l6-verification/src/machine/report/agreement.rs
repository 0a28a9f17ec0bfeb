//! How often agents that judge answers say what people said of the same ones.

use std::collections::BTreeMap;

use super::judges::{Agreement, JudgeWord};
use super::{CaseReport, CaseRun};
use crate::machine::cases::Grade;
use crate::machine::evidence::{CaseRuns, pass_all};

/// The agreement of each judge that was asked about a case with a verdict: one was not where the test denied its call. Its interval is
/// wrong with a probability of `alpha`.
#[must_use]
pub fn agreements(cases: &[CaseReport], alpha: f64) -> Vec<Agreement> {
    let mut counts: BTreeMap<&str, Vec<CaseRuns>> = BTreeMap::new();
    for case in cases {
        let Some(grade) = case.grade else { continue };
        let mut of_case: BTreeMap<&str, CaseRuns> = BTreeMap::new();
        for said in case.runs.iter().flat_map(asked) {
            let counted = of_case.entry(&said.judge).or_insert(CaseRuns { passed: 0, runs: 0 });
            counted.runs = counted.runs.saturating_add(1);
            let agrees = said.passed == Some(grade == Grade::Pass);
            counted.passed = counted.passed.saturating_add(u32::from(agrees));
        }
        for (judge, counted) in of_case {
            counts.entry(judge).or_default().push(counted);
        }
    }
    let agreement = |(judge, counts): (&str, Vec<CaseRuns>)| {
        let sum = |of: fn(&CaseRuns) -> u32| counts.iter().map(of).fold(0, u32::saturating_add);
        Agreement {
            judge: judge.to_owned(),
            agreed: sum(|counted| counted.passed),
            asked: sum(|counted| counted.runs),
            interval: pass_all(&counts, 1, alpha).ok().map(|estimate| estimate.interval),
        }
    };
    counts.into_iter().map(agreement).collect()
}

/// What those said in a run that were asked: the silence of one whose call was denied is not its own.
fn asked(run: &CaseRun) -> impl Iterator<Item = &JudgeWord> {
    run.judges.iter().filter(|said| said.passed.is_some() || !run.denied.contains(&said.judge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::report::{RunFigures, Verdict};

    fn case(grade: Option<Grade>, words: &[Option<bool>]) -> CaseReport {
        let run = |passed: &Option<bool>| CaseRun {
            verdict: Verdict::Pass,
            agent: None,
            tools: Vec::new(),
            denied: Vec::new(),
            judges: vec![JudgeWord { judge: "agents/judge".to_owned(), passed: *passed }],
            figures: RunFigures::default(),
        };
        CaseReport { id: "one".to_owned(), grade, runs: words.iter().map(run).collect() }
    }

    #[test]
    fn a_judge_agrees_where_it_says_what_the_case_says_and_silence_is_no_agreement() {
        let cases = [
            case(Some(Grade::Pass), &[Some(true), Some(false)]),
            case(Some(Grade::Fail), &[Some(false), None]),
            case(None, &[Some(true)]),
        ];
        let found = agreements(&cases, 0.05);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.judge.as_str(), one.agreed, one.asked), ("agents/judge", 2, 4));
        let interval = one.interval.expect("two cases");
        assert!(interval.low < 0.5 && 0.5 < interval.high, "{interval:?}");
        assert!(one.words().starts_with("agreed in 2 of 4 labelled runs, 0.500 (0."), "{}", one.words());
        assert!(agreements(&cases[2..], 0.05).is_empty(), "no case says what is right");
    }

    #[test]
    fn a_judge_that_the_test_did_not_let_be_asked_neither_agrees_nor_disagrees() {
        let mut cases = [case(Some(Grade::Pass), &[None, Some(true)])];
        cases[0].runs[0].denied = vec!["agents/judge".to_owned()];
        let found = agreements(&cases, 0.05);
        assert_eq!((found[0].agreed, found[0].asked), (1, 1));
        // It said something all the same: another call of it was denied.
        cases[0].runs[1].denied = vec!["agents/judge".to_owned()];
        assert_eq!(agreements(&cases, 0.05)[0].asked, 1);
        cases[0].runs.pop();
        assert_eq!(agreements(&cases, 0.05), []);
        cases[0].runs[0].denied = vec!["shop/buy".to_owned()];
        assert_eq!(agreements(&cases, 0.05)[0].asked, 1, "its silence is its own");
    }
}
