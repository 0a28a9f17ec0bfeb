//! Groups of IP addresses, against Sybil attacks: nodes with neighbouring addresses may belong to one person.
//!
//! Keys are free and addresses are not, so the share of one address group is bounded: in a routing table and in one bucket
//! (Kubo has the same limits), and among the records kept for others. Only addresses that are routed on the internet are
//! grouped; private addresses have no group.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Nodes of one group in a routing table.
pub const GROUP_PER_TABLE: usize = 3;
/// Nodes of one group in one bucket.
pub const GROUP_PER_BUCKET: usize = 2;

/// A group of addresses: a /24 of IPv4, a /48 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressGroup {
    /// The first three bytes.
    V4([u8; 3]),
    /// The first six bytes.
    V6([u8; 6]),
}

impl AddressGroup {
    /// The group of an address that is routed on the internet; none of any other.
    #[must_use]
    pub fn of(ip: IpAddr) -> Option<AddressGroup> {
        match ip {
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => AddressGroup::of(IpAddr::V4(v4)),
                None => is_global_v6(v6).then(|| {
                    let o = v6.octets();
                    AddressGroup::V6([o[0], o[1], o[2], o[3], o[4], o[5]])
                }),
            },
            IpAddr::V4(v4) => {
                let o = v4.octets();
                // 100.64.0.0/10 is the carriers' own (RFC 6598).
                let shared = o[0] == 100 && (64..128).contains(&o[1]);
                let local = v4.is_private()
                    || v4.is_loopback()
                    || v4.is_link_local()
                    || v4.is_unspecified()
                    || v4.is_multicast()
                    || v4.is_broadcast();
                (!shared && !local && o[0] != 0).then_some(AddressGroup::V4([o[0], o[1], o[2]]))
            }
        }
    }
}

/// Global unicast is 2000::/3 (RFC 4291).
fn is_global_v6(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xe000 == 0x2000
}

/// The nodes of each address group in a routing table, against its limits.
#[derive(Debug, Clone)]
pub struct AddressGroupLimits<Id> {
    held: BTreeMap<Id, (AddressGroup, u32)>,
}

impl<Id> Default for AddressGroupLimits<Id> {
    fn default() -> Self {
        AddressGroupLimits { held: BTreeMap::new() }
    }
}

impl<Id: Ord + Copy> AddressGroupLimits<Id> {
    /// May `id`, of `group`, be put into `bucket`? Counts it when it may.
    pub fn admit(&mut self, id: Id, group: Option<AddressGroup>, bucket: u32) -> bool {
        self.held.remove(&id);
        let Some(group) = group else { return true };
        let of_group = self.held.values().filter(|(held, _)| *held == group);
        let (mut table, mut in_bucket) = (0, 0);
        for (_, held) in of_group {
            table += 1;
            in_bucket += usize::from(*held == bucket);
        }
        let room = table < GROUP_PER_TABLE && in_bucket < GROUP_PER_BUCKET;
        if room {
            self.held.insert(id, (group, bucket));
        }
        room
    }

    /// `id` is no longer in the table.
    pub fn remove(&mut self, id: Id) {
        self.held.remove(&id);
    }

    /// Keeps only those that are still in the table.
    pub fn retain(&mut self, still: impl Fn(Id) -> bool) {
        self.held.retain(|id, _| still(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_have_no_group() {
        for ip in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "0.0.0.0",
        ] {
            assert_eq!(AddressGroup::of(ip.parse().expect("an address")), None, "{ip}");
        }
        let group = |ip: &str| AddressGroup::of(ip.parse().expect("an address"));
        assert_eq!(group("9.9.9.9"), Some(AddressGroup::V4([9, 9, 9])));
        assert_eq!(group("9.9.9.9"), group("::ffff:9.9.9.250"), "mapped addresses do not evade it");
        assert_eq!(group("2001:db8:1:2::1"), group("2001:db8:1:ffff::9"));
        assert_ne!(group("2001:db8:1::1"), group("2001:db8:2::1"));
    }

    #[test]
    fn a_group_fills_neither_a_bucket_nor_the_table() {
        let mut caps = AddressGroupLimits::default();
        let group = AddressGroup::of("9.9.9.9".parse().expect("an address"));
        assert!(caps.admit(1, group, 250));
        assert!(caps.admit(2, group, 250));
        assert!(!caps.admit(3, group, 250), "the bucket has two");
        assert!(caps.admit(3, group, 251));
        assert!(!caps.admit(4, group, 252), "the table has three");
        assert!(caps.admit(1, group, 250), "a node in the table stays");
        caps.remove(2);
        assert!(caps.admit(4, group, 252));
        assert!((5..500).all(|id| caps.admit(id, None, 250)), "private addresses are not counted");
    }
}
