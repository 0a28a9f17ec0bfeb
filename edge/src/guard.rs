//! Access control of the gateway: Host (DNS rebinding), Origin (other sites' pages) and token.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use crate::access::Access;
use crate::base::is_web;
use crate::cross;
use crate::refusal::{Refusal, is_grpc, name};
use crate::standing::Standing;
use crate::tls::Certified;
use crate::users::Scope;

/// Bytes of a token; that of an issuer has many claims.
const TOKEN_BYTES_MAX: usize = 8_192;

/// The host of a request. HTTP/2 has it in the URI; [`host_and_origin`] copies it.
#[must_use]
pub fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// Why a request is refused whatever it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// It is for a host by which the server is not known: a name of somebody else's may lead here (DNS rebinding).
    Host,
    /// It comes from another site's page.
    Origin,
}

impl Outside {
    /// The status of its refusal.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Outside::Host => StatusCode::MISDIRECTED_REQUEST,
            Outside::Origin => StatusCode::FORBIDDEN,
        }
    }

    /// The refusal of the gateway.
    fn refusal(self) -> Refusal {
        let (reason, message) = match self {
            Outside::Host => (
                "HOST_UNKNOWN",
                "this gateway is not known by that Host; add the name to `gateway.hosts` in althing.toml",
            ),
            Outside::Origin => (
                "ORIGIN_REFUSED",
                "pages of other origins may not speak to this gateway; a page at another port is another origin; \
                 `gateway.origins` in althing.toml lets some in",
            ),
        };
        Refusal { status: self.status(), reason, message: message.to_owned(), challenge: None }
    }
}

/// Why a request must not be answered, if so. One of HTTP/2, which has its host in the URI, is given a Host too.
pub fn outside(access: &Access, request: &mut Request) -> Option<Outside> {
    let authority = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let Some(authority) = authority
        && !request.headers().contains_key(header::HOST)
    {
        request.headers_mut().insert(header::HOST, authority);
    }
    let headers = request.headers();
    if !host(headers).is_some_and(|authority| access.knows(authority)) {
        return Some(Outside::Host);
    }
    (!is_own_page(headers, &access.hosts) && cross::admitted(access, headers).is_none()).then_some(Outside::Origin)
}

/// Refuses requests for another host, or from another site's page; answers what browsers ask before those of a page that is
/// let in.
pub async fn host_and_origin(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    if let Some(outside) = outside(&access, &mut request) {
        return outside.refusal().answer(is_grpc(request.headers()));
    }
    let page = cross::admitted(&access, request.headers());
    let answer = match &page {
        Some(_) if cross::is_preflight(&request) => cross::preflight(request.headers()),
        _ => next.run(request).await,
    };
    cross::shown(answer, page, &access)
}

/// Routes that are served under these names only, and to no other site's page.
pub fn at_own_names(router: Router, access: Access) -> Router {
    router.layer(from_fn_with_state(Arc::new(access), host_and_origin))
}

/// Whether a request comes from no page, or from one of this very server: of the same host and port, or of a name that the
/// operator gave it, with its port if that is not the usual one. Whoever serves another port of this machine, or another address
/// of the net, is somebody else.
#[must_use]
pub fn is_own_page(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    // Pages of a program's own scheme are nobody's here, whatever host they name.
    let web = origin.to_str().ok().filter(|origin| is_web(origin));
    let Some((scheme, authority)) = web.and_then(|origin| origin.split_once("://")) else { return false };
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let usual = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    let own = host(headers).into_iter().chain(hosts.iter().map(String::as_str));
    own.map(usual).any(|own| own == usual(authority))
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, token) = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim()).filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX)
}

/// What a request needs, by its method and path.
pub type Needs = dyn Fn(&Method, &str) -> Scope + Send + Sync;

/// What [`authenticate`] goes by.
#[derive(Clone)]
pub struct Guard {
    /// Who may use the gateway.
    pub access: Arc<Access>,
    /// What a request needs, by its method and path.
    pub needs: Arc<Needs>,
}

/// Refuses requests of nobody known with 401, and those of users who may not do that with 403 (RFC 6750). The others have an
/// [`Identity`] and its [`Standing`] among their extensions; when that is over, so are they.
pub async fn authenticate(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let certified = request.extensions_mut().remove::<Certified>();
    let is_grpc = is_grpc(request.headers());
    let token = bearer(request.headers()).map(str::to_owned);
    let Some(identity) = guard.access.identify(token.as_deref(), certified.as_ref()).await else {
        let given = request.headers().contains_key(header::AUTHORIZATION);
        return unknown(&guard.access, given, host(request.headers())).answer(is_grpc);
    };
    let needed = (guard.needs)(request.method(), request.uri().path());
    if !identity.may(needed) {
        return lacks(needed).answer(is_grpc);
    }
    request.extensions_mut().insert(identity.clone());
    let authority = host(request.headers()).map(str::to_owned);
    let standing = Standing::new(guard.access.clone(), token, certified, identity);
    request.extensions_mut().insert(standing.clone());
    let answered = tokio::select! {
        biased;
        answered = next.run(request) => Some(answered),
        () = standing.over() => None,
    };
    match answered {
        Some(answered) => standing.bound(answered),
        None => unknown(&guard.access, true, authority.as_deref()).answer(is_grpc),
    }
}

