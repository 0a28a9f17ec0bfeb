//! The `chat` action over HTTP.
//!
//! It waits for the answer, since that is what a stock consumer reads the output from, at most [`PATIENCE`]. An invocation
//! that takes longer, or that the client does not want to wait for (`Prefer: respond-async`, RFC 7240), is answered by
//! 201 with the address of its status, as the WoT Profile has it for asynchronous actions.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Callee, Operation, OperationError};
use althing_edge::{is_json, read_body};
use althing_protocol::AgentId;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::Answer;
use super::chat::Chat;
use super::invocation::{Failed, Invocation, Message};
use super::td::encoded;
use super::{problem, properties};
use crate::client::Client;
use crate::response_budget;
use crate::{BODY_BYTES_MAX, Gateway, trace};

/// How long an answer is waited for, unless the client says otherwise: below the 60 s after which many proxies give up.
pub(super) const PATIENCE: Duration = Duration::from_secs(50);
/// The longest wait that a client can ask for.
pub(super) const PATIENCE_MAX_SECS: u64 = 600;

/// `POST /things/{agent}/actions/chat`.
pub(super) async fn invoke(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    client: Client,
    headers: HeaderMap,
    request: Request,
) -> Response {
    if !is_json(&headers, &[]) {
        let error = OperationError::content_type("the input is application/json");
        return problem::of(&error);
    }
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return problem::unread(error),
    };
    let chat = serde_json::from_slice(&body).map_err(|error| format!("the body is not JSON: {error}"));
    // Others have its room while the call takes its time.
    drop(body);
    let chat = match chat.and_then(Chat::parse) {
        Ok(chat) => chat,
        Err(error) => return problem::of(&OperationError::invalid_params(error)),
    };
    let message = Message::new(&gateway, &chat, &client.account);
    drop(chat);
    let answered = match message {
        Ok(message) => answered(&gateway, &agent, message, &client, &headers).await,
        Err(error) => Err(error.into()),
    };
    match answered {
        Ok(response) => response,
        Err(failed) => {
            let (status, reason, detail) = failed.problem();
            problem::refuse(status, &reason, &detail)
        }
    }
}

async fn answered(
    gateway: &Arc<Gateway>,
    agent: &str,
    message: Message,
    client: &Client,
    headers: &HeaderMap,
) -> Result<Response, Failed> {
    let id = client.target(&gateway.calls, &Callee::near(agent)).await?.agent;
    let patience = patience(headers);
    let mut invocation = Invocation::begin(gateway, &id, message, client, trace(headers)).await?;
    if !patience.is_zero()
        && let Some(output) = invocation.output(patience).await
    {
        return Ok(response_budget::json(&client.account, &output?)?);
    }
    match invocation.task().await {
        Some(task) => created(gateway, &id, &task, client).await,
        // Without a task there is nothing to ask for later: the answer is there, or comes.
        None => match invocation.output(Duration::from_secs(PATIENCE_MAX_SECS)).await {
            Some(output) => Ok(response_budget::json(&client.account, &output?)?),
            None => Err(OperationError::deadline("the agent did not answer").into()),
        },
    }
}

async fn created(gateway: &Gateway, id: &AgentId, task: &str, client: &Client) -> Result<Response, Failed> {
    let status = read(gateway, id, task, client).await?;
    let location = [(header::LOCATION, href(gateway.access.prefix(), id, task))];
    Ok((StatusCode::CREATED, location, response_budget::json(&client.account, &status)?).into_response())
}

/// How long the client waits: `Prefer: respond-async` and `Prefer: wait=SECONDS`.
pub(super) fn patience(headers: &HeaderMap) -> Duration {
    let lines = headers.get_all("prefer").iter().filter_map(|line| line.to_str().ok());
    let mut all = lines.flat_map(|line| line.split(',')).map(str::trim);
    let mut is_async = false;
    let wait = all.by_ref().fold(None, |wait, preference| {
        is_async |= preference.eq_ignore_ascii_case("respond-async");
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let seconds = value.trim().parse().ok().filter(|_| name.trim().eq_ignore_ascii_case("wait"));
        wait.or(seconds)
    });
    match wait {
        Some(seconds) => Duration::from_secs(u64::min(seconds, PATIENCE_MAX_SECS)),
        None if is_async => Duration::ZERO,
        None => PATIENCE,
    }
}

