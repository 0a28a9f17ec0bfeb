//! Shows one history first, and another one of the same key later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Request;
use reqwest::Client;

use super::{Liar, honestly};

pub struct Forker {
    pub liar: Liar,
    /// Whether it shows the second history.
    pub turned: Arc<AtomicBool>,
}

impl Forker {
    pub async fn between(first: &str, second: &str) -> Forker {
        let turned = Arc::new(AtomicBool::new(false));
        let (urls, is_turned, client) = ([first.to_owned(), second.to_owned()], turned.clone(), Client::new());
        let answer = move |request: Request| {
            let url = urls[usize::from(is_turned.load(Ordering::SeqCst))].clone();
            let client = client.clone();
            async move { honestly(&client, &url, request).await }
        };
        Forker { liar: Liar::serve(Router::new().fallback(answer)).await, turned }
    }
}
