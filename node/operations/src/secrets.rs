//! Secrets of a node: stored in its data folder, used for agents whose contract grants them, never shown.

use std::fs;
use std::path::{Path, PathBuf};

use althing_failure::{KeyStep, Kind, Remedy};
use althing_store::keyfile::{self, KeyFileError};

/// The longest secret, bytes.
pub const SECRET_BYTES_MAX: u64 = 16 << 10;
/// Characters of a secret's name.
pub const SECRET_NAME_MAX: usize = 64;

/// Why a secret cannot be stored, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The name is invalid.
    #[error("a secret's name is 1 to 64 letters, digits, _, dot or -, and does not begin with a dot")]
    Name,
    /// Its file cannot be read or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// It is too long.
    #[error("{} has more than {SECRET_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// It is not UTF-8.
    #[error("{} is not UTF-8 text", .0.display())]
    NoText(PathBuf),
    /// There is no secret of that name.
    #[error("this node has no secret {0:?}")]
    None(String),
    /// There is a secret of that name already.
    #[error("this node has a secret {0:?} already")]
    Exists(String),
    /// The node has no folder of its own.
    #[error("this node keeps no data, so it can store no secret")]
    NoFolder,
    /// The folder of secrets cannot be used.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The folder, or a secret in it.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl SecretError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            SecretError::Name => Kind::Invalid,
            SecretError::None(_) => Kind::NotFound,
            SecretError::Exists(_) => Kind::Refused,
            _ => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            SecretError::Exists(name) => Some(KeyStep::RemoveSecret(name.clone()).into()),
            _ => None,
        }
    }
}

/// The folder of secrets.
pub struct Secrets(PathBuf);

impl Secrets {
    /// The secrets of the node with that data folder.
    #[must_use]
    pub fn of(data: &Path) -> Secrets {
        Secrets(data.join("secrets"))
    }

    fn path(&self, name: &str) -> Result<PathBuf, SecretError> {
        let word = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let is_name = (1..=SECRET_NAME_MAX).contains(&name.len()) && name.chars().all(word) && !name.starts_with('.');
        is_name.then(|| self.0.join(name)).ok_or(SecretError::Name)
    }

    /// Stores a secret atomically.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn set(&self, name: &str, secret: &str) -> Result<(), SecretError> {
        Ok(keyfile::replace_secret(&self.path(name)?, secret.as_bytes())?)
    }

    /// Stores a new secret atomically; one of that name that is there stays.
    ///
    /// # Errors
    /// [`SecretError::Exists`], and others of [`SecretError`].
    pub fn add(&self, name: &str, secret: &str) -> Result<(), SecretError> {
        match keyfile::write_secret(&self.path(name)?, secret.as_bytes()) {
            Err(KeyFileError::Exists { .. }) => Err(SecretError::Exists(name.to_owned())),
            written => Ok(written?),
        }
    }

    /// Reads a secret; `None` if there is none of that name. A file that others may read is refused, as for a key.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn read(&self, name: &str) -> Result<Option<String>, SecretError> {
        let Ok(path) = self.path(name) else { return Ok(None) };
        let bytes = match keyfile::read_secret(&path) {
            Ok(bytes) => bytes,
            Err(KeyFileError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if bytes.len() as u64 > SECRET_BYTES_MAX {
            return Err(SecretError::TooLong(path));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| SecretError::NoText(path))
    }

    /// The names of all secrets.
    ///
    /// # Errors
    /// [`SecretError::Io`].
    pub fn names(&self) -> Result<Vec<String>, SecretError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(SecretError::Io { doing: "read", path: self.0.clone(), source }),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| self.path(name).is_ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn remove(&self, name: &str) -> Result<(), SecretError> {
        let path = self.path(name)?;
        fs::remove_file(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => SecretError::None(name.to_owned()),
            _ => SecretError::Io { doing: "remove", path, source },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_refused_like_a_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let secrets = Secrets(folder.path().join("secrets"));
        secrets.set("TOKEN", "hush").expect("it is kept");
        assert_eq!(secrets.read("TOKEN").expect("readable"), Some("hush".to_owned()));
        assert_eq!(secrets.read("OTHER").expect("readable"), None);
        let file = folder.path().join("secrets/TOKEN");
        for mode in [0o640, 0o604, 0o620, 0o644] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its own file");
            let refused = secrets.read("TOKEN").expect_err("others may read or write it").to_string();
            assert!(refused.contains("chmod 600") && !refused.contains("hush"), "{refused}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its own file");
        assert_eq!(secrets.read("TOKEN").expect("readable"), Some("hush".to_owned()));
    }
}
