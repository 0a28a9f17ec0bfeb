//! Who may use the gateway, and under which names.

use std::net::IpAddr;
use std::sync::Arc;

use althing_protocol::digest;
use serde_json::Value;

use crate::tls::Certified;
use crate::users::{Identity, Users};

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
    /// Users with names, who show tokens of their own.
    pub users: Vec<Arc<dyn Users>>,
    /// Whether connections are encrypted, so that addresses begin with https.
    pub tls: bool,
}

impl Access {
    /// Whether requests must show who sends them.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.token.is_some() || self.users.iter().any(|users| users.is_used())
    }

    /// Where clients read how they get a token, if somebody issues any, and what they read there.
    #[must_use]
    pub fn metadata(&self) -> Option<(&'static str, Value)> {
        self.users.iter().find_map(|users| users.metadata())
    }

    /// What addresses of this gateway begin with.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Who shows this token and this certificate; none if the token is unknown or missing.
    /// A token comes before a certificate: whoever ends connections of others for them has a certificate of its own.
    pub(crate) async fn identify(&self, token: Option<&str>, certified: Option<&Certified>) -> Option<Identity> {
        // Who has a certificate is a user, whatever else it sends.
        let open = || (!self.is_guarded() && certified.is_none()).then_some(Identity::Local);
        let Some(given) = token else {
            return certified.and_then(Certified::user).cloned().map(Identity::User).or_else(open);
        };
        // Digests are compared, so that the time taken reveals nothing of the token.
        if self.token.as_ref().is_some_and(|token| digest(given.as_bytes()) == digest(token.as_bytes())) {
            return Some(Identity::Token);
        }
        for users in &self.users {
            if let Some(user) = users.of_token(given).await {
                return Some(Identity::User(user));
            }
        }
        open()
    }

    pub(crate) fn knows(&self, authority: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};

    use super::*;
    use crate::guard::bearer;

    #[tokio::test]
    async fn only_the_token_itself_is_admitted() {
        let access = Access { token: Some("secret".to_owned()), ..Access::default() };
        let with = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, header::HeaderValue::from_static(value));
            }
            headers
        };
        for value in ["Bearer secret", "bearer secret", "Bearer  secret "] {
            assert_eq!(access.identify(bearer(&with(&[value])), None).await, Some(Identity::Token), "{value}");
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
            assert_eq!(access.identify(bearer(&with(&[value])), None).await, None, "{value}");
        }
        assert_eq!(access.identify(None, None).await, None);
        let twice = with(&["Bearer other", "Bearer secret"]);
        assert_eq!(access.identify(bearer(&twice), None).await, None, "the first counts");
        let open = Access::default().identify(None, None).await;
        assert_eq!(open, Some(Identity::Local), "without a token loopback needs none");
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