fn href(prefix: &str, id: &AgentId, task: &str) -> String {
    format!("{prefix}/things/{id}/actions/chat/{}", encoded(task))
}

/// `GET /things/{agent}/actions/chat/{task}`.
pub(super) async fn query(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, task)): Path<(String, String)>,
    client: Client,
) -> Response {
    let asked = async {
        let id = client.target(&gateway.calls, &Callee::near(agent)).await?.agent;
        let status = read(&gateway, &id, &task, &client).await?;
        Ok(response_budget::json(&client.account, &status)?)
    };
    asked.await.unwrap_or_else(|error: OperationError| problem::of(&error))
}

/// `DELETE /things/{agent}/actions/chat/{task}`.
pub(super) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, task)): Path<(String, String)>,
    client: Client,
) -> Response {
    let asked = async {
        let id = client.target(&gateway.calls, &Callee::near(agent)).await?.agent;
        properties::one(&gateway, &id, Operation::CancelTask, &json!({ "id": task }), &client).await
    };
    match asked.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem::of(&error),
    }
}

/// The status of an invocation, by its task.
pub(super) async fn read(
    gateway: &Gateway,
    id: &AgentId,
    task: &str,
    client: &Client,
) -> Result<Value, OperationError> {
    let params = json!({ "id": task, "historyLength": 0 });
    let task = properties::bytes(gateway, id, Operation::GetTask, &params, client).await?;
    let odd = |error| OperationError::invalid_agent_response(format!("{id} answered oddly: {error}"));
    let answer = Answer::of_task(&task).map_err(odd)?;
    Ok(status(gateway.access.prefix(), id, &answer))
}

/// WoT Profile: `pending`, `running`, `completed` or `failed`. A question of the agent ends an invocation: the next one
/// answers it.
fn status(prefix: &str, id: &AgentId, answer: &Answer) -> Value {
    let mut status = status_of(href(prefix, id, answer.task.as_deref().unwrap_or_default()), answer);
    if status["status"] == "completed" {
        status["output"] = answer.output(None, -1.0);
    }
    status
}

/// The status of an invocation without its output, whose own address is `href`.
pub(super) fn status_of(href: String, answer: &Answer) -> Value {
    let word = match answer.state.as_str() {
        "TASK_STATE_SUBMITTED" | "" => "pending",
        "TASK_STATE_WORKING" => "running",
        _ if answer.failure().is_some() => "failed",
        _ => "completed",
    };
    let mut status = json!({ "status": word, "href": href });
    if let Err(failed) = Failed::check(answer) {
        let (code, reason, detail) = failed.problem();
        status["error"] = problem::details(code, &reason, &detail);
    }
    if let Some(changed) = &answer.changed {
        let name = if answer.is_running() { "timeRequested" } else { "timeEnded" };
        status[name] = json!(changed);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferring(values: &[&'static str]) -> Duration {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("prefer", header::HeaderValue::from_static(value));
        }
        patience(&headers)
    }

    #[test]
    fn clients_say_how_long_they_wait() {
        assert_eq!(preferring(&[]), PATIENCE);
        assert_eq!(preferring(&["respond-async"]), Duration::ZERO);
        assert_eq!(preferring(&["Respond-Async, wait=5"]), Duration::from_secs(5));
        assert_eq!(preferring(&["return=minimal", "wait = 7"]), Duration::from_secs(7));
        assert_eq!(preferring(&["wait=999999"]), Duration::from_secs(PATIENCE_MAX_SECS));
        assert_eq!(preferring(&["wait=soon"]), PATIENCE);
    }

    #[test]
    fn a_tasks_id_stays_one_segment_of_a_path() {
        let id = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:echo".parse().expect("an id");
        assert!(href("", &id, "a/../b?c#d e").ends_with(":echo/actions/chat/a%2F..%2Fb%3Fc%23d%20e"));
    }
}
