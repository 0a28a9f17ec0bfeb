//! Entries that another leader's replace are not deleted from disk.

use althing_coordination::RAFT_LOG;
use althing_protocol::PublicKey;
use althing_store::{Batch, MemoryStore, Range, Store as _};

use super::{Changed, Flaw, kept};

/// A group's bytes at the beginning of each key.
const GROUP_BYTES: usize = 32;

pub(super) struct TruncationForgotten;

impl Flaw for TruncationForgotten {
    fn name(&self) -> &'static str {
        "truncation-forgotten"
    }

    fn on_write(&self, _: PublicKey, batch: Batch, live: &MemoryStore) -> Changed {
        let deleted: Vec<&[u8]> =
            batch.changes().filter(|(.., value)| value.is_none()).map(|(_, key, _)| key).collect();
        // What is deleted at the end of the log, not at its beginning, and not all of it.
        let is_truncation = deleted.first().is_some_and(|first| {
            let prefix = &first[..GROUP_BYTES];
            let is_deleted = |range: Range| {
                let rows = live.scan(RAFT_LOG, range).expect("a store in memory");
                rows.iter().any(|(key, _)| deleted.contains(&key.as_slice()))
            };
            is_deleted(Range::prefix(prefix, 1).reversed()) && !is_deleted(Range::prefix(prefix, 1))
        });
        Changed::nothing(kept(&batch, |family, _, value| !is_truncation || family != RAFT_LOG || value.is_some()))
    }
}
