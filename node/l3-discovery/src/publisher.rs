//! Publishes to the DHT: which agents this node has, where it can be dialled, and the key logs of its agents' publishers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::RoutingError;
use althing_protocol::KeyLog;
use althing_protocol::object::{self, Authored};
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_td::Exposure;
use tokio::sync::mpsc;
use tokio::time::interval;

use crate::machine::publish_schedule::{self, PublishSchedule, Settling};
use crate::state::{LocalAgent, Shared};

/// How often it is checked whether something is to be published.
const LOOK: Duration = Duration::from_secs(1);
/// Records of either kind that are published at one time. Nodes that join at the same time publish at the same time, and each
/// record takes a look-up with up to 20 streams.
const AT_ONCE: usize = 1;
/// How long a contact record is valid. It is made anew when it is published again.
const CONTACT_MS: u64 = 12 * 60 * 60 * 1_000;

/// What was published, and what is due.
struct Publisher {
    shared: Arc<Shared>,
    providers: PublishSchedule,
    values: PublishSchedule,
    settling: Settling,
    /// This node's addresses when they were published last.
    addresses: Vec<String>,
    outcomes: mpsc::Sender<(RecordKey, bool)>,
}

/// Publishes for as long as the node runs.
pub(crate) async fn run(shared: Arc<Shared>) {
    let again_ms = u64::try_from(shared.config.republish.as_millis()).unwrap_or(u64::MAX);
    let (outcomes, mut ended) = mpsc::channel(2 * AT_ONCE);
    let mut keys = shared.communication.keys().changes();
    let mut publisher = Publisher {
        shared,
        providers: PublishSchedule::new(again_ms),
        values: PublishSchedule::new(again_ms),
        settling: Settling::default(),
        addresses: Vec::new(),
        outcomes,
    };
    let mut look = interval(LOOK);
    loop {
        tokio::select! {
            biased;
            Some((key, ok)) = ended.recv() => publisher.ended(key, ok),
            _ = look.tick() => {
                let changed = keys.has_changed();
                drop(keys.borrow_and_update());
                publisher.look(changed);
            }
        }
        publisher.publish_due();
    }
}

impl Publisher {
    /// The publication of a record ended; `ok` when at least one node took it.
    fn ended(&mut self, key: RecordKey, ok: bool) {
        let (now_ms, nodes) = (self.shared.now().monotonic_ms, self.shared.network_size());
        self.providers.ended(key, ok, now_ms, nodes);
        self.values.ended(key, ok, now_ms, nodes);
    }

    /// Updates what is to be published; `rekeyed` when key logs have changed.
    fn look(&mut self, rekeyed: bool) {
        let network = self.shared.communication.network();
        for gone in self.providers.set(&self.shared.keys_of_agents()) {
            network.routing().stop_providing(gone);
        }
        let addresses = network.announced();
        if addresses != self.addresses || rekeyed {
            // What was published is outdated.
            self.values.set(&BTreeSet::new());
            self.addresses = addresses;
        }
        self.values.set(&self.shared.keys_of_values());
    }

    /// Publishes what is due.
    fn publish_due(&mut self) {
        let (now_ms, nodes) = (self.shared.now().monotonic_ms, self.shared.network_size());
        if !self.settling.look(now_ms, nodes) {
            return;
        }
        for key in self.values.due(now_ms, nodes, AT_ONCE) {
            let Some(value) = self.shared.value(key) else {
                self.values.ended(key, false, now_ms, nodes);
                continue;
            };
            let (network, outcomes) = (self.shared.communication.network().clone(), self.outcomes.clone());
            tokio::spawn(async move {
                let outcome = network.routing().put(key, value.encode()).await;
                // An error means that the node is gone.
                let _ = outcomes.send((key, published(outcome.map(drop)))).await;
            });
        }
        for key in self.providers.due(now_ms, nodes, AT_ONCE) {
            let (network, outcomes) = (self.shared.communication.network().clone(), self.outcomes.clone());
            tokio::spawn(async move {
                let outcome = network.routing().provide(key).await;
                let _ = outcomes.send((key, published(outcome.map(drop)))).await;
            });
        }
    }
}

impl Shared {
    fn network_size(&self) -> u64 {
        publish_schedule::network_size(self.key.public(), &self.communication.network().routing().nodes())
    }

    /// The keys under which this node's public agents are found.
    fn keys_of_agents(&self) -> BTreeSet<RecordKey> {
        let network = &self.config.network;
        let state = self.lock();
        let public = state.local.iter().filter(|(_, local)| local.exposure == Exposure::Public);
        public.flat_map(|(id, local)| publish_schedule::keys(network, id, local.description.capabilities())).collect()
    }

    /// The keys of the values that this node publishes: its contact, the key logs of its public agents' publishers, and those of
    /// watched publishers whose keys have changed.
    fn keys_of_values(&self) -> BTreeSet<RecordKey> {
        let network = &self.config.network;
        let watched = self.communication.keys().watched();
        let changed = watched.into_iter().filter(|(_, log)| log.is_some()).map(|(publisher, _)| publisher);
        let state = self.lock();
        let public = state.local.values().filter(|local| local.exposure == Exposure::Public);
        let publishers = public.map(|local| local.verified.agent.publisher()).chain(changed);
        let logs = publishers.map(|publisher| RecordKey::key_log(network, publisher));
        logs.chain([RecordKey::contact(network, self.key.public())]).collect()
    }

    /// Where this node can be dialled, signed; nothing for a node that listens nowhere.
    pub(crate) fn contact(&self, life_ms: u64) -> Option<Authored<Contact>> {
        let mut addresses = self.communication.network().announced();
        addresses.truncate(althing_protocol::limits::CONTACT_ADDRESSES_MAX);
        let now_ms = self.clock.now_ms();
        let contact = Contact::new(self.key.public(), now_ms, now_ms, now_ms + life_ms, addresses);
        object::sign(contact, &self.config.network, "", &self.key).ok()
    }

    /// The value of one of these keys, as it is now; nothing for a node that listens nowhere.
    fn value(&self, key: RecordKey) -> Option<Value> {
        let network = &self.config.network;
        if key == RecordKey::contact(network, self.key.public()) {
            return self.contact(CONTACT_MS).map(Value::Contact);
        }
        let watched = self.communication.keys().watched();
        let mut changed = watched.into_iter().filter_map(|(_, log)| log);
        if let Some(log) = changed.find(|log| RecordKey::key_log(network, log.publisher()) == key) {
            return Some(Value::KeyLog(KeyLog::clone(&log)));
        }
        let state = self.lock();
        let of_key = |local: &&LocalAgent| RecordKey::key_log(network, local.verified.agent.publisher()) == key;
        state.local.values().find(of_key).map(|local| Value::KeyLog(KeyLog::clone(&local.verified.key_log)))
    }
}

/// Did any node take it?
fn published(outcome: Result<(), RoutingError>) -> bool {
    outcome.inspect_err(|reason| tracing::debug!(%reason, "the DHT did not take a record")).is_ok()
}
