//! Which hosts a program may reach: those that its agent file names.

use std::collections::BTreeSet;

use althing_fetch::spelling;

/// The ports of a host that is named without one.
const PORTS: [u16; 2] = [443, 80];
/// The most hosts that one agent file names.
pub const RULES_MAX: usize = 256;

/// The hosts that an agent file names, as it writes them:
///
/// - `api.example.org`: ports 443 and 80 of that name;
/// - `api.example.org:8443`: that port, and no other;
/// - `*.example.org`, with or without a port: all names below it, of one label or more, and not itself;
/// - `203.0.113.7`, `[2001:db8::7]:8443`: an address, which is reached only as an address.
///
/// Case, a dot at the end and the notation (IDNA, of addresses too) make no difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    rules: BTreeSet<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    /// As the guarded fetch spells it.
    host: String,
    /// Whether what is below it is meant, and not itself.
    below: bool,
    /// None: those of [`PORTS`].
    port: Option<u16>,
}

/// Whether a host may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allowed {
        /// The pattern that allows it, such as `*.example.org`, below which the program chooses names itself; none where it is named.
        pattern: Option<String>,
    },
    /// It may not.
    Denied {
        /// What the agent file would have to name.
        write: String,
    },
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "egress names {text:?}, which {why}: write a host (api.example.org), a host and a port (api.example.org:8443), or all \
     names below one (*.example.org)"
)]
pub struct RuleError {
    /// What is written, shortened.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Rules {
    /// Reads the hosts that an agent file names.
    ///
    /// # Errors
    /// [`RuleError`] for the first that names no host, and where there are more than [`RULES_MAX`].
    pub fn read<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<Rules, RuleError> {
        let mut rules = BTreeSet::new();
        for text in hosts {
            if rules.len() == RULES_MAX {
                return Err(wrong(text, "is one more than the 256 that are read"));
            }
            rules.insert(rule(text)?);
        }
        Ok(Rules { rules })
    }

    /// Whether a program may reach that port of a host, which is spelled as [`spelling`] does.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> Verdict {
        let is_below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
        let is_named = |rule: &Rule| if rule.below { is_below(&rule.host) } else { host == rule.host };
        let has_port = |rule: &Rule| rule.port.map_or(PORTS.contains(&port), |named| named == port);
        let allowing = |below| self.rules.iter().find(|rule| rule.below == below && has_port(rule) && is_named(rule));
        if allowing(false).is_some() {
            return Verdict::Allowed { pattern: None };
        }
        if let Some(rule) = allowing(true) {
            return Verdict::Allowed { pattern: Some(rule.pattern()) };
        }
        let bracketed = host.contains(':');
        let host = if bracketed { format!("[{host}]") } else { host.to_owned() };
        Verdict::Denied { write: if PORTS.contains(&port) { host } else { format!("{host}:{port}") } }
    }
}

impl Rule {
    /// Of one for all names below another, as a file writes it.
    fn pattern(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("*.{}{port}", self.host)
    }
}

/// A host and, if one is named, its port; the host spelled as [`spelling`] does.
///
/// # Errors
/// [`RuleError`] where that is not what the text names.
pub fn place(text: &str) -> Result<(String, Option<u16>), RuleError> {
    let (host, port) = split(text)?;
    let spelled = spelling(host).map_err(|_| wrong(text, "is no host"))?;
    Ok((spelled, port))
}

fn rule(text: &str) -> Result<Rule, RuleError> {
    let Some(base) = text.strip_prefix("*.") else {
        let (host, port) = place(text)?;
        return if host.contains('*') {
            Err(wrong(text, "has a * elsewhere than as *. at its beginning"))
        } else {
            Ok(Rule { host, below: false, port })
        };
    };
    let (host, port) = place(base).map_err(|error| wrong(text, error.why))?;
    if host.parse::<std::net::IpAddr>().is_ok() {
        return Err(wrong(text, "is an address, below which there is nothing"));
    }
    if host.contains('*') {
        return Err(wrong(text, "has more than one *"));
    }
    Ok(Rule { host, below: true, port })
}

/// The host as it is written, and its port.
fn split(text: &str) -> Result<(&str, Option<u16>), RuleError> {
    let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_address && !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    match port.map(str::parse::<u16>) {
        None => Ok((host, None)),
        // What parses here and is not only digits: +443.
        Some(Ok(number)) if number > 0 && !port.is_some_and(|port| port.starts_with('+')) => Ok((host, Some(number))),
        Some(_) if text.contains("://") => Err(wrong(text, "is a URL, and no host")),
        Some(_) => Err(wrong(text, "has no port from 1 to 65535 after its colon")),
    }
}

