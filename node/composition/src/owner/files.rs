//! The owner's files. A change is staged beside them and takes effect when the log is replaced: an interruption before that
//! leaves the old keys, and one after it is completed by whoever opens the files next.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use althing_communication::{Entropy, WallClock};
use althing_protocol::{KeyLog, SecretKey, keylog};
use althing_store::file::read_bytes;
use althing_store::keyfile;
use minicbor::bytes::ByteVec;
use nix::fcntl::{Flock, FlockArg};

use super::{Owner, OwnerError};

/// Bytes of files other than keys: a log of 208 events has a twentieth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The key that the log commits to.
const NEXT: &str = "owner-next.key";
/// The one after it, which the log commits to as well.
const AFTER_NEXT: &str = "owner-after-next.key";

/// The two keys that a log commits to.
#[derive(Debug, Clone)]
pub struct NextKeys {
    /// Signs the next event.
    pub next: SecretKey,
    /// Signs the one after that.
    pub after_next: SecretKey,
}

impl NextKeys {
    /// Whether the log commits to these.
    #[must_use]
    pub fn belong_to(&self, log: &KeyLog) -> bool {
        log.commits_to(self.next.public()) && log.commits_later_to(self.after_next.public())
    }
}

/// The files, locked.
pub struct Files {
    folder: PathBuf,
    _lock: Flock<File>,
}

/// Changes whenever the owner's keys change.
pub type Stamp = [Option<(SystemTime, u64)>; 2];

/// The current stamp; cheap to read.
#[must_use]
pub fn stamp(folder: &Path) -> Stamp {
    ["owner.log", "owner.withdrawn"].map(|name| {
        let facts = fs::metadata(folder.join(name)).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    })
}

