//! Telling the table: which agents this node has, where it can be dialled, which keys speak for its agents' publishers.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::RoutingError;
use althing_protocol::KeyLog;
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_td::Exposure;
use tokio::sync::mpsc;
use tokio::time::interval;

use crate::machine::announce::{self, Announcing, Settling};
use crate::service::{Discovery, LocalAgent};

/// How often it is looked whether something is to be told.
const LOOK: Duration = Duration::from_secs(1);
/// Things of either kind that are told at one time: the next one begins when one has ended. Nodes that join at the same
/// time tell at the same time, and each thing that is told is a look-up with up to 20 streams.
const AT_ONCE: usize = 1;
/// How long a contact holds. It is made anew when it is told again.
const CONTACT_MS: u64 = 12 * 60 * 60 * 1_000;

/// What was told, and what is to be.
struct Teller {
    discovery: Discovery,
    announcing: Announcing,
    values: Announcing,
    settling: Settling,
    /// Where this node could be dialled when that was told.
    at: Vec<String>,
    said: mpsc::Sender<(RecordKey, bool)>,
}

impl Discovery {
    /// Tells the table for as long as the node runs.
    pub(crate) async fn tell_for_ever(self) {
        let again_ms = u64::try_from(self.shared.config.republish.as_millis()).unwrap_or(u64::MAX);
        let (said, mut heard) = mpsc::channel(2 * AT_ONCE);
        let mut keys = self.shared.communication.keys().changes();
        let mut teller = Teller {
            discovery: self,
            announcing: Announcing::new(again_ms),
            values: Announcing::new(again_ms),
            settling: Settling::default(),
            at: Vec::new(),
            said,
        };
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                biased;
                Some((key, ok)) = heard.recv() => teller.heard(key, ok),
                _ = look.tick() => {
                    // An error means that the network is gone, and this task with it.
                    let changed = keys.has_changed().unwrap_or(false);
                    keys.mark_unchanged();
                    teller.look(changed);
                }
            }
            teller.tell();
        }
    }
}

impl Teller {
    /// Something was told, to somebody or to nobody.
    fn heard(&mut self, key: RecordKey, ok: bool) {
        let (now_ms, nodes) = (self.discovery.now().monotonic_ms, self.discovery.network_size());
        self.announcing.said(key, ok, now_ms, nodes);
        self.values.said(key, ok, now_ms, nodes);
    }

    /// Sees what there is to tell; `rekeyed` when it has changed whose keys are whose.
    fn look(&mut self, rekeyed: bool) {
        let network = self.discovery.shared.communication.network();
        for gone in self.announcing.set(&self.discovery.keys_of_agents()) {
            network.routing().stop_providing(gone);
        }
        let at = network.announced();
        if at != self.at || rekeyed {
            // What was told is wrong.
            self.values.set(&BTreeSet::new());
            self.at = at;
        }
        self.values.set(&self.discovery.keys_of_values());
    }

    /// Tells what is due.
    fn tell(&mut self) {
        let (now_ms, nodes) = (self.discovery.now().monotonic_ms, self.discovery.network_size());
        if !self.settling.look(now_ms, nodes) {
            return;
        }
        for key in self.values.due(now_ms, nodes, AT_ONCE) {
            let Some(value) = self.discovery.value(key) else {
                self.values.said(key, false, now_ms, nodes);
                continue;
            };
            let (network, said) = (self.discovery.shared.communication.network().clone(), self.said.clone());
            tokio::spawn(async move {
                let outcome = network.routing().put(key, value.encode()).await;
                // An error means that the node is gone.
                let _ = said.send((key, told(outcome.map(drop)))).await;
            });
        }
        for key in self.announcing.due(now_ms, nodes, AT_ONCE) {
            let (network, said) = (self.discovery.shared.communication.network().clone(), self.said.clone());
            tokio::spawn(async move {
                let outcome = network.routing().provide(key).await;
                let _ = said.send((key, told(outcome.map(drop)))).await;
            });
        }
    }
}

impl Discovery {
    fn network_size(&self) -> u64 {
        announce::network_size(self.shared.key.public(), &self.shared.communication.network().routing().nodes())
    }

    /// What those of this node's agents are found under that everybody may see.
    fn keys_of_agents(&self) -> BTreeSet<RecordKey> {
        let network = &self.shared.config.network;
        let state = self.lock();
        let public = state.local.iter().filter(|(_, local)| local.exposure == Exposure::Public);
        public.flat_map(|(id, local)| announce::keys(network, id, local.description.capabilities())).collect()
    }

    /// What is kept under: where this node can be dialled, which keys speak for those whose public agents it has, and
    /// what those whom it watches have done with their keys.
    fn keys_of_values(&self) -> BTreeSet<RecordKey> {
        let network = &self.shared.config.network;
        let watched = self.shared.communication.keys().watched();
        let changed = watched.into_iter().filter(|(_, log)| log.is_some()).map(|(publisher, _)| publisher);
        let state = self.lock();
        let public = state.local.values().filter(|local| local.exposure == Exposure::Public);
        let publishers = public.map(|local| local.verified.agent.publisher()).chain(changed);
        let logs = publishers.map(|publisher| RecordKey::key_log(network, publisher));
        logs.chain([RecordKey::contact(network, self.shared.key.public())]).collect()
    }

    /// What is to be kept under one of these keys, as it is now; nothing for a node that listens nowhere.
    fn value(&self, key: RecordKey) -> Option<Value> {
        let network = &self.shared.config.network;
        if key == RecordKey::contact(network, self.shared.key.public()) {
            let mut addresses = self.shared.communication.network().announced();
            addresses.truncate(althing_protocol::limits::CONTACT_ADDRESSES_MAX);
            let now_ms = self.shared.clock.now_ms();
            let contact = Contact::new(self.shared.key.public(), now_ms, now_ms, now_ms + CONTACT_MS, addresses);
            return object::sign(contact, network, "", &self.shared.key).ok().map(Value::Contact);
        }
        let watched = self.shared.communication.keys().watched();
        let mut changed = watched.into_iter().filter_map(|(_, log)| log);
        if let Some(log) = changed.find(|log| RecordKey::key_log(network, log.publisher()) == key) {
            return Some(Value::KeyLog(KeyLog::clone(&log)));
        }
        let state = self.lock();
        let of_key = |local: &&LocalAgent| RecordKey::key_log(network, local.verified.agent.publisher()) == key;
        state.local.values().find(of_key).map(|local| Value::KeyLog(KeyLog::clone(&local.verified.key_log)))
    }
}

/// Was it told to anybody?
fn told(outcome: Result<(), RoutingError>) -> bool {
    outcome.inspect_err(|reason| tracing::debug!(%reason, "the table was not told")).is_ok()
}
