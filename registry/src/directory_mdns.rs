//! Tells the LAN of the directory (WoT Discovery §6.3): DNS-SD `_directory._sub._wot._tcp`.

use std::net::SocketAddr;

use mdns_sd::{ServiceDaemon, ServiceInfo};

/// The service of directories.
const SERVICE: &str = "_directory._sub._wot._tcp.local.";

/// The announcement, until it is taken back.
pub struct Announced {
    daemon: ServiceDaemon,
    fullname: String,
}

/// Announces the directory that listens there. `name` tells it from others on the LAN.
///
/// # Errors
/// mDNS does not work here.
pub fn announce(name: &str, address: SocketAddr, scheme: &str) -> Result<Announced, mdns_sd::Error> {
    let daemon = ServiceDaemon::new()?;
    let service = service(name, address, scheme)?;
    let fullname = service.get_fullname().to_owned();
    daemon.register(service)?;
    Ok(Announced { daemon, fullname })
}

fn service(name: &str, address: SocketAddr, scheme: &str) -> Result<ServiceInfo, mdns_sd::Error> {
    let host = format!("{name}.local.");
    let properties = [("td", "/.well-known/wot"), ("type", "Directory"), ("scheme", scheme)];
    if address.ip().is_unspecified() {
        let service = ServiceInfo::new(SERVICE, name, &host, "", address.port(), &properties[..])?;
        return Ok(service.enable_addr_auto());
    }
    ServiceInfo::new(SERVICE, name, &host, address.ip(), address.port(), &properties[..])
}

impl Announced {
    /// Says goodbye, and waits until that is sent.
    pub async fn leave(self) {
        if let Ok(done) = self.daemon.unregister(&self.fullname) {
            // An error means that the daemon is gone already.
            let _ = done.recv_async().await;
        }
        if let Ok(done) = self.daemon.shutdown() {
            let _ = done.recv_async().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_announced_as_one_of_the_web_of_things() {
        let said =
            |address: &str| service("registry-x", address.parse().expect("an address"), "https").expect("a service");
        let one = said("192.0.2.7:7480");
        assert_eq!((one.get_type(), one.get_subtype().as_deref()), ("_wot._tcp.local.", Some(SERVICE)));
        let told = |name: &str| one.get_property_val_str(name).map(str::to_owned);
        let keys = ["td", "type", "scheme"].map(told).map(Option::unwrap_or_default);
        assert_eq!(keys, ["/.well-known/wot", "Directory", "https"]);
        assert_eq!((one.get_port(), one.is_addr_auto(), one.get_addresses().len()), (7480, false, 1));
        assert!(said("0.0.0.0:7480").is_addr_auto());
    }
}
