//! Keys while the node runs: its owner's, as they change on disk, and what it has heard of everybody's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_communication::Keys;
use althing_protocol::{Digest, KeyLog, PublicKey};
use althing_store::{Batch, Durability, Family, Range, Store};
use serde_json::{Value, json};

use crate::commands::key::state;
use crate::exit::Failure;
use crate::node::Node;
use crate::owner::{self, Owner};
use crate::publish::{self, Added};

/// Key logs and withdrawals that were heard of, each under a name of its own.
pub const HEARD: Family = Family("althing.keys");
/// How often it is looked whether the owner's keys have changed.
const LOOK: Duration = Duration::from_secs(1);
/// Rows of [`HEARD`].
const ROWS_MAX: usize = 10_000;
/// What the rows' names begin with.
const LOG: &str = "log ";
const WITHDRAWAL: &str = "withdrawal ";

/// Tells `keys` what was heard before this start, and what the owner says.
pub fn recall(
    store: &dyn Store,
    keys: &Keys,
    owner: &Owner,
    trusted: &BTreeSet<PublicKey>,
    now_ms: u64,
) -> Result<(), Failure> {
    // Before all: what these have done with their keys has room kept for it.
    keys.watch(trusted.iter().copied().chain([owner.id()]));
    let rows = store.scan(HEARD, Range::all(ROWS_MAX)).map_err(|error| Failure::failed(error.to_string()))?;
    // Withdrawals are judged by logs, and their names come behind.
    for (name, row) in rows {
        let outcome = if name.starts_with(LOG.as_bytes()) {
            let log = owner::decode(&row).map_err(|error| error.to_string());
            let log = log.and_then(|events| KeyLog::verify(&events).map_err(|error| error.to_string()));
            log.and_then(|log| keys.learn(log).map_err(|error| error.to_string()))
        } else {
            keys.withdraw(&row, now_ms).map_err(|error| error.to_string())
        };
        if let Err(reason) = outcome {
            // A withdrawal that is over, most of all.
            tracing::debug!(reason, "what was heard of keys is not taken any more");
        }
    }
    speak(keys, owner, now_ms);
    Ok(())
}

/// Tells what the owner says of its keys.
fn speak(keys: &Keys, owner: &Owner, now_ms: u64) {
    if let Err(reason) = keys.learn(owner.log.clone()) {
        tracing::error!(%reason, "others have heard something else of this owner's keys");
    }
    for withdrawal in &owner.withdrawals {
        if let Err(reason) = keys.withdraw(withdrawal, now_ms) {
            tracing::debug!(%reason, "a withdrawal is over");
        }
    }
}

/// The rows of all that is known, each with the digest that tells it from others under its name.
fn rows(keys: &Keys) -> BTreeMap<String, (Digest, Vec<u8>)> {
    let (logs, withdrawals) = keys.all();
    let logs = logs
        .into_iter()
        .map(|log| (format!("{LOG}{}", log.publisher().did()), (log.head(), owner::encode(log.to_bytes()))));
    let withdrawals = withdrawals.into_iter().map(|withdrawal| {
        let name = format!("{WITHDRAWAL}{} {}", withdrawal.body.publisher.did(), withdrawal.body.node.did());
        (name, (withdrawal.digest(), withdrawal.bytes))
    });
    logs.chain(withdrawals).collect()
}

impl Node {
    /// The owner as it is now.
    pub fn owner(&self) -> Owner {
        self.owner.borrow().clone()
    }

    /// There is always room for what the owner, and those who are trusted, do with their keys.
    pub(crate) fn watch_keys(&self) {
        let near = self.trusted().into_iter().chain([self.owner().id()]);
        self.communication.keys().watch(near);
    }

