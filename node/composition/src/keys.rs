//! Keys while the node runs: its owner's, as they change on disk, and what it has heard of everybody's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::Keys;
use althing_protocol::keyring::{Forgotten, Row, Stored, Taken, Withdrawal};
use althing_protocol::{KeyLog, PublicKey, PublisherId, object};
use althing_store::{Batch, Durability, Family, Range, Store, WriteError};
use serde_json::{Value, json};

use crate::error::NodeError;
use crate::node::Node;
use crate::owner::{self, Owner};
use crate::publish;

/// Key logs and withdrawals that were heard of, each under a name of its own.
pub const HEARD: Family = Family("althing.keys");
/// How often it is looked whether the owner's keys have changed.
const LOOK: Duration = Duration::from_secs(1);
/// Rows of [`HEARD`] that are read, or written, at once: of the longest logs 2 MiB.
const ROWS_AT_ONCE: usize = 32;
/// What the rows' names begin with.
const LOG: &str = "log ";
const WITHDRAWAL: &str = "withdrawal ";
/// Sorts before [`LOG`]: what is remembered of a log is there before another is judged by it.
const FORGOTTEN: &str = "forgotten ";

/// Tells `keys` what the owner says, and what was heard before this start. `near` are the owner and those whom it trusts.
pub fn recall(
    store: &dyn Store,
    keys: &Keys,
    owner: &Owner,
    near: BTreeSet<PublisherId>,
    now_ms: u64,
) -> Result<(), NodeError> {
    // Before all: what these have done with their keys has room kept for it.
    keys.watch(near.iter().copied());
    // The owner's own word comes first: what was heard may be a thief's.
    speak(keys, owner, now_ms);
    let mut range = Range::all(ROWS_AT_ONCE);
    loop {
        let rows = store.scan(HEARD, range)?;
        let Some((last, _)) = rows.last() else { break };
        range = Range::all(ROWS_AT_ONCE).after(last.clone());
        for (name, row) in &rows {
            if let Err(reason) = recall_row(keys, &near, name, row, now_ms) {
                // A withdrawal that is over, most of all.
                tracing::debug!(reason, "what was heard of keys is not taken any more");
                keys.put_back(row_named(name));
            }
        }
    }
    Ok(())
}

/// Withdrawals are judged by logs, and their names come behind.
fn recall_row(keys: &Keys, near: &BTreeSet<PublisherId>, name: &[u8], row: &[u8], now_ms: u64) -> Result<(), String> {
    match row_named(name) {
        Some(Row::Log(publisher)) => {
            let events = owner::decode(row).map_err(|error| error.to_string())?;
            if !near.contains(&publisher) {
                // Nothing of theirs is in use yet: the length and the end are enough to refuse an older log.
                keys.recall(Forgotten::of_events(&events).ok_or("it is empty")?);
                return Err("nothing of its publisher is in use".to_owned());
            }
            let log = KeyLog::verify(&events).map_err(|error| error.to_string())?;
            keys.learn(log).map(drop).map_err(|error| error.to_string())
        }
        Some(Row::Withdrawal(..)) => {
            let parts = owner::decode(row).map_err(|error| error.to_string())?;
            let (withdrawal, shown) = parts.split_first().ok_or("it is empty")?;
            let shown = Arc::new(KeyLog::verify(shown).map_err(|error| error.to_string())?);
            let withdrawal = object::open::<Withdrawal>(withdrawal, "", "").map_err(|error| error.to_string())?;
            keys.restore(Taken { withdrawal: Arc::new(withdrawal), shown }, now_ms);
            Ok(())
        }
        Some(Row::Forgotten(_)) => {
            keys.recall(Forgotten::decode(row).map_err(|error| error.to_string())?);
            Ok(())
        }
        None => Err("its name is none of ours".to_owned()),
    }
}

/// Tells what the owner says of its keys.
fn speak(keys: &Keys, owner: &Owner, now_ms: u64) {
    let log = Arc::new(owner.log.clone());
    if let Err(reason) = keys.learn(log.clone()) {
        tracing::error!(%reason, "others have heard something else of this owner's keys");
    }
    for withdrawal in &owner.withdrawals {
        if let Err(reason) = keys.withdraw(withdrawal, Some(&log), now_ms) {
            tracing::debug!(%reason, "a withdrawal is over");
        }
    }
}

fn name_of(row: Row) -> String {
    match row {
        Row::Log(publisher) => format!("{LOG}{publisher}"),
        Row::Withdrawal(publisher, node) => format!("{WITHDRAWAL}{publisher} {node}"),
        Row::Forgotten(publisher) => format!("{FORGOTTEN}{publisher}"),
    }
}

