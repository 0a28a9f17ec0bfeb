//! The owner: one publisher key per user, shared by that user's nodes on one machine; and each node's own key.

use std::fs;
use std::path::Path;

use althing_communication::{Entropy, WallClock};
use althing_protocol::{KeyLog, PublicKey, SecretKey, keylog};
use althing_store::keyfile;
use minicbor::bytes::ByteVec;
use nix::fcntl::{Flock, FlockArg};

use crate::exit::Failure;

/// The owner's keys.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Signs descriptions, grants and memberships.
    pub key: SecretKey,
    /// Proves that the key speaks for the owner.
    pub log: KeyLog,
}

impl Owner {
    /// The owner's inception key: who the owner is.
    pub fn id(&self) -> PublicKey {
        self.log.publisher()
    }

    /// Reads the owner's keys from `folder`, or makes them on first use.
    pub fn open(folder: &Path, clock: &WallClock, entropy: &Entropy) -> Result<Owner, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot {what} the owner's keys in {}: {error}", folder.display()))
        };
        fs::create_dir_all(folder).map_err(|error| failed("make a folder for", &error))?;
        // Several nodes may be started at once for the first time.
        let lock = fs::File::create(folder.join("owner.lock")).map_err(|error| failed("lock", &error))?;
        let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| failed("lock", &error))?;
        let (key_path, next_path, log_path) =
            (folder.join("owner.key"), folder.join("owner-next.key"), folder.join("owner.log"));
        if !log_path.exists() {
            let key = secret(&key_path, entropy)?;
            // The next key is made now because the log commits to it from the start.
            let next = secret(&next_path, entropy)?;
            let log = vec![ByteVec::from(keylog::inception(&key, next.public(), clock.now_ms()).bytes)];
            let bytes = minicbor::to_vec(log).expect("writing to a vector cannot fail");
            let part = folder.join("owner.log.part");
            let synced = |path: &Path| fs::File::open(path).and_then(|file| file.sync_all());
            fs::write(&part, bytes)
                .and_then(|()| synced(&part))
                .and_then(|()| fs::rename(&part, &log_path))
                .and_then(|()| synced(folder))
                .map_err(|error| failed("write", &error))?;
        }
        if !key_path.exists() {
            let message = format!(
                "{} is missing, and without it nobody speaks for the owner of {}: put your copy of it back; or move that \
                 file away as well, and be somebody new",
                key_path.display(),
                log_path.display()
            );
            return Err(Failure::failed(message));
        }
        let key = secret(&key_path, entropy)?;
        let bytes = fs::read(&log_path).map_err(|error| failed("read", &error))?;
        let events: Vec<ByteVec> = minicbor::decode(&bytes).map_err(|error| failed("read", &error))?;
        let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
        let log = KeyLog::verify(&events).map_err(|error| failed("verify", &error))?;
        log.accepts(key.public(), clock.now_ms()).map_err(|error| failed("use", &error))?;
        Ok(Owner { key, log })
    }
}

/// The key in a file, which is made on first use.
pub fn secret(path: &Path, entropy: &Entropy) -> Result<SecretKey, Failure> {
    if !path.exists() {
        let seed: [u8; 32] = entropy.bytes();
        keyfile::write_secret(path, &seed).map_err(|error| Failure::failed(error.to_string()))?;
    }
    let bytes = keyfile::read_secret(path).map_err(|error| Failure::failed(error.to_string()))?;
    let seed = <[u8; 32]>::try_from(&bytes[..])
        .map_err(|_| Failure::failed(format!("{} is no key: it has {} bytes, not 32", path.display(), bytes.len())))?;
    Ok(SecretKey::from_seed(&seed))
}
