//! Leaves out the marks on releases, and says that nothing was revoked. Its log has them all the same: it was honest when it
//! took them.

use althing_protocol::registry::ReleaseEvidence;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use reqwest::Client;

use super::{BYTES_MAX, Liar, honestly};

/// Its log still says what its entries name.
pub async fn before(url: &str) -> Liar {
    hiding(url, Vec::new()).await
}

/// It does not show what these entries name either.
pub async fn hiding(url: &str, entries: Vec<u64>) -> Liar {
    let (url, client) = (url.to_owned(), Client::new());
    let hidden: Vec<String> = entries.iter().map(|entry| format!("/statements/{entry}")).collect();
    let answer = move |request: Request| {
        let (url, client, hidden) = (url.clone(), client.clone(), hidden.clone());
        async move {
            let path = request.uri().path().to_owned();
            if path == "/revoked" {
                return r#"{"revoked":[]}"#.into_response();
            }
            if hidden.contains(&path) {
                return StatusCode::NOT_FOUND.into_response();
            }
            let answer = honestly(&client, &url, request).await;
            if !path.starts_with("/agents/") || !answer.status().is_success() {
                return answer;
            }
            let (parts, body) = answer.into_parts();
            let body = to_bytes(body, BYTES_MAX).await.expect("a body");
            match ReleaseEvidence::decode(&body) {
                Ok(evidence) => ReleaseEvidence { marks: Vec::new(), ..evidence }.encode().into_response(),
                Err(_) => (parts, body).into_response(),
            }
        }
    };
    Liar::serve(Router::new().fallback(answer)).await
}
