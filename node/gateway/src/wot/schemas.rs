//! The data of this face, as JSON Schemas that Thing Descriptions and `/openapi.json` both show.

use serde_json::{Value, json};

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn pairs(about: &str) -> Value {
    let pair = json!({
        "type": "object",
        "properties": { "key": { "type": "string" }, "value": { "type": "string" } },
        "required": ["key", "value"],
    });
    json!({ "type": "array", "description": about, "items": pair })
}

fn message() -> Value {
    let binary = json!({
        "type": "object",
        "description": "Data beside the text: either inline or at an address",
        "properties": {
            "mimeType": text("Its media type"),
            "dataAsBase64": text("The data themselves"),
            "source": text("Where the data are"),
        },
        "required": ["mimeType"],
    });
    json!({
        "type": "object",
        "properties": {
            "role": text("user or assistant"),
            "content": text("The text; JSON if the format is json"),
            "format": text("text, markdown, json, or a media type"),
            "turnId": text("The turn that it belongs to. task:ID names a task that waits for an answer"),
            "binaryData": { "type": "array", "items": binary },
        },
        "required": ["role", "content"],
    })
}

/// The input of `chat`.
pub(crate) fn chat_input() -> Value {
    let conversation = json!({
        "type": "object",
        "description": "The conversation: its id becomes A2A's contextId",
        "properties": { "conversationId": { "type": "string" }, "turnId": { "type": "string" } },
    });
    let user = json!({
        "type": "object",
        "properties": {
            "userId": { "type": "string" },
            "userToken": { "type": "string", "description": "Not passed on to the agent" },
            "profile": pairs("What is known of the user"),
        },
    });
    json!({
        "type": "object",
        "properties": {
            "messages": {
                "type": "array",
                "minItems": 1,
                "description": "The conversation; the last message of role user is what the agent is sent",
                "items": message(),
            },
            "conversationContext": conversation,
            "systemContext": pairs("What the system says beside the conversation"),
            "userContext": user,
        },
        "required": ["messages"],
    })
}

/// The output of `chat`.
pub(crate) fn chat_output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": text("The state of the agent's task: completed, or input-required if it asks back"),
            "responseTime": { "type": "number", "unit": "s", "description": "Seconds until the answer was complete" },
            "messages": { "type": "array", "items": message() },
        },
        "required": ["messages"],
    })
}

/// The input of a tool's action: the description of each tool says more.
pub(crate) fn tool_input() -> Value {
    json!({ "type": "object", "description": "The arguments, as the tool's description types them" })
}

/// The output of a tool's action.
pub(crate) fn tool_output() -> Value {
    json!({ "type": "object", "description": "What the tool's description promises" })
}

/// The status of an invocation that was not awaited (WoT Profile).
pub(crate) fn action_status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "string", "enum": ["pending", "running", "completed", "failed"] },
            "href": text("Where this status is read, and the invocation cancelled"),
            "output": chat_output(),
            "error": problem(),
            "timeRequested": text("When the task was changed last before its end"),
            "timeEnded": text("When the task ended"),
        },
        "required": ["status", "href"],
    })
}

/// The data of `agentEvent`.
pub(crate) fn agent_event() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": text("Which event of A2A: task, message, statusUpdate, artifactUpdate"),
            "payload": text("Its content, as JSON"),
            "conversationId": { "type": "string" },
            "turnId": { "type": "string" },
        },
        "required": ["type", "payload"],
    })
}

/// The data of `taskUpdate`: A2A's `StreamResponse`.
pub(crate) fn task_update() -> Value {
    json!({
        "type": "object",
        "description": "One of task, message, statusUpdate, artifactUpdate, as in A2A 1.0",
        "properties": {
            "task": { "type": "object" },
            "message": { "type": "object" },
            "statusUpdate": { "type": "object" },
            "artifactUpdate": { "type": "object" },
        },
    })
}

/// The property `status`.
pub(crate) fn status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "available": { "type": "boolean", "description": "Whether a node that hosts the agent is known" },
            "local": { "type": "boolean", "description": "Whether this node hosts it" },
            "nodes": { "type": "array", "description": "The nodes that host it", "items": { "type": "string" } },
        },
        "required": ["available", "local", "nodes"],
    })
}

/// The property `tasks`.
pub(crate) fn tasks() -> Value {
    let count = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    json!({
        "type": "object",
        "properties": {
            "total": count("The reader's tasks with this agent that are kept"),
            "submitted": count("Those that wait for their turn"),
            "working": count("Those that the agent works on"),
            "inputRequired": count("Those that wait for an answer"),
        },
        "required": ["total", "submitted", "working", "inputRequired"],
    })
}

/// Problem details (RFC 9457).
pub(crate) fn problem() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "reason": text("What machines compare"),
        },
        "required": ["title", "status", "detail", "reason"],
    })
}