impl Files {
    /// Locks the files.
    pub fn lock(folder: &Path) -> Result<Files, OwnerError> {
        let failed = |doing, source| OwnerError::Folder { doing, folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(|error| failed("make a folder for", error))?;
        // Several nodes may be started at once for the first time.
        let lock = File::create(folder.join("owner.lock")).map_err(|error| failed("lock", error))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| failed("lock", error.into()))?;
        Ok(Files { folder: folder.to_owned(), _lock: lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether there is a log.
    pub fn has_log(&self) -> bool {
        self.path("owner.log").exists()
    }

    /// Whether there is an owner.
    ///
    /// # Errors
    /// If there is a key without its log: a new log would silently be a new owner.
    pub fn has_owner(&self) -> Result<bool, OwnerError> {
        if self.has_log() {
            return Ok(true);
        }
        if self.path("owner.key").exists() {
            return Err(OwnerError::LogMissing { folder: self.folder.clone() });
        }
        Ok(false)
    }

    /// Creates an owner. An interruption before the log is written leaves none.
    pub fn create(&self, clock: &WallClock, entropy: &Entropy) -> Result<(), OwnerError> {
        let [key, next, after_next] = std::array::from_fn(|_| SecretKey::from_seed(&entropy.bytes()));
        // The next keys are made now because the log commits to them from the start.
        let inception = keylog::inception(&key, [next.public(), after_next.public()], clock.now_ms());
        let log = KeyLog::verify(&[inception.bytes]);
        let log = log.map_err(|source| OwnerError::Apart { folder: self.folder.clone(), source })?;
        self.change(&log, &key, Some(&NextKeys { next, after_next }))
    }

    /// The log, also without its keys.
    pub fn log(&self) -> Result<KeyLog, OwnerError> {
        let damaged = |why: String| OwnerError::LogDamaged { folder: self.folder.clone(), why };
        let events = decode(&self.bytes("owner.log")?).map_err(|error| damaged(error.to_string()))?;
        if events.first().is_some_and(|event| keylog::is_of_an_earlier_version(event)) {
            return Err(OwnerError::LogOfEarlierVersion { folder: self.folder.clone() });
        }
        KeyLog::verify(&events).map_err(|error| damaged(error.to_string()))
    }

    /// Reads the files, and completes an interrupted change.
    pub fn read(&self) -> Result<Owner, OwnerError> {
        let stamp = stamp(&self.folder);
        let log = self.log()?;
        self.finish_change(&log)?;
        let key = self.path("owner.key");
        if !key.exists() {
            return Err(OwnerError::KeyMissing { folder: self.folder.clone() });
        }
        let withdrawn = self.path("owner.withdrawn");
        let withdrawals = if withdrawn.exists() {
            let read = decode(&self.bytes("owner.withdrawn")?);
            read.map_err(|why| OwnerError::WithdrawalsDamaged { path: withdrawn, why })?
        } else {
            Vec::new()
        };
        let has_next = self.next()?.is_some_and(|keys| keys.belong_to(&log));
        Ok(Owner { key: read_secret(&key)?, log, withdrawals, has_next, stamp })
    }

    /// The keys that the log commits to, if they are here.
    pub fn next(&self) -> Result<Option<NextKeys>, OwnerError> {
        let (next, after_next) = (self.path(NEXT), self.path(AFTER_NEXT));
        if next.exists() && after_next.exists() {
            Ok(Some(NextKeys { next: read_secret(&next)?, after_next: read_secret(&after_next)? }))
        } else {
            Ok(None)
        }
    }

    /// Removes the next keys; a copy of them exists elsewhere.
    pub fn remove_next(&self) -> Result<(), OwnerError> {
        for path in [NEXT, AFTER_NEXT].map(|name| self.path(name)) {
            let removed = fs::remove_file(&path);
            removed.map_err(|source| OwnerError::File { doing: "remove", path, source })?;
        }
        Ok(())
    }

    /// Replaces the log and the keys. `key` is the current key of the log, `next` are those it commits to.
    pub fn change(&self, log: &KeyLog, key: &SecretKey, next: Option<&NextKeys>) -> Result<(), OwnerError> {
        let (next, after_next) = (next.map(|keys| &keys.next), next.map(|keys| &keys.after_next));
        for (name, secret) in [("owner.key", Some(key)), (NEXT, next), (AFTER_NEXT, after_next)] {
            if let Some(secret) = secret {
                keyfile::replace_secret(&self.path(&format!("{name}.new")), &secret.seed())?;
            }
        }
        self.replace("owner.log", &encode(log.to_bytes()))?;
        self.finish_change(log)
    }

    /// Stores the withdrawals.
    pub fn keep_withdrawals(&self, withdrawals: Vec<Vec<u8>>) -> Result<(), OwnerError> {
        self.replace("owner.withdrawn", &encode(withdrawals))
    }

    /// Moves staged keys that belong to the log into place; others are of a change that did not take effect.
    fn finish_change(&self, log: &KeyLog) -> Result<(), OwnerError> {
        for name in ["owner.key", NEXT, AFTER_NEXT] {
            let staged = self.path(&format!("{name}.new"));
            if !staged.exists() {
                continue;
            }
            let failed = |source| OwnerError::File { doing: "move", path: staged.clone(), source };
            let key = read_secret(&staged)?.public();
            let belongs = match name {
                NEXT => log.commits_to(key),
                AFTER_NEXT => log.commits_later_to(key),
                _ => log.current() == key,
            };
            if belongs {
                fs::rename(&staged, self.path(name)).map_err(failed)?;
            } else {
                fs::remove_file(&staged).map_err(failed)?;
            }
            File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, OwnerError> {
        let path = self.path(name);
        read_bytes(&path, FILE_BYTES_MAX).map_err(|source| OwnerError::Read { path, source })
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), OwnerError> {
        Ok(keyfile::replace_secret(&self.path(name), bytes)?)
    }
}

/// The key in a file.
pub fn read_secret(path: &Path) -> Result<SecretKey, OwnerError> {
    let bytes = keyfile::read_secret(path)?;
    let len = bytes.len();
    let seed: [u8; 32] = bytes.try_into().map_err(|_| OwnerError::NoKey { path: path.to_owned(), len })?;
    Ok(SecretKey::from_seed(&seed))
}

/// Encodes a list of signed objects.
pub fn encode(objects: Vec<Vec<u8>>) -> Vec<u8> {
    let objects: Vec<ByteVec> = objects.into_iter().map(ByteVec::from).collect();
    minicbor::to_vec(objects).expect("writing to a vector cannot fail")
}

/// Decodes it.
pub fn decode(bytes: &[u8]) -> Result<Vec<Vec<u8>>, minicbor::decode::Error> {
    let objects: Vec<ByteVec> = minicbor::decode(bytes)?;
    Ok(objects.into_iter().map(Vec::from).collect())
}
