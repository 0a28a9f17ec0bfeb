//! A model and a tool of this process, which outlive the nodes that ask them. The model wants the tool called for each step that
//! it was told, and goes by the conversation alone. The tool counts: a call whose key it has seen does nothing a second time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::DemoError;

/// What the tool was asked for.
#[derive(Default)]
struct Book {
    /// Of each step of a run: how often it was called, and by which keys, each of which took effect once.
    calls: BTreeMap<(String, u64), (usize, Vec<String>)>,
}

/// The desk, and how its tool is held.
pub struct Desk {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    held: watch::Sender<Option<u64>>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct DeskState {
    book: Arc<Mutex<Book>>,
    held: watch::Receiver<Option<u64>>,
}

impl DeskState {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no holder of the book panics")
    }
}

impl Desk {
    /// Opens it on a free port of loopback.
    pub async fn open() -> Result<Desk, DemoError> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(DemoError::unexpected)?;
        let address = listener.local_addr().map_err(DemoError::unexpected)?;
        let (book, (held, holding)) = (Arc::<Mutex<Book>>::default(), watch::channel(None));
        let router = Router::new().route("/v1/chat/completions", post(model)).route("/mcp", post(tool));
        let router = router.with_state(DeskState { book: book.clone(), held: holding });
        let serving = tokio::spawn(async move {
            // It ends with the chapter, which aborts it.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Desk { address, book, held, serving })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on calls of that step are counted and not answered; with none, all are answered.
    pub fn hold(&self, step: Option<u64>) {
        self.held.send_replace(step);
    }

    /// How often a step of a run was called, and how often that took effect.
    pub fn count(&self, run: &str, step: u64) -> (usize, usize) {
        let book = self.book.lock().expect("no holder of the book panics");
        book.calls.get(&(run.to_owned(), step)).map_or((0, 0), |(calls, keys)| (*calls, keys.len()))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What the model says: a call of the tool for the next step, or at the end what it heard.
async fn model(Json(asked): Json<Value>) -> Response {
    let none = Vec::new();
    let messages = asked["messages"].as_array().unwrap_or(&none);
    let at = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    let told = messages.get(at).and_then(|message| message["content"].as_str()).unwrap_or_default();
    let (run, steps) = told.split_once(' ').unwrap_or((told, "0"));
    let heard: Vec<&str> = messages
        .iter()
        .skip(at)
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    let choice = if heard.len() >= steps.parse().unwrap_or(0) {
        json!({ "delta": { "content": format!("heard {}", heard.join(", ")) }, "finish_reason": "stop" })
    } else {
        let arguments = json!({ "run": run, "step": heard.len() + 1 }).to_string();
        let function = json!({ "name": "count__add", "arguments": arguments });
        let call = json!({ "index": 0, "id": format!("c{}", heard.len()), "type": "function", "function": function });
        json!({ "delta": { "tool_calls": [call] }, "finish_reason": "tool_calls" })
    };
    let said = format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [choice] }));
    ([(CONTENT_TYPE, "text/event-stream")], said).into_response()
}

/// A server of MCP with the one tool.
async fn tool(State(desk): State<DeskState>, Json(asked): Json<Value>) -> Response {
    if asked["id"].is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let params = &asked["params"];
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {} },
            "serverInfo": { "name": "count", "version": "1" },
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({ "tools": [{
            "name": "add", "description": "Counts a step",
            "inputSchema": {
                "type": "object", "required": ["run", "step"],
                "properties": { "run": { "type": "string" }, "step": { "type": "integer" } },
            },
        }] }),
        Some("tools/call") => counted(desk, params).await,
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response()
}

async fn counted(mut desk: DeskState, params: &Value) -> Value {
    let arguments = &params["arguments"];
    let run = arguments["run"].as_str().unwrap_or_default().to_owned();
    let step = arguments["step"].as_u64().unwrap_or_default();
    let key = params["_meta"]["dev.althing/call"]["idempotencyKey"].to_string();
    {
        let mut book = desk.book();
        let (calls, keys) = book.calls.entry((run, step)).or_default();
        *calls += 1;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // Nobody holds it any more when the desk is closed.
    let _ = desk.held.wait_for(|held| *held != Some(step)).await;
    json!({ "content": [{ "type": "text", "text": format!("step {step}") }], "isError": false })
}
