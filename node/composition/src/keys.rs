//! Persistence of the keyring: the owner's keys are applied to it, and what is heard of publishers' keys is stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::Keys;
use althing_protocol::keyring::{Forgotten, Row, Stored, Taken, Withdrawal};
use althing_protocol::{KeyLog, PublicKey, PublisherId, object};
use althing_store::{Batch, Durability, Family, Range, Store, WriteError};

use crate::error::NodeError;
use crate::owner::{self, Owner};

/// Key logs and withdrawals that peers sent, each under a name of its own.
pub const HEARD_KEYS: Family = Family("althing.keys");
/// Before a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Rows of [`HEARD_KEYS`] that are read or written at once: 2 MiB of the longest logs.
const ROWS_AT_ONCE: usize = 32;
/// Prefixes of the rows' names.
const LOG: &str = "log ";
const WITHDRAWAL: &str = "withdrawal ";
/// Sorts before [`LOG`]: the remembered end of a log is loaded before another log is checked against it.
const FORGOTTEN: &str = "forgotten ";

/// Loads the owner's keys and what is stored into `keys`. `watched` are the owner and the publishers that it trusts.
pub fn load(
    store: &dyn Store,
    keys: &Keys,
    owner: &Owner,
    watched: BTreeSet<PublisherId>,
    now_ms: u64,
) -> Result<(), NodeError> {
    // First of all: the keyring reserves room for these.
    keys.watch(watched.iter().copied());
    // The owner's own files come first: what peers sent may be from a thief of a key.
    apply_owner_keys(keys, owner, now_ms);
    let mut range = Range::all(ROWS_AT_ONCE);
    loop {
        let rows = store.scan(HEARD_KEYS, range)?;
        let Some((last, _)) = rows.last() else { break };
        range = Range::all(ROWS_AT_ONCE).after(last.clone());
        for (name, row) in &rows {
            if let Err(reason) = load_row(keys, &watched, name, row, now_ms) {
                // Usually a withdrawal that has expired.
                tracing::debug!(reason, "a stored key event is no longer valid");
                keys.put_back(row_named(name));
            }
        }
    }
    Ok(())
}

/// Loads one row. Withdrawals are checked against logs, and their names sort behind.
fn load_row(keys: &Keys, watched: &BTreeSet<PublisherId>, name: &[u8], row: &[u8], now_ms: u64) -> Result<(), String> {
    match row_named(name) {
        Some(Row::Log(publisher)) => {
            let events = owner::decode(row).map_err(|error| error.to_string())?;
            if !watched.contains(&publisher) {
                // No agent of theirs is in use yet: the length and the end are enough to refuse an older log.
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
        None => Err("its name is unknown".to_owned()),
    }
}

/// Applies the owner's log and withdrawals to the keyring.
pub fn apply_owner_keys(keys: &Keys, owner: &Owner, now_ms: u64) {
    let log = Arc::new(owner.log.clone());
    if let Err(reason) = keys.learn(log.clone()) {
        tracing::error!(%reason, "the keyring refuses this owner's log: peers sent another one");
    }
    for withdrawal in &owner.withdrawals {
        if let Err(reason) = keys.withdraw(withdrawal, Some(&log), now_ms) {
            tracing::debug!(%reason, "a withdrawal has expired");
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

/// Stores what is heard of keys, in bounded batches, until the keyring is dropped.
pub async fn persist(store: &dyn Store, keys: &Keys) {
    let mut changes = keys.changes();
    loop {
        let (written, failed) = persist_changed(store, keys).await;
        if let Some(error) = failed {
            tracing::error!(%error, "changes of publishers' keys could not be stored; it is tried again");
            tokio::time::sleep(RETRY).await;
        } else if written < ROWS_AT_ONCE && changes.changed().await.is_err() {
            return;
        }
    }
}

/// Writes some of the changed rows: gives how many, and the error if the write failed; then they count as changed again.
async fn persist_changed(store: &dyn Store, keys: &Keys) -> (usize, Option<WriteError>) {
    let changed = keys.take_changed(ROWS_AT_ONCE);
    let mut batch = Batch::new();
    for (row, stored) in &changed {
        match stored {
            Some(stored) => batch.put(HEARD_KEYS, name_of(*row), bytes_of(stored)),
            None => batch.delete(HEARD_KEYS, name_of(*row)),
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
