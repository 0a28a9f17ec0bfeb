//! Whom this node trusts, kept in its store.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_communication::{Communication, Trust};
use althing_protocol::CallerId;
use althing_store::{Batch, Durability, Family, Range, Store};
use tokio::sync::watch;

use crate::error::NodeError;
use crate::events::{Event, Events};

/// Nodes and owners that this node trusts, by their printed ids.
pub const TRUSTED: Family = Family("althing.trusted");
/// Nodes and owners that may be trusted.
const TRUSTED_MAX: usize = 10_000;

/// Whom this node trusts.
pub struct TrustedPeers {
    store: Arc<dyn Store>,
    communication: Communication,
    trust: watch::Sender<Trust>,
    events: Events,
}

impl TrustedPeers {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        communication: Communication,
        trust: watch::Sender<Trust>,
        events: Events,
    ) -> TrustedPeers {
        TrustedPeers { store, communication, trust, events }
    }

    /// Trusts a node or an owner, or stops to trust it.
    ///
    /// # Errors
    /// [`NodeError::Write`].
    pub async fn set(&self, id: CallerId, trusted: bool) -> Result<(), NodeError> {
        let mut batch = Batch::new();
        if trusted {
            batch.put(TRUSTED, id.to_string(), Vec::new());
        } else {
            batch.delete(TRUSTED, id.to_string());
        }
        self.store.write(batch, Durability::Synced).await?;
        let is_other = self
            .trust
            .send_if_modified(|trust| if trusted { trust.trusted.insert(id) } else { trust.trusted.remove(&id) });
        self.watch_keys();
        if is_other {
            self.events.note(Event::TrustChange { id: id.to_string(), trusted });
        }
        Ok(())
    }

    /// Nodes and owners that are trusted.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<CallerId> {
        self.trust.borrow().trusted.clone()
    }

    /// Watches the keys of the owner and of trusted publishers: the keyring always has room for these.
    pub(crate) fn watch_keys(&self) {
        let watched: Vec<_> = {
            let trust = self.trust.borrow();
            trust.publishers().chain([trust.owner]).collect()
        };
        self.communication.keys().watch(watched);
    }
}

/// Reads nodes and owners that are trusted from the store.
pub(crate) fn read_trusted(store: &dyn Store) -> Result<BTreeSet<CallerId>, NodeError> {
    let rows = store.scan(TRUSTED, Range::all(TRUSTED_MAX))?;
    Ok(rows.into_iter().filter_map(|(id, _)| String::from_utf8(id).ok()?.parse().ok()).collect())
}
