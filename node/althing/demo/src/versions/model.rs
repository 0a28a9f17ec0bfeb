//! A model of this process. One of its names answers in words and mends that when it is told that it was refused; the other one
//! never does.

use std::net::SocketAddr;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::error::DemoError;

/// What mends its answers.
pub const CAREFUL: &str = "careful";
/// What does not.
pub const STUBBORN: &str = "stubborn";
/// What both answer at first.
pub const WORDS: &str = "The total is seven.";
/// What is wanted of them.
pub const TOTAL: &str = r#"{"total":7}"#;

/// The model; it ends when this is dropped.
pub struct Model {
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Model {
    /// Opens it on a free port of loopback.
    pub async fn open() -> Result<Model, DemoError> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(DemoError::unexpected)?;
        let address = listener.local_addr().map_err(DemoError::unexpected)?;
        let router = Router::new().route("/v1/chat/completions", post(reply));
        let serving = tokio::spawn(async move {
            // It ends with the chapter, which aborts it.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Model { address, serving })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn reply(Json(asked): Json<Value>) -> Response {
    let none = Vec::new();
    let messages = asked["messages"].as_array().unwrap_or(&none);
    let told = messages.iter().rfind(|message| message["role"] == "user");
    let told = told.and_then(|message| message["content"].as_str()).unwrap_or_default();
    let is_refused = told.contains("was refused");
    let said = if asked["model"] == CAREFUL && is_refused { TOTAL } else { WORDS };
    let choice = json!({ "delta": { "content": said }, "finish_reason": "stop" });
    let said = format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [choice] }));
    ([(CONTENT_TYPE, "text/event-stream")], said).into_response()
}
