//! Where a connection comes from: what strangers share limits by, because keys are free and addresses are not.

use std::net::IpAddr;

use super::address_groups::AddressGroup;

/// The origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A group of addresses on the internet.
    Group(AddressGroup),
    /// An address that is not routed on the internet.
    Address(IpAddr),
    /// The relay at that address, which does not disclose the peer's own address.
    Relayed(Option<IpAddr>),
}

impl Origin {
    /// The origin of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Origin {
        AddressGroup::of(ip).map_or(Origin::Address(ip.to_canonical()), Origin::Group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_the_internet_are_one_origin_and_those_on_a_lan_are_not() {
        let of = |ip: &str| Origin::of(ip.parse().expect("an address"));
        assert_eq!(of("9.9.9.9"), of("9.9.9.10"));
        assert_eq!(of("192.168.1.1"), of("::ffff:192.168.1.1"));
        assert_ne!(of("192.168.1.1"), of("192.168.1.2"));
        assert_ne!(of("fd00::1"), of("fd00::2"));
    }
}
