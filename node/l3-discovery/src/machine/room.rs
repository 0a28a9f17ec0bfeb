//! The nets by which what strangers take is counted more widely than by their origin: of a private net one machine has as many
//! addresses as it likes.

use std::net::IpAddr;

use althing_communication::Origin;

use crate::machine::rank::Holder;

/// Bytes of an IPv4 address that name its net (/24), and of an IPv6 address (/64).
const NET_BYTES: (usize, usize) = (3, 8);

/// A net, or a holder that is in none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Net {
    /// Private addresses that begin with these bytes.
    Private(Vec<u8>),
    /// An origin on the internet, a relay, or a node whose address says nothing.
    Holder(Holder),
}

/// The net of a holder.
pub(crate) fn net(holder: Holder) -> Net {
    match holder {
        Holder::Origin(Origin::Address(IpAddr::V4(ip))) => Net::Private(ip.octets()[..NET_BYTES.0].to_vec()),
        Holder::Origin(Origin::Address(IpAddr::V6(ip))) => Net::Private(ip.octets()[..NET_BYTES.1].to_vec()),
        holder => Net::Holder(holder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_private_net_are_one() {
        let of = |ip: &str| net(Holder::Origin(Origin::of(ip.parse().expect("an address"))));
        assert_eq!(of("10.0.0.1"), of("10.0.0.254"));
        assert_ne!(of("10.0.0.1"), of("10.0.1.1"));
        assert_eq!(of("fd00::1"), of("fd00::2:3:4:5"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_eq!(of("9.9.9.9"), of("9.9.9.10"), "a group of the internet is one already");
        assert_ne!(of("9.9.9.9"), of("9.9.8.9"));
    }
}
