//! Who has the policy sets of a node.

use std::sync::{Mutex, OnceLock};

use althing_protocol::Digest;
use futures::future::BoxFuture;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

/// The policy sets of this node, for orders about them.
pub trait PolicySets: Send + Sync + 'static {
    /// The digest of the text of the set in force; none where there is no set.
    fn in_force(&self) -> Option<Digest>;

    /// The text of the set of that digest, if it is kept here.
    fn text(&self, digest: &Digest) -> Option<String>;

    /// Puts a set of the owner's in force, whole or not at all; or why not.
    fn load(&self, text: String) -> BoxFuture<'_, Result<(), String>>;
}

/// Who has the policy sets here, and which one could not be loaded.
#[derive(Default)]
pub(super) struct PolicySetPort {
    sets: OnceLock<Box<dyn PolicySets>>,
    failure: Mutex<Option<(Digest, String)>>,
    /// The serial of the order that was followed last, which is on disk: a set that was put in force here since then is newer.
    followed: Mutex<Option<u64>>,
    /// One is loaded at a time.
    loading: AsyncMutex<()>,
}

impl PolicySetPort {
    /// With the serial of the order that was followed last, before a restart too.
    pub fn new(followed: Option<u64>) -> PolicySetPort {
        PolicySetPort { followed: Mutex::new(followed), ..PolicySetPort::default() }
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

    pub fn follow(&self, serial: u64) {
        *self.followed.lock().expect("no holder of the serial panics") = Some(serial);
    }

    pub fn set_failure(&self, failure: Option<(Digest, String)>) {
        *self.failure.lock().expect("no holder of the failure panics") = failure;
    }
}
