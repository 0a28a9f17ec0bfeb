//! Keeps all answers, and gives the old ones for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use reqwest::Client;

use super::{BYTES_MAX, Liar, honestly};

pub async fn of(url: &str) -> Liar {
    let (url, client) = (url.to_owned(), Client::new());
    let kept: Arc<Mutex<BTreeMap<String, (StatusCode, Bytes)>>> = Arc::default();
    let answer = move |request: Request| {
        let (url, client, kept) = (url.clone(), client.clone(), kept.clone());
        async move {
            let path = request.uri().to_string();
            if let Some(old) = kept.lock().expect("no holder panics").get(&path) {
                return old.clone().into_response();
            }
            let answer = honestly(&client, &url, request).await;
            let status = answer.status();
            let body = to_bytes(answer.into_body(), BYTES_MAX).await.expect("a body");
            kept.lock().expect("no holder panics").insert(path, (status, body.clone()));
            (status, body).into_response()
        }
    };
    Liar::serve(Router::new().fallback(answer)).await
}
