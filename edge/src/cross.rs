//! Pages of other origins that the operator lets in (the Fetch standard's CORS). Nobody else is answered with these headers.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::access::Access;
use crate::base::is_web;

/// Headers that the protocols here have requests carry.
const ALLOWED: &str = "Authorization, Content-Type, Accept, Last-Event-ID, Prefer, If-None-Match, Mcp-Protocol-Version, \
                       Mcp-Session-Id, Mcp-Method, Mcp-Name, A2A-Version, A2A-Extensions, Traceparent, Tracestate";
/// Headers of answers that pages may read.
const EXPOSED: &str = "Mcp-Session-Id, Mcp-Protocol-Version, A2A-Version, A2A-Extensions, WWW-Authenticate, Location, Link, \
                       ETag, Retry-After";
const METHODS: &str = "GET, HEAD, POST, DELETE, OPTIONS";
/// How long a browser keeps the answer, seconds.
const KEPT: &str = "600";
/// What arguments of a tool that a client of MCP puts into headers begin with: each tool has others.
const ARGUMENTS: &str = "mcp-param-";
/// Headers that a browser asks for of which the answer names some.
const ASKED_MAX: usize = 64;
/// How browsers ask whether a page of the internet may reach this machine, and are told.
const ASKS_PRIVATE: &str = "access-control-request-private-network";
const ALLOWS_PRIVATE: &str = "access-control-allow-private-network";

/// The origin of a request, if the operator lets its pages in.
pub(crate) fn admitted(access: &Access, headers: &HeaderMap) -> Option<HeaderValue> {
    let given = headers.get(header::ORIGIN)?;
    let origin = given.to_str().ok()?;
    let origin = if is_web(origin) { origin.to_ascii_lowercase() } else { origin.to_owned() };
    let own = access.public.as_ref().map(crate::Base::origin);
    (access.origins.contains(&origin) || own.as_ref() == Some(&origin)).then(|| given.clone())
}

/// Whether a browser asks what a page may send.
pub(crate) fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that.
pub(crate) fn preflight(asked: &HeaderMap) -> Response {
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(KEPT));
    let allowed = HeaderValue::from_str(&allowed(asked)).unwrap_or(HeaderValue::from_static(ALLOWED));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    if asked.contains_key(ASKS_PRIVATE) {
        headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    answer
}

/// The headers of the protocols, and those that are asked for as arguments of tools.
fn allowed(asked: &HeaderMap) -> String {
    let asked = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|names| names.to_str().ok());
    let names = asked.unwrap_or_default().split(',').map(str::trim).take(ASKED_MAX);
    let arguments = names.filter(|name| {
        let begins = name.get(..ARGUMENTS.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(ARGUMENTS));
        begins && name.parse::<HeaderName>().is_ok()
    });
    arguments.fold(ALLOWED.to_owned(), |all, name| format!("{all}, {name}"))
}

/// An answer as the page may read it; to a page that is not let in, as it is. Where some are let in, answers differ.
pub(crate) fn shown(mut answer: Response, page: Option<HeaderValue>, access: &Access) -> Response {
    if page.is_some() || !access.origins.is_empty() {
        answer.headers_mut().append(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(page) = page {
        answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
        answer.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::post;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Limits, host_and_origin, origin_of, serve};

    /// What a server with these origins answers to a request of a page.
    async fn asked(origins: &[&str], method: Method, page: &str, names: &str) -> reqwest::Response {
        let origins = origins.iter().map(|text| origin_of(text).expect("an origin")).collect();
        let access = Access { origins, ..Access::default() };
        let router = Router::new()
            .route("/mcp", post(|| async { "answered" }))
            .layer(from_fn_with_state(Arc::new(access), host_and_origin));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it listens"));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, Limits::default(), stop.clone()));
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut request = reqwest::Client::new().request(method.clone(), url).header(header::ORIGIN, page);
        if method == Method::OPTIONS {
            request = request.header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
            request = request.header(header::ACCESS_CONTROL_REQUEST_HEADERS, names);
        }
        let answer = request.send().await.expect("an answer");
        stop.cancel();
        serving.await.expect("it ends");
        answer
    }

    fn header_of(answer: &reqwest::Response, name: &HeaderName) -> String {
        answer.headers().get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_page_that_is_let_in_may_send_what_the_protocols_need_and_read_the_session() {
        let origins = ["http://localhost:6274", "https://App.example:443", "app://obsidian.md"];
        for page in ["http://localhost:6274", "https://app.example", "app://obsidian.md"] {
            let names = "mcp-protocol-version,content-type,Mcp-Param-City,x-other";
            let answer = asked(&origins, Method::OPTIONS, page, names).await;
            assert_eq!(answer.status(), StatusCode::NO_CONTENT);
            assert_eq!(header_of(&answer, &header::ACCESS_CONTROL_ALLOW_ORIGIN), page);
            let allowed = header_of(&answer, &header::ACCESS_CONTROL_ALLOW_HEADERS).to_ascii_lowercase();
            let allowed: Vec<&str> = allowed.split(", ").collect();
            for name in ["mcp-protocol-version", "a2a-version", "content-type", "authorization", "mcp-param-city"] {
                assert!(allowed.contains(&name), "{name}: {allowed:?}");
            }
            assert!(!allowed.contains(&"x-other"), "{allowed:?}");
            assert!(header_of(&answer, &header::ACCESS_CONTROL_ALLOW_METHODS).contains("DELETE"));
            let answer = asked(&origins, Method::POST, page, "").await;
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(header_of(&answer, &header::ACCESS_CONTROL_ALLOW_ORIGIN), page);
            assert!(header_of(&answer, &header::ACCESS_CONTROL_EXPOSE_HEADERS).contains("Mcp-Session-Id"));
            assert!(header_of(&answer, &header::VARY).contains("Origin"));
        }
    }

    #[tokio::test]
    async fn nobody_else_is_let_in() {
        for origins in [&[] as &[&str], &["http://localhost:6274", "app://obsidian.md"]] {
            for page in [
                "https://evil.example",
                "http://localhost:6275",
                "https://localhost:6274",
                "https://obsidian.md",
                "app://Obsidian.md",
                "app://obsidian.md:80",
                "null",
            ] {
                for method in [Method::OPTIONS, Method::POST] {
                    let answer = asked(origins, method, page, "content-type").await;
                    assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{page}");
                    assert_eq!(header_of(&answer, &header::ACCESS_CONTROL_ALLOW_ORIGIN), "", "{page}");
                }
            }
        }
    }
}
