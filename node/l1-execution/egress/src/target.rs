//! A host that is asked for a program, with secrets that the program never has.

use std::net::IpAddr;

use althing_fetch::{FetchError, Given, Url, spelling};
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE};

use crate::machine::headers::carries_secret;
use crate::machine::paths::is_below;
use crate::machine::sieve::Sieve;
use crate::secret::SecretValue;

/// How a host is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// By TLS.
    #[default]
    Https,
    /// In the clear: only where the host is this very machine, by a literal address of loopback or as `localhost`.
    Http,
}

/// A host, what it is asked with, and below which path.
#[derive(Debug, Clone)]
pub struct Target {
    scheme: Scheme,
    host: String,
    port: u16,
    path: String,
    headers: Vec<(HeaderName, SecretValue)>,
}

/// Why a host cannot be asked so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is no host.
    #[error("egress names the host {host:?}: {why}")]
    Host {
        /// What is written.
        host: String,
        /// What is wrong with it.
        why: FetchError,
    },
    /// Others could read the secrets.
    #[error("secrets would be sent to {0} in the clear: ask it by https, or name an address of this machine")]
    Clear(String),
    /// The path is none.
    #[error("egress of {host} has the path {path:?}: write one that begins with a slash, such as /v1, without ? and #")]
    Path {
        /// The host.
        host: String,
        /// What is written.
        path: String,
    },
    /// The header says how a message is sent.
    #[error("egress of {host} sets the header {header}, which the node itself sets: leave it out")]
    Header {
        /// The host.
        host: String,
        /// The header.
        header: HeaderName,
    },
}

