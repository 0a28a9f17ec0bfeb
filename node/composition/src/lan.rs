//! The LAN: what strangers there are told of public agents, and other people's Things that are read.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use althing_discovery::Discovery;
use althing_discovery::lan::{Introduction, Lan};
use tokio::sync::watch;

use crate::config::Things;

/// Between two comparisons of the public agents with those that were announced.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The paths of an agent's description and card, by its name.
pub type IntroductionPaths = fn(&str) -> (String, String);

/// Where strangers read of this node's public agents.
#[derive(Debug, Clone)]
pub struct Introductions {
    /// All on one port, as they come and go with the interfaces; none where nothing is announced.
    pub addresses: watch::Receiver<Vec<SocketAddr>>,
    /// What is served where; nothing where introductions are off.
    pub paths: Option<IntroductionPaths>,
}

impl Default for Introductions {
    fn default() -> Self {
        Introductions { addresses: watch::channel(Vec::new()).1, paths: None }
    }
}

impl Introductions {
    /// Where public agents are introduced now; nothing where introductions are off.
    #[must_use]
    pub fn served(&self) -> Option<Vec<SocketAddr>> {
        self.paths.map(|_| self.addresses.borrow().clone())
    }
}

/// The node's presence on the LAN.
pub struct LanPresence {
    /// Where strangers read of public agents.
    pub introductions: Introductions,
    /// Whether the node should be on the LAN.
    pub is_wanted: bool,
    /// Why it is not on the LAN although it should be.
    pub failure: Option<String>,
    lan: Mutex<Option<Lan>>,
}

impl LanPresence {
    pub(crate) fn new(
        lan: Option<Lan>,
        is_wanted: bool,
        failure: Option<String>,
        introductions: Introductions,
    ) -> LanPresence {
        LanPresence { introductions, is_wanted, failure, lan: Mutex::new(lan) }
    }

    /// The interfaces at which mDNS takes part, each with its addresses; and those of the configuration that are not there.
    #[must_use]
    pub fn interfaces(&self) -> (Vec<(String, Vec<IpAddr>)>, Vec<String>) {
        self.lan().as_ref().map(|lan| (lan.interfaces(), lan.absent())).unwrap_or_default()
    }

    fn lan(&self) -> MutexGuard<'_, Option<Lan>> {
        self.lan.lock().expect("no holder of the LAN panics")
    }

    /// Begins to read other people's Things, where the configuration wants that; gives why some are not looked for.
    pub(crate) fn read_things(&self, discovery: &Discovery, things: &Things) -> Option<String> {
        if !things.lan && things.urls.is_empty() {
            return None;
        }
        let hints = match self.lan().as_ref().filter(|_| things.lan) {
            Some(lan) => lan.things().map(Some).map_err(|error| error.to_string()),
            None if things.lan => Err("this node is not on the LAN".to_owned()),
            None => Ok(None),
        };
        let (hints, mut failure) = match hints {
            Ok(hints) => (hints, None),
            Err(reason) => (None, Some(reason)),
        };
        if let Err(reason) = discovery.read_things(things.urls.clone(), things.nets.clone(), hints) {
            failure = Some(reason);
        }
        failure.map(|reason| format!("not all Things are looked for: {reason}"))
    }

    /// Announces on the LAN which agents can be read about, for as long as the node runs.
    pub(crate) async fn announce_introductions(&self, discovery: &Discovery) {
        let Some(paths) = self.introductions.paths else { return };
        let mut announced = Vec::new();
        loop {
            // There may be no address yet.
            let port = self.introductions.addresses.borrow().first().map(SocketAddr::port);
            let Some(port) = port else {
                tokio::time::sleep(CHECK_INTERVAL).await;
                continue;
            };
            let agents = discovery.introduced().into_iter().map(|agent| {
                let name = agent.verified.agent.name().to_owned();
                let (td, card) = paths(&name);
                Introduction { name, td, card }
            });
            let agents: Vec<Introduction> = agents.collect();
            if agents != announced {
                if let Some(lan) = self.lan().as_mut()
                    && let Err(error) = lan.introduce(&agents, port)
                {
                    tracing::error!(%error, "not all public agents could be announced on the LAN");
                }
                announced = agents;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Says goodbye on the LAN.
    pub(crate) async fn leave(&self) {
        let lan = self.lan().take();
        if let Some(lan) = lan {
            lan.leave().await;
        }
    }
}
