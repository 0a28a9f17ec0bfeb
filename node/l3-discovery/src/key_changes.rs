//! Applies key changes: agents whose keys were revoked or rotated away leave the catalogue, and the DHT is asked for the key
//! logs of the publishers that this node trusts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::PublisherId;
use althing_protocol::record::{RecordKey, Value};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use crate::state::Shared;

/// How often expired keys are looked for, and whether a key log is to be asked for.
const LOOK: Duration = Duration::from_secs(2);
/// The DHT is asked for the log of one publisher this often.
const AGAIN_MS: u64 = 10 * 60 * 1_000;

/// Drops agents as soon as their keys are known to be invalid, for as long as the node runs.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.communication.keys().changes();
    let mut look = interval(LOOK);
    let mut asked = BTreeMap::new();
    let mut listed_before = BTreeSet::new();
    loop {
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() { return },
            _ = look.tick() => ask_for_one(&shared, &mut asked),
        }
        let keys = shared.communication.keys();
        let now_ms = shared.clock.now_ms();
        let dropped = shared.lock().catalogue.drop_agents(|agent| keys.holds(agent, now_ms).is_err());
        // Key logs that no agent here needs are forgotten.
        let listed = shared.lock().catalogue.publishers();
        if listed != listed_before {
            keys.set_listed(listed.clone());
            listed_before = listed;
        }
        if dropped > 0 {
            tracing::info!(agents = dropped, "agents are gone: their publishers' keys are not valid any more");
        }
    }
}

/// Asks the DHT for the key log of the watched publisher whose turn it is.
fn ask_for_one(shared: &Arc<Shared>, asked: &mut BTreeMap<PublisherId, u64>) {
    if shared.communication.network().routing().nodes().is_empty() {
        return;
    }
    let watched = shared.communication.keys().watched();
    asked.retain(|publisher, _| watched.iter().any(|(other, _)| other == publisher));
    let now_ms = shared.now().monotonic_ms;
    let due = |publisher: &PublisherId| asked.get(publisher).is_none_or(|at_ms| now_ms >= at_ms + AGAIN_MS);
    if let Some(publisher) = watched.into_iter().map(|(publisher, _)| publisher).find(due) {
        asked.insert(publisher, now_ms);
        tokio::spawn(look_up_log(shared.clone(), publisher));
    }
}

async fn look_up_log(shared: Arc<Shared>, publisher: PublisherId) {
    let (sender, mut received) = mpsc::channel(althing_communication::routing::RESULTS);
    let key = RecordKey::key_log(&shared.config.network, publisher);
    let routing = shared.communication.network().routing();
    // What was received until then counts.
    let _ = timeout(shared.config.lookup_patience, routing.get(key, sender)).await;
    let now_ms = shared.clock.now_ms();
    while let Ok(bytes) = received.try_recv() {
        if let Ok(Value::KeyLog(log)) = Value::open(key, &bytes, &shared.config.network, now_ms)
            && let Err(reason) = shared.communication.keys().learn(log)
        {
            tracing::warn!(%publisher, %reason, "a key log from the DHT is refused");
        }
    }
}
