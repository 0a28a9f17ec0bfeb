//! The tools of an agent as Things: their descriptions and models, and their action.
//!
//! The action relays a call of MCP to the agent, as the node's MCP server does. It waits for the result as `chat` does.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Callee, Candidate, Operation, OperationError};
use althing_edge::{host, is_json, read_body};
use althing_protocol::AgentId;
use althing_td::{Tool, thing_model};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::actions::{PATIENCE_MAX_SECS, patience, status_of};
use super::answer::Answer;
use super::invocation::{Failed, Invocation, Message};
use super::td::encoded;
use super::{TD, problem, properties, thing, tool_td};
use crate::client::Client;
use crate::response_budget;
use crate::{BODY_BYTES_MAX, Gateway, trace};

/// The media type of a Thing Model (TD 1.1 §10.2).
const TM: &str = "application/tm+json";
/// The A2A extension by which requests of MCP are relayed.
const RELAY: &str = "https://althing.dev/ext/mcp/v1";

/// Why a tool is not shown or called.
enum Missing {
    Operation(OperationError),
    /// The agent exposes no such tool.
    Unknown(String),
    /// It did, until its server changed it.
    Suspended(String),
    /// The path names another action than that of the tool.
    Action(String),
}

impl From<OperationError> for Missing {
    fn from(error: OperationError) -> Missing {
        Missing::Operation(error)
    }
}

impl IntoResponse for Missing {
    fn into_response(self) -> Response {
        match self {
            Missing::Operation(error) => problem::of(&error),
            Missing::Unknown(why) => problem::refuse(StatusCode::NOT_FOUND, "TOOL_UNKNOWN", &why),
            Missing::Suspended(why) => problem::refuse(StatusCode::GONE, "TOOL_SUSPENDED", &why),
            Missing::Action(why) => problem::refuse(StatusCode::NOT_FOUND, "ACTION_UNKNOWN", &why),
        }
    }
}

/// A tool, and the agent that exposes it.
struct Found {
    agent: AgentId,
    known: Candidate,
    tool: Tool,
}

async fn find(gateway: &Gateway, agent: &str, tool: &str) -> Result<Found, Missing> {
    let (agent, known) = thing::find(gateway, agent).await?;
    if let Some(tool) = known.description.tool(tool) {
        return Ok(Found { agent, known, tool });
    }
    let suspended = known.description.suspended_tools().into_iter().find(|one| one.id == tool);
    Err(match suspended {
        Some(suspended) => Missing::Suspended(format!(
            "{tool:?} of {agent} is suspended: {}. Its owner can look at the change and accept it",
            suspended.why
        )),
        None => Missing::Unknown(format!("{agent} exposes no tool {tool:?}")),
    })
}

/// As [`find`], for the action of a path, which has the tool's name.
async fn find_action(gateway: &Gateway, agent: &str, tool: &str, action: &str) -> Result<Found, Missing> {
    if tool != action {
        return Err(Missing::Action(format!("the only action of the tool {tool:?} is {tool:?}")));
    }
    find(gateway, agent, tool).await
}

/// `GET /things/{agent}/tools/{tool}`.
pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, tool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    match find(&gateway, &agent, &tool).await {
        Ok(Found { agent, known, tool }) => {
            thing::answer(&headers, TD, served(&gateway, &headers, &agent, &known, &tool).into_bytes())
        }
        Err(missing) => missing.into_response(),
    }
}

/// The gateway's description of a tool, for whoever reached it under this Host.
pub(super) fn served(
    gateway: &Gateway,
    headers: &HeaderMap,
    agent: &AgentId,
    known: &Candidate,
    tool: &Tool,
) -> String {
    let served = tool_td::ServedTool {
        agent,
        tool,
        digest: known.description.digest(),
        base: gateway.access.base(host(headers).unwrap_or_default()),
        token_required: gateway.access.is_guarded(),
        node: gateway.key.public().did(),
    };
    served.td().to_string()
}

/// `GET /things/{agent}/tools/{tool}/model`.
pub(super) async fn model(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, tool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    match find(&gateway, &agent, &tool).await {
        Ok(found) => thing::answer(&headers, TM, thing_model(&found.tool).to_string().into_bytes()),
        Err(missing) => missing.into_response(),
    }
}

