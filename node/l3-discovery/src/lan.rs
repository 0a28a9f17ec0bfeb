//! The LAN by mDNS (`_p2p._udp`, RFC 6762 and 6763): announces this node and reports others. A hint, never liveness.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use althing_protocol::PublicKey;
use mdns_sd::{DaemonEvent, IfKind, IfPredicate, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use tokio::sync::mpsc;

use crate::machine::interfaces::{Interface, Selection};
use crate::things::Hint;

/// The service under which libp2p nodes announce themselves (libp2p mdns specification).
const SERVICE: &str = "_p2p._udp.local.";
/// Sightings that wait to be taken; more are dropped, and seen again at the next announcement.
const SIGHTINGS: usize = 256;
/// Addresses of one node that are taken.
const ADDRESSES_MAX: usize = 8;
/// Seconds between two looks at the machine's interfaces: one that gets an address is used within this, and the announcement
/// there takes about two more.
const LOOK_S: u32 = 2;

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
}

/// How a node shows itself on the LAN.
#[derive(Debug, Clone)]
pub struct LanConfig {
    /// Interfaces by name, also those that come later; empty: all that are up and not virtual, and the loopback for as long as
    /// there is no other.
    pub interfaces: Vec<String>,
    /// The network's name.
    pub network: String,
}

/// The services under which strangers find Things (WoT Discovery §5.3) and agents.
const INTRODUCED: [&str; 2] = ["_wot._tcp.local.", "_agent._tcp.local."];
/// Agents that are introduced on the LAN; each is a record that all machines keep.
const INTRODUCED_MAX: usize = 64;
/// Bytes of a service's name (RFC 6763 §4.1.1).
const NAME_MAX: usize = 63;

/// An agent that strangers on the LAN may read of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Introduction {
    /// Its name.
    pub name: String,
    /// Where its description is, below the introductions' address.
    pub td: String,
    /// Where its card is.
    pub card: String,
}

/// A node's presence on the LAN, until it is dropped or [`Lan::leave`] is called.
pub struct Lan {
    daemon: ServiceDaemon,
    fullname: String,
    local: PublicKey,
    introduced: BTreeMap<Introduction, [String; 2]>,
    selection: Selection,
    /// The addresses of this machine at which mDNS takes part.
    used: Arc<Mutex<BTreeSet<IpAddr>>>,
}

impl Lan {
    /// Announces `local`, which listens on TCP `port`, and reports the others of the same network.
    ///
    /// # Errors
    /// See [`LanError`].
    pub fn join(local: PublicKey, port: u16, config: &LanConfig) -> Result<(Lan, mpsc::Receiver<Sighting>), LanError> {
        let selection = Selection::new(config.interfaces.clone());
        let daemon = ServiceDaemon::new()?;
        daemon.disable_interface(IfKind::All)?;
        let used = follow(&daemon)?;
        // A rule, not names: it is applied at each look to what there is then.
        let chosen = selection.clone();
        let rule = IfPredicate::new(move |one| chosen.takes(&interface(one), || up().unwrap_or_default()));
        daemon.enable_interface(IfKind::Predicate(rule))?;
        daemon.set_ip_check_interval(LOOK_S)?;
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
        Ok((Lan { daemon, fullname, local, introduced: BTreeMap::new(), selection, used }, receiver))
    }

    /// The interfaces at which mDNS takes part now, by name, each with its addresses there.
    #[must_use]
    pub fn interfaces(&self) -> Vec<(String, Vec<IpAddr>)> {
        let used = self.used.lock().expect("no holder of the addresses panics").clone();
        let mut all: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        let here = if_addrs::get_if_addrs().unwrap_or_default();
        for one in here.into_iter().filter(|one| used.contains(&one.ip())) {
            let ip = one.ip();
            all.entry(one.name).or_default().push(ip);
        }
        all.into_iter().collect()
    }

    /// The names of the configuration that no interface has which is up and has an address.
    #[must_use]
    pub fn absent(&self) -> Vec<String> {
        self.selection.absent(&up().unwrap_or_default())
    }

