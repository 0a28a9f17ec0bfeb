//! Who may use the gateway, and under which names.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use althing_protocol::digest;
use serde_json::Value;

use crate::base::Base;
use crate::tls::Certified;
use crate::users::{Identity, Users};

/// Who may use the gateway.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Host names, besides loopback's, that the operator gave it: requests may use them at any port, and pages of theirs may
    /// make requests, at the port that is said here, or at the usual one. The address where it listens is no such name.
    pub hosts: Vec<String>,
    /// Whether requests may use any IP address as host: DNS rebinding needs a name.
    pub by_address: bool,
    /// A bearer token that requests must carry, but for those that tell nothing of agents, such as `/healthz`; none: loopback
    /// acts as `local` without one.
    pub token: Option<String>,
    /// Whether requests must show who sends them, also where there is no token and no user: whoever set a guard up, or listens
    /// beyond loopback, opens nothing when what proves its users fails or is taken away.
    pub is_guarded: bool,
    /// Users with names, who show tokens of their own.
    pub users: Vec<Arc<dyn Users>>,
    /// Whether connections are encrypted, so that addresses begin with https.
    pub tls: bool,
    /// What the world calls it, by the operator's word: behind a proxy that ends TLS or adds a path. None: by the host that a
    /// request names.
    pub public: Option<Base>,
    /// Origins whose pages may make requests, besides its own, as [`origin_of`](crate::origin_of) gives them.
    pub origins: Vec<String>,
}

impl Access {
    /// Of everybody, to what listens there and is known by these names too. Beyond loopback it is known by any address: those of
    /// the machine may change, and DNS rebinding needs a name.
    #[must_use]
    pub fn at(address: SocketAddr, hosts: Vec<String>) -> Access {
        Access { hosts, by_address: !address.ip().is_loopback(), ..Access::default() }
    }

    /// Whether requests must show who sends them.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.is_guarded || self.token.is_some() || self.users.iter().any(|users| users.is_used())
    }

    /// Where clients read how they get a token, if somebody issues any, and what they read there.
    #[must_use]
    pub fn metadata(&self) -> Option<(&'static str, Value)> {
        self.users.iter().find_map(|users| users.metadata())
    }

    /// What addresses of this server begin with, for whoever reached it under that host.
    #[must_use]
    pub fn base(&self, host: &str) -> Base {
        self.public.clone().unwrap_or_else(|| Base::at(self.tls, host))
    }

    /// The path that the world puts before those of this server; empty, or it begins with a slash.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.public.as_ref().map_or("", Base::path)
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
        // A name may be written to its end, as those of mDNS often are.
        let name = name.strip_suffix('.').unwrap_or(name);
        let loopback =
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let by_address = self.by_address && name.parse::<IpAddr>().is_ok();
        let public = self.public.as_ref().map(|public| name_of(public.authority()));
        let mut hosts = self.hosts.iter().map(|host| named(host)).chain(public);
        loopback || by_address || hosts.any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// The name that the operator gave, without a port; an IPv6 address may stand there without brackets.
fn named(host: &str) -> &str {
    if host.parse::<IpAddr>().is_ok() { host } else { name_of(host) }
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

    /// SR-3
    #[tokio::test]
    async fn where_a_guard_is_set_up_nobody_is_local_though_nothing_is_left_to_prove_users() {
        assert_eq!(Access::default().identify(None, None).await, Some(Identity::Local));
        let access = Access { is_guarded: true, ..Access::default() };
        assert!(access.is_guarded());
        assert_eq!(access.identify(None, None).await, None);
        assert_eq!(access.identify(Some("any"), None).await, None);
    }

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

    /// SR-6
    #[test]
    fn what_listens_beyond_loopback_is_known_by_any_address_and_by_no_name_that_it_was_not_told() {
        let at = |address: &str, host: &str| {
            Access::at(address.parse().expect("an address"), vec!["registry.example.org".to_owned()]).knows(host)
        };
        for address in ["127.0.0.1:7480", "[::1]:7480", "0.0.0.0:7480", "192.0.2.7:7480"] {
            for host in
                ["localhost:7480", "127.0.0.1:7480", "[::1]:7480", "registry.example.org", "Registry.Example.org.:1"]
            {
                assert!(at(address, host), "{address} {host}");
            }
            for host in ["evil.example:7480", "registry.example.org.evil.example", "", "."] {
                assert!(!at(address, host), "{address} {host}");
            }
            assert_eq!(at(address, "198.51.100.1:7480"), !address.starts_with("127.") && !address.starts_with("[::1]"));
        }
    }

    #[test]
    fn only_loopback_and_named_hosts_are_known() {
        let hosts = ["mesh.example", "tools.example:8443", "192.0.2.7", "2001:db8::7", "[2001:db8::8]:8443"];
        let access = Access { hosts: hosts.map(str::to_owned).to_vec(), ..Access::default() };
        let good = [
            "127.0.0.1:7420",
            "localhost",
            "LOCALHOST:1",
            "[::1]:80",
            "127.9.9.9",
            "mesh.example:443",
            "tools.example",
            "Tools.Example:8443",
            "192.0.2.7",
            "[2001:db8::7]:7420",
            "[2001:db8::8]",
        ];
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
