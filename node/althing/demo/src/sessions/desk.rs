//! A model and a tool of this process, which outlive the nodes that ask them. The model wants the tool called for each step that
//! it was told, and goes by the conversation alone. The tool counts: a call whose key it has seen does nothing a second time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::DemoError;
use crate::server::{self, LocalServer};

/// What the tool was asked for.
#[derive(Default)]
struct Book {
    /// Of each step of a run: how often it was called, and by which keys, each of which took effect once.
    calls: BTreeMap<(String, u64), (usize, Vec<String>)>,
}

/// The desk, and how its tool is held.
pub struct Desk {
    server: LocalServer,
    book: Arc<Mutex<Book>>,
    held: watch::Sender<Option<u64>>,
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
        let (book, (held, holding)) = (Arc::<Mutex<Book>>::default(), watch::channel(None));
        let router = Router::new().route("/v1/chat/completions", post(model)).route("/mcp", post(tool));
        let router = router.with_state(DeskState { book: book.clone(), held: holding });
        Ok(Desk { server: LocalServer::open(router).await?, book, held })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.server.url()
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

/// What the model says: a call of the tool for the next step, or at the end what it heard.
async fn model(Json(asked): Json<Value>) -> Response {
    let (told, heard) = server::told(&asked);
    let (run, steps) = told.split_once(' ').unwrap_or((told, "0"));
    if heard.len() >= steps.parse().unwrap_or(0) {
        return server::words(&format!("heard {}", heard.join(", ")));
    }
    server::call("count__add", &json!({ "run": run, "step": heard.len() + 1 }), heard.len())
}

/// A server of MCP with the one tool.
async fn tool(State(desk): State<DeskState>, Json(asked): Json<Value>) -> Response {
    let tool = json!({
        "name": "add", "description": "Counts a step",
        "inputSchema": {
            "type": "object", "required": ["run", "step"],
            "properties": { "run": { "type": "string" }, "step": { "type": "integer" } },
        },
    });
    match server::unless_called(&asked, "count", &tool) {
        Some(answer) => answer,
        None => server::result(&asked, &counted(desk, &asked["params"]).await),
    }
}

async fn counted(mut desk: DeskState, params: &Value) -> String {
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
    format!("step {step}")
}
