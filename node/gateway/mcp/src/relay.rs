//! An agent that is a server of tools, as that server: its tools have their own names, schemas and results.
//!
//! The agent may run on any node. Each request is a message to it, which names the extension for that and has the request
//! of MCP in a data part; its answer is the result as the server wrote it.

use std::collections::BTreeMap;

use althing_discovery::TrustRelation;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult, CustomRequest,
    ElicitationCapability, FormElicitationCapability, InputRequiredResult, ListToolsResult, ProtocolVersion,
    ResultType, ServerRequest, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::call::Caller;
use crate::exposed::of_stranger;
use crate::failed::Failed;

/// The method by which a client's user is asked.
const ELICITATION: &str = "elicitation/create";
/// Rounds in which a server asks a client with a session for input, in one call.
const ROUNDS_MAX: usize = 10;

/// The tools of the server.
pub(crate) async fn list(caller: &Caller<'_>) -> Result<ListToolsResult, ErrorData> {
    #[derive(Deserialize)]
    struct Listed {
        tools: Vec<Tool>,
    }
    let listed = caller.relay(json!({ "method": "tools/list" })).await.map_err(|failed| error(&failed))?;
    let Listed { tools } = serde_json::from_value(listed).map_err(|why| unreadable(&why))?;
    let by_stranger = caller.target.relation == TrustRelation::Stranger;
    Ok(ListToolsResult::with_all_items(if by_stranger { of_stranger(tools) } else { tools }))
}

/// Calls one of them. What the server asks its client for comes back as MCP has it: as a result in the version without
/// sessions, else as requests to the client, whose answers are sent in the next round.
pub(crate) async fn call(caller: &Caller<'_>, params: CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let mut request = json!({ "method": "tools/call", "params": { "name": params.name } });
    request["params"]["arguments"] = Value::Object(params.arguments.unwrap_or_default());
    request["params"]["_meta"] = meta(caller.context);
    let (mut responses, mut state) = (params.input_responses, params.request_state);
    for _ in 0..ROUNDS_MAX {
        request["params"]["inputResponses"] = json!(responses);
        request["params"]["requestState"] = json!(state);
        let result = match caller.relay(request.clone()).await {
            Ok(result) => result,
            Err(Failed::Unfit(why)) => return Err(ErrorData::invalid_params(why, None)),
            Err(failed) => return Ok(failed.into_result().into()),
        };
        if let Some(error) = result.get("error") {
            return Err(ErrorData::deserialize(error).map_err(|why| unreadable(&why))?);
        }
        if result["resultType"] != "input_required" {
            let mut result: CallToolResult = serde_json::from_value(result).map_err(|why| unreadable(&why))?;
            // Servers of earlier versions do not say so.
            result.result_type = Some(ResultType::COMPLETE);
            return Ok(result.into());
        }
        let requests = result["inputRequests"].as_object().cloned().unwrap_or_default();
        may_be_asked(caller.context, &requests)?;
        if caller.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
            let asked: InputRequiredResult = serde_json::from_value(result).map_err(|_| unshown())?;
            return Ok(asked.into());
        }
        responses = Some(answers(caller.context, requests).await?);
        state = result["requestState"].as_str().map(str::to_owned);
    }
    Err(ErrorData::internal_error(format!("the tool asked for input {ROUNDS_MAX} times, and did not end"), None))
}

/// What the server's node is told of the client: whether it wants to know how far the call is, whether it can be asked, and how.
fn meta(context: &RequestContext<RoleServer>) -> Value {
    let mut meta = json!({});
    if context.meta.get_progress_token().is_some() {
        meta["progressToken"] = json!(0);
    }
    if let Some(elicitation) = declared(context).elicitation {
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": elicitation });
    }
    if let Some(version) = context.protocol_version() {
        meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
    }
    meta
}

/// What the client declared.
fn declared(context: &RequestContext<RoleServer>) -> ClientCapabilities {
    let declared = context.meta.client_capabilities();
    declared.or_else(|| context.peer.peer_info().map(|info| info.capabilities.clone())).unwrap_or_default()
}

/// Whether the client declared what it is asked for.
fn may_be_asked(context: &RequestContext<RoleServer>, requests: &Map<String, Value>) -> Result<(), ErrorData> {
    let declared = declared(context);
    let lacks = |request: &Value| request["method"] != ELICITATION || declared.elicitation.is_none();
    if !requests.values().any(lacks) {
        return Ok(());
    }
    let mut required = ClientCapabilities::default();
    required.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
    Err(ErrorData::missing_required_client_capability(required))
}

/// Asks a client that has a session, with all that the server wrote: a client may know more of forms than the library does.
async fn answers(
    context: &RequestContext<RoleServer>,
    requests: Map<String, Value>,
) -> Result<BTreeMap<String, Value>, ErrorData> {
    let mut answers = BTreeMap::new();
    for (name, mut request) in requests {
        let request = CustomRequest::new(ELICITATION, Some(request["params"].take()));
        let answered = tokio::select! {
            answered = context.peer.send_request(ServerRequest::CustomRequest(request)) => answered,
            () = context.ct.cancelled() => return Err(error(&Failed::Cancelled)),
        };
        let unanswered = |why: &dyn std::fmt::Display| {
            ErrorData::internal_error(format!("the client did not answer what the tool asked: {why}"), None)
        };
        match answered.map_err(|why| unanswered(&why))? {
            ClientResult::ElicitResult(answer) => {
                answers.insert(name, serde_json::to_value(&answer).map_err(|why| unreadable(&why))?);
            }
            _ => return Err(unanswered(&"it sent something else")),
        }
    }
    Ok(answers)
}

/// The library writes down only what it knows of forms.
fn unshown() -> ErrorData {
    let why = "the tool asks with a form that cannot be passed on to a client without a session; a client of an earlier version of \
               MCP is asked";
    ErrorData::internal_error(why, None)
}

fn unreadable(why: &serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("what the agent answered is not MCP: {why}"), None)
}

/// A failure of a request that has no tool's result.
fn error(failed: &Failed) -> ErrorData {
    let said = failed.to_string();
    match failed {
        Failed::Unfit(_) | Failed::Arguments(_) | Failed::Operation(_) => ErrorData::invalid_params(said, None),
        Failed::Answer(_) | Failed::Cancelled => ErrorData::internal_error(said, None),
    }
}
