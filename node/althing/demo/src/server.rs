//! What chapters serve to their nodes from this process, and what outlives these: models, and servers of one tool.

use std::net::SocketAddr;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::error::DemoError;

/// What is served on a port of loopback; it ends when this is dropped.
pub struct LocalServer {
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl LocalServer {
    /// On a free port.
    pub async fn open(router: Router) -> Result<LocalServer, DemoError> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(DemoError::unexpected)?;
        let address = listener.local_addr().map_err(DemoError::unexpected)?;
        let serving = tokio::spawn(async move {
            // It ends with the chapter, which aborts it.
            let _ = axum::serve(listener, router).await;
        });
        Ok(LocalServer { address, serving })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What a model was told last by a person, and what it heard of tools since then.
pub fn told(asked: &Value) -> (&str, Vec<&str>) {
    let messages = asked["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    let told = messages.get(at).and_then(|message| message["content"].as_str()).unwrap_or_default();
    let heard = messages.iter().skip(at).filter(|message| message["role"] == "tool");
    (told, heard.filter_map(|message| message["content"].as_str()).collect())
}

/// A model says this, and ends.
pub fn words(said: &str) -> Response {
    streamed(&json!({ "delta": { "content": said }, "finish_reason": "stop" }))
}

/// A model calls a tool, of whose calls this one has that number in its turn.
pub fn call(name: &str, arguments: &Value, number: usize) -> Response {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    let call = json!({ "index": 0, "id": format!("c{number}"), "type": "function", "function": function });
    streamed(&json!({ "delta": { "tool_calls": [call] }, "finish_reason": "tool_calls" }))
}

fn streamed(choice: &Value) -> Response {
    let said = format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [choice] }));
    ([(CONTENT_TYPE, "text/event-stream")], said).into_response()
}

/// What a server of MCP with that one tool answers to all but a call of it, to which it answers by [`result`].
pub fn unless_called(asked: &Value, name: &str, tool: &Value) -> Option<Response> {
    if asked["id"].is_null() {
        return Some(StatusCode::ACCEPTED.into_response());
    }
    let result = match asked["method"].as_str() {
        Some("tools/call") => return None,
        Some("initialize") => json!({
            "protocolVersion": asked["params"]["protocolVersion"], "capabilities": { "tools": {} },
            "serverInfo": { "name": name, "version": "1" },
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({ "tools": [tool] }),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Some(Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response());
        }
    };
    Some(Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response())
}

/// What a call of a tool brought.
pub fn result(asked: &Value, text: &str) -> Response {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response()
}
