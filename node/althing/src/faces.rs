//! The listeners of the node's faces, and what serves on them: the gateway, and introductions for strangers.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use althing_gateway::{Access, Base, TellLayers, Tls, Users};
use althing_node::{IntroductionPaths, Introductions};
use althing_operations::Operations;
use althing_store::file::read_text;
use futures::future::BoxFuture;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::descriptors;
use crate::exit::Failure;
use crate::introducing::Introducing;
use crate::issuer::{self, Published};
use crate::public;
use crate::questions;
use crate::telemetry;
use crate::tokens::Tokens;

/// Bytes of the file that keeps the gateway's port.
const KEPT_BYTES_MAX: u64 = 128;
/// What to do about a port that the gateway chose.
const FIXED: &str = "`gateway.listen` in althing.toml, or `--gateway`, sets another one";
/// What to do where the gateway cannot listen.
const ANOTHER: &str =
    "choose another address, or port 0 for a free one: `gateway.listen` in althing.toml, or `--gateway`, sets it";

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
    /// Binds the gateway; if its port is taken, a free one, unless the port was set explicitly. `data` is the node's folder,
    /// which keeps that port.
    pub async fn bind(config: &Config, data: &Path, notes: &mut Vec<String>) -> Result<Faces, Failure> {
        let published = issuer::published(config)?;
        let kept = (!config.gateway.fixed).then(|| PortMemory::of(data, &config.gateway.listen));
        let (listener, gateway) = bind_gateway(&config.gateway.listen, kept, notes).await?;
        notes.extend(descriptors::note(althing_gateway::Limits::default().connections));
        if let Some(base) = config.gateway.base()
            && !access(config, gateway, data).is_guarded()
        {
            notes.push(format!(
                "whoever reaches {base} may do everything here: a proxy on this machine looks like this machine; \
                 `gateway.token`, or `althing token add NAME`, ends that"
            ));
        }
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
    pub fn serve(self, node: &Arc<Operations>, config: &Config, data: &Path) {
        let mut access = Access { tls: self.tls.is_some(), ..access(config, self.gateway, data) };
        let issuer = self.published.and_then(|published| issuer::of(config, published, node.clock().clone()));
        access.users.extend(issuer.map(|issuer| Arc::new(issuer) as Arc<dyn Users>));
        let mut findings = public::findings(&config.gateway);
        findings.extend(telemetry::findings(&config.telemetry));
        // A node has one gateway, from its start on.
        let _ = node.faces.set(findings);
        let is_guarded = access.is_guarded();
        let told = (Some(layers(node)), Some(questions::of(node)));
        let router = althing_gateway::router(node.calls.clone(), node.key.clone(), access, told);
        let limits = althing_gateway::Limits::default().of_each_net(config.gateway.connections_per_net.into());
        let limits = althing_gateway::Limits { connections: descriptors::connections(limits.connections), ..limits };
        let stop = node.stop.clone();
        let is_encrypted = self.tls.is_some();
        let named = introduced_as(config, node);
        match self.tls {
            None => tokio::spawn(althing_gateway::serve(self.listener, router, limits, stop)),
            Some(tls) => tokio::spawn(althing_gateway::serve_tls(self.listener, router, limits, tls, stop)),
        };
        let (calls, key, gateway, all) = (node.calls.clone(), node.key.clone(), self.gateway, node.stop.clone());
        let base = config.gateway.base();
        let open = move |address: SocketAddr, listener: TcpListener| {
            let at = base.clone().or_else(|| callable(is_encrypted, gateway, address.ip()));
            let router = althing_gateway::introductions(calls.clone(), key.clone(), at, is_guarded);
            let router = althing_gateway::at_own_names(router, Access::at(address, named.clone()));
            let served = all.child_token();
            tokio::spawn(althing_gateway::serve(listener, router, LIMITS, served.clone()));
            move || served.cancel()
        };
        tokio::spawn(node.stop.clone().run_until_cancelled_owned(self.introducing.follow(open)));
    }
}

/// What tells the layers of the node, as long as it runs.
fn layers(node: &Arc<Operations>) -> TellLayers {
    let node = Arc::downgrade(node);
    Arc::new(move || -> BoxFuture<'static, String> {
        let node = node.upgrade();
        Box::pin(async move {
            match node {
                Some(node) => althing_control::osi_model(&node).await.yaml(),
                None => String::new(),
            }
        })
    })
}

/// Who may use the gateway.
fn access(config: &Config, gateway: SocketAddr, data: &Path) -> Access {
    let token = (!config.gateway.token.is_empty()).then(|| config.gateway.token.clone());
    let users: Vec<Arc<dyn Users>> = vec![Arc::new(Tokens::of(data))];
    // What is configured decides, whatever becomes of it; and beyond this machine nobody is its user without a proof.
    let asks_clients = !config.gateway.tls.client_ca.as_os_str().is_empty();
    let is_guarded = asks_clients || !config.gateway.oauth.issuer.is_empty() || !gateway.ip().is_loopback();
    let (public, origins) = (config.gateway.base(), config.gateway.origins());
    Access { is_guarded, token, users, public, origins, ..Access::at(gateway, config.gateway.hosts.clone()) }
}

