//! What strangers on the LAN are told, and other people's Things that are read.

use std::net::SocketAddr;
use std::time::Duration;

use althing_discovery::lan::Introduction;

use crate::node::Node;

/// How often it is looked whether other agents are to be introduced.
const LOOK: Duration = Duration::from_secs(1);

/// The paths of an agent's description and card, by its name.
pub type IntroductionPaths = fn(&str) -> (String, String);

/// Where strangers read of this node's public agents.
#[derive(Debug, Clone, Default)]
pub struct Introductions {
    /// All on one port; none where nobody is told.
    pub addresses: Vec<SocketAddr>,
    /// What is shown where.
    pub paths: Option<IntroductionPaths>,
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
        if let Err(reason) = self.discovery.read_things(things.urls.clone(), things.nets.clone(), hints) {
            trouble = Some(reason);
        }
        self.notes.extend(trouble.map(|reason| format!("not all Things are looked for: {reason}")));
    }

    /// Tells the LAN which agents can be read about, for as long as the node runs.
    pub(crate) async fn keep_introducing(&self) {
        let Introductions { addresses, paths } = &self.introductions;
        let (Some(port), Some(paths)) = (addresses.first().map(SocketAddr::port), paths) else { return };
        let mut told = Vec::new();
        loop {
            let agents = self.discovery.introduced().into_iter().map(|agent| {
                let name = agent.verified.agent.name().to_owned();
                let (td, card) = paths(&name);
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
