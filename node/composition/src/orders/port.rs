//! Who has the policy sets of a node, and which order about them was followed last.

use std::sync::{Arc, Mutex, OnceLock};

use althing_protocol::Digest;
use althing_store::{Batch, Durability, Family, Store};
use futures::future::BoxFuture;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use crate::error::NodeError;

/// The serial of the order about a policy set that was followed last.
pub const FOLLOWED: Family = Family("governance.followed");
/// Its key.
pub(super) const POLICY_SET: &[u8] = b"policy set";

/// The policy sets of this node, for orders about them.
pub trait PolicySets: Send + Sync + 'static {
    /// The digest of the text of the set in force, by which orders name it; none where there is no set.
    fn in_force(&self) -> Option<Digest>;

    /// The digest of the set in force by which its owner, decisions and the audit log name it.
    fn set_digest(&self) -> Option<Digest>;

    /// The text of the set of that digest, if it is kept here.
    fn text(&self, digest: &Digest) -> Option<String>;

    /// Puts a set of the owner's in force, whole or not at all; or why not.
    fn load(&self, text: String) -> BoxFuture<'_, Result<(), String>>;
}

/// Who has the policy sets here, and which one could not be loaded.
pub(super) struct PolicySetPort {
    store: Arc<dyn Store>,
    sets: OnceLock<Box<dyn PolicySets>>,
    failure: Mutex<Option<(Digest, String)>>,
    /// The serial of the order that was followed last, which is on disk: a set that was put in force here since then is newer.
    followed: Mutex<Option<u64>>,
    /// One is loaded at a time.
    loading: AsyncMutex<()>,
}

impl PolicySetPort {
    /// With the serial of the order that was followed last, before a restart too.
    pub fn open(store: Arc<dyn Store>) -> Result<PolicySetPort, NodeError> {
        let followed = store.read(FOLLOWED, POLICY_SET)?.map(|row| {
            let serial = <[u8; 8]>::try_from(row.as_slice()).map(u64::from_be_bytes);
            // Else an older set could take the place of a newer one.
            serial.map_err(|_| NodeError::Orders {
                of: "the policy set that was followed last".to_owned(),
                why: "its serial has 8 bytes: restore the node's data folder from a backup".to_owned(),
            })
        });
        let followed = Mutex::new(followed.transpose()?);
        let (sets, failure, loading) = Default::default();
        Ok(PolicySetPort { store, sets, failure, followed, loading })
    }

    /// Who has them from now on; false where that was known.
    pub fn set(&self, sets: Box<dyn PolicySets>) -> bool {
        self.sets.set(sets).is_ok()
    }

    /// Who has them, once that is known.
    pub fn get(&self) -> Option<&dyn PolicySets> {
        self.sets.get().map(AsRef::as_ref)
    }

    /// Waits until no set is loaded; for as long as what is given is held, none is.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    pub fn failure(&self) -> Option<(Digest, String)> {
        self.failure.lock().expect("no holder of the failure panics").clone()
    }

    pub fn is_followed(&self, serial: u64) -> bool {
        self.followed.lock().expect("no holder of the serial panics").is_some_and(|followed| followed >= serial)
    }

    /// The order of that serial was followed, or a set that is newer was put in force here: it is not followed again, after a restart
    /// neither.
    pub async fn follow(&self, serial: u64) {
        if self.is_followed(serial) {
            return;
        }
        *self.followed.lock().expect("no holder of the serial panics") = Some(serial);
        let mut batch = Batch::new();
        batch.put(FOLLOWED, POLICY_SET, serial.to_be_bytes());
        if let Err(error) = self.store.write(batch, Durability::Synced).await {
            tracing::error!(%error, serial, "that a policy set was taken over could not be written");
        }
    }

    pub fn set_failure(&self, failure: Option<(Digest, String)>) {
        *self.failure.lock().expect("no holder of the failure panics") = failure;
    }
}
