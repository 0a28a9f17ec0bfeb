//! What `doctor` says of `gateway.public` and `gateway.origins`, which were well formed when the configuration was read: whether
//! others can follow the addresses that begin so. Pure.

use std::net::{IpAddr, Ipv4Addr};

use althing_operations::doctor::Finding;

use crate::config::Gateway;

/// Endings of names that nobody beyond a network or a machine resolves (RFC 2606, 6761, 6762, 8375, and what is usual).
const NEAR: [&str; 8] = [".local", ".lan", ".home", ".home.arpa", ".internal", ".localdomain", ".test", ".invalid"];

/// How far an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To whoever reads it.
    Machine,
    /// Within one network.
    Network,
    Internet,
}

/// What is to be said of them.
pub fn findings(gateway: &Gateway) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(base) = gateway.base() {
        let is_encrypted = base.is_encrypted();
        all.extend(of_public(&base.to_string(), reach(host(base.authority())), is_encrypted));
    }
    all.extend(gateway.origins().iter().filter_map(|origin| of_origin(origin)));
    all
}

fn of_public(address: &str, reach: Reach, is_encrypted: bool) -> Option<Finding> {
    let begin = format!("cards and descriptions of agents begin with {address} (`gateway.public`)");
    let (fine, what, remedy) = match reach {
        Reach::Machine => (
            false,
            format!("{begin}, which leads whoever reads it to its own machine"),
            "write the name by which others reach the proxy before the gateway, or take `gateway.public` out",
        ),
        Reach::Network => (
            true,
            format!("{begin}, which leads nowhere beyond your own network"),
            "if others are to call these agents, write a name that they can resolve",
        ),
        Reach::Internet if !is_encrypted => (
            true,
            format!("{begin}, which is not encrypted: tokens and messages can be read on the way"),
            "end TLS in the proxy, or in the gateway (`[gateway.tls]`), and write https://",
        ),
        Reach::Internet => return None,
    };
    Some(Finding { layer: "L7", fine, what, remedy: remedy.to_owned(), next: None })
}

fn of_origin(origin: &str) -> Option<Finding> {
    let authority = origin.strip_prefix("http://")?;
    if reach(host(authority)) == Reach::Machine {
        return None;
    }
    let what = format!(
        "pages of {origin} may use the gateway (`gateway.origins`), and whoever is on their way can change them"
    );
    let remedy = "serve these pages over https, and name that origin in place of this one".to_owned();
    Some(Finding { layer: "L7", fine: true, what, remedy, next: None })
}

/// The host of an authority, without its port and the brackets of an IPv6 address.
fn host(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

fn reach(host: &str) -> Reach {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    // An IPv4 address that is written as one of IPv6 leads as far as that.
    match name.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => Reach::Machine,
        Ok(IpAddr::V4(ip)) if ip.is_private() || ip.is_link_local() || is_shared(ip) => Reach::Network,
        Ok(IpAddr::V6(ip)) if ip.is_unique_local() || ip.is_unicast_link_local() => Reach::Network,
        Ok(_) => Reach::Internet,
        Err(_) if name == "localhost" || name.ends_with(".localhost") => Reach::Machine,
        Err(_) if !name.contains('.') || NEAR.iter().any(|end| name.ends_with(end)) => Reach::Network,
        Err(_) => Reach::Internet,
    }
}

/// Whether an address is one of those that a provider shares out behind its own (RFC 6598), as overlay networks do too.
fn is_shared(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && (64..128).contains(&second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(public: &str, origins: &[&str]) -> Vec<Finding> {
        let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        findings(&Gateway { public: public.to_owned(), origins, ..Gateway::default() })
    }

    #[test]
    fn an_address_that_others_cannot_follow_is_a_finding() {
        for (public, fine, says) in [
            ("https://localhost:8443", false, "its own machine"),
            ("http://127.0.0.1:7420/mesh", false, "its own machine"),
            ("https://[::1]", false, "its own machine"),
            ("https://0.0.0.0", false, "its own machine"),
            ("https://agents", true, "your own network"),
            ("https://Agents.Local.", true, "your own network"),
            ("https://192.168.1.4:7420", true, "your own network"),
            ("https://[fd00::1]:7420", true, "your own network"),
            ("https://100.64.0.1", true, "your own network"),
            ("https://100.127.255.254:8443", true, "your own network"),
            ("https://[::ffff:192.168.1.4]:7420", true, "your own network"),
            ("https://[::ffff:127.0.0.1]", false, "its own machine"),
            ("http://agents.example.org", true, "not encrypted"),
        ] {
            let found = of(public, &[]);
            let [one] = found.as_slice() else { panic!("{public}: {found:?}") };
            assert!(one.fine == fine && one.what.contains(says) && one.what.contains("`gateway.public`"), "{one:?}");
            assert!(!one.remedy.is_empty());
        }
        let reachable = ["https://agents.example.org/mesh", "https://203.0.113.9:8443", "https://[2001:db8::1]"];
        for public in reachable.into_iter().chain(["", "https://100.63.0.1", "https://100.128.0.1"]) {
            assert!(of(public, &[]).is_empty(), "{public}");
        }
    }

    #[test]
    fn an_origin_whose_pages_others_can_change_is_noted() {
        let found = of(
            "",
            &["http://app.example.org", "https://app.example.org", "http://localhost:6274", "http://[::1]:3000"],
        );
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert!(one.fine && one.what.contains("pages of http://app.example.org may"), "{one:?}");
        // What is no origin was refused before, and a wrong one opens nothing.
        assert!(of("", &["*", "null", "https://app.example.org/path"]).is_empty());
    }
}