    /// How the owner's keys are.
    pub fn key_state(&self) -> Value {
        let (owner, now_ms) = (self.owner(), self.clock.now_ms());
        let heard = self.communication.keys().log(owner.id());
        let outdated =
            heard.is_some_and(|log| log.accepts(owner.key.public(), now_ms).is_err() && !owner.log.revoked());
        let state = if outdated {
            "outdated"
        } else if owner.withdrew(self.key.public(), now_ms) {
            "withdrawn"
        } else {
            state(&owner.log, now_ms)
        };
        json!({ "state": state, "key": owner.key.public().did(), "events": owner.log.len() })
    }

    /// Follows the owner's keys on disk for as long as the node runs.
    pub(crate) async fn follow_owner_for_ever(&self) {
        // As it was when the keys were read: they may have changed while the node started.
        let mut followed = self.owner().stamp;
        loop {
            tokio::time::sleep(LOOK).await;
            if owner::stamp(&self.owner_folder) == followed {
                continue;
            }
            // What fails is tried again with the next look.
            match Owner::read(&self.owner_folder) {
                Ok(owner) => {
                    let stamp = owner.stamp;
                    match self.owner_changed(owner).await {
                        Ok(()) => followed = stamp,
                        Err(failure) => {
                            tracing::error!(reason = failure.message, "not all agents follow the owner's new key");
                        }
                    }
                }
                Err(failure) => tracing::error!(reason = failure.message, "the owner's keys cannot be read"),
            }
        }
    }

    async fn owner_changed(&self, owner: Owner) -> Result<(), Failure> {
        let now_ms = self.clock.now_ms();
        let revoked = owner.log.revoked();
        self.owner.send_replace(owner.clone());
        speak(self.communication.keys(), &owner, now_ms);
        if revoked {
            tracing::error!(owner = %owner.id(), "the owner revoked its keys; its agents end");
            self.show_membership(None);
            return self.end_all_agents("the owner revoked its keys").await;
        }
        tracing::info!(owner = %owner.id(), key = %owner.key.public(), "the owner's keys have changed");
        // Every one is tried, whatever becomes of the others.
        let signed = self.sign_agents_anew(&owner, now_ms).await;
        self.renew(now_ms)?;
        signed
    }

    /// Descriptions that an old key signed end with its time.
    async fn sign_agents_anew(&self, owner: &Owner, now_ms: u64) -> Result<(), Failure> {
        let _changing = self.changing.lock().await;
        let mut outcome = Ok(());
        for added in publish::stored(self.store.as_ref())? {
            let kept = match Added::new(added.file, added.folder, owner, &self.config.network, now_ms) {
                Ok(anew) => publish::keep(self.store.as_ref(), &anew).await,
                Err(failure) => Err(failure),
            };
            outcome = outcome.and(kept);
        }
        outcome
    }

    /// Keeps what is heard of keys, for as long as the node runs.
    pub(crate) async fn keep_heard_for_ever(&self) {
        let mut changes = self.communication.keys().changes();
        // What is kept and not known any more, such as withdrawals that are over, is to go.
        let stored = self.store.scan(HEARD, Range::all(ROWS_MAX)).unwrap_or_default();
        let mut kept: BTreeMap<String, Digest> = stored
            .into_iter()
            .filter_map(|(name, _)| Some((String::from_utf8(name).ok()?, Digest::default())))
            .collect();
        loop {
            let rows = rows(self.communication.keys());
            let mut batch = Batch::new();
            for (name, (digest, bytes)) in &rows {
                if kept.get(name) != Some(digest) {
                    batch.put(HEARD, name.as_bytes(), bytes.clone());
                }
            }
            for gone in kept.keys().filter(|name| !rows.contains_key(*name)) {
                batch.delete(HEARD, gone.as_bytes());
            }
            match self.store.write(batch, Durability::Synced).await {
                Ok(()) => kept = rows.into_iter().map(|(name, (digest, _))| (name, digest)).collect(),
                // What fails is tried again with the next change.
                Err(error) => tracing::error!(%error, "what was heard of keys is not kept"),
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
