//! Which interface of a program's card its client uses.

use std::sync::Arc;

use a2a::AgentInterface;

const BINDING: &str = "JSONRPC";

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
    /// The first for JSON-RPC of A2A 1.x, else the first for JSON-RPC that states no version.
    pub fn chosen(offered: &[AgentInterface]) -> Option<Interface> {
        let of_version = |fits: fn(&str) -> bool| {
            let speaks = |one: &&AgentInterface| one.protocol_binding.eq_ignore_ascii_case(BINDING);
            offered.iter().filter(speaks).find(|one| fits(&one.protocol_version))
        };
        of_version(|version| version == "1" || version.starts_with("1."))
            .or_else(|| of_version(str::is_empty))
            .map(Interface::of)
    }

    /// Only the path of its URL is used, and the query.
    fn of(one: &AgentInterface) -> Interface {
        let tenant = one.tenant.as_deref().filter(|tenant| !tenant.is_empty()).map(Arc::from);
        let path = reqwest::Url::parse(&one.url).map_or(Interface::default().path, |url| match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        });
        Interface { path, tenant }
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
        Interface::chosen(&offered)
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
        assert_eq!(chosen(&json!([interface("no address", "JSONRPC", "1.0")])), Some(Interface::default()));
    }
}
