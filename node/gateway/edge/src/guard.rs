//! Access control of the gateway: Host (DNS rebinding), Origin (other sites' pages) and token.

use std::net::IpAddr;
use std::sync::Arc;

use althing_protocol::digest;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

/// Who may use the gateway.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Host names, besides loopback's, that requests may use.
    pub hosts: Vec<String>,
    /// Whether requests may use any IP address as host: DNS rebinding needs a name.
    pub by_address: bool,
    /// A bearer token that requests must carry, but for those that tell nothing of agents, such as `/healthz`; none: loopback
    /// acts as `local` without one.
    pub token: Option<String>,
}

impl Access {
    /// Whether a request carries the token, if one is set.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given =
            given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // Digests are compared, so that the time taken reveals nothing of the token.
        given.is_some_and(|(_, given)| digest(given.trim().as_bytes()) == digest(token.as_bytes()))
    }

    fn knows(&self, authority: &str) -> bool {
        let name = name_of(authority);
        let loopback =
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let by_address = self.by_address && name.parse::<IpAddr>().is_ok();
        loopback || by_address || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// The host in `host:port`, without the brackets of an IPv6 address.
fn name_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(name, _)| name)
}

/// The host of a request. HTTP/2 has it in the URI; [`host_and_origin`] copies it.
#[must_use]
pub fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// Refuses requests for another host, or from another site's page.
pub async fn host_and_origin(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let authority = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let Some(authority) = authority
        && !request.headers().contains_key(header::HOST)
    {
        request.headers_mut().insert(header::HOST, authority);
    }
    let headers = request.headers();
    let authority = host(headers);
    if !authority.is_some_and(|authority| access.knows(authority)) {
        let message = "this gateway is not known by that Host; add the name to `gateway.hosts` in althing.toml";
        return problem(StatusCode::MISDIRECTED_REQUEST, message);
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
        if !origin.is_some_and(|authority| access.knows(authority)) {
            return problem(StatusCode::FORBIDDEN, "pages of other origins may not speak to this gateway");
        }
    }
    next.run(request).await
}

/// Refuses requests without the token, if one is set.
pub async fn token(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if !access.admits(request.headers()) {
        let mut refused = problem(StatusCode::UNAUTHORIZED, "a bearer token is required: Authorization: Bearer …");
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return refused;
    }
    next.run(request).await
}

/// An error in the shape of A2A's REST errors.
#[must_use]
pub fn problem(status: StatusCode, message: &str) -> Response {
    let name = status.canonical_reason().unwrap_or("error").to_ascii_uppercase().replace(' ', "_");
    let body = json!({ "error": { "code": status.as_u16(), "status": name, "message": message } });
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_admitted() {
        let access = Access { token: Some("secret".to_owned()), ..Access::default() };
        let with = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, header::HeaderValue::from_static(value));
            }
            headers
        };
        for value in ["Bearer secret", "bearer secret", "Bearer  secret "] {
            assert!(access.admits(&with(&[value])), "{value}");
        }
        for value in [
            "Bearer secretly",
            "Bearer secret, other",
            "Bearer secret other",
            "Bearer secret\tother",
            "Bearer secre",
            "Bearer xsecret",
            "Bearer Secret",
            "Bearer",
            "Bearer ",
            "Basic secret",
            "secret",
            "",
        ] {
            assert!(!access.admits(&with(&[value])), "{value}");
        }
        assert!(!access.admits(&HeaderMap::new()));
        assert!(!access.admits(&with(&["Bearer other", "Bearer secret"])), "the first counts");
        assert!(Access::default().admits(&HeaderMap::new()), "without a token loopback needs none");
    }

    #[test]
    fn only_loopback_and_named_hosts_are_known() {
        let access = Access { hosts: vec!["mesh.example".to_owned(), "192.0.2.7".to_owned()], ..Access::default() };
        let good =
            ["127.0.0.1:7420", "localhost", "LOCALHOST:1", "[::1]:80", "127.9.9.9", "mesh.example:443", "192.0.2.7"];
        let bad = [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "[::2]:80",
            "192.0.2.8",
            "",
            "[",
            ":80",
        ];
        for host in good {
            assert!(access.knows(host), "{host}");
        }
        for host in bad {
            assert!(!access.knows(host), "{host}");
        }
    }
}
