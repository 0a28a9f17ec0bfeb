//! A snapshot as it is stored and sent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::arriving::Share;
use crate::machine::group::Group;

/// The rows of a snapshot.
pub(crate) struct Image {
    rows: Vec<Vec<u8>>,
    /// The state that they are of, where they came from another member: it was made once, to check them, and takes the place of
    /// the one here.
    checked: Mutex<Option<Group>>,
    /// What they take of the room for snapshots that arrive, as long as they are in memory.
    _share: Option<Share>,
}

impl Image {
    /// A snapshot of this member.
    pub fn new(rows: Vec<Vec<u8>>) -> Arc<Image> {
        Arc::new(Image { rows, checked: Mutex::new(None), _share: None })
    }

    /// One that came from another member, and the state that it is of.
    pub fn checked(rows: Vec<Vec<u8>>, group: Group, share: Share) -> Arc<Image> {
        Arc::new(Image { rows, checked: Mutex::new(Some(group)), _share: Some(share) })
    }

    pub fn rows(&self) -> &[Vec<u8>] {
        &self.rows
    }

    /// The state that was made to check it, for one who asks.
    pub fn take_group(&self) -> Option<Group> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows.len())
    }
}
