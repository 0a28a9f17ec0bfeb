//! The owner: one publisher key per user, shared by that user's nodes on one machine; and each node's own key.

mod change;
mod export;
mod files;

use std::path::Path;

use althing_communication::{Entropy, WallClock};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{KeyLog, PublicKey, PublisherId, SecretKey, object};
use althing_store::keyfile;

use crate::exit::Failure;
pub use change::{revoke, rotate, withdraw, withdrawn};
pub use export::{Exported, export, import, into_a_folder};
use files::Files;
pub use files::{NextKeys, Stamp, decode, encode, stamp};

/// The owner's keys.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Signs descriptions, grants and memberships.
    pub key: SecretKey,
    /// Proves that the key speaks for the owner.
    pub log: KeyLog,
    /// What the owner has taken back from nodes, each as signed.
    pub withdrawals: Vec<Vec<u8>>,
    /// Whether the keys that the log commits to lie here too.
    pub has_next: bool,
    /// The state of the files that this was read from.
    pub stamp: Stamp,
}

impl Owner {
    /// Who the owner is.
    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    /// Has the owner taken back what it let `node` do, so that the node must not sign it anew by itself?
    pub fn withdrew(&self, node: PublicKey, now_ms: u64) -> bool {
        self.withdrawals.iter().any(|bytes| {
            let withdrawal = object::open::<Withdrawal>(bytes, "", "");
            withdrawal.is_ok_and(|withdrawal| withdrawal.body.node == node && withdrawal.body.matters(now_ms))
        })
    }

    /// Reads the owner's keys from `folder`, or makes them on first use. They must speak for the owner.
    pub fn open(folder: &Path, clock: &WallClock, entropy: &Entropy) -> Result<Owner, Failure> {
        let files = Files::lock(folder)?;
        if !files.begun()? {
            files.begin(clock, entropy)?;
        }
        let owner = files.read()?;
        if owner.log.revoked() {
            let message = format!(
                "the owner {} revoked its keys: nobody speaks for it any more; move the files owner* in {} away, and be \
                 somebody new",
                owner.id(),
                folder.display()
            );
            return Err(Failure::failed(message));
        }
        owner.log.accepts(owner.key.public(), clock.now_ms()).map_err(|error| {
            Failure::failed(format!("the owner's keys in {} do not belong together: {error}", folder.display()))
        })?;
        Ok(owner)
    }

    /// Reads the owner's keys as they are, revoked or not.
    pub fn read(folder: &Path) -> Result<Owner, Failure> {
        let files = Files::lock(folder)?;
        if !files.begun()? {
            let message = format!("there is no owner in {} yet; `althing up` makes one", folder.display());
            return Err(Failure::new(crate::exit::code::NOT_FOUND, message));
        }
        files.read()
    }
}

/// The key in a file, which is made on first use.
pub fn secret(path: &Path, entropy: &Entropy) -> Result<SecretKey, Failure> {
    if !path.exists() {
        let seed: [u8; 32] = entropy.bytes();
        keyfile::write_secret(path, &seed).map_err(|error| Failure::failed(error.to_string()))?;
    }
    files::read_secret(path)
}

#[cfg(test)]
mod tests;
