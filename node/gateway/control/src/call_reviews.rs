//! What was decided of the calls of a task's turns, decided again, as checks of these turns.

use althing_api::{CheckVerdict, RunCheck};
use althing_calls::RunRecord;
use althing_operations::Operations;
use althing_operations::governance::{CallReview, PastCall, PastTurn, ReviewFinding, review_calls};
use althing_protocol::{AgentRef, Contract, hex};

/// A turn that this node ran, with what its calls are decided by.
struct TurnParts<'a> {
    run: &'a RunRecord,
    after_ms: u64,
    agent: AgentRef,
    contract: Option<Contract>,
    calls: Vec<PastCall<'a>>,
}

impl<'a> TurnParts<'a> {
    fn of(node: &Operations, run: &'a RunRecord, after_ms: u64) -> Option<TurnParts<'a>> {
        let agent = AgentRef::new(node.identity.owner().id(), &run.agent, &run.version).ok()?;
        let is_here = run.node == node.key.public().did();
        let past = run.calls.iter().map(|call| PastCall {
            tool: &call.tool,
            arguments: &call.arguments,
            outcome: &call.outcome,
        });
        is_here.then(|| TurnParts { run, after_ms, agent, contract: contract(node, run), calls: past.collect() })
    }

    fn turn<'b>(&'b self, task: &'b str) -> PastTurn<'b> {
        PastTurn {
            agent: &self.agent,
            task,
            after_ms: self.after_ms,
            ended_ms: self.run.ended_ms,
            trace: self.run.trace.as_deref(),
            contract: self.contract.as_ref(),
            calls: &self.calls,
        }
    }
}

/// Decides the calls of a task's turns again: of each turn a check for each thing that came of it.
pub async fn decisions(node: &Operations, task: &str, runs: &[RunRecord]) -> Vec<Vec<RunCheck>> {
    let ends = std::iter::once(0).chain(runs.iter().map(|run| run.ended_ms));
    let parts: Vec<Option<TurnParts<'_>>> =
        runs.iter().zip(ends).map(|(run, after_ms)| TurnParts::of(node, run, after_ms)).collect();
    let turns: Vec<PastTurn<'_>> = parts.iter().flatten().map(|parts| parts.turn(task)).collect();
    let mut reviews = review_calls(&node.governance, &turns).await.into_iter();
    let checks = |(run, parts): (&RunRecord, &Option<TurnParts<'_>>)| {
        let mut checks = match parts {
            Some(_) => grouped(&reviews.next().unwrap_or_default()),
            None if run.calls.is_empty() => Vec::new(),
            None => vec![gone(format!("it ran on {}, which knows what was decided of its calls", run.node))],
        };
        if run.more_calls > 0 {
            checks.push(gone(format!("{} more calls are not in its record", run.more_calls)));
        }
        checks
    };
    runs.iter().zip(&parts).map(checks).collect()
}

/// The contract of the manifest that a turn was bound to, where the node keeps that.
fn contract(node: &Operations, run: &RunRecord) -> Option<Contract> {
    let kept = node.bindings.find(&run.binding).ok()?;
    let manifest = &kept.bound.manifest;
    (hex(&manifest.hash()) == run.binding).then(|| manifest.contract.clone())
}

/// A check for all calls of which the same came.
fn grouped(reviews: &[CallReview]) -> Vec<RunCheck> {
    let mut groups: Vec<(&CallReview, Vec<&str>)> = Vec::new();
    for review in reviews {
        let known = groups.iter_mut().find(|(first, _)| first.finding == review.finding && first.why == review.why);
        match known {
            Some((_, tools)) if tools.contains(&review.tool.as_str()) => {}
            Some((_, tools)) => tools.push(&review.tool),
            None => groups.push((review, vec![review.tool.as_str()])),
        }
    }
    let check = |(first, tools): (&CallReview, Vec<&str>)| {
        let verdict = match first.finding {
            ReviewFinding::Holds => CheckVerdict::Holds,
            ReviewFinding::Gone => CheckVerdict::Gone,
            ReviewFinding::Differs => CheckVerdict::Broken,
        };
        of_decisions(verdict, format!("{}: {}", tools.join(", "), first.why))
    };
    groups.into_iter().map(check).collect()
}

fn gone(why: String) -> RunCheck {
    of_decisions(CheckVerdict::Gone, why)
}

fn of_decisions(verdict: CheckVerdict, why: String) -> RunCheck {
    RunCheck { what: "decisions".to_owned(), verdict, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_which_the_same_came_are_one_check() {
        let review =
            |tool: &str, finding, why: &str| CallReview { tool: tool.to_owned(), finding, why: why.to_owned() };
        let told = grouped(&[
            review("shop/search", ReviewFinding::Holds, "again permit by all, as then"),
            review("shop/pay", ReviewFinding::Differs, "then deny, now permit by all (decision 4)"),
            review("shop/search", ReviewFinding::Holds, "again permit by all, as then"),
            review("shop/list", ReviewFinding::Holds, "again permit by all, as then"),
            review("shop/list", ReviewFinding::Gone, "again permit by all, as then"),
        ]);
        let told: Vec<_> = told.iter().map(|check| (check.what.as_str(), check.verdict, check.why.as_str())).collect();
        let expected = [
            ("decisions", CheckVerdict::Holds, "shop/search, shop/list: again permit by all, as then"),
            ("decisions", CheckVerdict::Broken, "shop/pay: then deny, now permit by all (decision 4)"),
            ("decisions", CheckVerdict::Gone, "shop/list: again permit by all, as then"),
        ];
        assert_eq!(told, expected);
    }
}
