//! Verdicts in the control API: what gates refused of the answers of a task.

use std::sync::Arc;

use althing_api::{AnswerRefusal, VerdictReport};
use althing_calls::{TaskRefusal, TaskVerdict};
use althing_operations::Operations;
use althing_operations::test_report::Agreement;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use crate::error::{Answer, ApiError};
use crate::trials::of_judge;

/// Shows what gates refused of the answers of a task, with these.
pub async fn of_task(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<VerdictReport> {
    let verdict = node.hosting.own_tasks().task_verdict(&task);
    let verdict =
        verdict.map_err(|error| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy()))?;
    let judges = node.judges.of(&verdict.agent);
    report(task, verdict, &judges).map(Json)
}

fn report(task: String, verdict: TaskVerdict, judges: &[Agreement]) -> Result<VerdictReport, ApiError> {
    let TaskVerdict { agent: _, state, refusals } = verdict;
    let state = match serde_json::to_value(state) {
        Ok(Value::String(state)) => state,
        _ => return Err(ApiError::failed(format!("the state of task {task} has no name"))),
    };
    let refused = |known: &&Agreement| refusals.iter().any(|one| one.refused.gate == known.judge);
    let judges = judges.iter().filter(refused).map(of_judge).collect();
    Ok(VerdictReport { task, state, refusals: refusals.into_iter().map(refusal).collect(), judges })
}

fn refusal(refusal: TaskRefusal) -> AnswerRefusal {
    let TaskRefusal { message, ended_ms, refused } = refusal;
    AnswerRefusal {
        message,
        attempt: refused.attempt,
        ended_ms,
        gate: refused.gate,
        place: refused.place,
        rule: refused.rule,
        reason: refused.reason,
        answer: refused.answer,
        bytes: refused.bytes,
    }
}
