//! The JSON Schemas of A2A's requests and answers, as components of `/openapi.json`. Messages have those of `a2a.proto`; here
//! is what only the JSON bindings have.

use althing_grpc::schemas::{BASE, operations, reference, schema};
use althing_td::ContainmentClaim;
use serde_json::{Map, Value, json};

/// Every schema that a document refers to, by name.
pub(crate) fn components(document: &Value) -> Map<String, Value> {
    let (mut found, mut missing) = (Map::new(), Vec::new());
    references(document, &mut missing);
    while let Some(name) = missing.pop() {
        if !found.contains_key(&name) {
            let component = own(&name).or_else(|| schema(&name)).expect("a name of this file, or one of a2a.proto");
            references(&component, &mut missing);
            found.insert(name, component);
        }
    }
    found
}

/// The names of the components that a value refers to.
fn references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str);
            names.extend(name.and_then(|name| name.strip_prefix(BASE)).map(str::to_owned));
            members.values().for_each(|member| references(member, names));
        }
        _ => {}
    }
}

/// The schemas that are not in `a2a.proto`.
fn own(name: &str) -> Option<Value> {
    match name {
        "Error" => Some(error_body()),
        "ErrorInfo" | "BadRequest" => Some(detail(name)),
        "JsonRpcRequest" => Some(json_rpc_request()),
        "JsonRpcResponse" => Some(json_rpc_response()),
        "Agents" => Some(agent_list()),
        _ => None,
    }
}

pub(crate) fn send_message_request() -> Value {
    reference("SendMessageRequest")
}

pub(crate) fn send_message_response() -> Value {
    reference("SendMessageResponse")
}

pub(crate) fn task() -> Value {
    reference("Task")
}

pub(crate) fn task_list() -> Value {
    reference("ListTasksResponse")
}

pub(crate) fn push_config() -> Value {
    reference("TaskPushNotificationConfig")
}

pub(crate) fn push_config_list() -> Value {
    reference("ListTaskPushNotificationConfigsResponse")
}

pub(crate) fn agent_card() -> Value {
    reference("AgentCard")
}

pub(crate) fn agents() -> Value {
    reference("Agents")
}

pub(crate) fn error() -> Value {
    reference("Error")
}

pub(crate) fn call() -> Value {
    reference("JsonRpcRequest")
}

pub(crate) fn called() -> Value {
    reference("JsonRpcResponse")
}

/// What CancelTask takes beside the task in its path.
pub(crate) fn cancellation() -> Value {
    json!({ "type": "object", "properties": { "metadata": { "type": "object" } } })
}

/// Server-sent events (OpenAPI has `itemSchema` for them from 3.2 on).
pub(crate) fn events() -> Value {
    let data = json!({
        "type": "string",
        "contentMediaType": crate::JSON,
        "contentSchema": reference("StreamResponse"),
    });
    json!({
        "type": "string",
        "description": "Server-sent events; the data of each is a StreamResponse, those of the event `error` an Error",
        "contentMediaType": "text/event-stream",
        "contentSchema": { "type": "array", "items": { "type": "object", "properties": { "data": data } } },
    })
}

/// The details of an error, as `google.protobuf.Any` is written in JSON.
fn details() -> Value {
    json!({
        "type": "array",
        "items": { "anyOf": [reference("ErrorInfo"), reference("BadRequest"), { "type": "object" }] },
    })
}

fn detail(name: &str) -> Value {
    let mut detail = schema(name).expect("a message of status.proto");
    detail["properties"]["@type"] = json!({ "const": format!("type.googleapis.com/google.rpc.{name}") });
    detail["required"] = json!(["@type"]);
    detail
}

/// An error of HTTP+JSON (A2A 1.0.1 §11.6).
fn error_body() -> Value {
    let error = json!({
        "type": "object",
        "properties": {
            "code": { "type": "integer", "description": "The HTTP status" },
            "status": { "type": "string", "description": "The name of the code of google.rpc" },
            "message": { "type": "string" },
            "details": details(),
        },
        "required": ["code", "status", "message"],
    });
    json!({ "type": "object", "properties": { "error": error }, "required": ["error"] })
}

fn json_rpc_request() -> Value {
    let params = operations().into_iter().map(|name| match name.as_str() {
        "SendStreamingMessage" => reference("SendMessageRequest"),
        "CreateTaskPushNotificationConfig" => reference("TaskPushNotificationConfig"),
        _ => reference(&format!("{name}Request")),
    });
    let mut params: Vec<Value> = params.collect();
    params.dedup();
    json!({
        "type": "object",
        "properties": {
            "jsonrpc": { "const": "2.0" },
            "id": { "type": ["string", "integer", "null"] },
            "method": { "type": "string", "enum": operations() },
            "params": { "anyOf": params },
        },
        "required": ["jsonrpc", "method"],
    })
}

fn json_rpc_response() -> Value {
    // Those that require members come first: generated clients take the first that fits.
    let results = ["ListTasksResponse", "AgentCard", "TaskPushNotificationConfig", "Task"];
    let results = results.iter().chain(&["SendMessageResponse", "StreamResponse"]);
    let results = results.chain(&["ListTaskPushNotificationConfigsResponse"]).map(|name| reference(name));
    let error = json!({
        "type": "object",
        "properties": {
            "code": { "type": "integer" },
            "message": { "type": "string" },
            "data": details(),
        },
        "required": ["code", "message"],
    });
    json!({
        "type": "object",
        "properties": {
            "jsonrpc": { "const": "2.0" },
            "id": { "type": ["string", "integer", "null"] },
            "result": { "anyOf": results.collect::<Vec<_>>() },
            "error": error,
        },
        "required": ["jsonrpc"],
    })
}

fn agent_list() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let mut levels: Vec<Value> = ContainmentClaim::all().into_iter().map(|claim| json!(claim.words())).collect();
    levels.push(Value::Null);
    let agent = json!({
        "type": "object",
        "properties": {
            "id": text("urn:althing:PUBLISHER:NAME"),
            "name": text("The last part of the id"),
            "title": text("What its publisher calls it"),
            "containment": {
                "type": ["string", "null"],
                "enum": levels,
                "description": "How its programs are contained on that node; null where it has none, or does not say",
            },
            "node": text("The did:key of a node that hosts it"),
            "card": text("The address of its card"),
        },
        "required": ["id", "name", "title", "node", "card"],
    });
    json!({
        "type": "object",
        "properties": { "agents": { "type": "array", "items": agent } },
        "required": ["agents"],
    })
}
