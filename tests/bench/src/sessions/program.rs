//! Child: the program of an agent. Told a number it makes so many calls of its tool, one after the other, and says how many were
//! answered; told `wait` it never answers.

use std::sync::Arc;

use a2a::{Message, Part, Role};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

const TURN_HEADER: &str = "Althing-Turn";

/// Answers on the socket that its node hands it, until it is killed.
pub async fn serve() {
    let socket = std::env::var("ALTHING_SOCKET").expect("a node starts it");
    // The one that it is handed could not be opened without unsafe code.
    std::fs::remove_file(&socket).expect("it is there");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let calls = std::env::var("ALTHING_MCP_SOCKET").expect("it may call something");
    let http = reqwest::Client::builder().unix_socket(calls).build().expect("a client");
    let card = json!({
        "name": "stepper", "description": "Calls", "version": "1", "capabilities": { "streaming": false },
        "supportedInterfaces": [{ "url": "http://localhost/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    });
    let shown = get(|| std::future::ready(Json(card)));
    let router = Router::new().route("/.well-known/agent-card.json", shown).fallback(answer);
    axum::serve(listener, router.with_state(Arc::new(http))).await.expect("it serves");
}

async fn answer(
    State(http): State<Arc<reqwest::Client>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Json<Value> {
    let text = request["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    if text == "wait" {
        std::future::pending::<()>().await;
    }
    let turn = headers.get(TURN_HEADER).and_then(|turn| turn.to_str().ok()).unwrap_or_default();
    let mut answered = 0;
    for step in 0..text.parse().unwrap_or(0) {
        answered += usize::from(call(&http, turn, step).await);
    }
    let message = Message::new(Role::Agent, vec![Part::text(answered.to_string())]);
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "message": message } }))
}

/// One call; whether the tool answered.
async fn call(http: &reqwest::Client, turn: &str, step: usize) -> bool {
    let request = crate::tool::request("count__say", &format!("step {step}"));
    let sent = crate::tool::post(http, "http://localhost/", "count__say", &request).header(TURN_HEADER, turn);
    let Ok(response) = sent.send().await else { return false };
    let answer: Value = response.json().await.unwrap_or_default();
    answer["result"]["content"][0]["text"] == format!("step {step}")
}
