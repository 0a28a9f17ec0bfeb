//! Who may publish, beside those that a registry was started with: a list in a file of the data folder, an id on each line.
//! `althing-registry publisher` writes it, and a running registry reads it again as soon as it changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use althing_protocol::{IdentityError, PublisherId};
use althing_store::file::{self, FileError};
use althing_store::keyfile::{self, KeyFileError, SECRET_BYTES_MAX};

use crate::stamp::{Stamp, stamp};

/// The file, in the data folder.
const FILE: &str = "publishers";
/// Publishers in it: with 60 bytes each they are within what is written at once.
const PUBLISHERS_MAX: usize = 1_024;

/// Why the list cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PublisherError {
    /// It is not in the list.
    #[error(
        "{0} is not in the list of this registry: whom the registry is started with (--publisher), or an organisation's roster \
         names, is taken out there"
    )]
    None(PublisherId),
    /// There are too many.
    #[error(
        "the list has {PUBLISHERS_MAX} publishers, which is the most; remove one, or start the registry with --anyone"
    )]
    TooMany,
    /// The file cannot be read.
    #[error("cannot use {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: FileError,
    },
    /// A line of it is no publisher.
    #[error("{path}, line {line}: {why}; write one id on each line (`althing id` prints one), or remove the line")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] KeyFileError),
}

/// The list of a data folder.
#[derive(Debug)]
pub struct Publishers {
    path: PathBuf,
    read: Mutex<Option<Stamp>>,
}

impl Publishers {
    /// That of a data folder.
    #[must_use]
    pub fn of(data: &Path) -> Publishers {
        Publishers { path: data.join(FILE), read: Mutex::default() }
    }

    /// All in it; nobody where there is no file.
    ///
    /// # Errors
    /// [`PublisherError::File`] and [`PublisherError::Line`].
    pub fn all(&self) -> Result<BTreeSet<PublisherId>, PublisherError> {
        let path = || self.path.display().to_string();
        let text = match file::read_text(&self.path, SECRET_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
            Err(error) => return Err(PublisherError::File { path: path(), error }),
        };
        let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
        let publisher = |(line, text): (usize, &str)| {
            let wrong = |error: IdentityError| PublisherError::Line { path: path(), line, why: error.to_string() };
            text.parse::<PublisherId>().map_err(wrong)
        };
        lines.map(publisher).collect()
    }

    /// Takes a publisher in; whether it was not there before.
    ///
    /// # Errors
    /// See [`PublisherError`].
    pub fn add(&self, publisher: PublisherId) -> Result<bool, PublisherError> {
        let _lock = keyfile::lock_secret(&self.path)?;
        let mut all = self.all()?;
        if !all.insert(publisher) {
            return Ok(false);
        }
        if all.len() > PUBLISHERS_MAX {
            return Err(PublisherError::TooMany);
        }
        self.write(&all)?;
        Ok(true)
    }

    /// Takes a publisher out: from now on it publishes nothing.
    ///
    /// # Errors
    /// See [`PublisherError`].
    pub fn remove(&self, publisher: PublisherId) -> Result<(), PublisherError> {
        let _lock = keyfile::lock_secret(&self.path)?;
        let mut all = self.all()?;
        if !all.remove(&publisher) {
            return Err(PublisherError::None(publisher));
        }
        self.write(&all)
    }

    fn write(&self, all: &BTreeSet<PublisherId>) -> Result<(), PublisherError> {
        let text: String = all.iter().map(|publisher| format!("{publisher}\n")).collect();
        Ok(keyfile::replace_secret(&self.path, text.as_bytes())?)
    }

    /// Hands over all of it if the file was changed since it was handed over last. Who asks meanwhile waits for that. A file
    /// that cannot be read lets nobody publish.
    pub(crate) fn if_changed(&self, take: impl FnOnce(BTreeSet<PublisherId>)) {
        let mut read = self.read.lock().expect("no holder of the list panics");
        let now = stamp(&self.path);
        if *read == Some(now) {
            return;
        }
        take(self.all().unwrap_or_else(|error| {
            tracing::error!(%error, "the list of publishers cannot be read: nobody may publish by it");
            BTreeSet::new()
        }));
        *read = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    #[test]
    fn a_list_is_written_read_and_handed_over_when_it_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = Publishers::of(folder.path());
        let handed_over = || {
            let mut taken = None;
            list.if_changed(|all| taken = Some(all));
            taken
        };
        assert_eq!(handed_over(), Some(BTreeSet::new()));
        assert_eq!(handed_over(), None);
        assert!(list.add(id(1)).expect("written") && list.add(id(2)).expect("written"));
        assert!(!list.add(id(1)).expect("read"), "it is there");
        assert_eq!(handed_over(), Some([id(1), id(2)].into()));
        list.remove(id(1)).expect("it was there");
        assert_eq!(handed_over(), Some([id(2)].into()));
        let none = list.remove(id(1)).expect_err("it is gone").to_string();
        assert!(none.contains("--publisher"), "{none}");
    }

    #[test]
    fn a_line_that_is_no_publisher_is_told_and_lets_nobody_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = Publishers::of(folder.path());
        std::fs::write(folder.path().join(FILE), format!("{}\n\nalice\n", id(1))).expect("written");
        let broken = list.all().expect_err("alice is no id").to_string();
        assert!(broken.contains("line 3") && broken.contains("althing id"), "{broken}");
        assert!(list.add(id(2)).is_err(), "what cannot be read is not written over");
        let mut taken = None;
        list.if_changed(|all| taken = Some(all));
        assert_eq!(taken, Some(BTreeSet::new()));
    }

    #[test]
    fn a_list_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = Publishers::of(folder.path());
        let many: String = (0..PUBLISHERS_MAX)
            .map(|number| {
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&(number as u64).to_be_bytes());
                format!("{}\n", PublisherId::from_digest(digest))
            })
            .collect();
        std::fs::write(folder.path().join(FILE), many).expect("written");
        assert_eq!(list.all().expect("all are read").len(), PUBLISHERS_MAX);
        assert!(matches!(list.add(id(9)), Err(PublisherError::TooMany)));
        let first = *list.all().expect("read").first().expect("one");
        list.remove(first).expect("it was there");
        assert!(list.add(id(9)).expect("the longest list is written"));
    }
}