/// The names by which strangers ask for introductions: the one that mDNS gives this node, and those of the operator.
fn introduced_as(config: &Config, node: &Operations) -> Vec<String> {
    let own = format!("{}.local", node.key.public().peer_id());
    config.gateway.hosts.iter().cloned().chain([own]).collect()
}

/// The port that the gateway took when its own was taken. It is tried first at the next start: clients are configured with it.
struct PortMemory {
    file: PathBuf,
    /// What `gateway.listen` was then: another one makes the port void.
    listen: String,
}

impl PortMemory {
    fn of(data: &Path, listen: &str) -> PortMemory {
        PortMemory { file: data.join("gateway-port"), listen: listen.to_owned() }
    }

    fn read(&self) -> Option<u16> {
        let text = read_text(&self.file, KEPT_BYTES_MAX).ok()?;
        let (listen, port) = text.trim().split_once(' ')?;
        port.parse().ok().filter(|port| listen == self.listen && *port != 0)
    }

    /// Keeps it. Without it the next start may take another one, which its note tells.
    fn write(&self, port: u16) {
        if let Err(error) = std::fs::write(&self.file, format!("{} {port}\n", self.listen)) {
            tracing::warn!(%error, "the port of the gateway is not kept for the next start");
        }
    }
}

/// Binds the gateway: at the port that was kept, at its own, or at a free one; at its own alone where none may be kept.
async fn bind_gateway(
    listen: &str,
    kept: Option<PortMemory>,
    notes: &mut Vec<String>,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let wanted: SocketAddr =
        listen.parse().map_err(|_| Failure::usage(format!("{listen:?} is not an address and a port")))?;
    let failed =
        |error: std::io::Error| Failure::failed(format!("the gateway cannot listen on {listen}: {error}; {ANOTHER}"));
    let bound = |listener: TcpListener| listener.local_addr().map(|address| (listener, address)).map_err(failed);
    if let Some(port) = kept.as_ref().and_then(PortMemory::read)
        && let Ok(listener) = TcpListener::bind((wanted.ip(), port)).await
    {
        if wanted.port() != 0 {
            notes.push(format!("the gateway listens on {port}, as at the last start; {FIXED}"));
        }
        return bound(listener);
    }
    match (TcpListener::bind(wanted).await, kept) {
        (Err(error), Some(kept)) if error.kind() == ErrorKind::AddrInUse => {
            let (listener, address) = bound(TcpListener::bind((wanted.ip(), 0)).await.map_err(failed)?)?;
            kept.write(address.port());
            notes.push(format!(
                "port {} is taken; the gateway listens on {} from now on; {FIXED}",
                wanted.port(),
                address.port()
            ));
            Ok((listener, address))
        }
        (Ok(listener), Some(kept)) if wanted.port() == 0 => {
            let (listener, address) = bound(listener)?;
            kept.write(address.port());
            Ok((listener, address))
        }
        (listener, _) => bound(listener.map_err(failed)?),
    }
}

/// Where a stranger that connects to `here` can call the agents over HTTP.
fn callable(is_encrypted: bool, gateway: SocketAddr, here: IpAddr) -> Option<Base> {
    let at = match gateway.ip() {
        ip if ip.is_loopback() => return None,
        ip if ip.is_unspecified() => SocketAddr::new(here, gateway.port()),
        _ => gateway,
    };
    Some(Base::at(is_encrypted, &at.to_string()))
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

    /// N-14: clients are configured with the port that the first start chose.
    #[tokio::test]
    async fn a_port_that_was_chosen_once_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let listen = other.local_addr().expect("it listens").to_string();
        let started = async |fixed: bool| {
            let mut config = Config::default();
            (config.gateway.listen, config.gateway.fixed) = (listen.clone(), fixed);
            let mut notes = Vec::new();
            Faces::bind(&config, folder.path(), &mut notes).await.map(|faces| (faces.gateway, notes))
        };
        let (first, notes) = started(false).await.expect("a free one");
        assert!(notes[0].contains("is taken") && notes[0].contains("--gateway"), "{notes:?}");
        let (second, notes) = started(false).await.expect("the same");
        assert_eq!(second, first);
        assert!(notes[0].contains("as at the last start"), "{notes:?}");
        let refused = started(true).await.expect_err("a port that was set is that one").message;
        assert!(refused.contains(&listen) && refused.ends_with(&format!("; {ANOTHER}")), "{refused}");
        let held = TcpListener::bind(first).await.expect("it is free");
        let (third, _) = started(false).await.expect("another free one");
        assert_ne!(third, first);
        drop(held);
        assert_eq!(started(false).await.expect("the new one").0, third);
    }
}
