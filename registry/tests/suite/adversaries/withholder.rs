//! Does not show what some entries say, as if it were for others only.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use reqwest::Client;

use super::{Liar, honestly};

pub async fn before(url: &str, hidden: u64) -> Liar {
    let (url, client) = (url.to_owned(), Client::new());
    let answer = move |request: Request| {
        let (url, client) = (url.clone(), client.clone());
        async move {
            if request.uri().path() == format!("/statements/{hidden}") {
                return StatusCode::NOT_FOUND.into_response();
            }
            honestly(&client, &url, request).await
        }
    };
    Liar::serve(Router::new().fallback(answer)).await
}
