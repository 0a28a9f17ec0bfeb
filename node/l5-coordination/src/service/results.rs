//! Results that are too large for the log: kept by the member that made them, under their digest, and fetched from there by
//! whoever reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::Digest;
use althing_protocol::group::{GroupId, Reference};
use althing_store::{Batch, Durability, Family, Range, Store};
use tokio::time::Instant;

use crate::consensus::wire::Fetched;
use crate::error::GroupError;

/// The results of a node: `i`, a group's 32 bytes and a digest, with the number of bytes; `p`, both, and the number of a part.
pub const RESULTS: Family = Family("althing.group-results");
/// Bytes of one result.
pub const RESULT_BYTES_MAX: usize = 2 << 20;
/// Bytes of each part but the last one.
pub const PART_BYTES: usize = 256 << 10;
/// Bytes of the results that a node holds for one group.
pub const HELD_BYTES_MAX: usize = 64 << 20;
/// Results that a node holds for one group.
pub(super) const HELD_MAX: usize = 1_024;
/// After its start a node deletes nothing for this long: what it sent before may still be recorded.
const SETTLED: Duration = Duration::from_secs(120);
/// Rows that are deleted at once.
const SWEEP_ROWS: usize = 64;

/// What a member holds for its group.
pub(super) struct Results {
    /// Those that the group has not recorded yet, and how often.
    under_way: Mutex<BTreeMap<Digest, usize>>,
    /// One is kept at a time, so that the bounds hold.
    pub keeping: tokio::sync::Mutex<()>,
    since: Instant,
}

impl Results {
    pub fn new() -> Results {
        Results { under_way: Mutex::default(), keeping: tokio::sync::Mutex::default(), since: Instant::now() }
    }

    /// Keeps what the reference names, whatever the state says, until the result is dropped.
    pub fn hold(self: &Arc<Results>, reference: Reference) -> ResultHold {
        *self.under_way.lock().expect("no panic").entry(reference.digest).or_default() += 1;
        ResultHold { reference, results: self.clone() }
    }

    /// What is kept whatever the state says; nothing, while all must be kept.
    pub fn under_way(&self) -> Option<BTreeSet<Digest>> {
        let is_settled = self.since.elapsed() >= SETTLED;
        is_settled.then(|| self.under_way.lock().expect("no panic").keys().copied().collect())
    }
}

/// Keeps a result for at least as long as this is not dropped.
pub(super) struct ResultHold {
    pub reference: Reference,
    results: Arc<Results>,
}

impl Drop for ResultHold {
    fn drop(&mut self) {
        let mut under_way = self.results.under_way.lock().expect("no panic");
        if let Some(count) = under_way.get_mut(&self.reference.digest) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.reference.digest);
            }
        }
    }
}

/// The key of a row.
pub(super) fn key(kind: u8, group: GroupId, digest: &[u8], part: &[u8]) -> Vec<u8> {
    [&[kind], group.as_bytes().as_slice(), digest, part].concat()
}

pub(super) fn part_key(group: GroupId, digest: &Digest, number: u32) -> Vec<u8> {
    key(b'p', group, digest, &number.to_be_bytes())
}

/// One part of a result that this node holds.
pub(super) fn part(store: &dyn Store, group: GroupId, digest: &Digest, number: u32) -> Result<Fetched, GroupError> {
    let part = store.read(RESULTS, &part_key(group, digest, number))?;
    Ok(part.map_or(Fetched::NotHeld, |bytes| Fetched::Part(bytes.into())))
}

/// Deletes the rows that begin so.
pub(super) async fn delete(store: &dyn Store, prefix: Vec<u8>) -> Result<(), GroupError> {
    loop {
        let keys = store.keys(RESULTS, Range::prefix(prefix.clone(), SWEEP_ROWS))?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for key in keys {
            batch.delete(RESULTS, key);
        }
        store.write(batch, Durability::Buffered).await?;
    }
}

/// Deletes all results that are held for a group.
pub(super) async fn delete_all(store: &dyn Store, group: GroupId) -> Result<(), GroupError> {
    delete(store, key(b'i', group, &[], &[])).await?;
    delete(store, key(b'p', group, &[], &[])).await
}