    /// Reports where others on the LAN let their Things be read about.
    ///
    /// # Errors
    /// [`LanError::Mdns`].
    pub fn things(&self) -> Result<mpsc::Receiver<Hint>, LanError> {
        let browsing = self.daemon.browse(INTRODUCED[0])?;
        let (hints, receiver) = mpsc::channel(SIGHTINGS);
        let own = format!("-{}.", &self.local.peer_id()[self.local.peer_id().len() - 8..]);
        tokio::spawn(async move {
            while let Ok(event) = browsing.recv_async().await {
                let hint = match event {
                    ServiceEvent::ServiceResolved(service) => hint(&service),
                    ServiceEvent::ServiceRemoved(_, name) => Some(Hint::Gone(name)),
                    _ => None,
                };
                let own = |name: &String| name.contains(&own);
                let Some(hint) = hint.filter(|hint| !matches!(hint, Hint::Seen { name, .. } if own(name))) else {
                    continue;
                };
                if let Err(mpsc::error::TrySendError::Closed(_)) = hints.try_send(hint) {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    /// Introduces these agents, and no others any more, to whoever is on the LAN; they are read about over HTTP at `port`.
    ///
    /// # Errors
    /// [`LanError::Mdns`].
    pub fn introduce(&mut self, agents: &[Introduction], port: u16) -> Result<(), LanError> {
        let gone: Vec<Introduction> = self.introduced.keys().filter(|agent| !agents.contains(agent)).cloned().collect();
        for agent in gone {
            for fullname in self.introduced.remove(&agent).into_iter().flatten() {
                self.daemon.unregister(&fullname)?;
            }
        }
        let peer_id = self.local.peer_id();
        let host = format!("{}.local.", peer_id.to_ascii_lowercase());
        let suffix = &peer_id[peer_id.len() - 8..];
        for agent in agents.iter().take(INTRODUCED_MAX) {
            if self.introduced.contains_key(agent) {
                continue;
            }
            // Two nodes may have agents of one name.
            let name: String = agent.name.chars().take(NAME_MAX - suffix.len() - 1).collect();
            let name = format!("{name}-{suffix}");
            let mut fullnames = [String::new(), String::new()];
            for (service, fullname) in INTRODUCED.iter().zip(&mut fullnames) {
                let mut properties = vec![("td", agent.td.as_str()), ("type", "Thing"), ("scheme", "http")];
                if *service == INTRODUCED[1] {
                    properties.push(("card", &agent.card));
                }
                let info = ServiceInfo::new(service, &name, &host, "", port, &properties[..])?.enable_addr_auto();
                info.get_fullname().clone_into(fullname);
                self.daemon.register(info)?;
            }
            self.introduced.insert(agent.clone(), fullnames);
        }
        Ok(())
    }

    /// Says goodbye, and waits until that is sent.
    pub async fn leave(self) {
        let introduced = self.introduced.into_values().flatten();
        for fullname in introduced.chain([self.fullname]) {
            if let Ok(done) = self.daemon.unregister(&fullname) {
                // An error means that the daemon is gone already.
                let _ = done.recv_async().await;
            }
        }
        if let Ok(done) = self.daemon.shutdown() {
            let _ = done.recv_async().await;
        }
    }
}

/// Where a description can be read; IPv4 first, which needs no zone.
fn hint(service: &ResolvedService) -> Option<Hint> {
    let mut addresses: Vec<IpAddr> = service.get_addresses().iter().map(|scoped| scoped.to_ip_addr()).collect();
    addresses.retain(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    addresses.sort_unstable();
    Some(Hint::Seen {
        name: service.get_fullname().to_owned(),
        address: *addresses.first()?,
        port: service.get_port(),
        scheme: service.get_property_val_str("scheme").unwrap_or("http").to_owned(),
        td: service.get_property_val_str("td")?.to_owned(),
    })
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

/// The addresses of the interfaces that a node shows itself on now.
///
/// # Errors
/// [`LanError::Interfaces`].
pub fn addresses(config: &LanConfig) -> Result<Vec<IpAddr>, LanError> {
    let used = Selection::new(config.interfaces.clone()).of(&up()?);
    let all = if_addrs::get_if_addrs().map_err(LanError::Interfaces)?;
    let on = all.into_iter().filter(|one| one.is_oper_up() && used.contains(&interface(one)));
    let mut addresses: Vec<IpAddr> = on.map(|one| one.ip()).collect();
    // A link-local address needs a zone to listen on.
    addresses.retain(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Keeps account of the addresses at which the daemon takes part.
fn follow(daemon: &ServiceDaemon) -> Result<Arc<Mutex<BTreeSet<IpAddr>>>, LanError> {
    let events = daemon.monitor()?;
    let used: Arc<Mutex<BTreeSet<IpAddr>>> = Arc::default();
    let noted = used.clone();
    tokio::spawn(async move {
        while let Ok(event) = events.recv_async().await {
            let mut used = noted.lock().expect("no holder of the addresses panics");
            match event {
                DaemonEvent::IpAdd(ip) => {
                    used.insert(ip);
                }
                DaemonEvent::IpDel(ip) => {
                    used.remove(&ip);
                }
                _ => {}
            }
        }
    });
    Ok(used)
}

/// The interfaces that are up and have an address.
fn up() -> Result<Vec<Interface>, LanError> {
    let all = if_addrs::get_if_addrs().map_err(LanError::Interfaces)?;
    let mut up: Vec<Interface> = all.iter().filter(|one| one.is_oper_up()).map(interface).collect();
    up.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    up.dedup();
    Ok(up)
}

fn interface(one: &if_addrs::Interface) -> Interface {
    Interface { name: one.name.clone(), is_loopback: one.is_loopback() }
}
