//! Which of this node's addresses a peer may be asked to dial back, and what an address tells about where it leads.

use std::net::IpAddr;

use super::address_groups::AddressGroup;

/// Transports that one dial-back request names (SPEC P-71).
pub(crate) const TRANSPORTS_MAX: usize = 4;

/// The address group of a direct connection to a peer; `Some(None)` for a private address, and for a name that this node
/// dialled: where it led is not known, so that it proves nothing about the internet. `None` for a relayed connection,
/// and for a peer on this very machine that uses one of its public addresses: it does not look from the internet.
pub(crate) fn observed_group(address: &str, own: &[String]) -> Option<Option<AddressGroup>> {
    if is_name(address) {
        return Some(None);
    }
    let (_, ip) = direct_ip(address)?;
    let is_own = |own: &String| direct_ip(own).is_some_and(|(_, own)| own.to_canonical() == ip.to_canonical());
    let group = AddressGroup::of(ip);
    (group.is_none() || !own.iter().any(is_own)).then_some(group)
}

/// Whether an address is a name that was dialled directly.
fn is_name(address: &str) -> bool {
    let kind = address.split('/').nth(1);
    matches!(kind, Some("dns" | "dns4" | "dns6" | "dnsaddr")) && !address.contains("/p2p-circuit")
}

/// The first part of a direct multiaddress (`/ip4/192.0.2.7`), and its IP address. `None` where it leads through a relay.
pub(crate) fn direct_ip(address: &str) -> Option<(String, IpAddr)> {
    if address.contains("/p2p-circuit") {
        return None;
    }
    let mut parts = address.split('/').skip(1);
    let kind = parts.next().filter(|kind| matches!(*kind, "ip4" | "ip6"))?;
    let ip: IpAddr = parts.next()?.parse().ok()?;
    Some((format!("/{kind}/{ip}"), ip))
}

/// Does an address lead to the internet, or through a relay?
#[must_use]
pub fn is_far(address: &str) -> bool {
    address.contains("/p2p-circuit") || direct_ip(address).is_some_and(|(_, ip)| AddressGroup::of(ip).is_some())
}

/// The transports at which this node listens: what comes after the IP address in its multiaddresses.
pub(crate) fn transports(listening: &[String]) -> Vec<String> {
    let tails = listening.iter().filter_map(|address| {
        let (head, ip) = direct_ip(address)?;
        (!ip.is_loopback()).then(|| address[head.len()..].to_owned())
    });
    let mut transports: Vec<String> = tails.filter(|transport| is_transport(transport)).collect();
    transports.sort_unstable();
    transports.dedup();
    transports.truncate(TRANSPORTS_MAX);
    transports
}

/// `/tcp/7421` or `/udp/7421/quic-v1`.
pub(crate) fn is_transport(transport: &str) -> bool {
    let port = |text: &str| text.parse::<u16>().is_ok_and(|port| port != 0);
    match transport.split('/').collect::<Vec<_>>()[..] {
        ["", "tcp", number] => port(number),
        ["", "udp", number, "quic-v1"] => port(number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_on_the_same_machine_does_not_look_from_the_internet() {
        let own =
            ["/ip4/127.0.0.1/tcp/1", "/ip4/5.0.0.1/tcp/1", "/ip4/5.0.0.9/tcp/1/p2p/12D/p2p-circuit"].map(str::to_owned);
        let group = |address: &str| observed_group(address, &own);
        assert_eq!(group("/ip4/5.0.0.1/tcp/40000"), None);
        assert_eq!(group("/ip4/127.0.0.1/tcp/40000"), Some(None));
        assert_eq!(group("/ip4/10.0.0.1/tcp/40000"), Some(None));
        assert!(group("/ip4/5.0.0.9/tcp/40000").is_some_and(|group| group.is_some()), "a relay is another machine");
        assert_eq!(group("/ip4/5.0.0.2/tcp/1/p2p/12D/p2p-circuit"), None);
    }

    #[test]
    fn a_peer_that_was_dialled_by_its_name_can_be_asked_but_proves_nothing_of_the_internet() {
        for name in ["/dns/node-2/tcp/7421", "/dns4/node.example/udp/7421/quic-v1", "/dns6/node.example/tcp/1"] {
            assert_eq!(observed_group(name, &[]), Some(None), "{name}");
            assert!(!is_far(name), "{name}");
        }
        for none in ["/dns4/relay.example/tcp/1/p2p/12D/p2p-circuit/p2p/12E", "/unix/x", "", "sim:abc"] {
            assert_eq!(observed_group(none, &[]), None, "{none}");
        }
    }

    #[test]
    fn only_transports_with_a_port_can_be_dialled_back() {
        for good in ["/tcp/7421", "/udp/65535/quic-v1"] {
            assert!(is_transport(good), "{good}");
        }
        for bad in
            ["", "/tcp/0", "/tcp/70000", "tcp/1", "/tcp/1/ws", "/udp/1", "/dns/a/tcp/1", "/tcp/1/p2p/x", "//tcp/1"]
        {
            assert!(!is_transport(bad), "{bad}");
        }
        let listening =
            ["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/7", "/ip6/fe80::1/tcp/7", "/ip4/10.0.0.1/udp/7/quic-v1"];
        assert_eq!(transports(&listening.map(str::to_owned)), ["/tcp/7", "/udp/7/quic-v1"]);
        assert_eq!(direct_ip("/ip4/5.0.0.1/tcp/7/p2p/12D/p2p-circuit"), None);
        assert_eq!(direct_ip("sim:abc"), None);
        assert!(is_far("/ip4/5.0.0.1/tcp/7/p2p/12D/p2p-circuit") && is_far("/ip4/5.0.0.1/tcp/7"));
        assert!(!is_far("/ip4/10.0.0.1/tcp/7") && !is_far("sim:abc"));
    }
}
