//! Whose node this is: its own key, its owner's keys, and the membership that proves to peers that it is the owner's.

use std::sync::Arc;

use althing_communication::{Communication, WallClock};
use althing_protocol::{KeyLog, OwnerProof, PublisherId, SecretKey};
use tokio::sync::watch;

use crate::error::NodeError;
use crate::owner::{self, Owner};
use crate::publish;

/// The node's key, its owner's keys as they change, and the membership that peers are shown.
pub struct Identity {
    /// The node's key.
    pub key: SecretKey,
    network: String,
    owner: watch::Receiver<Owner>,
    membership: watch::Sender<Option<Arc<OwnerProof>>>,
    communication: Communication,
    clock: WallClock,
}

/// The state of an owner's keys, as this node has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// `active`, `rotating`, `revoked`, `outdated` or `withdrawn`.
    pub state: &'static str,
    /// The name of the key that signs here.
    pub key: String,
    /// Events of the keys' log.
    pub events: usize,
}

impl Identity {
    /// `membership` is what `communication` shows to peers.
    pub(crate) fn new(
        key: SecretKey,
        network: String,
        owner: watch::Receiver<Owner>,
        membership: watch::Sender<Option<Arc<OwnerProof>>>,
        communication: Communication,
        clock: WallClock,
    ) -> Identity {
        Identity { key, network, owner, membership, communication, clock }
    }

    /// The network's name.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network
    }

    /// The owner as it is now.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner.borrow().clone()
    }

    /// The log of a publisher's keys that this node has accepted, if any.
    #[must_use]
    pub fn keys_of(&self, publisher: PublisherId) -> Option<Arc<KeyLog>> {
        self.communication.keys().log(publisher)
    }

    /// What peers are shown: that this node is its owner's. None when the owner withdrew it.
    #[must_use]
    pub fn membership(&self) -> Option<Arc<OwnerProof>> {
        self.membership.borrow().clone()
    }

    /// The time of day.
    #[must_use]
    pub fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// The owner's keys, as they change.
    pub(crate) fn owner_changes(&self) -> watch::Receiver<Owner> {
        self.owner.clone()
    }

    /// Fails when the owner can no longer let agents run on this node.
    ///
    /// # Errors
    /// [`NodeError::OwnerRevoked`] and [`NodeError::NodeWithdrawn`].
    pub fn check_authority(&self) -> Result<(), NodeError> {
        let owner = self.owner();
        if owner.log.revoked() {
            return Err(NodeError::OwnerRevoked);
        }
        if owner.withdrew(self.key.public(), self.clock.now_ms()) {
            return Err(NodeError::NodeWithdrawn);
        }
        Ok(())
    }

    /// Signs a fresh membership and shows it to peers from now on; false where the owner has withdrawn it.
    pub(crate) fn renew_membership(&self, owner: &Owner, now_ms: u64) -> Result<bool, NodeError> {
        let membership = publish::membership(owner, self.key.public(), &self.network, now_ms)?;
        let is_member = membership.is_some();
        self.membership.send_replace(membership);
        Ok(is_member)
    }

    /// Shows peers no membership from now on.
    pub(crate) fn drop_membership(&self) {
        self.membership.send_replace(None);
    }

    /// The state of the owner's keys.
    #[must_use]
    pub fn key_state(&self) -> KeyState {
        let (owner, now_ms) = (self.owner(), self.clock.now_ms());
        let heard = self.communication.keys().log(owner.id());
        let outdated =
            heard.is_some_and(|log| log.accepts(owner.key.public(), now_ms).is_err() && !owner.log.revoked());
        let state = if outdated {
            "outdated"
        } else if owner.withdrew(self.key.public(), now_ms) {
            "withdrawn"
        } else {
            owner.state(now_ms)
        };
        KeyState { state, key: owner::key_name(owner.key.public()), events: owner.log.len() }
    }
}
