//! The orders in which a directory is listed, so that a page is read from where it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Members of a directory by when they were registered and changed, and by their titles. Entries of the log are what is older
/// and newer; no two members have the same.
#[derive(Debug, Clone, Default)]
pub struct Orders {
    created: BTreeMap<u64, Arc<str>>,
    modified: BTreeMap<u64, Arc<str>>,
    titles: BTreeSet<(Box<str>, Arc<str>)>,
}

/// Where a member stands in them.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The entry that registered it.
    pub created: u64,
    /// The entry of its description.
    pub modified: u64,
    /// Its title.
    pub title: &'a str,
}

impl Orders {
    pub(in crate::machine) fn insert(&mut self, id: &Arc<str>, place: Place<'_>) {
        self.created.insert(place.created, id.clone());
        self.modified.insert(place.modified, id.clone());
        self.titles.insert((place.title.into(), id.clone()));
    }

    pub(in crate::machine) fn remove(&mut self, id: &Arc<str>, place: Place<'_>) {
        self.created.remove(&place.created);
        self.modified.remove(&place.modified);
        self.titles.remove(&(place.title.into(), id.clone()));
    }

    /// Ids by the entries that registered them, the oldest first.
    pub fn created(&self) -> impl DoubleEndedIterator<Item = (u64, &str)> {
        self.created.iter().map(|(entry, id)| (*entry, &**id))
    }

    /// Ids by the entries of their descriptions, the oldest first.
    pub fn modified(&self) -> impl DoubleEndedIterator<Item = (u64, &str)> {
        self.modified.iter().map(|(entry, id)| (*entry, &**id))
    }

    /// Those of entries from `entry` on.
    pub fn modified_since(&self, entry: u64) -> impl Iterator<Item = (u64, &str)> {
        self.modified.range(entry..).map(|(entry, id)| (*entry, &**id))
    }

    /// The id whose description is that of an entry.
    #[must_use]
    pub fn modified_at(&self, entry: u64) -> Option<&str> {
        self.modified.get(&entry).map(|id| &**id)
    }

    /// Ids by titles; those of one title in the order of the ids.
    pub fn titles(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.titles.iter().map(|(title, id)| (&**title, &**id))
    }
}