fn wrong(text: &str, why: &'static str) -> RuleError {
    RuleError { text: text.chars().take(64).collect(), why }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(hosts: &[&str]) -> Rules {
        Rules::read(hosts.iter().copied()).expect("hosts")
    }

    fn is_allowed(rules: &Rules, host: &str, port: u16) -> bool {
        matches!(rules.allows(&spelling(host).expect("a host"), port), Verdict::Allowed { .. })
    }

    #[test]
    fn what_is_named_is_reached_and_nothing_beside_it() {
        for (named, yes, no) in [
            (
                "api.example.org",
                &[("api.example.org", 443), ("API.example.org.", 80)][..],
                &[
                    ("api.example.org", 8443),
                    ("example.org", 443),
                    ("v1.api.example.org", 443),
                    ("xapi.example.org", 443),
                    ("api.example.org.evil.example", 443),
                ][..],
            ),
            ("Api.Example.ORG.", &[("api.example.org", 443)], &[("api.example.com", 443)]),
            (
                "api.example.org:8443",
                &[("api.example.org", 8443)],
                &[("api.example.org", 443), ("api.example.org", 80)],
            ),
            (
                "*.example.org",
                &[("api.example.org", 443), ("a.b.example.org", 80), ("xn--bcher-kva.example.org", 443)],
                &[
                    ("example.org", 443),
                    ("evilexample.org", 443),
                    ("api.example.org", 8443),
                    ("example.org.evil.example", 443),
                ],
            ),
            ("*.example.org:8443", &[("api.example.org", 8443)], &[("api.example.org", 443), ("example.org", 8443)]),
            ("bücher.example", &[("xn--bcher-kva.example", 443), ("BÜCHER.example", 443)], &[("bucher.example", 443)]),
            ("203.0.113.7", &[("203.0.113.7", 443), ("0xcb007107", 80)], &[("203.0.113.8", 443)]),
            ("[2001:db8::7]:8443", &[("2001:db8:0::7", 8443)], &[("2001:db8::7", 443), ("2001:db8::8", 8443)]),
            ("2001:db8::7", &[("[2001:db8::7]", 443)], &[("2001:db8::", 443)]),
            // A name that leads to an address is not that address, nor the other way round.
            ("localhost", &[("localhost", 80)], &[("127.0.0.1", 80), ("::1", 80)]),
        ] {
            let rules = rules(&[named]);
            for (host, port) in yes {
                assert!(is_allowed(&rules, host, *port), "{named}: {host}:{port}");
            }
            for (host, port) in no {
                assert!(!is_allowed(&rules, host, *port), "{named}: {host}:{port}");
            }
        }
        assert!(!is_allowed(&Rules::default(), "example.org", 443));
        assert!(matches!(rules(&["*.example.org"]).allows(".example.org", 443), Verdict::Denied { .. }));
    }

    #[test]
    fn what_is_denied_names_what_to_write_and_that_would_allow_it() {
        for (host, port, write) in [
            ("api.example.org", 443, "api.example.org"),
            ("api.example.org", 80, "api.example.org"),
            ("api.example.org", 8443, "api.example.org:8443"),
            ("2001:db8::7", 443, "[2001:db8::7]"),
            ("2001:db8::7", 8443, "[2001:db8::7]:8443"),
        ] {
            assert_eq!(Rules::default().allows(host, port), Verdict::Denied { write: write.to_owned() });
            assert_eq!(rules(&[write]).allows(host, port), Verdict::Allowed { pattern: None });
        }
    }

    #[test]
    fn what_a_pattern_allows_is_told_from_what_is_named() {
        let rules = rules(&["*.example.org", "api.example.org", "*.example.org:8443"]);
        for (host, port, pattern) in [
            ("api.example.org", 443, None),
            ("other.example.org", 443, Some("*.example.org")),
            ("other.example.org", 80, Some("*.example.org")),
            ("api.example.org", 8443, Some("*.example.org:8443")),
        ] {
            let pattern = pattern.map(str::to_owned);
            assert_eq!(rules.allows(host, port), Verdict::Allowed { pattern }, "{host}:{port}");
        }
    }

    #[test]
    fn what_names_no_host_is_refused_with_the_reason() {
        for text in [
            "",
            "*",
            "*.",
            "**.example.org",
            "*.*.example.org",
            "a.*.example.org",
            "https://example.org",
            "https://example.org:443",
            "example.org/path",
            "user@example.org",
            "example.org:",
            "example.org:0",
            "example.org:65536",
            "example.org:+443",
            "example.org:https",
            "*.127.0.0.1",
            "*.1",
            "*.[::1]",
            "a b",
        ] {
            let error = Rules::read([text]).expect_err(text);
            assert_eq!(error.text, text);
        }
        let many: Vec<String> = (0..=RULES_MAX).map(|number| format!("h{number}.example")).collect();
        assert!(Rules::read(many.iter().map(String::as_str)).is_err());
        assert!(Rules::read(many[1..].iter().map(String::as_str)).is_ok());
    }

    proptest! {
        /// A pattern allows exactly the names that end with a dot and what follows its asterisk.
        #[test]
        fn a_pattern_is_a_matter_of_whole_labels(
            labels in proptest::collection::vec("[a-c]{1,2}", 1..4),
            base in proptest::collection::vec("[a-c]{1,2}", 1..3),
        ) {
            let (host, below) = (labels.join("."), base.join("."));
            let rules = rules(&[&format!("*.{below}")]);
            let is_below = labels.len() > base.len() && labels.ends_with(&base);
            prop_assert_eq!(is_allowed(&rules, &host, 443), is_below, "{} {}", host, below);
        }
    }
}
