//! Which interface of a program's card its client uses.

use std::sync::Arc;

use a2a::AgentInterface;
use reqwest::Url;

const BINDING: &str = "JSONRPC";

/// How the address of an interface is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// As one of its own.
    Whole,
    /// Relative to where its card is.
    Relative,
    /// As none that can be called.
    Wrong,
}

impl Address {
    /// How that of an interface for this binding is written. Only those of JSON-RPC are called, and looked at.
    pub fn of(url: &str, binding: &str) -> Option<Address> {
        let is_called = binding.eq_ignore_ascii_case(BINDING);
        is_called.then(|| match place(url, "http://localhost") {
            Some(_) if Url::parse(url).is_ok() => Address::Whole,
            Some(_) => Address::Relative,
            None => Address::Wrong,
        })
    }
}

/// Where an address leads that is written in a card below `base`; none if that is no address of HTTP.
fn place(text: &str, base: &str) -> Option<Url> {
    if let Ok(url) = Url::parse(text) {
        return Some(url).filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    }
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    // A host with a port, or an address that is broken.
    if first.contains(':') || text.contains("://") || text.chars().any(char::is_whitespace) {
        return None;
    }
    let mut base = Url::parse(base).ok()?;
    base.set_query(None);
    if !base.path().ends_with('/') {
        let folder = format!("{}/", base.path());
        base.set_path(&folder);
    }
    base.join(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// What the client needs of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    /// The path of its URL, with its query.
    pub path: String,
    /// What each request names.
    pub tenant: Option<Arc<str>>,
}

impl Default for Interface {
    fn default() -> Interface {
        Interface { path: "/".to_owned(), tenant: None }
    }
}

impl Interface {
    /// The first for JSON-RPC of A2A 1.x, else the first for JSON-RPC that states no version, of a card below `base`.
    pub fn chosen(offered: &[AgentInterface], base: &str) -> Option<Interface> {
        let of_version = |fits: fn(&str) -> bool| {
            let speaks = |one: &&AgentInterface| one.protocol_binding.eq_ignore_ascii_case(BINDING);
            let mut fitting = offered.iter().filter(speaks).filter(|one| fits(&one.protocol_version));
            fitting.find_map(|one| Interface::of(one, base))
        };
        of_version(|version| version == "1" || version.starts_with("1.")).or_else(|| of_version(str::is_empty))
    }

    /// Only the path of its URL is used, and the query; none if that is no address.
    fn of(one: &AgentInterface, base: &str) -> Option<Interface> {
        let tenant = one.tenant.as_deref().filter(|tenant| !tenant.is_empty()).map(Arc::from);
        let url = place(one.url.trim(), base)?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        Some(Interface { path, tenant })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn interface(url: &str, binding: &str, version: &str) -> Value {
        json!({ "url": url, "protocolBinding": binding, "protocolVersion": version })
    }

    fn chosen(offered: &Value) -> Option<Interface> {
        let offered: Vec<AgentInterface> = serde_json::from_value(offered.clone()).expect("interfaces");
        Interface::chosen(&offered, "https://a.example/agents/one?key=1")
    }

    fn path(offered: &Value) -> Option<String> {
        chosen(offered).map(|interface| interface.path)
    }

    #[test]
    fn the_first_that_speaks_json_rpc_of_the_first_version_is_used() {
        let [old, rest] = [("/old", "JSONRPC", "0.3.0"), ("/rest", "HTTP+JSON", "1.0")]
            .map(|(path, binding, version)| interface(&format!("http://a.example{path}"), binding, version));
        let [new, newer, silent] = [("/new", "1.0"), ("/newer", "1.1.2"), ("/silent", "")]
            .map(|(path, version)| interface(&format!("http://a.example{path}"), "JSONRPC", version));
        assert_eq!(path(&json!([old, rest, silent, new, newer])).as_deref(), Some("/new"));
        assert_eq!(path(&json!([newer, new])).as_deref(), Some("/newer"));
        assert_eq!(path(&json!([old, rest, silent])).as_deref(), Some("/silent"));
        let small = interface("http://a.example/small", "jsonrpc", "1.0");
        assert_eq!(path(&json!([old, small])).as_deref(), Some("/small"));
        let (ten, two) = (interface("http://a.example/", "JSONRPC", "10.0"), interface("/", "JSONRPC", "2.0"));
        assert_eq!(chosen(&json!([old, rest, ten, two])), None);
    }

    #[test]
    fn its_query_and_its_tenant_are_kept() {
        let mut one = interface("https://elsewhere.example/rpc/v1?key=a%20b&x=1#part", "JSONRPC", "1.0");
        assert_eq!(chosen(&json!([one])).map(|found| found.tenant), Some(None));
        for (tenant, kept) in [(json!("acme"), Some("acme")), (json!(""), None), (Value::Null, None)] {
            one["tenant"] = tenant;
            let found = chosen(&json!([one])).expect("one");
            assert_eq!((found.path.as_str(), found.tenant.as_deref()), ("/rpc/v1?key=a%20b&x=1", kept));
        }
    }

    #[test]
    fn a_relative_address_is_one_below_that_of_the_card_and_what_is_none_is_not_called() {
        for (url, found) in [
            ("/a2a", "/a2a"),
            ("/a2a/?key=1", "/a2a/?key=1"),
            ("a2a", "/agents/one/a2a"),
            ("./a2a", "/agents/one/a2a"),
            ("../two/a2a", "/agents/two/a2a"),
            ("//b.example/a2a", "/a2a"),
            ("/", "/"),
        ] {
            assert_eq!(path(&json!([interface(url, "JSONRPC", "1.0")])).as_deref(), Some(found), "{url}");
            assert_eq!(Address::of(url, "jsonrpc"), Some(Address::Relative), "{url}");
        }
        let good = interface("https://a.example/good", "JSONRPC", "1.0");
        for url in [
            "no address",
            "localhost:9000/a2a",
            "127.0.0.1:9000/a2a",
            "http://",
            "mailto:a@b.example",
            "ws://a.example/",
        ] {
            let wrong = interface(url, "JSONRPC", "1.0");
            assert_eq!(chosen(&json!([wrong])), None, "{url}");
            assert_eq!(path(&json!([wrong, good])).as_deref(), Some("/good"), "{url}");
            assert_eq!(Address::of(url, "JSONRPC"), Some(Address::Wrong), "{url}");
        }
        assert_eq!(Address::of("localhost:50051", "GRPC"), None, "it is not called");
        assert_eq!(Address::of("https://a.example", "JSONRPC"), Some(Address::Whole));
    }
}
