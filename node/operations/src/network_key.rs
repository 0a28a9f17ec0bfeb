//! The file of a private network's key.

use std::path::{Path, PathBuf};

use althing_communication::Entropy;
use althing_failure::{KeyStep, Kind, Remedy};
use althing_node::OwnerError;
use althing_node::owner::check_folder;
use althing_protocol::NetworkKey;
use althing_protocol::network_key::NetworkKeyError;
use althing_store::keyfile::{self, KeyFileError};

/// Why a network's key cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum NetworkKeyFileError {
    /// Its folder does not exist.
    #[error(transparent)]
    Folder(#[from] OwnerError),
    /// The file cannot be read or written.
    #[error(transparent)]
    KeyFile(KeyFileError),
    /// The file does not exist.
    #[error("there is no network key at {}", .0.display())]
    Missing(PathBuf),
    /// The file holds something else.
    #[error("{} is not a network key: {source}", .path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NetworkKeyError,
    },
}

impl NetworkKeyFileError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            NetworkKeyFileError::Folder(error) => error.kind(),
            NetworkKeyFileError::KeyFile(_) => Kind::Failed,
            NetworkKeyFileError::Missing(_) | NetworkKeyFileError::NoKey { .. } => Kind::Invalid,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            NetworkKeyFileError::Folder(error) => error.remedy(),
            NetworkKeyFileError::Missing(_) => Some(KeyStep::MakeNetworkKey.into()),
            NetworkKeyFileError::KeyFile(_) | NetworkKeyFileError::NoKey { .. } => None,
        }
    }
}

/// Makes a key in a new file that only its user can read.
///
/// # Errors
/// See [`NetworkKeyFileError`].
pub fn make(file: &Path, entropy: &Entropy) -> Result<NetworkKey, NetworkKeyFileError> {
    check_folder(file)?;
    let key = NetworkKey::new(entropy.bytes());
    keyfile::write_secret(file, key.to_text().as_bytes()).map_err(NetworkKeyFileError::KeyFile)?;
    Ok(key)
}

/// Reads the key in `file`.
///
/// # Errors
/// See [`NetworkKeyFileError`].
pub fn read(file: &Path) -> Result<NetworkKey, NetworkKeyFileError> {
    let bytes = keyfile::read_secret(file).map_err(|error| match error {
        KeyFileError::Missing { path } => NetworkKeyFileError::Missing(path),
        other => NetworkKeyFileError::KeyFile(other),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    NetworkKey::parse(&text).map_err(|source| NetworkKeyFileError::NoKey { path: file.to_owned(), source })
}
