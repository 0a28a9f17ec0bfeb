//! Files that hold a secret key: created readable by the owner only, and refused if others can read them.

use crate::durable::{Staged, create_dirs, parent, remove_if_there};
use crate::file::{FileError, open_regular};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The largest secret, in bytes: many times the largest key file.
pub const SECRET_BYTES_MAX: u64 = 64 << 10;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Why a secret could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// There is a file already; it may hold the only copy of a key.
    #[error("{} exists and is not overwritten; move it away first if you want a new key", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is no such file.
    #[error("there is no key at {}", .path.display())]
    Missing {
        /// The file looked for.
        path: PathBuf,
    },
    /// Other users of this machine may read or write it.
    #[error("{} holds a secret, but its mode {mode:04o} opens it to others; if only you have had access, run: chmod 600 {}", .path.display(), shell_word(.path))]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is not a regular file, or longer than any key.
    #[error("{} is not a key file: {why}; name the file that holds the key", .path.display())]
    NotAKeyFile {
        /// What was named.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}; check that its directory exists on a writable disk and belongs to you", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Writes `bytes` (at most [`SECRET_BYTES_MAX`]) to a new file with mode 0600, on disk and complete when it appears.
/// Missing directories on the way are created with mode 0700.
///
/// # Errors
/// [`KeyFileError::Exists`] when there is a file, [`KeyFileError::NotAKeyFile`] when `bytes` are too many,
/// [`KeyFileError::Io`] when the operating system refuses. Nothing is left at `path` then.
pub fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(KeyFileError::NotAKeyFile { path: path.to_owned(), why: "it would be longer than any key" });
    }
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
        _ => KeyFileError::Io { doing: "write", path: path.to_owned(), source },
    };
    create_dirs(parent(path)).map_err(|source| KeyFileError::Io {
        doing: "create the directory of",
        path: path.to_owned(),
        source,
    })?;
    Staged::write(path, bytes).map_err(io)?.place_new().map_err(io)
}

/// Writes `bytes` like [`write_secret`], in the place of the file that may be there.
///
/// # Errors
/// [`KeyFileError::NotAKeyFile`] when `bytes` are too many, [`KeyFileError::Io`] when the operating system refuses; what
/// was at `path` is there still.
pub fn replace_secret(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(KeyFileError::NotAKeyFile { path: path.to_owned(), why: "it would be longer than any key" });
    }
    let io = |source: io::Error| KeyFileError::Io { doing: "write", path: path.to_owned(), source };
    create_dirs(parent(path)).map_err(io)?;
    Staged::write(path, bytes).map_err(io)?.replace().map_err(io)
}

/// Waits until nobody else changes the secret at `path`. Others wait as long as the file that is returned is open.
///
/// # Errors
/// [`KeyFileError::Io`] when the operating system refuses.
pub fn lock_secret(path: &Path) -> Result<File, KeyFileError> {
    // A file of its own, since the secret's is replaced.
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let io = |source: io::Error| KeyFileError::Io { doing: "lock", path: lock.clone(), source };
    create_dirs(parent(path)).map_err(io)?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

/// Removes the secret at `path`; one that is not there is no error.
///
/// # Errors
/// [`KeyFileError::Io`] when the operating system refuses.
pub fn remove_secret(path: &Path) -> Result<(), KeyFileError> {
    let io = |source: io::Error| KeyFileError::Io { doing: "remove", path: path.to_owned(), source };
    remove_if_there(path).map_err(io)
}

/// Reads the secret in `path`.
///
/// # Errors
/// [`KeyFileError::OpenToOthers`] when its mode lets others read or write it, [`KeyFileError::Missing`] when there is
/// no file, [`KeyFileError::NotAKeyFile`] for anything but a regular file of at most [`SECRET_BYTES_MAX`],
/// [`KeyFileError::Io`] when the operating system refuses.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => KeyFileError::Missing { path: path.to_owned() },
        _ => KeyFileError::Io { doing: "read", path: path.to_owned(), source },
    };
    let file = open_regular(path).map_err(|error| match error {
        FileError::Io(source) => io(source),
        _ => KeyFileError::NotAKeyFile { path: path.to_owned(), why: "it is no regular file" },
    })?;
    let facts = file.metadata().map_err(io)?;
    if facts.mode() & OTHERS != 0 {
        return Err(KeyFileError::OpenToOthers { path: path.to_owned(), mode: facts.mode() & 0o7777 });
    }
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(KeyFileError::NotAKeyFile { path: path.to_owned(), why: "it is longer than any key" });
    }
    Ok(bytes)
}

/// The path as one word of a shell command.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c)) && !text.starts_with('-') {
        return text;
    }
    format!("-- '{}'", text.replace('\'', r"'\''"))
}
