//! Entries are acknowledged before they are on disk.

use althing_coordination::RAFT_LOG;
use althing_protocol::PublicKey;
use althing_store::{Batch, MemoryStore};

use super::{Changed, Flaw};

pub(super) struct SyncSkipped;

impl Flaw for SyncSkipped {
    fn name(&self) -> &'static str {
        "sync-skipped"
    }

    fn on_write(&self, _: PublicKey, batch: Batch, _: &MemoryStore) -> Changed {
        let is_durable = batch.changes().all(|(family, ..)| family != RAFT_LOG);
        Changed { batch, is_durable }
    }
}
