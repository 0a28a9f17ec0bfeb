//! Secrets of a node: kept in its data folder, used for agents whose contract grants them, shown to nobody.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use althing_store::keyfile::{self, KeyFileError};

use crate::exit::{Failure, code};
use crate::paths::Paths;

/// The longest secret, bytes.
pub const SECRET_BYTES_MAX: u64 = 16 << 10;
/// Characters of a secret's name.
const NAME_MAX: usize = 64;

/// Where secrets are.
pub struct Secrets(PathBuf);

impl Secrets {
    /// Those of a node.
    pub fn of(at: &Paths) -> Secrets {
        Secrets(at.data.join("secrets"))
    }

    fn path(&self, name: &str) -> Result<PathBuf, Failure> {
        let word = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(word) && !name.starts_with('.') {
            Ok(self.0.join(name))
        } else {
            Err(Failure::usage(
                "a secret's name is 1 to 64 letters, digits, _, dot or -, and does not begin with a dot",
            ))
        }
    }

    /// Keeps a secret, whole or not at all.
    pub fn set(&self, name: &str, secret: &str) -> Result<(), Failure> {
        let path = self.path(name)?;
        let failed =
            |error: std::io::Error| Failure::failed(format!("cannot keep the secret in {}: {error}", self.0.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let beside = self.0.join(format!(".{name}"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside).map_err(failed)?;
        file.write_all(secret.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&beside, &path).map_err(failed)
    }

    /// A secret; nothing when there is none of that name. A file that others may read is refused, as a key's is.
    pub fn read(&self, name: &str) -> Result<Option<String>, String> {
        let Ok(path) = self.path(name) else { return Ok(None) };
        let bytes = match keyfile::read_secret(&path) {
            Ok(bytes) => bytes,
            Err(KeyFileError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if bytes.len() as u64 > SECRET_BYTES_MAX {
            return Err(format!("{} has more than {SECRET_BYTES_MAX} bytes", path.display()));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| format!("{} holds what is no text", path.display()))
    }

    /// The names of all.
    pub fn names(&self) -> Result<Vec<String>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::failed(format!("cannot read {}: {error}", self.0.display()))),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Forgets a secret.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        fs::remove_file(self.path(name)?).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::new(code::NOT_FOUND, format!("this node has no secret {name:?}")),
            _ => Failure::failed(format!("cannot remove the secret {name:?}: {error}")),
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
        assert_eq!(secrets.read("TOKEN"), Ok(Some("hush".to_owned())));
        assert_eq!(secrets.read("OTHER"), Ok(None));
        let file = folder.path().join("secrets/TOKEN");
        for mode in [0o640, 0o604, 0o620, 0o644] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its own file");
            let refused = secrets.read("TOKEN").expect_err("others may read or write it");
            assert!(refused.contains("chmod 600") && !refused.contains("hush"), "{refused}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its own file");
        assert_eq!(secrets.read("TOKEN"), Ok(Some("hush".to_owned())));
    }
}
