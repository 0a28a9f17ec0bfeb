//! The addresses that a URL from outside may lead to: only those that are routed on the internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A subnet: an address and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    bits: u8,
}

impl Net {
    /// A single address.
    #[must_use]
    pub fn host(address: IpAddr) -> Net {
        Net { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// The subnet of `address` with that prefix length, capped at the length of an address.
    #[must_use]
    pub fn of(address: IpAddr, bits: u8) -> Net {
        Net { address, bits: bits.min(Net::host(address).bits) }
    }

    /// Whether it contains `address`. No IPv6 subnet contains an IPv4 address, nor the other way round.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (net.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (net.to_bits() ^ address.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    fn is_host(&self) -> bool {
        *self == Net::host(self.address)
    }
}

/// A text that is not a subnet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a net; write an address and bits, such as 192.168.1.0/24, or one address")]
pub struct NoNet(String);

impl FromStr for Net {
    type Err = NoNet;

    fn from_str(text: &str) -> Result<Net, NoNet> {
        let wrong = || NoNet(text.chars().take(64).collect());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let whole = Net::host(address.parse().map_err(|_| wrong())?);
        match bits {
            None => Ok(whole),
            Some(bits) => match bits.parse::<u8>() {
                Ok(bits) if bits <= whole.bits => Ok(Net { bits, ..whole }),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Net {
    Net { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

const fn v6(a: u16, b: u16, c: u16, last: u16, bits: u8) -> Net {
    Net { address: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, last)), bits }
}

/// The metadata services of clouds, which hold secrets. An exception must name exactly that address.
const METADATA: [Net; 5] = [
    v4(169, 254, 169, 254, 32),
    v4(169, 254, 170, 2, 32),
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    v6(0xfd00, 0x0ec2, 0, 0x0254, 128),
];

/// What is there.
pub(crate) const METADATA_NAME: &str = "where clouds keep a machine's secrets";

/// Whether clouds keep a machine's secrets at that address.
pub(crate) fn is_metadata(address: IpAddr) -> bool {
    METADATA.iter().any(|net| net.holds(address))
}

/// The special-purpose subnets of IPv4 (RFC 6890 and its registry), which are blocked.
const BLOCKED_V4: [(Net, &str); 16] = [
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by a carrier's customers (CGNAT)"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "for protocols"),
    (v4(192, 0, 2, 0, 24), "for documentation"),
    (v4(192, 88, 99, 0, 24), "6to4 relays"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "for benchmarks"),
    (v4(198, 51, 100, 0, 24), "for documentation"),
    (v4(203, 0, 113, 0, 24), "for documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// Of IPv6 only global unicast is allowed, without subnets that embed IPv4 addresses.
const GLOBAL_V6: Net = v6(0x2000, 0, 0, 0, 3);
const BLOCKED_V6: [(Net, &str); 11] = [
    (v6(0, 0, 0, 1, 128), "loopback"),
    (Net { address: IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), bits: 96 }, "IPv4 in IPv6 (v4-mapped)"),
    (v6(0x64, 0xff9b, 0, 0, 96), "IPv4 in IPv6 (NAT64)"),
    (v6(0x64, 0xff9b, 1, 0, 48), "IPv4 in IPv6 (NAT64)"),
    (v6(0xfc00, 0, 0, 0, 7), "private (ULA)"),
    (v6(0xfe80, 0, 0, 0, 10), "link-local"),
    (v6(0xff00, 0, 0, 0, 8), "multicast"),
    (v6(0x2001, 0, 0, 0, 23), "for protocols (Teredo among them)"),
    (v6(0x2001, 0xdb8, 0, 0, 32), "for documentation"),
    (v6(0x2002, 0, 0, 0, 16), "IPv4 in IPv6 (6to4)"),
    (v6(0x3fff, 0, 0, 0, 20), "for documentation"),
];

/// Why an address is blocked; none if it is not. `exceptions` are the operator's.
#[must_use]
pub fn blocked(address: IpAddr, exceptions: &[Net]) -> Option<&'static str> {
    let metadata = is_metadata(address);
    if exceptions.iter().any(|net| net.holds(address) && (!metadata || net.is_host())) {
        return None;
    }
    if metadata {
        return Some(METADATA_NAME);
    }
    let list: &[(Net, &str)] = if address.is_ipv4() { &BLOCKED_V4 } else { &BLOCKED_V6 };
    let named = list.iter().find(|(net, _)| net.holds(address)).map(|(_, name)| *name);
    let unrouted = address.is_ipv6() && !GLOBAL_V6.holds(address);
    named.or(unrouted.then_some("not routed on the internet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(address: &str, exceptions: &[&str]) -> Option<&'static str> {
        let exceptions: Vec<Net> = exceptions.iter().map(|net| net.parse().expect("a net")).collect();
        blocked(address.parse().expect("an address"), &exceptions)
    }

    #[test]
    fn nets_are_read_shown_and_hold_what_they_say() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("100.64.0.0/10", "100.127.255.255", "100.128.0.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("192.168.1.7", "192.168.1.7", "192.168.1.8"),
            ("fd00::/64", "fd00::ffff", "fd00:0:0:1::"),
            ("::/0", "ffff::", "1.2.3.4"),
        ] {
            let read: Net = net.parse().expect("a net");
            assert!(read.holds(inside.parse().expect("one")) && !read.holds(outside.parse().expect("one")), "{net}");
            assert_eq!(read.to_string().parse::<Net>().expect("as shown"), read);
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "a/8", "10.0.0.0/-1", "10.0.0.0/8/8"] {
            assert!(wrong.parse::<Net>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_edges_of_each_blocked_net_are_blocked_and_their_neighbours_are_not() {
        for (first, last, before, after) in [
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff::", "2003::"),
        ] {
            assert!(why(first, &[]).is_some() && why(last, &[]).is_some(), "{first} {last}");
            assert_eq!((why(before, &[]), why(after, &[])), (None, None), "{before} {after}");
        }
        for address in ["0.0.0.0", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1"] {
            assert!(why(address, &[]).is_some(), "{address}");
        }
    }

    #[test]
    fn an_exception_opens_its_net_and_metadata_only_where_it_names_that_address() {
        assert_eq!(why("10.1.2.3", &["10.0.0.0/8"]), None);
        assert_eq!(why("fd00::7", &["fd00::/8"]), None);
        assert!(why("192.168.0.1", &["10.0.0.0/8"]).is_some());
        for (address, net) in [("169.254.169.254", "169.254.0.0/16"), ("fd00:ec2::254", "fd00::/8")] {
            assert!(why(address, &[net]).is_some(), "{address}");
            assert_eq!(why(address, &[address]), None, "{address}");
        }
        assert!(why("168.63.129.16", &[]).is_some() && why("168.63.129.17", &[]).is_none());
    }
}
