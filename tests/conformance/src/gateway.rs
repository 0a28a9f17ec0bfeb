//! A node's gateway on a port of loopback, and a client that asks it.

use althing_gateway::{Access, Limits, router, serve};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::mesh::Node;

/// A gateway, until it is dropped.
pub struct Gateway {
    /// `127.0.0.1:PORT`
    pub host: String,
    client: reqwest::Client,
    stop: CancellationToken,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Gateway {
    /// Serves the faces of a node.
    pub async fn start(node: &Node, token: Option<&str>) -> Gateway {
        Gateway::with(node, Access { token: token.map(str::to_owned), ..Access::default() }).await
    }

    /// The same, for whoever may use it.
    pub async fn with(node: &Node, access: Access) -> Gateway {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let host = listener.local_addr().expect("it listens").to_string();
        let router = router(node.calls.clone(), node.key.clone(), access, (None, None));
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, router, Limits::default(), stop.clone()));
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Gateway { host, client: reqwest::Client::new(), stop }
    }

    /// A request, to be completed.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.client.request(method, format!("http://{}{path}", self.host))
    }

    /// Sends a request.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.text().await.expect("a body") }
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    /// Sends JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request("POST", path).json(body)).await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