fn unknown(access: &Access, given: bool, host: Option<&str>) -> Refusal {
    let (reason, message) = if given {
        (
            "TOKEN_UNKNOWN",
            "this bearer token is unknown, or over: ask whoever runs this node for one (althing token add NAME)",
        )
    } else {
        ("TOKEN_REQUIRED", "a bearer token is required: Authorization: Bearer …")
    };
    let mut members = Vec::new();
    if given {
        members.push("error=\"invalid_token\"".to_owned());
    }
    if let Some((path, _)) = access.metadata() {
        members.push(format!("resource_metadata=\"{}{path}\"", access.base(host.unwrap_or_default())));
    }
    Refusal { status: StatusCode::UNAUTHORIZED, reason, message: message.to_owned(), challenge: Some(members) }
}

/// Says which scope a user lacks.
#[must_use]
pub fn lacking(scope: Scope) -> Response {
    lacks(scope).answer(false)
}

fn lacks(scope: Scope) -> Refusal {
    let members = vec!["error=\"insufficient_scope\"".to_owned(), format!("scope=\"{scope}\"")];
    let message = format!("this needs the scope {:?}, which the token lacks", scope.name());
    Refusal { status: StatusCode::FORBIDDEN, reason: "SCOPE_LACKING", message, challenge: Some(members) }
}