impl Target {
    /// A host and its port, the path below which it may be asked (empty: any), and the headers that are set on each
    /// request.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn new(
        scheme: Scheme,
        host: &str,
        port: u16,
        path: &str,
        headers: Vec<(HeaderName, SecretValue)>,
    ) -> Result<Target, TargetError> {
        let spelled = spelling(host).map_err(|why| TargetError::Host { host: host.to_owned(), why })?;
        let is_here = spelled == "localhost" || spelled.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if scheme == Scheme::Http && !is_here {
            return Err(TargetError::Clear(spelled));
        }
        if !path.is_empty() && (!path.starts_with('/') || path.contains(['?', '#'])) {
            return Err(TargetError::Path { host: spelled, path: path.to_owned() });
        }
        if let Some((header, _)) = headers.iter().find(|(name, _)| !carries_secret(name)) {
            return Err(TargetError::Header { host: spelled, header: header.clone() });
        }
        Ok(Target { scheme, host: spelled, port, path: path.to_owned(), headers })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path below which it may be asked; empty: any.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where it may lead: an owner who names an address of this machine means that very address.
    pub(crate) fn given(&self) -> Given {
        match (self.scheme, self.host.parse::<IpAddr>()) {
            (Scheme::Http, Ok(address)) => Given::Neighbour(address),
            _ => Given::Stranger,
        }
    }

    /// Where a request leads whose path and query are these.
    pub(crate) fn url(&self, path_and_query: &str) -> Result<Url, String> {
        // Whatever follows, it is no part of the host: that ended before.
        if !path_and_query.starts_with('/') {
            return Err("it names no path".to_owned());
        }
        let scheme = if self.scheme == Scheme::Https { "https" } else { "http" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let url = Url::parse(&format!("{scheme}://{host}:{}{path_and_query}", self.port));
        let url = url.map_err(|error| format!("its path cannot be read: {error}"))?;
        if !is_below(url.path(), &self.path) {
            return Err(format!("it is not below {}, where alone the agent file has this host asked", self.path));
        }
        Ok(url)
    }

    /// Sets the headers, in place of those of the program with these names.
    pub(crate) fn dress(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.header().clone());
        }
        // What is compressed cannot be searched for secrets.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.has_secrets() {
            // Nor is what is cut where the program likes: each part would hold less than the secret. Any host may give the whole.
            headers.remove(RANGE);
            headers.remove(IF_RANGE);
        }
    }

    /// Whether there is anything that the program must not learn.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets().next().is_some()
    }

    /// What the program must not learn.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.headers.iter().flat_map(|(_, value)| value.secrets())
    }

    /// Takes the secrets out of a body.
    pub(crate) fn sieve(&self) -> Sieve {
        Sieve::new(self.secrets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(scheme: Scheme, host: &str, path: &str, header: &'static str) -> Result<Target, TargetError> {
        let value = SecretValue::new("hush", &["hush"]).expect("a value");
        Target::new(scheme, host, 8443, path, vec![(HeaderName::from_static(header), value)])
    }

    #[test]
    fn secrets_go_by_tls_or_stay_on_this_machine() {
        for host in ["127.0.0.1", "::1", "localhost", "LOCALHOST."] {
            assert!(target(Scheme::Http, host, "", "x-key").is_ok(), "{host}");
        }
        for host in ["api.example.org", "10.0.0.1", "localhost.example.org", "0.0.0.0", "::ffff:127.0.0.1"] {
            let error = target(Scheme::Http, host, "", "x-key").expect_err("in the clear");
            assert!(matches!(error, TargetError::Clear(_)), "{host}: {error}");
            assert!(target(Scheme::Https, host, "", "x-key").is_ok(), "{host}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_reason() {
        let refused = |host, path, header| target(Scheme::Https, host, path, header).expect_err("no target");
        assert!(matches!(refused("a/b", "", "x-key"), TargetError::Host { .. }));
        for path in ["v1", "/v1?a", "/v1#a"] {
            assert!(matches!(refused("api.example.org", path, "x-key"), TargetError::Path { .. }), "{path}");
        }
        for header in ["host", "connection", "accept-encoding"] {
            assert!(matches!(refused("api.example.org", "", header), TargetError::Header { .. }), "{header}");
        }
    }

    #[test]
    fn a_request_leads_to_the_host_and_below_the_path() {
        let any = target(Scheme::Https, "API.example.org", "", "x-key").expect("a target");
        for (asked, url) in [
            ("/", "https://api.example.org:8443/"),
            ("/a?b=c", "https://api.example.org:8443/a?b=c"),
            ("//evil.example/x", "https://api.example.org:8443//evil.example/x"),
            ("/\\evil.example/x", "https://api.example.org:8443//evil.example/x"),
            ("/@evil.example/x", "https://api.example.org:8443/@evil.example/x"),
        ] {
            assert_eq!(any.url(asked).map(String::from).as_deref(), Ok(url), "{asked}");
        }
        for asked in ["", "*", "@evil.example/", ".evil.example/", ":80/", "evil"] {
            assert!(any.url(asked).is_err(), "{asked}");
        }
        let below = target(Scheme::Https, "::1", "/v1", "x-key").expect("a target");
        assert_eq!(below.url("/v1/chat?x").map(String::from).as_deref(), Ok("https://[::1]:8443/v1/chat?x"));
        for asked in ["/", "/v2", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin"] {
            assert!(below.url(asked).is_err_and(|why| why.contains("/v1")), "{asked}");
        }
    }

    #[test]
    fn headers_are_set_in_place_of_the_programs() {
        let target = target(Scheme::Https, "api.example.org", "", "x-key").expect("a target");
        let mut headers = HeaderMap::new();
        for value in ["own", "other"] {
            headers.append("x-key", HeaderValue::from_static(value));
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(RANGE, HeaderValue::from_static("bytes=0-2"));
        headers.insert(IF_RANGE, HeaderValue::from_static("\"a\""));
        let (mut bare, without) = (headers.clone(), Target { headers: Vec::new(), ..target.clone() });
        without.dress(&mut bare);
        assert_eq!(bare[RANGE], "bytes=0-2", "without a secret there is nothing to cut");
        target.dress(&mut headers);
        assert!(!headers.contains_key(RANGE) && !headers.contains_key(IF_RANGE), "{headers:?}");
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["hush"]);
        assert_eq!(headers[ACCEPT_ENCODING], "identity");
        assert!(!format!("{target:?} {headers:?}").contains("hush"));
        assert_eq!(target.sieve().push(b"x hush"), b"x ***");
    }
}
