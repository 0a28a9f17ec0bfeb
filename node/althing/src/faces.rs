//! The listeners of the node's faces, and what serves on them: the gateway, and introductions for strangers.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_gateway::{Access, Tls, Users};
use althing_node::{IntroductionPaths, Introductions, Node};
use tokio::net::TcpListener;

use crate::config::Config;
use crate::exit::Failure;
use crate::introducing::Introducing;
use crate::issuer::{self, Published};
use crate::tokens::Tokens;

/// Limits of the listener for introductions.
const LIMITS: althing_gateway::Limits = althing_gateway::Limits {
    connections: 64,
    of_origin: 16,
    of_site: 32,
    // Nothing is sent to it.
    body_bytes: 0,
    body_bytes_of_origin: 0,
    header_timeout: Duration::from_secs(5),
    idle: Duration::from_secs(15),
    drain: Duration::from_secs(1),
};

/// Bound listeners: their addresses are known before the node is assembled.
pub struct Faces {
    listener: TcpListener,
    pub gateway: SocketAddr,
    tls: Option<Arc<Tls>>,
    published: Option<Published>,
    introducing: Introducing,
}

impl Faces {
    /// Binds the gateway; if its port is taken, a free one, unless the port was set explicitly.
    pub async fn bind(config: &Config, notes: &mut Vec<String>) -> Result<Faces, Failure> {
        let published = issuer::published(config)?;
        let (listener, gateway) = bind_gateway(&config.gateway.listen, config.gateway.fixed, notes).await?;
        let tls = config.gateway.tls.files().map(Tls::open).transpose();
        let tls = tls.map_err(|error| Failure::usage(format!("`gateway.tls`: {error}")))?.map(Arc::new);
        Ok(Faces { listener, gateway, tls, published, introducing: Introducing::none() })
    }

    /// Binds the listeners for introductions, if configured. Failures are noted.
    pub async fn bind_introductions(&mut self, config: &Config, notes: &mut Vec<String>) {
        self.introducing = Introducing::bind(config, notes).await;
    }

    /// The base of the gateway's addresses.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.gateway)
    }

    /// Where introductions are shown.
    pub fn introductions(&self) -> Introductions {
        let paths = self.introducing.is_on().then_some(althing_gateway::paths as IntroductionPaths);
        Introductions { addresses: self.introducing.addresses(), paths }
    }

    /// Serves on all of them until the node stops.
    pub fn serve(self, node: &Node, config: &Config, data: &Path) {
        let mut access = Access { tls: self.tls.is_some(), ..access(config, self.gateway, data) };
        let issuer = self.published.and_then(|published| issuer::of(config, published, node.clock().clone()));
        access.users.extend(issuer.map(|issuer| Arc::new(issuer) as Arc<dyn Users>));
        let is_guarded = access.is_guarded();
        let router = althing_gateway::router(node.calls.clone(), node.key.clone(), access);
        let limits = althing_gateway::Limits::default().of_each_net(config.gateway.connections_per_net.into());
        let stop = node.stop.clone();
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let named = introduced_as(config, node);
        match self.tls {
            None => tokio::spawn(althing_gateway::serve(self.listener, router, limits, stop)),
            Some(tls) => tokio::spawn(althing_gateway::serve_tls(self.listener, router, limits, tls, stop)),
        };
        let (calls, key, gateway, all) = (node.calls.clone(), node.key.clone(), self.gateway, node.stop.clone());
        let open = move |address: SocketAddr, listener: TcpListener| {
            let at = callable(scheme, gateway, address.ip());
            let router = althing_gateway::introductions(calls.clone(), key.clone(), at, is_guarded);
            let router = althing_gateway::at_own_names(router, Access::at(address, named.clone()));
            let served = all.child_token();
            tokio::spawn(althing_gateway::serve(listener, router, LIMITS, served.clone()));
            move || served.cancel()
        };
        tokio::spawn(node.stop.clone().run_until_cancelled_owned(self.introducing.follow(open)));
    }
}

/// Who may use the gateway.
fn access(config: &Config, gateway: SocketAddr, data: &Path) -> Access {
    let token = (!config.gateway.token.is_empty()).then(|| config.gateway.token.clone());
    let users: Vec<Arc<dyn Users>> = vec![Arc::new(Tokens::of(data))];
    // What is configured decides, whatever becomes of it; and beyond this machine nobody is its user without a proof.
    let asks_clients = !config.gateway.tls.client_ca.as_os_str().is_empty();
    let is_guarded = asks_clients || !config.gateway.oauth.issuer.is_empty() || !gateway.ip().is_loopback();
    Access { is_guarded, token, users, ..Access::at(gateway, config.gateway.hosts.clone()) }
}

/// The names by which strangers ask for introductions: the one that mDNS gives this node, and those of the operator.
fn introduced_as(config: &Config, node: &Node) -> Vec<String> {
    let own = format!("{}.local", node.key.public().peer_id());
    config.gateway.hosts.iter().cloned().chain([own]).collect()
}

/// Binds the gateway; if its port is taken, a free one, unless the port was set explicitly.
async fn bind_gateway(
    listen: &str,
    fixed: bool,
    notes: &mut Vec<String>,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let wanted: SocketAddr =
        listen.parse().map_err(|_| Failure::usage(format!("{listen:?} is not an address and a port")))?;
    let failed = |error: std::io::Error| Failure::failed(format!("the gateway cannot listen on {listen}: {error}"));
    let listener = match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !fixed => {
            let listener = TcpListener::bind((wanted.ip(), 0)).await.map_err(failed)?;
            let free = listener.local_addr().map_err(failed)?.port();
            notes.push(format!("port {} is taken; the gateway listens on {free}", wanted.port()));
            listener
        }
        bound => bound.map_err(failed)?,
    };
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Where a stranger that connects to `here` can call the agents over HTTP.
fn callable(scheme: &str, gateway: SocketAddr, here: IpAddr) -> Option<String> {
    match gateway.ip() {
        ip if ip.is_loopback() => None,
        ip if ip.is_unspecified() => Some(format!("{scheme}://{}", SocketAddr::new(here, gateway.port()))),
        _ => Some(format!("{scheme}://{gateway}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SR-3
    #[test]
    fn what_the_configuration_sets_up_as_a_guard_is_one() {
        let is_guarded = |config: &Config, at: &str| {
            access(config, at.parse().expect("an address"), Path::new("no folder")).is_guarded
        };
        let (here, everywhere) = ("127.0.0.1:7420", "0.0.0.0:7420");
        let open = Config::default();
        assert!(!is_guarded(&open, here) && is_guarded(&open, everywhere));
        let mut certified = Config::default();
        certified.gateway.tls.client_ca = "ca.pem".into();
        let mut issued = Config::default();
        issued.gateway.oauth.issuer = "https://id.example".to_owned();
        assert!(is_guarded(&certified, here) && is_guarded(&issued, here));
    }
}