/// `POST /things/{agent}/tools/{tool}/actions/{action}`.
pub(super) async fn invoke(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, tool, action)): Path<(String, String, String)>,
    client: Client,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return problem::unread(error),
    };
    let arguments = match arguments(&headers, &body) {
        Ok(arguments) => arguments,
        Err(error) => return problem::of(&error),
    };
    // Others have its room while the call takes its time.
    drop(body);
    let found = match find_action(&gateway, &agent, &tool, &action).await {
        Ok(found) => found,
        Err(missing) => return missing.into_response(),
    };
    if let Some(missing) = missing(&found.tool, &arguments) {
        let why = format!("the input lacks {missing:?}, which the tool requires; its description has the schema");
        return problem::of(&OperationError::invalid_params(why));
    }
    answered(&gateway, &found, arguments, &client, &headers).await.unwrap_or_else(|failed| {
        let (status, reason, detail) = failed.problem();
        problem::refuse(status, &reason, &detail)
    })
}

/// The arguments that a body has: an object, and none without a body.
fn arguments(headers: &HeaderMap, body: &[u8]) -> Result<Value, OperationError> {
    // A body without a type is what a page of another site can send without asking first.
    if !is_json(headers, &[]) && (headers.contains_key(header::CONTENT_TYPE) || !body.is_empty()) {
        let why = "the input is application/json, and the Content-Type must say so";
        return Err(OperationError::content_type(why));
    }
    if body.is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Null) => Ok(json!({})),
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(OperationError::invalid_params("the input is an object with the tool's arguments")),
        Err(error) => Err(OperationError::invalid_params(format!("the body is not JSON: {error}"))),
    }
}

/// The first argument that a tool requires and that is not given.
fn missing<'a>(tool: &'a Tool, arguments: &Value) -> Option<&'a str> {
    let required = tool.input["required"].as_array()?;
    required.iter().filter_map(Value::as_str).find(|name| arguments.get(*name).is_none())
}

/// The parameters of the message that relays a call.
fn params(id: &str, tool: &Tool, arguments: Value) -> Value {
    let call = json!({ "method": "tools/call", "params": { "name": tool.name, "arguments": arguments } });
    json!({ "message": {
        "messageId": id, "role": "ROLE_USER", "extensions": [RELAY],
        "parts": [{ "data": call, "mediaType": "application/json" }],
    } })
}

async fn answered(
    gateway: &Arc<Gateway>,
    found: &Found,
    arguments: Value,
    client: &Client,
    headers: &HeaderMap,
) -> Result<Response, Failed> {
    let Found { agent, tool, .. } = found;
    let message = Message::of(&params(&gateway.calls.new_id(), tool, arguments), None, &client.account)?;
    let patience = patience(headers);
    let mut invocation = Invocation::begin(gateway, agent, message, client, trace(headers)).await?;
    let read = |answer: &Answer| output(tool, answer);
    if !patience.is_zero()
        && let Some(output) = invocation.ended(patience, read).await
    {
        return Ok(response_budget::json(&client.account, &output??)?);
    }
    match invocation.task().await {
        Some(task) => {
            let status = status(gateway, found, &task, client).await?;
            let location = [(header::LOCATION, href(gateway, agent, tool, &task))];
            Ok((StatusCode::CREATED, location, response_budget::json(&client.account, &status)?).into_response())
        }
        // Without a task there is nothing to ask for later: the answer is there, or comes.
        None => match invocation.ended(Duration::from_secs(PATIENCE_MAX_SECS), read).await {
            Some(output) => Ok(response_budget::json(&client.account, &output??)?),
            None => Err(OperationError::deadline("the tool did not answer").into()),
        },
    }
}

/// The output of the action: what the tool promises, else what it says.
fn output(tool: &Tool, answer: &Answer) -> Result<Value, OperationError> {
    let odd = |why: &str| OperationError::invalid_agent_response(format!("the tool {:?} {why}", tool.id));
    // What an agent answers may be anything.
    let result = answer.first_data().filter(Value::is_object);
    let mut result = result.ok_or_else(|| odd("answered with no result of MCP"))?;
    if result["resultType"] == "input_required" {
        let why = "asks its caller for input, which only clients of MCP can give; call it by the node's MCP server";
        return Err(OperationError::unsupported(format!("the tool {:?} {why}", tool.id)));
    }
    if tool.output.is_some() {
        return match result["structuredContent"].take() {
            structured @ Value::Object(_) => Ok(structured),
            _ => Err(odd("answered without the structured content that it promises")),
        };
    }
    let content = match result["content"].take() {
        Value::Array(content) => content,
        _ => return Err(odd("answered with no result of MCP")),
    };
    let texts: Vec<&str> = content.iter().filter_map(|block| block["text"].as_str()).collect();
    Ok(json!({ "text": texts.join("\n"), "content": content }))
}

fn href(gateway: &Gateway, agent: &AgentId, tool: &Tool, task: &str) -> String {
    let (id, task) = (encoded(&tool.id), encoded(task));
    format!("{}/things/{agent}/tools/{id}/actions/{id}/{task}", gateway.access.prefix())
}

