//! Heeding what is heard of keys: agents of keys that speak for nobody any more are found no longer, and the table is
//! asked for the logs of those whom this node trusts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_protocol::keyring::KeyringError;
use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{PublisherId, VerifiedAgent};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use crate::service::Discovery;

/// How often it is looked whether keys have lost their word because their time is over, and whether a log is to be
/// asked for.
const LOOK: Duration = Duration::from_secs(2);
/// The table is asked for the log of one publisher this often.
const AGAIN_MS: u64 = 10 * 60 * 1_000;

impl Discovery {
    /// Does an agent hold by what is known of keys, its own key log included?
    pub(crate) fn heed(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        let keys = self.shared.communication.keys();
        match keys.learn_with_agent(agent.key_log.clone(), &self.shared.communication.origin(agent.node)) {
            // Without room for it the log that is shown counts.
            Ok(_) | Err(KeyringError::Full) => {}
            Err(forked) => return Err(forked),
        }
        keys.holds(agent, now_ms)
    }

    /// Drops what does not hold any more, as soon as that is known, for as long as the node runs.
    pub(crate) async fn heed_for_ever(self) {
        let mut changes = self.shared.communication.keys().changes();
        let mut look = interval(LOOK);
        let mut asked = BTreeMap::new();
        let mut said = BTreeSet::new();
        loop {
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return },
                _ = look.tick() => self.ask_for_one(&mut asked),
            }
            let keys = self.shared.communication.keys();
            let now_ms = self.shared.clock.now_ms();
            let dropped = self.lock().catalogue.drop_agents(|agent| keys.holds(agent, now_ms).is_err());
            // What nobody's agents here need of keys is forgotten.
            let listed = self.lock().catalogue.publishers();
            if listed != said {
                keys.set_listed(listed.clone());
                said = listed;
            }
            if dropped > 0 {
                tracing::info!(agents = dropped, "agents are gone: the keys behind them speak for nobody any more");
            }
        }
    }

    /// Asks the table for the log of the watched publisher whose turn it is.
    fn ask_for_one(&self, asked: &mut BTreeMap<PublisherId, u64>) {
        let network = self.shared.communication.network();
        if network.routing().nodes().is_empty() {
            return;
        }
        let watched = self.shared.communication.keys().watched();
        asked.retain(|publisher, _| watched.iter().any(|(other, _)| other == publisher));
        let now_ms = self.now().monotonic_ms;
        let due = |publisher: &PublisherId| asked.get(publisher).is_none_or(|at_ms| now_ms >= at_ms + AGAIN_MS);
        if let Some(publisher) = watched.into_iter().map(|(publisher, _)| publisher).find(due) {
            asked.insert(publisher, now_ms);
            tokio::spawn(self.clone().look_up_log(publisher));
        }
    }

    async fn look_up_log(self, publisher: PublisherId) {
        let (sender, mut heard) = mpsc::channel(althing_communication::routing::RESULTS);
        let key = RecordKey::key_log(&self.shared.config.network, publisher);
        let routing = self.shared.communication.network().routing();
        // What was heard until then counts.
        let _ = timeout(self.shared.config.lookup_patience, routing.get(key, sender)).await;
        let now_ms = self.shared.clock.now_ms();
        while let Ok(bytes) = heard.try_recv() {
            if let Ok(Value::KeyLog(log)) = Value::open(key, &bytes, &self.shared.config.network, now_ms)
                && let Err(reason) = self.shared.communication.keys().learn(log)
            {
                tracing::warn!(%publisher, %reason, "a key log of the table is not taken");
            }
        }
    }
}
