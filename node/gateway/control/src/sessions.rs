//! Sessions in the control API: turns that survive the end of this node, and what became of their calls that are in doubt.

use std::sync::Arc;

use althing_api::{
    CallDoubt, CallOutcome, RestartRequest, ResumeRequest, SessionCondition, SessionEntry, SessionList,
    SessionResumption, SessionRow, SessionRowKind, SessionSteps, SessionTotals, SessionTurn, StoppedTurn,
};
use althing_calls::{Resolution, RowKind, RowSummary, SessionState, SessionSummary, TurnLoss, TurnSteps};
use althing_operations::Operations;
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::Value;

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};
use crate::requester::Requester;

/// A text, as the result of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TextResult<'a> {
    content: [TextBlock<'a>; 1],
    is_error: bool,
}

/// A text among the content of a result.
#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// Lists the turns that have a journal, and those that stopped and may go on anew.
pub async fn list(State(node): State<Arc<Operations>>) -> Json<SessionList> {
    let own = node.hosting.own_tasks();
    let sessions = own.sessions().into_iter().map(entry).collect();
    Json(SessionList { sessions, stopped: own.stopped_turns().into_iter().filter_map(stop).collect() })
}

/// How many turns have one, how many of these are in doubt, and how many others stopped.
pub fn totals(node: &Operations) -> SessionTotals {
    let own = node.hosting.own_tasks();
    let sessions = own.sessions();
    // Also of a turn that waits for its agent.
    let in_doubt = sessions.iter().filter(|session| !session.doubts.is_empty()).count();
    SessionTotals { sessions: sessions.len(), in_doubt, stopped: own.stopped_turns().len() }
}

/// A turn that may go on anew.
fn stop(loss: TurnLoss) -> Option<StoppedTurn> {
    let TurnLoss { agent, task, why, restart_until_ms } = loss;
    restart_until_ms.map(|until_ms| StoppedTurn { task, agent, why, until_ms })
}

fn entry(known: SessionSummary) -> SessionEntry {
    let SessionSummary { session, task, agent, context, state, rows, bytes, doubts } = known;
    let state = match state {
        SessionState::Working => SessionCondition::Working,
        SessionState::Waiting => SessionCondition::Waiting,
        SessionState::InDoubt => SessionCondition::InDoubt,
    };
    let doubts =
        doubts.into_iter().map(|doubt| CallDoubt { step: doubt.seq, name: doubt.name, since_ms: doubt.since_ms });
    SessionEntry { session, task, agent, context, state, rows, bytes, doubts: doubts.collect() }
}

/// Shows the journals of a task's turns, without what is in them.
pub async fn steps(State(node): State<Arc<Operations>>, Path(task): Path<String>) -> Answer<SessionSteps> {
    let shown = node.hosting.own_tasks().session_steps(&task);
    let turns = shown.map_err(|error| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy()))?;
    Ok(Json(SessionSteps { task, turns: turns.into_iter().map(turn).collect() }))
}

fn turn(steps: TurnSteps) -> SessionTurn {
    let TurnSteps { message, ended_ms, rows } = steps;
    SessionTurn { message, ended_ms, rows: rows.into_iter().map(row).collect() }
}

fn row(summary: RowSummary) -> SessionRow {
    let RowSummary { row, at_ms, kind, step, name, call, bytes, label } = summary;
    let kind = match kind {
        RowKind::Begin => SessionRowKind::Begin,
        RowKind::Intent => SessionRowKind::Intent,
        RowKind::Result => SessionRowKind::Result,
        RowKind::Failure => SessionRowKind::Failure,
        RowKind::Resolved => SessionRowKind::Resolved,
        RowKind::Checkpoint => SessionRowKind::Checkpoint,
        RowKind::Reads => SessionRowKind::Reads,
        RowKind::Restart => SessionRowKind::Restart,
    };
    let (digest, label) = (call.map(|call| hex(&call)), label.map(|label| label.level.name().to_owned()));
    SessionRow { row, at_ms, kind, step, name, digest, bytes, label }
}

/// Says what became of a call in doubt; its task goes on.
pub async fn resume(
    State(node): State<Arc<Operations>>,
    Path(task): Path<String>,
    Requester(principal): Requester,
    Body(request): Body<ResumeRequest>,
) -> Answer<SessionResumption> {
    let ResumeRequest { step, outcome } = request;
    let how = match outcome {
        CallOutcome::Done(said) => Resolution::Done(tool_result(said)?),
        CallOutcome::Again => Resolution::Again,
        CallOutcome::Failed => Resolution::Failed,
    };
    detached(async move {
        let resumed = node.hosting.own_tasks().end_doubt(&task, step, how, &principal).await;
        resumed.map_err(|error| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy()))?;
        Ok(Json(SessionResumption { resumed: task, step }))
    })
    .await
}

/// Has a turn that stopped go on anew from one of its steps.
pub async fn restart(
    State(node): State<Arc<Operations>>,
    Path(task): Path<String>,
    Requester(principal): Requester,
    Body(request): Body<RestartRequest>,
) -> Answer<SessionResumption> {
    let RestartRequest { from } = request;
    detached(async move {
        let restarted = node.hosting.own_tasks().restart_turn(&task, from, &principal).await;
        restarted.map_err(|error| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy()))?;
        Ok(Json(SessionResumption { resumed: task, step: from }))
    })
    .await
}

/// What an agent hears as the result of a tool: what has the form of one as it is, anything else as a text.
fn tool_result(said: Value) -> Result<Value, ApiError> {
    if said["content"].is_array() {
        return Ok(said);
    }
    let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    let result = TextResult { content: [TextBlock { r#type: "text", text: &text }], is_error: false };
    serde_json::to_value(result).map_err(|error| ApiError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_becomes_the_result_of_a_tool_and_a_result_stays_one() {
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "isError": false });
        assert_eq!(tool_result(json!("paid")), Ok(text("paid")));
        assert_eq!(tool_result(json!({ "paid": 7 })), Ok(text(r#"{"paid":7}"#)));
        assert_eq!(tool_result(json!(7)), Ok(text("7")));
        let result = json!({ "content": [], "structuredContent": { "paid": 7 } });
        assert_eq!(tool_result(result.clone()), Ok(result));
    }
}
