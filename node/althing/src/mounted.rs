//! The registry of a node (`althing up --registry`): the one of `althing-registry`, in the node's folder and for its network.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use althing_protocol::PublisherId;
use althing_registry::machine::Admission;
use althing_registry::serve::{self, Limits, Options, Running};

use crate::args::Mounted;
use crate::config::Config;
use crate::exit::Failure;
use crate::paths::Paths;
use crate::ports;

/// The port of registries.
const PORT: u16 = 7480;

/// Starts the registry if one is asked for; a node without one has nothing of it.
pub async fn start(
    asked: &Mounted,
    at: &Paths,
    config: &Config,
    owner: PublisherId,
) -> Result<Option<Running>, Failure> {
    if !asked.registry {
        return Ok(None);
    }
    let options = Options {
        data: at.data.join("registry"),
        listen: asked.registry_listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
        hosts: asked.registry_host.clone(),
        origin: asked.registry_origin.clone(),
        network: Some(config.network.clone()),
        admission: admission(asked, owner)?,
        things_anyone: false,
        things_closed: false,
        tls: None,
        witnesses: Vec::new(),
        cosigns: asked.registry_cosign.clone(),
        limits: Limits::default().of_each_net(config.gateway.connections_per_net.into()),
    };
    let (clock, entropy) = (ports::clock(), ports::entropy());
    let random = move || {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        bytes
    };
    let ports = serve::Ports { clock: Arc::new(move || clock.now_ms()), random: Arc::new(random) };
    let started = serve::start(options, &ports).await;
    started.map(Some).map_err(|error| Failure::failed(format!("the registry does not start: {error}")))
}

/// The node's owner, and whom it names.
fn admission(asked: &Mounted, owner: PublisherId) -> Result<Admission, Failure> {
    if asked.registry_anyone {
        return Ok(Admission::Anyone);
    }
    let read = |text: &String| {
        text.parse::<PublisherId>()
            .map_err(|error| Failure::usage(format!("--registry-publisher {text}: {error}; `althing id` prints one")))
    };
    let named = asked.registry_publisher.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Admission::Publishers(named.into_iter().chain([owner]).collect()))
}
