//! Newer releases of what was installed of which no rollout was begun, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use althing_node::revocations::{InstalledRow, PassedRow, UpdateRule};

/// A newer release of which no rollout was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRelease {
    /// The version, as its publisher wrote it.
    pub version: String,
    /// Why, for people.
    pub why: String,
    /// Whether nothing but its owner's word, or another release, changes that.
    pub needs_owner: bool,
    /// When that was found, Unix milliseconds.
    pub at_ms: u64,
}

/// Those of a node, by the names here of what was installed.
#[derive(Debug, Default)]
pub(crate) struct HeldReleases(Mutex<BTreeMap<String, HeldRelease>>);

impl HeldReleases {
    /// The newer release of what has that name of which no rollout was begun, if there is one.
    pub fn of(&self, name: &str, row: &InstalledRow) -> Option<HeldRelease> {
        if row.update == UpdateRule::Asked || row.trial.is_some() {
            return None;
        }
        let passed = row.passed.as_ref().map(|PassedRow { version, why, .. }| {
            let (version, why) = (version.clone(), why.clone());
            HeldRelease { version, why, needs_owner: false, at_ms: 0 }
        });
        self.last(name).or(passed)
    }

    /// The one that was held last.
    pub fn last(&self, name: &str) -> Option<HeldRelease> {
        self.lock().get(name).cloned()
    }

    /// Notes why a rollout was not begun, or that nothing is held.
    pub fn hold(&self, name: &str, held: Option<HeldRelease>) {
        let mut all = self.lock();
        let Some(held) = held else { return drop(all.remove(name)) };
        let is_told = all.get(name).is_some_and(|told| (&told.version, &told.why) == (&held.version, &held.why));
        if !is_told {
            tracing::warn!(agent = name, version = held.version, why = held.why, "a newer release is not tried");
        }
        all.insert(name.to_owned(), held);
    }

    /// Forgets those of what is not installed any more.
    pub fn retain(&self, installed: &BTreeSet<String>) {
        self.lock().retain(|name, _| installed.contains(name));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, HeldRelease>> {
        self.0.lock().expect("no holder of the newer releases panics")
    }
}