/// An error in the shape of A2A's REST errors.
#[must_use]
pub fn problem(status: StatusCode, message: &str) -> Response {
    let body = json!({ "error": { "code": status.as_u16(), "status": name(status), "message": message } });
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{User, Users};

    #[derive(Debug)]
    struct Alice;

    impl Users for Alice {
        fn is_used(&self) -> bool {
            true
        }

        fn of_token<'a>(&'a self, token: &'a str) -> futures::future::BoxFuture<'a, Option<User>> {
            let user = User { name: "alice".to_owned(), scopes: [Scope::Read].into(), agents: [].into() };
            Box::pin(std::future::ready((token == "hers").then_some(user)))
        }
    }

    async fn asked(access: Access, method: Method, token: Option<&str>) -> (StatusCode, String) {
        let (status, headers) = answered(access, method, token, "text/plain").await;
        let challenge = headers.get(header::WWW_AUTHENTICATE).map(|it| it.to_str().expect("text").to_owned());
        (status, challenge.unwrap_or_default())
    }

    async fn answered(access: Access, method: Method, token: Option<&str>, kind: &str) -> (StatusCode, HeaderMap) {
        let needs = |method: &Method, path: &str| match (method, path) {
            (&Method::GET, "/x") => Scope::Read,
            _ => Scope::Call,
        };
        let guard = Guard { access: Arc::new(access), needs: Arc::new(needs) };
        let router = axum::Router::new()
            .route("/{thing}", axum::routing::any(|| async {}))
            .layer(axum::middleware::from_fn_with_state(guard, authenticate));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/x", listener.local_addr().expect("it listens"));
        let stop = tokio_util::sync::CancellationToken::new();
        let serving = tokio::spawn(crate::serve(listener, router, crate::Limits::default(), stop.clone()));
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut request = reqwest::Client::new().request(method, url).header(header::CONTENT_TYPE, kind);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.expect("an answer");
        stop.cancel();
        serving.await.expect("it ends");
        (answer.status(), answer.headers().clone())
    }

    /// SR-6
    #[test]
    fn a_server_is_asked_by_its_own_names_and_by_no_other_sites_page() {
        let access = Access::at("127.0.0.1:7480".parse().expect("an address"), Vec::new());
        let judged = |uri: &str, headers: &[(header::HeaderName, &str)]| {
            let mut request = Request::new(axum::body::Body::empty());
            *request.uri_mut() = uri.parse().expect("a URI");
            for (name, value) in headers {
                request.headers_mut().insert(name, value.parse().expect("a header"));
            }
            outside(&access, &mut request)
        };
        let (own, other) = ((header::HOST, "localhost:7480"), (header::HOST, "evil.example:7480"));
        assert_eq!(judged("/", std::slice::from_ref(&own)), None);
        assert_eq!(judged("http://localhost:7480/", &[]), None, "HTTP/2");
        assert_eq!(judged("/", &[own.clone(), (header::ORIGIN, "http://localhost:7480")]), None);
        let page = (header::ORIGIN, "http://evil.example:7480");
        for headers in [Vec::new(), vec![other.clone()], vec![other, page]] {
            assert_eq!(judged("/", &headers), Some(Outside::Host), "{headers:?}");
        }
        assert_eq!(judged("http://evil.example:7480/", &[]), Some(Outside::Host), "HTTP/2");
        assert_eq!(judged("/", &[own, (header::ORIGIN, "https://evil.example")]), Some(Outside::Origin));
    }

    /// SR-5: what listens at an address is not what listens at its usual port.
    #[test]
    fn a_page_of_the_usual_port_is_not_ones_own_by_the_address_alone() {
        for at in ["127.0.0.1:7420", "[::1]:7420", "192.0.2.7:7420", "0.0.0.0:7420"] {
            let address: std::net::SocketAddr = at.parse().expect("an address");
            let access = Access::at(address, vec!["agents.example".to_owned()]);
            let judged = |origin: &str| {
                let mut request = Request::new(axum::body::Body::empty());
                request.headers_mut().insert(header::HOST, at.parse().expect("a header"));
                request.headers_mut().insert(header::ORIGIN, origin.parse().expect("a header"));
                outside(&access, &mut request)
            };
            let ip = at.strip_suffix(":7420").expect("a port");
            for origin in [format!("http://{ip}"), format!("https://{ip}"), format!("http://{ip}:80")] {
                assert_eq!(judged(&origin), Some(Outside::Origin), "{origin} {at}");
            }
            for origin in [format!("http://{at}"), "https://agents.example".to_owned()] {
                assert_eq!(judged(&origin), None, "{origin} {at}");
            }
        }
    }

    /// SR-5
    #[test]
    fn a_page_is_ones_own_by_host_and_port() {
        let hosts = ["agents.example".to_owned(), "tools.example:8443".to_owned()];
        let is_own = |origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().expect("a header")));
            is_own_page(&headers, &hosts)
        };
        assert!(is_own(None, "localhost:7420"), "no page");
        for (origin, host) in [
            ("http://localhost:7420", "localhost:7420"),
            ("http://LOCALHOST:7420", "localhost:7420"),
            ("http://127.0.0.1:7420", "127.0.0.1:7420"),
            ("http://[::1]:7420", "[::1]:7420"),
            ("https://192.0.2.1", "192.0.2.1:443"),
            ("http://192.0.2.1", "192.0.2.1"),
            ("https://agents.example", "10.0.0.1:7420"),
            ("https://tools.example:8443", "10.0.0.1:7420"),
        ] {
            assert!(is_own(Some(origin), host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:7420"),
            ("http://localhost", "localhost:7420"),
            ("http://127.0.0.1:7420", "localhost:7420"),
            ("https://198.51.100.1", "192.0.2.1:7420"),
            ("https://agents.example:8443", "10.0.0.1:7420"),
            ("https://tools.example", "10.0.0.1:7420"),
            ("null", "localhost:7420"),
            ("", "localhost:7420"),
            ("file://", "localhost:7420"),
        ] {
            assert!(!is_own(Some(origin), host), "{origin} {host}");
        }
    }

    #[tokio::test]
    async fn users_do_what_their_scopes_say_and_are_told_what_is_missing() {
        let access = || Access { users: vec![Arc::new(Alice)], token: Some("all".to_owned()), ..Access::default() };
        assert_eq!(asked(access(), Method::GET, Some("hers")).await, (StatusCode::OK, String::new()));
        assert_eq!(asked(access(), Method::POST, Some("all")).await, (StatusCode::OK, String::new()));
        let (status, challenge) = asked(access(), Method::POST, Some("hers")).await;
        assert_eq!(
            (status, challenge.as_str()),
            (StatusCode::FORBIDDEN, "Bearer error=\"insufficient_scope\", scope=\"call\"")
        );
        let (status, challenge) = asked(access(), Method::GET, Some("his")).await;
        assert_eq!((status, challenge.as_str()), (StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\""));
        assert_eq!(asked(access(), Method::GET, None).await, (StatusCode::UNAUTHORIZED, "Bearer".to_owned()));
        let named = Access { token: None, ..access() };
        assert_eq!(asked(named, Method::GET, None).await.0, StatusCode::UNAUTHORIZED, "loopback too");
        assert_eq!(asked(Access::default(), Method::POST, None).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn clients_of_grpc_are_refused_with_its_status() {
        let access = || Access { users: vec![Arc::new(Alice)], ..Access::default() };
        for (token, code) in [(None, "16"), (Some("his"), "16"), (Some("hers"), "7")] {
            let (status, headers) = answered(access(), Method::POST, token, "application/grpc+proto").await;
            assert_eq!((status, headers["grpc-status"].to_str().ok()), (StatusCode::OK, Some(code)), "{token:?}");
            assert!(headers.contains_key(header::WWW_AUTHENTICATE), "{token:?}");
        }
    }
}
