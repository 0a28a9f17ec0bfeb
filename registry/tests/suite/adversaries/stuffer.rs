//! Puts other descriptions into releases, and more than anybody asked for.

use althing_protocol::registry::ReleaseEvidence;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use reqwest::Client;

use super::{BYTES_MAX, Liar, honestly};

/// What is put in.
#[derive(Debug, Clone)]
pub enum Stuffed {
    /// Another description that the publisher signed.
    Description(Vec<u8>),
    /// So many bytes after the evidence.
    Bytes(usize),
}

pub async fn before(url: &str, stuffed: Stuffed) -> Liar {
    let (url, client) = (url.to_owned(), Client::new());
    let answer = move |request: Request| {
        let (url, client, stuffed) = (url.clone(), client.clone(), stuffed.clone());
        async move {
            let answer = honestly(&client, &url, request).await;
            let body = to_bytes(answer.into_body(), BYTES_MAX).await.expect("a body");
            let Ok(evidence) = ReleaseEvidence::decode(&body) else { return body.into_response() };
            match stuffed {
                Stuffed::Description(description) => {
                    ReleaseEvidence { description: description.into(), ..evidence }.encode().into_response()
                }
                Stuffed::Bytes(more) => [body.to_vec(), vec![0; more]].concat().into_response(),
            }
        }
    };
    Liar::serve(Router::new().fallback(answer)).await
}
