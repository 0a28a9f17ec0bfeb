//! Verdicts in the control API: what gates refused of the answers of a task.

use std::sync::Arc;

use althing_api::{AnswerRefusal, VerdictReport};
use althing_calls::{TaskRefusal, TaskVerdict};
use althing_operations::Operations;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use crate::error::{Answer, ApiError};

/// Shows what gates refused of the answers of a task, with these.
pub async fn of_task(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<VerdictReport> {
    let verdict = node.hosting.own_tasks().task_verdict(&task);
    let verdict =
        verdict.map_err(|error| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy()))?;
    report(task, verdict).map(Json)
}

fn report(task: String, verdict: TaskVerdict) -> Result<VerdictReport, ApiError> {
    let TaskVerdict { state, refusals } = verdict;
    let state = match serde_json::to_value(state) {
        Ok(Value::String(state)) => state,
        _ => return Err(ApiError::failed(format!("the state of task {task} has no name"))),
    };
    Ok(VerdictReport { task, state, refusals: refusals.into_iter().map(refusal).collect() })
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
