//! The owner: one publisher key per user, shared by that user's nodes on one machine; and each node's own key.

mod change;
mod error;
mod export;
mod files;

use std::path::Path;
use std::time::Duration;

use althing_communication::{Entropy, WallClock};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{KeyLog, PublicKey, PublisherId, SecretKey, object};
use althing_store::keyfile::{self, KeyFileError};
use tokio::sync::watch;

pub use change::{revoke, rotate, withdraw, withdrawn};
pub use error::OwnerError;
pub use export::{Exported, check_folder, export, import};
use files::Files;
pub use files::{NextKeys, Stamp, stamp};
pub(crate) use files::{decode, encode};

/// Between two checks whether the owner's keys have changed.
const LOOK: Duration = Duration::from_secs(1);

/// The owner's keys.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Signs descriptions, grants and memberships.
    pub key: SecretKey,
    /// The key log, which proves that the key is the owner's.
    pub log: KeyLog,
    /// The withdrawals of nodes, as signed.
    pub withdrawals: Vec<Vec<u8>>,
    /// Whether the next keys are on this machine too.
    pub has_next: bool,
    /// The state of the files that this was read from.
    pub stamp: Stamp,
}

impl Owner {
    /// The owner's id.
    #[must_use]
    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    /// An owner without files.
    #[must_use]
    pub fn new(key: SecretKey, log: KeyLog) -> Owner {
        Owner { key, log, withdrawals: Vec::new(), has_next: false, stamp: Stamp::default() }
    }

    /// `active`, `rotating` while the old key is accepted too, or `revoked`.
    #[must_use]
    pub fn state(&self, now_ms: u64) -> &'static str {
        log_state(&self.log, now_ms)
    }

    /// Whether the owner withdrew `node`, so that the node must not sign for itself again.
    #[must_use]
    pub fn withdrew(&self, node: PublicKey, now_ms: u64) -> bool {
        self.withdrawals.iter().any(|bytes| {
            let withdrawal = object::open::<Withdrawal>(bytes, "", "");
            withdrawal.is_ok_and(|withdrawal| withdrawal.body.node == node && withdrawal.body.matters(now_ms))
        })
    }

    /// Reads the owner's keys from `folder`, or makes them on first use. They must not be revoked.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn open(folder: &Path, clock: &WallClock, entropy: &Entropy) -> Result<Owner, OwnerError> {
        let files = Files::lock(folder)?;
        if !files.has_owner()? {
            files.create(clock, entropy)?;
        }
        let owner = files.read()?;
        if owner.log.revoked() {
            return Err(OwnerError::Revoked { owner: owner.id(), folder: folder.to_owned() });
        }
        let accepted = owner.log.accepts(owner.key.public(), clock.now_ms());
        accepted.map_err(|source| OwnerError::Apart { folder: folder.to_owned(), source })?;
        Ok(owner)
    }

    /// Reads the owner's keys as they are, revoked or not.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn read(folder: &Path) -> Result<Owner, OwnerError> {
        let files = Files::lock(folder)?;
        if !files.has_owner()? {
            return Err(OwnerError::None(folder.to_owned()));
        }
        files.read()
    }
}

/// The name of one of the owner's keys. Not a `did:key`: that names a node, which can be trusted and revoked.
#[must_use]
pub fn key_name(key: PublicKey) -> String {
    key.did().trim_start_matches("did:key:").to_owned()
}

/// `active`, `rotating` while the old key is accepted too, or `revoked`.
#[must_use]
pub fn log_state(log: &KeyLog, now_ms: u64) -> &'static str {
    if log.revoked() {
        return "revoked";
    }
    let keys: Vec<PublicKey> = log.events().map(|event| event.key).collect();
    let before = keys.len().checked_sub(2).map(|at| keys[at]);
    if before.is_some_and(|key| log.accepts(key, now_ms).is_ok()) { "rotating" } else { "active" }
}

/// Reads the owner's keys in `folder` each second and sends each change since `known`, until there are no receivers.
pub async fn follow(folder: &Path, known: Stamp, told: &watch::Sender<Owner>) {
    let mut followed = known;
    while !told.is_closed() {
        tokio::time::sleep(LOOK).await;
        let now = stamp(folder);
        // Whoever changes them by the node itself has told it.
        if now == followed || now == told.borrow().stamp {
            followed = now;
            continue;
        }
        // A failure is tried again at the next check.
        match Owner::read(folder) {
            Ok(owner) => {
                followed = owner.stamp;
                told.send_replace(owner);
            }
            Err(error) => tracing::error!(%error, "the owner's keys cannot be read"),
        }
    }
}

/// Reads the key in a file, which is created on first use.
///
/// # Errors
/// See [`OwnerError`].
pub fn secret(path: &Path, entropy: &Entropy) -> Result<SecretKey, OwnerError> {
    if !path.exists() {
        let seed: [u8; 32] = entropy.bytes();
        match keyfile::write_secret(path, &seed) {
            // Another process that was started at the same time made it: it is that node's key, and this one's. Which of them runs as
            // that node, its store says.
            Ok(()) | Err(KeyFileError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    files::read_secret(path)
}

#[cfg(test)]
mod tests;
