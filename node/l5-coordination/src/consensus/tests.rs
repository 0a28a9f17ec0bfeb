//! openraft's own suite of tests, on both stores; and what the suite does not ask.

use std::sync::Arc;

use althing_protocol::GroupId;
use althing_store::{MemoryStore, RocksStore, Store, StoreConfig};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

use super::log_rows::{RAFT_LOG, RAFT_STATE};
use super::log_store::LogStore;
use super::pen::Pen;
use super::state_store::{RAFT_SNAPSHOTS, StateStore};
use super::types::Types;

mod endings;
mod held;
mod logs;
mod states;

/// Bytes of entries after which a snapshot is due.
const LOG_BYTES: u64 = 64 << 20;

/// Builds stores; on disk if it should.
struct Builder {
    on_disk: bool,
}

const GROUP: [u8; 32] = [3; 32];

impl StoreBuilder<Types, LogStore, StateStore, Option<tempfile::TempDir>> for Builder {
    async fn build(&self) -> Result<(Option<tempfile::TempDir>, LogStore, StateStore), StorageError<Types>> {
        let families = [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS];
        let group = GroupId::from_digest(GROUP);
        let folder = self.on_disk.then(|| tempfile::tempdir().expect("a folder"));
        let store: Arc<dyn Store> = match &folder {
            Some(folder) => {
                Arc::new(RocksStore::open(folder.path(), &families, StoreConfig::default()).expect("a store"))
            }
            None => Arc::new(MemoryStore::new(&families)),
        };
        let pen = Pen::new(store);
        let log = LogStore::open(group, pen.clone()).expect("a log");
        let state = StateStore::open(group, "test", pen, LOG_BYTES).expect("a state");
        Ok((folder, log, state))
    }
}

#[tokio::test]
async fn the_storage_suite_of_openraft_passes_in_memory() {
    Suite::test_all(Builder { on_disk: false }).await.expect("it passes");
}

#[tokio::test]
async fn the_storage_suite_of_openraft_passes_on_disk() {
    Suite::test_all(Builder { on_disk: true }).await.expect("it passes");
}
