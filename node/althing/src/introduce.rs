//! Introductions: where strangers read of this node's public agents, and how they hear of that on the LAN.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use althing_calls::Calls;
use althing_discovery::lan::{self, Introduction, LanConfig};
use althing_protocol::SecretKey;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::node::Node;

/// How often it is looked whether other agents are to be introduced.
const LOOK: Duration = Duration::from_secs(1);
/// What the listener for introductions bears.
const LIMITS: althing_gateway::Limits = althing_gateway::Limits {
    connections: 64,
    header_timeout: Duration::from_secs(5),
    idle: Duration::from_secs(15),
    drain: Duration::from_secs(1),
};

/// Serves introductions where the configuration says; gives the addresses. What cannot be is noted.
pub async fn open(
    calls: &Calls,
    key: &SecretKey,
    config: &Config,
    gateway: SocketAddr,
    stop: &CancellationToken,
    notes: &mut Vec<String>,
) -> Vec<SocketAddr> {
    if !config.introduce.enabled {
        return Vec::new();
    }
    let addresses = match addresses(config) {
        Ok(addresses) => addresses,
        Err(reason) => {
            notes.push(format!("no introductions: {reason}"));
            return Vec::new();
        }
    };
    let mut open: Vec<SocketAddr> = Vec::new();
    for wanted in addresses {
        // All on the port of the first.
        let wanted = SocketAddr::new(wanted.ip(), open.first().map_or(wanted.port(), SocketAddr::port));
        let bound = match TcpListener::bind(wanted).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && open.is_empty() => {
                let free = TcpListener::bind((wanted.ip(), 0)).await;
                if let Ok(address) = free.as_ref().map_err(drop).and_then(|free| free.local_addr().map_err(drop)) {
                    let port = address.port();
                    notes.push(format!("port {} is taken; introductions are shown on {port}", wanted.port()));
                }
                free
            }
            bound => bound,
        };
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                notes.push(format!("no introductions at {wanted}: {error}"));
                continue;
            }
        };
        let router = althing_gateway::introductions(
            calls.clone(),
            key.clone(),
            callable(gateway, address.ip()),
            !config.gateway.token.is_empty(),
        );
        tokio::spawn(althing_gateway::serve(listener, router, LIMITS, stop.clone()));
        open.push(address);
    }
    open
}

/// Where to listen: for all addresses those of the LAN's interfaces.
fn addresses(config: &Config) -> Result<Vec<SocketAddr>, String> {
    let listen: SocketAddr =
        config.introduce.listen.parse().map_err(|_| "`introduce.listen` is no address".to_owned())?;
    if !listen.ip().is_unspecified() {
        return Ok(vec![listen]);
    }
    let chosen = LanConfig { interfaces: config.lan.interfaces.clone(), network: config.network.clone() };
    let all = lan::addresses(&chosen).map_err(|error| error.to_string())?;
    Ok(all.into_iter().map(|ip| SocketAddr::new(ip, listen.port())).collect())
}

/// Where a stranger who reads at `here` can call the agents over HTTP.
fn callable(gateway: SocketAddr, here: IpAddr) -> Option<String> {
    match gateway.ip() {
        ip if ip.is_loopback() => None,
        ip if ip.is_unspecified() => Some(format!("http://{}", SocketAddr::new(here, gateway.port()))),
        _ => Some(format!("http://{gateway}")),
    }
}

impl Node {
    /// Begins to read other people's Things, where the configuration wants that.
    pub(crate) fn read_things(&mut self) {
        let things = &self.config.things;
        if !things.lan && things.urls.is_empty() {
            return;
        }
        let hints = match self.lan.lock().expect("no holder of the LAN panics").as_ref().filter(|_| things.lan) {
            Some(lan) => lan.things().map(Some).map_err(|error| error.to_string()),
            None if things.lan => Err("this node is not on the LAN".to_owned()),
            None => Ok(None),
        };
        let (hints, mut trouble) = match hints {
            Ok(hints) => (hints, None),
            Err(reason) => (None, Some(reason)),
        };
        if let Err(reason) = self.discovery.read_things(things.urls.clone(), things.nets(), hints) {
            trouble = Some(reason);
        }
        self.notes.extend(trouble.map(|reason| format!("not all Things are looked for: {reason}")));
    }

    /// Tells the LAN which agents can be read about, for as long as the node runs.
    pub(crate) async fn introduce_for_ever(&self) {
        let Some(port) = self.introducing.first().map(SocketAddr::port) else { return };
        let mut told = Vec::new();
        loop {
            let agents = self.discovery.introduced().into_iter().map(|agent| {
                let name = agent.verified.agent.name().to_owned();
                let (td, card) = althing_gateway::paths(&name);
                Introduction { name, td, card }
            });
            let agents: Vec<Introduction> = agents.collect();
            if agents != told {
                let mut lan = self.lan.lock().expect("no holder of the LAN panics");
                if let Some(lan) = lan.as_mut()
                    && let Err(error) = lan.introduce(&agents, port)
                {
                    tracing::error!(%error, "the LAN was not told of all public agents");
                }
                told = agents;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
