//! The owner's keys in one file under a passphrase: to be stored elsewhere, and imported again.
//!
//! `althing owner keys 2\n`, 16 bytes of salt, then XChaCha20-Poly1305 under a key that Argon2id makes of the passphrase
//! over four byte strings: the key, the next key and the one after it or nothing, the log.

use std::path::Path;

use althing_communication::Entropy;
use althing_protocol::{KeyLog, SecretKey};
use althing_store::file::read_bytes;
use althing_store::keyfile;
use althing_store::seal::{SALT_BYTES, Seal};

use super::files::{Files, NextKeys, decode, encode};
use super::{Owner, OwnerError};

/// What an exported file begins with.
const HEAD: &[u8] = b"althing owner keys 2\n";

/// What an exported file holds.
pub struct Exported {
    /// The current key.
    pub key: SecretKey,
    /// The next keys.
    pub next: Option<NextKeys>,
    /// The log as it was then.
    pub log: KeyLog,
}

/// Refuses a file whose folder does not exist: the medium may not be mounted, or the path mistyped.
///
/// # Errors
/// [`OwnerError::NoFolder`].
pub fn check_folder(file: &Path) -> Result<(), OwnerError> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(OwnerError::NoFolder(folder.to_owned())),
    }
}

/// Writes the owner's keys to a new file; with `remove_next` the next keys are removed here.
///
/// # Errors
/// See [`OwnerError`].
pub fn export(
    folder: &Path,
    to: &Path,
    passphrase: &str,
    remove_next: bool,
    entropy: &Entropy,
) -> Result<Owner, OwnerError> {
    check_folder(to)?;
    let files = Files::lock(folder)?;
    if !files.has_owner()? {
        return Err(OwnerError::None(folder.to_owned()));
    }
    let owner = files.read()?;
    let next = files.next()?;
    if remove_next && next.is_none() {
        return Err(OwnerError::NextKeysGone);
    }
    let log = encode(owner.log.to_bytes());
    let seed = |of: fn(&NextKeys) -> &SecretKey| next.as_ref().map_or_else(Vec::new, |next| of(next).seed().to_vec());
    let plain = encode(vec![owner.key.seed().to_vec(), seed(|keys| &keys.next), seed(|keys| &keys.after_next), log]);
    let salt: [u8; SALT_BYTES] = entropy.bytes();
    let sealed = Seal::new(passphrase, &salt).close(entropy.bytes(), HEAD, &plain);
    keyfile::write_secret(to, &[HEAD, &salt, &sealed].concat())?;
    // Only once the file could be read again.
    Exported::read(to, passphrase)?;
    if remove_next {
        files.remove_next()?;
    }
    Ok(owner)
}

impl Exported {
    /// Reads an exported file.
    ///
    /// # Errors
    /// See [`OwnerError`].
    pub fn read(from: &Path, passphrase: &str) -> Result<Exported, OwnerError> {
        let refused = |why: &str| OwnerError::Exported { path: from.to_owned(), why: why.to_owned() };
        let bytes = read_bytes(from, keyfile::SECRET_BYTES_MAX).map_err(|error| refused(&error.to_string()))?;
        if bytes.starts_with(b"althing owner keys 1\n") {
            return Err(refused("an earlier version of althing wrote it, whose owners were named by their keys"));
        }
        let rest = bytes.strip_prefix(HEAD).ok_or_else(|| refused("these are no keys that were exported"))?;
        let (salt, sealed) =
            rest.split_first_chunk::<SALT_BYTES>().ok_or_else(|| refused("it breaks off after its first line"))?;
        let plain = Seal::new(passphrase, salt).open(HEAD, sealed);
        let plain = plain.ok_or_else(|| refused("the passphrase is another one, or the file is damaged"))?;
        let damaged = || refused("it is damaged");
        let parts = decode(&plain).map_err(|_| damaged())?;
        let [key, next, after_next, log] = &parts[..] else { return Err(damaged()) };
        let secret = |bytes: &[u8]| bytes.try_into().map(|seed| SecretKey::from_seed(&seed)).map_err(|_| damaged());
        let log = KeyLog::verify(&decode(log).map_err(|_| damaged())?).map_err(|error| refused(&error.to_string()))?;
        let next = if next.is_empty() {
            None
        } else {
            Some(NextKeys { next: secret(next)?, after_next: secret(after_next)? })
        };
        Ok(Exported { key: secret(key)?, next, log })
    }
}

/// Imports exported keys into a folder that has none, or older ones of the same owner.
///
/// # Errors
/// See [`OwnerError`].
pub fn import(folder: &Path, exported: &Exported) -> Result<(), OwnerError> {
    let files = Files::lock(folder)?;
    if exported.log.current() != exported.key.public() {
        return Err(OwnerError::ExportedApart);
    }
    // The folder may have a key without its log: the copy is for that too.
    if files.has_log() {
        // The keys here may be lost: the copy is for that.
        let there = files.log()?;
        if !exported.log.continues(&there) {
            let same = there.publisher() == exported.log.publisher();
            let other = || OwnerError::OtherOwner { folder: folder.to_owned(), owner: there.publisher() };
            return Err(if same { OwnerError::ExportedOlder } else { other() });
        }
    }
    files.change(&exported.log, &exported.key, exported.next.as_ref())
}
