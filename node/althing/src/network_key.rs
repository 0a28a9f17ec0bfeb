//! The file of a private network's key.

use std::path::Path;

use althing_communication::Entropy;
use althing_protocol::NetworkKey;
use althing_store::keyfile;

use crate::exit::Failure;
use crate::owner::into_a_folder;

/// Makes a key in a new file that only its user can read.
pub fn make(file: &Path, entropy: &Entropy) -> Result<NetworkKey, Failure> {
    into_a_folder(file)?;
    let key = NetworkKey::new(entropy.bytes());
    let written = keyfile::write_secret(file, key.to_text().as_bytes());
    written.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(key)
}

/// Reads the key in `file`.
pub fn read(file: &Path) -> Result<NetworkKey, Failure> {
    let bytes = keyfile::read_secret(file).map_err(|error| match error {
        keyfile::KeyFileError::Missing { path } => Failure::usage(format!(
            "there is no network key at {}; copy the file of another node, or make one with `althing network-key new`",
            path.display()
        )),
        other => Failure::failed(other.to_string()),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    NetworkKey::parse(&text).map_err(|error| Failure::usage(format!("{} is no network key: {error}", file.display())))
}
