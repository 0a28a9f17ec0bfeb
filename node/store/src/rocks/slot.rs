//! Where the open database is, and why it takes no writes.

use super::damage::is_damage;
use crate::StoreConfig;
use rocksdb::DB;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The database, unless it is being opened again.
pub(super) struct DatabaseSlot {
    pub(super) db: RwLock<Option<Arc<DB>>>,
    pub(super) config: StoreConfig,
    /// Why it takes no writes, if it does not and may be opened again.
    stopped: Mutex<Option<String>>,
}

impl DatabaseSlot {
    pub(super) fn of(db: DB, config: &StoreConfig) -> DatabaseSlot {
        DatabaseSlot { db: RwLock::new(Some(Arc::new(db))), config: config.clone(), stopped: Mutex::default() }
    }

    /// The database; none while it cannot be opened again.
    pub(super) fn get(&self) -> Option<Arc<DB>> {
        self.db.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn stopped(&self) -> MutexGuard<'_, Option<String>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that it takes no writes. Where that is damage, opening it again would only hide it.
    pub(super) fn stop(&self, why: &str) {
        if !is_damage(why) {
            self.stopped().get_or_insert_with(|| why.to_owned());
        }
    }

    /// Why it takes no writes, if it may be opened again.
    pub(super) fn why_stopped(&self) -> Option<String> {
        self.stopped().clone()
    }
}