async fn status(gateway: &Gateway, found: &Found, task: &str, client: &Client) -> Result<Value, OperationError> {
    let Found { agent, tool, .. } = found;
    let params = json!({ "id": task, "historyLength": 0 });
    let read = properties::bytes(gateway, agent, Operation::GetTask, &params, client).await?;
    let odd = |error| OperationError::invalid_agent_response(format!("{agent} answered oddly: {error}"));
    let answer = Answer::of_task(&read).map_err(odd)?;
    let mut status = status_of(href(gateway, agent, tool, task), &answer);
    if status["status"] == "completed" {
        match output(tool, &answer) {
            Ok(output) => status["output"] = output,
            Err(error) => {
                status["status"] = json!("failed");
                status["error"] = problem::details(problem::status(&error.refusal), error.reason(), &error.message);
            }
        }
    }
    Ok(status)
}

/// `GET /things/{agent}/tools/{tool}/actions/{action}/{task}`.
pub(super) async fn query(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, tool, action, task)): Path<(String, String, String, String)>,
    client: Client,
) -> Response {
    let asked = async {
        let found = find_action(&gateway, &agent, &tool, &action).await?;
        let status = status(&gateway, &found, &task, &client).await?;
        Ok::<Response, Missing>(response_budget::json(&client.account, &status).map_err(OperationError::from)?)
    };
    asked.await.unwrap_or_else(Missing::into_response)
}

/// `DELETE /things/{agent}/tools/{tool}/actions/{action}/{task}`. A tool that was suspended meanwhile can be stopped too.
pub(super) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Path((agent, _tool, _action, task)): Path<(String, String, String, String)>,
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

#[cfg(test)]
mod tests {
    use althing_calls::Refusal;

    use super::*;

    fn tool(output: Option<Value>) -> Tool {
        Tool {
            id: "add".to_owned(),
            title: "Add".to_owned(),
            description: String::new(),
            version: None,
            name: "add".to_owned(),
            definition: String::new(),
            input: json!({ "type": "object" }),
            output,
            read_only: false,
            idempotent: false,
        }
    }

    fn answer(result: &Value) -> Answer {
        let task = json!({
            "id": "1", "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "artifactId": "result", "parts": [{ "data": result }] }],
        });
        Answer::of_task(task.to_string().as_bytes()).expect("a task")
    }

    /// SR-5
    #[test]
    fn arguments_say_that_they_are_json() {
        let given = |kind: Option<&'static str>, body: &str| {
            let kind = kind.map(|kind| (header::CONTENT_TYPE, header::HeaderValue::from_static(kind)));
            let read = arguments(&HeaderMap::from_iter(kind), body.as_bytes());
            read.map_err(|error| problem::of(&error).status().as_u16())
        };
        let said = Some("application/json");
        assert_eq!(given(said, r#"{"a":1}"#), Ok(json!({ "a": 1 })));
        for (kind, body) in [(said, "null"), (said, ""), (None, "")] {
            assert_eq!(given(kind, body), Ok(json!({})), "{kind:?} {body}");
        }
        for (kind, body) in [(None, r#"{"a":1}"#), (None, "{}"), (Some("text/plain"), "{}"), (Some("text/plain"), "")] {
            assert_eq!(given(kind, body), Err(415), "{kind:?} {body}");
        }
        assert_eq!((given(said, "[]"), given(said, "{")), (Err(400), Err(400)));
    }

    #[test]
    fn the_output_is_what_the_tool_promises_or_says() {
        let content = json!([{ "type": "text", "text": "4" }, { "type": "image", "data": "AA" }, { "text": "2" }]);
        let result = json!({ "content": content, "structuredContent": { "sum": 42 } });
        let promised = output(&tool(Some(json!({ "type": "object" }))), &answer(&result)).expect("an output");
        assert_eq!(promised, json!({ "sum": 42 }));
        let said = output(&tool(None), &answer(&result)).expect("an output");
        assert_eq!(said, json!({ "text": "4\n2", "content": content }));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let promising = tool(Some(json!({ "type": "object" })));
        for (tool, result) in [
            (&promising, json!({ "content": [] })),
            (&promising, json!({ "structuredContent": [1] })),
            (&tool(None), json!({ "sum": 42 })),
            (&tool(None), json!("42")),
        ] {
            let refused = output(tool, &answer(&result)).expect_err("no result");
            assert_eq!(refused.refusal, Refusal::InvalidAgentResponse, "{result}");
        }
        let asks = output(&promising, &answer(&json!({ "resultType": "input_required" }))).expect_err("it asks");
        assert!(asks.refusal == Refusal::Unsupported && asks.message.contains("MCP"), "{asks:?}");
    }
}
