//! openraft's own suite of tests, on both stores.

use std::sync::Arc;

use althing_protocol::GroupId;
use althing_store::{MemoryStore, RocksStore, Store, StoreConfig};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

use super::log_store::{LogStore, RAFT_LOG, RAFT_STATE};
use super::state_store::{RAFT_SNAPSHOTS, StateStore};
use super::types::Types;

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
        let log = LogStore::open(group, store.clone()).expect("a log");
        let state = StateStore::open(group, "test", store).expect("a state");
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
