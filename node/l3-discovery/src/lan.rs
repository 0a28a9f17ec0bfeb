//! The LAN by mDNS (`_p2p._udp`, RFC 6762 and 6763): announces this node and reports others. A hint, never liveness.

use std::net::IpAddr;

use althing_protocol::PublicKey;
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use tokio::sync::mpsc;

/// The service under which libp2p nodes announce themselves (libp2p mdns specification).
const SERVICE: &str = "_p2p._udp.local.";
/// Sightings that wait to be taken; more are dropped, and seen again at the next announcement.
const SIGHTINGS: usize = 256;
/// Addresses of one node that are taken.
const ADDRESSES_MAX: usize = 8;
/// Names of interfaces that lead to containers and virtual machines, not to people's other machines.
const VIRTUAL: [&str; 6] = ["docker", "br-", "virbr", "vmnet", "vboxnet", "cni"];

/// A node seen on the LAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Who it says it is; proven only when it is dialled.
    pub peer: PublicKey,
    /// Where it can be dialled.
    pub addresses: Vec<String>,
}

/// Why the LAN cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum LanError {
    /// mDNS failed.
    #[error(
        "mDNS does not work here: {0}; give the node a peer's address instead (`peers` in althing.toml, or --peer)"
    )]
    Mdns(#[from] mdns_sd::Error),
    /// The interfaces cannot be listed.
    #[error("the network interfaces cannot be listed: {0}")]
    Interfaces(std::io::Error),
    /// A named interface does not exist.
    #[error("there is no network interface {name:?}; this machine has {known}")]
    UnknownInterface {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No interface is left.
    #[error("no network interface is fit for mDNS; name one in `lan.interfaces` of althing.toml")]
    NoInterface,
}

/// How a node shows itself on the LAN.
#[derive(Debug, Clone)]
pub struct LanConfig {
    /// Interfaces by name; empty: all that are up and not virtual, and the loopback where there is no other.
    pub interfaces: Vec<String>,
    /// The network's name.
    pub network: String,
}

/// A node's presence on the LAN, until it is dropped or [`Lan::leave`] is called.
pub struct Lan {
    daemon: ServiceDaemon,
    fullname: String,
}

impl Lan {
    /// Announces `local`, which listens on TCP `port`, and reports the others of the same network.
    ///
    /// # Errors
    /// See [`LanError`].
    pub fn join(local: PublicKey, port: u16, config: &LanConfig) -> Result<(Lan, mpsc::Receiver<Sighting>), LanError> {
        let chosen = choose(&config.interfaces)?;
        let daemon = ServiceDaemon::new()?;
        daemon.disable_interface(IfKind::All)?;
        for (name, loopback) in &chosen {
            daemon.enable_interface(IfKind::Name(name.clone()))?;
            if *loopback {
                daemon.enable_interface(IfKind::LoopbackV4)?;
            }
        }
        let peer_id = local.peer_id();
        // A name is at most 63 bytes; a peer id has 52. Two daemons under one name would mix their records.
        let host = format!("{}.local.", peer_id.to_ascii_lowercase());
        let properties = [("peer", peer_id.as_str()), ("network", config.network.as_str())];
        let service = ServiceInfo::new(SERVICE, &peer_id, &host, "", port, &properties[..])?.enable_addr_auto();
        let fullname = service.get_fullname().to_owned();
        daemon.register(service)?;
        let browsing = daemon.browse(SERVICE)?;
        let (sightings, receiver) = mpsc::channel(SIGHTINGS);
        let network = config.network.clone();
        tokio::spawn(async move {
            while let Ok(event) = browsing.recv_async().await {
                let ServiceEvent::ServiceResolved(service) = event else { continue };
                let Some(sighting) = sighting(&service, &network).filter(|seen| seen.peer != local) else { continue };
                if let Err(mpsc::error::TrySendError::Closed(_)) = sightings.try_send(sighting) {
                    return;
                }
            }
        });
        Ok((Lan { daemon, fullname }, receiver))
    }

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

/// Whom a record speaks of, if it is one of ours.
fn sighting(service: &ResolvedService, network: &str) -> Option<Sighting> {
    if service.get_property_val_str("network") != Some(network) {
        return None;
    }
    let peer = PublicKey::from_peer_id(service.get_property_val_str("peer")?).ok()?;
    let mut addresses: Vec<IpAddr> = service.get_addresses().iter().map(|scoped| scoped.to_ip_addr()).collect();
    // IPv6 link-local addresses need a zone, which a multiaddress of tcp has no place for.
    addresses.retain(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    addresses.sort_unstable();
    addresses.truncate(ADDRESSES_MAX);
    let port = service.get_port();
    let text = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => format!("/ip4/{ip}/tcp/{port}"),
        IpAddr::V6(ip) => format!("/ip6/{ip}/tcp/{port}"),
    };
    Some(Sighting { peer, addresses: addresses.iter().map(text).collect() })
}

/// The interfaces to use, each with whether it is the loopback.
fn choose(wanted: &[String]) -> Result<Vec<(String, bool)>, LanError> {
    let mut all: Vec<(String, bool)> = if_addrs::get_if_addrs()
        .map_err(LanError::Interfaces)?
        .into_iter()
        .map(|interface| (interface.name.clone(), interface.is_loopback()))
        .collect();
    all.sort_unstable();
    all.dedup();
    if let Some(name) = wanted.iter().find(|name| !all.iter().any(|(known, _)| known == *name)) {
        let known = all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(LanError::UnknownInterface { name: name.clone(), known });
    }
    let fit = |(name, loopback): &(String, bool)| {
        if wanted.is_empty() {
            !loopback && !VIRTUAL.iter().any(|prefix| name.starts_with(prefix))
        } else {
            wanted.contains(name)
        }
    };
    let mut chosen: Vec<(String, bool)> = all.iter().filter(|interface| fit(interface)).cloned().collect();
    if chosen.is_empty() {
        chosen = all.into_iter().filter(|(_, loopback)| *loopback).collect();
    }
    if chosen.is_empty() { Err(LanError::NoInterface) } else { Ok(chosen) }
}
