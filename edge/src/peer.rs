//! Where a request comes from.

use std::net::{IpAddr, Ipv6Addr};

/// The address that a request's connection came from: an extension of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl Peer {
    /// Whether it is this machine.
    #[must_use]
    pub fn is_own(self) -> bool {
        self.0.to_canonical().is_loopback()
    }

    /// The net that it counts as where clients are told apart: one subscriber has all addresses of an IPv6 net of 64 bits.
    #[must_use]
    pub fn net(self) -> String {
        match self.0.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).to_string(),
            address => address.to_string(),
        }
    }

    /// The site that its net is part of: an organisation or a provider has all nets of an IPv6 net of 48 bits. None of IPv4,
    /// where an address counts alone.
    #[must_use]
    pub fn site(self) -> Option<String> {
        match self.0.to_canonical() {
            IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).to_string()),
            IpAddr::V4(_) => None,
        }
    }

    /// Whose share it takes of what there is little of: that of its site, or of its address of IPv4. None for this machine,
    /// where a proxy may stand for many.
    #[must_use]
    pub fn origin(self) -> Option<String> {
        (!self.is_own()).then(|| self.site().unwrap_or_else(|| self.net()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_subscriber_are_one_client() {
        let of = |text: &str| Peer(text.parse().expect("an address")).net();
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
        let site = |text: &str| Peer(text.parse().expect("an address")).site();
        assert_eq!(site("2001:db8:0:1::1"), site("2001:db8:0:ffff::1"));
        assert_ne!(site("2001:db8::1"), site("2001:db8:1::1"));
        assert_eq!(site("::ffff:192.0.2.1"), None);
        let origin = |text: &str| Peer(text.parse().expect("an address")).origin();
        assert_eq!(origin("2001:db8:0:1::1"), origin("2001:db8:0:ffff::1"), "whoever has a site has all of its nets");
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1").as_deref(), Some("192.0.2.1"));
        for own in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(origin(own), None, "{own}");
        }
    }
}
