//! Leaves out the marks on releases, and says that nothing was revoked. Its log has them all the same: it was honest when it
//! took them.

use althing_protocol::registry::ReleaseEvidence;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use reqwest::Client;

use super::{BYTES_MAX, Liar, honestly};

pub async fn before(url: &str) -> Liar {
    let (url, client) = (url.to_owned(), Client::new());
    let answer = move |request: Request| {
        let (url, client) = (url.clone(), client.clone());
        async move {
            let path = request.uri().path().to_owned();
            if path == "/revoked" {
                return r#"{"revoked":[]}"#.into_response();
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