fn row_named(name: &[u8]) -> Option<Row> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some(publisher) = name.strip_prefix(LOG) {
        return publisher.parse().ok().map(Row::Log);
    }
    if let Some(publisher) = name.strip_prefix(FORGOTTEN) {
        return publisher.parse().ok().map(Row::Forgotten);
    }
    let (publisher, node) = name.strip_prefix(WITHDRAWAL)?.split_once(' ')?;
    Some(Row::Withdrawal(publisher.parse().ok()?, PublicKey::from_did(node).ok()?))
}

fn bytes_of(stored: &Stored) -> Vec<u8> {
    match stored {
        Stored::Log(log) => owner::encode(log.to_bytes()),
        Stored::Withdrawal(taken) => {
            let withdrawal = std::iter::once(taken.withdrawal.bytes.clone());
            owner::encode(withdrawal.chain(taken.shown.to_bytes()).collect())
        }
        Stored::Forgotten(forgotten) => forgotten.encode(),
    }
}

impl Node {
    /// The owner as it is now.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner.borrow().clone()
    }

    /// There is always room for what the owner, and those who are trusted, do with their keys.
    pub(crate) fn watch_keys(&self) {
        let near = self.trust().publishers().chain([self.owner().id()]).collect::<Vec<_>>();
        self.communication.keys().watch(near);
    }

    /// How the owner's keys are: `state` (`active`, `rotating`, `revoked`, `outdated` or `withdrawn`), `key`, `events`.
    #[must_use]
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
            owner.state(now_ms)
        };
        json!({ "state": state, "key": owner::key_name(owner.key.public()), "events": owner.log.len() })
    }

    /// Follows the owner's keys for as long as the node runs.
    pub(crate) async fn follow_owner(&self) {
        let mut owners = self.owner.clone();
        while owners.changed().await.is_ok() {
            let owner = owners.borrow_and_update().clone();
            if let Err(error) = self.owner_changed(owner).await {
                tracing::error!(%error, "not all agents follow the owner's new key; it is tried again");
                tokio::time::sleep(LOOK).await;
                owners.mark_changed();
            }
        }
        // Nobody can change it any more.
        std::future::pending().await
    }

    async fn owner_changed(&self, owner: Owner) -> Result<(), NodeError> {
        let now_ms = self.clock.now_ms();
        let revoked = owner.log.revoked();
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
    async fn sign_agents_anew(&self, owner: &Owner, now_ms: u64) -> Result<(), NodeError> {
        let _changing = self.changing.lock().await;
        let mut outcome = Ok(());
        for added in publish::known(self.store.as_ref())? {
            let kept = match added.signed_anew(owner, self.network(), now_ms) {
                Ok(anew) => publish::keep(self.store.as_ref(), &anew).await,
                Err(failure) => Err(failure),
            };
            outcome = outcome.and(kept);
        }
        outcome
    }

    /// Keeps what is heard of keys, for as long as the node runs.
    pub(crate) async fn keep_heard_keys(&self) {
        keep_heard(self.store.as_ref(), self.communication.keys()).await;
    }
}

/// Keeps what is heard of keys, in batches of a bounded size, until nobody hears any more.
async fn keep_heard(store: &dyn Store, keys: &Keys) {
    let mut changes = keys.changes();
    loop {
        let (written, failed) = keep_changed(store, keys).await;
        if let Some(error) = failed {
            tracing::error!(%error, "what was heard of keys is not kept; it is tried again");
            tokio::time::sleep(LOOK).await;
        } else if written < ROWS_AT_ONCE && changes.changed().await.is_err() {
            return;
        }
    }
}

/// Writes some of what has changed: how much, and why the store did not take it, in which case it is asked for again.
async fn keep_changed(store: &dyn Store, keys: &Keys) -> (usize, Option<WriteError>) {
    let changed = keys.take_changed(ROWS_AT_ONCE);
    let mut batch = Batch::new();
    for (row, stored) in &changed {
        match stored {
            Some(stored) => batch.put(HEARD, name_of(*row), bytes_of(stored)),
            None => batch.delete(HEARD, name_of(*row)),
        };
    }
    if changed.is_empty() {
        return (0, None);
    }
    let failed = store.write(batch, Durability::Synced).await.err();
    if failed.is_some() {
        keys.put_back(changed.iter().map(|(row, _)| *row));
    }
    (changed.len(), failed)
}

#[cfg(test)]
mod tests;
