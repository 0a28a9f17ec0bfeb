//! Where what listens is reached: an unspecified address is none that anybody can ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses of documentation, on the way to which a machine shows the address that others know it by. Nothing is sent there.
const ELSEWHERE: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
];

/// An address at which clients reach what listens there. Of all addresses of the machine it is the one that it uses towards
/// others; without others, one of its own net, or loopback.
#[must_use]
pub fn reached(listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let fits = |address: &IpAddr| listening.is_ipv6() || address.is_ipv4();
    let routed = ELSEWHERE.into_iter().filter_map(towards).find(fits);
    let loopback = match listening {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let address = routed.or_else(|| own_addresses().into_iter().find(fits)).unwrap_or(loopback);
    SocketAddr::new(address, listening.port())
}

/// The address that this machine uses towards another one; none without a way there.
fn towards((any, other): (IpAddr, IpAddr)) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_unspecified() && !own.is_loopback())
}

/// Those of the machine's interfaces that others on its nets may know; those of IPv4 first.
fn own_addresses() -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let mut own: Vec<IpAddr> =
        all.iter().filter(|one| !one.is_loopback() && !one.is_link_local()).map(if_addrs::Interface::ip).collect();
    own.sort_by_key(IpAddr::is_ipv6);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_everywhere_is_reached_somewhere() {
        for listening in ["0.0.0.0:7480", "[::]:7480"] {
            let at = reached(listening.parse().expect("an address"));
            assert!(!at.ip().is_unspecified() && at.port() == 7480, "{at}");
        }
        for listening in ["127.0.0.1:7480", "[::1]:1", "192.0.2.7:80"] {
            let at: SocketAddr = listening.parse().expect("an address");
            assert_eq!(reached(at), at);
        }
        let v4 = reached("0.0.0.0:1".parse().expect("an address"));
        assert!(v4.is_ipv4(), "who listens on IPv4 alone is not reached by IPv6: {v4}");
    }
}
