//! What led to an answer, and whether that holds still, in the control API.

use std::sync::Arc;

use althing_api::{
    CheckVerdict, Kind, LineageGap, LineageReport, LineageTask, RunCheck, RunVerification, TurnCall, TurnRun,
    TurnVerification,
};
use althing_calls::{DigestCheck, RunCall, RunRecord, StepsError, TaskRuns, spans};
use althing_execution::admission::AdmissionProof;
use althing_execution::binding::replay;
use althing_node::NodeError;
use althing_operations::Operations;
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Path, State};

use crate::body::detached;
use crate::call_reviews::decisions;
use crate::error::{Answer, ApiError};

/// `GET /tasks/{task}/lineage`: what the turns of a task did, and those of the agents that they called.
pub async fn show(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<LineageReport> {
    let found = node.traces.lineage(&task).await.map_err(problem)?;
    if found.tasks.is_empty() {
        let why = found.gaps.into_iter().next().map(|gap| gap.why).unwrap_or_default();
        return Err(ApiError::new(Kind::NotFound, format!("nothing is known of task {task:?}: {why}")));
    }
    Ok(Json(LineageReport {
        tasks: found.tasks.into_iter().map(lineage_task).collect(),
        gaps: found.gaps.into_iter().map(gap).collect(),
        more: found.more,
    }))
}

fn problem(error: StepsError) -> ApiError {
    ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
}

fn lineage_task(of: spans::LineageTask) -> LineageTask {
    let spans::LineageTask { node, task, agent, caller, runs, forgotten } = of;
    LineageTask { task, agent, node: node.did(), caller, turns: runs.into_iter().map(turn).collect(), forgotten }
}

fn gap(of: spans::LineageGap) -> LineageGap {
    let spans::LineageGap { task, agent, caller, why } = of;
    LineageGap { task, agent, caller, why }
}

fn turn(run: RunRecord) -> TurnRun {
    TurnRun {
        message: run.message,
        version: run.version,
        node: run.node,
        ended_ms: run.ended_ms,
        trace: run.trace,
        binding: run.binding,
        resumed: run.resumed,
        models: run.models,
        input: run.input,
        passages: run.passages,
        more_passages: run.more_passages,
        calls: run.calls.into_iter().map(call).collect(),
        more_calls: run.more_calls,
        output: run.output,
        proof: run.proof.is_some(),
    }
}

fn call(of: RunCall) -> TurnCall {
    let RunCall { tool, outcome, definition, arguments, result, callee } = of;
    let said = |hash: String| Some(hash).filter(|hash| !hash.is_empty());
    TurnCall {
        tool,
        outcome,
        definition: said(definition),
        arguments: said(arguments),
        result,
        task: callee.map(|callee| callee.task),
    }
}

/// `GET /tasks/{task}/verification`: binds again what the turns of a task were bound to, holds the task against what was recorded of
/// it, decides their calls again, and proves again that deadlines are kept.
pub async fn verify(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<RunVerification> {
    detached(async move { verified(&node, &task).await.map(Json) }).await
}

async fn verified(node: &Operations, task: &str) -> Result<RunVerification, ApiError> {
    let TaskRuns { task, agent, runs, forgotten, checks } = node.hosting.own_tasks().runs(task).map_err(problem)?;
    if runs.is_empty() {
        let why = format!(
            "nothing is recorded of task {task}: none of its turns is over, or they are older than such records"
        );
        return Err(ApiError::new(Kind::NotFound, why));
    }
    let decided = decisions(node, &task, &runs).await;
    let check = |((run, (input, output)), decided): ((&RunRecord, (DigestCheck, DigestCheck)), Vec<RunCheck>)| {
        let mut checks = vec![binding(node, run)];
        checks.push(digest("input", input, "the message is the one that was recorded"));
        checks.push(digest("output", output, "the task holds what was recorded when the turn ended"));
        checks.extend(decided);
        checks.extend(run.proof.as_ref().map(admission));
        TurnVerification { message: run.message.clone(), checks }
    };
    let turns: Vec<TurnVerification> = runs.iter().zip(checks).zip(decided).map(check).collect();
    let holds = all_hold(&turns);
    Ok(RunVerification { task, agent, holds, turns, forgotten })
}

/// Whether nothing is broken, and something holds.
fn all_hold(turns: &[TurnVerification]) -> bool {
    let mut verdicts = turns.iter().flat_map(|turn| &turn.checks).map(|check| check.verdict);
    let is_sound = verdicts.clone().all(|verdict| verdict != CheckVerdict::Broken);
    is_sound && verdicts.any(|verdict| verdict == CheckVerdict::Holds)
}

fn check(what: &str, verdict: CheckVerdict, why: impl Into<String>) -> RunCheck {
    RunCheck { what: what.to_owned(), verdict, why: why.into() }
}

/// Binds again: the manifest of that hash must be what comes of its own candidates.
fn binding(node: &Operations, run: &RunRecord) -> RunCheck {
    let kept = match node.bindings.find(&run.binding) {
        Ok(kept) => kept,
        Err(NodeError::NoBinding(_)) => {
            return check("binding", CheckVerdict::Gone, "the node keeps its manifest no more");
        }
        Err(error) => {
            let why = format!("what the node keeps of its manifest is not sound: {error}");
            return check("binding", CheckVerdict::Broken, why);
        }
    };
    let manifest = &kept.bound.manifest;
    if hex(&manifest.hash()) != run.binding {
        return check("binding", CheckVerdict::Broken, "the manifest that is kept has another hash");
    }
    match replay(manifest) {
        Ok(again) if again.manifest == *manifest => {
            check("binding", CheckVerdict::Holds, "sealed by this node; bound again, it is the same")
        }
        Ok(_) => check("binding", CheckVerdict::Broken, "bound again, it comes out another"),
        Err(error) => check("binding", CheckVerdict::Broken, error.to_string()),
    }
}

fn digest(what: &str, came: DigestCheck, holds: &str) -> RunCheck {
    match came {
        DigestCheck::Equal => check(what, CheckVerdict::Holds, holds),
        DigestCheck::Different => check(what, CheckVerdict::Broken, "what the task holds is not what was recorded"),
        DigestCheck::Gone => {
            check(what, CheckVerdict::Gone, "the task does not hold it any more: a later turn took its place")
        }
    }
}

fn admission(proof: &AdmissionProof) -> RunCheck {
    match proof.prove() {
        Ok(bound) => {
            let (response, deadline) = (bound.response_bound_ns / 1_000, bound.deadline_ns / 1_000);
            let why =
                format!("proved again: a response takes {response} µs at most, and the deadline is {deadline} µs");
            check("admission", CheckVerdict::Holds, why)
        }
        Err(fault) => check("admission", CheckVerdict::Broken, fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::admission::{Config, Policy, Preemption, RtTask};

    use super::*;

    #[test]
    fn what_is_broken_anywhere_breaks_all_of_it_and_nothing_checked_is_no_proof() {
        let of = |verdicts: &[CheckVerdict]| {
            let checks = verdicts.iter().map(|verdict| check("input", *verdict, "why")).collect();
            all_hold(&[TurnVerification { message: "m".to_owned(), checks }])
        };
        assert!(of(&[CheckVerdict::Holds, CheckVerdict::Gone]));
        assert!(!of(&[CheckVerdict::Holds, CheckVerdict::Broken]) && !of(&[CheckVerdict::Gone]) && !of(&[]));
    }

    #[test]
    fn deadlines_are_proved_again() {
        let proof = |wcet_ns| AdmissionProof {
            config: Config { policy: Policy::Edf, preemption: Preemption::Limited, cap_ppm: 900_000, platform_ns: 0 },
            tasks: vec![(RtTask::new(wcet_ns, 10_000_000), None)],
            place: 0,
        };
        assert_eq!(admission(&proof(1_000_000)).verdict, CheckVerdict::Holds);
        assert_eq!(admission(&proof(9_900_000)).verdict, CheckVerdict::Broken);
    }
}
