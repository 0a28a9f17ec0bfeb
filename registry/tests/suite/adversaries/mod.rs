//! Registries that lie: each stands before real ones, and changes what they say.

pub mod forker;
pub mod hider;
pub mod rollback;
pub mod stale_mirror;
pub mod stuffer;
pub mod withholder;

use althing_edge::Limits;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use reqwest::Client;
use tokio_util::sync::CancellationToken;

/// Bytes of an answer that is passed on.
const BYTES_MAX: usize = 8 << 20;

/// A registry that lies, on loopback.
pub struct Liar {
    pub url: String,
    stop: CancellationToken,
}

impl Liar {
    /// Serves what it says.
    pub async fn serve(router: Router) -> Liar {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let stop = CancellationToken::new();
        tokio::spawn(althing_edge::serve(listener, router, Limits::default(), stop.clone()));
        Liar { url, stop }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Asks a real registry the same.
pub async fn honestly(client: &Client, url: &str, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BYTES_MAX).await.expect("a small request");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut asked = client.request(parts.method, format!("{url}{path}")).body(body);
    for name in [header::AUTHORIZATION, header::CONTENT_TYPE] {
        if let Some(value) = parts.headers.get(&name) {
            asked = asked.header(name, value);
        }
    }
    let answer = asked.send().await.expect("the real one answers");
    let status = answer.status();
    (status, Body::from(answer.bytes().await.expect("a body"))).into_response()
}
