//! A model of this process. One of its names answers in words and mends that when it is told that it was refused; the other one
//! never does.

use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use crate::error::DemoError;
use crate::server::{self, LocalServer};

/// What mends its answers.
pub const CAREFUL: &str = "careful";
/// What does not.
pub const STUBBORN: &str = "stubborn";
/// What both answer at first.
pub const WORDS: &str = "The total is seven.";
/// What is wanted of them.
pub const TOTAL: &str = r#"{"total":7}"#;

/// The model; it ends when this is dropped.
pub struct Model(LocalServer);

impl Model {
    /// Opens it on a free port of loopback.
    pub async fn open() -> Result<Model, DemoError> {
        LocalServer::open(Router::new().route("/v1/chat/completions", post(reply))).await.map(Model)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}/v1", self.0.url())
    }
}

async fn reply(Json(asked): Json<Value>) -> Response {
    let (told, _) = server::told(&asked);
    let is_refused = told.contains("was refused");
    server::words(if asked["model"] == CAREFUL && is_refused { TOTAL } else { WORDS })
}
