//! The owner's keys, as they are changed while the node runs: what is changed here counts from then on, and other nodes of the owner
//! on this machine follow within a second.

use std::path::PathBuf;
use std::time::Duration;

use althing_communication::{Entropy, WallClock};
use althing_node::OwnerError;
use althing_node::owner::{self, Owner};
use althing_protocol::PublicKey;
use tokio::sync::watch;

/// The files of the owner's keys, and whom their changes are told.
pub struct OwnerFiles {
    folder: PathBuf,
    changes: watch::Sender<Owner>,
}

impl OwnerFiles {
    /// Those in that folder; the node takes what `changes` says.
    #[must_use]
    pub fn new(folder: PathBuf, changes: watch::Sender<Owner>) -> OwnerFiles {
        OwnerFiles { folder, changes }
    }

    /// The owner as its files say.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn read(&self) -> Result<Owner, OwnerError> {
        Owner::read(&self.folder)
    }

    /// Rotates to the next key; the old one is accepted for `overlap` more.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn rotate(&self, overlap: Duration, clock: &WallClock, entropy: &Entropy) -> Result<Owner, OwnerError> {
        owner::rotate(&self.folder, None, overlap, clock, entropy)?;
        self.change()
    }

    /// Revokes the owner's keys, finally.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn revoke(&self, clock: &WallClock) -> Result<Owner, OwnerError> {
        owner::revoke(&self.folder, None, clock)?;
        self.change()
    }

    /// Withdraws `node`: its memberships and grants of until now are invalid.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn withdraw(&self, node: PublicKey, clock: &WallClock) -> Result<Owner, OwnerError> {
        owner::withdraw(&self.folder, node, clock)?;
        self.change()
    }

    /// Tells the node at once: the next request is answered by what the files say now.
    fn change(&self) -> Result<Owner, OwnerError> {
        let owner = self.read()?;
        self.changes.send_replace(owner.clone());
        Ok(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_before_it_is_answered() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = WallClock::new(|| 1_800_000_000_000);
        let drawn = std::sync::atomic::AtomicU8::new(0);
        let entropy = Entropy::new(move |bytes| {
            bytes.fill(drawn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        });
        let first = Owner::open(folder.path(), &clock, &entropy).expect("a new owner");
        let (changes, told) = watch::channel(first.clone());
        let files = OwnerFiles::new(folder.path().to_owned(), changes);
        let second = files.rotate(Duration::ZERO, &clock, &entropy).expect("rotated");
        assert_ne!(second.key.public(), first.key.public());
        assert_eq!(told.borrow().key.public(), second.key.public());
        let node = althing_protocol::SecretKey::from_seed(&[9; 32]).public();
        files.withdraw(node, &clock).expect("withdrawn");
        assert!(told.borrow().withdrew(node, clock.now_ms()));
        files.revoke(&clock).expect("revoked");
        assert!(told.borrow().log.revoked());
        assert!(matches!(files.rotate(Duration::ZERO, &clock, &entropy), Err(OwnerError::RevokedAlready(_))));
    }
}
