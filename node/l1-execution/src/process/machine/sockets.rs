//! Unix sockets in what a program may read: whoever connects to one has all that its service does for the account, which is
//! more than to read a file.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::{Files, Kind};

/// Entries of folders that are looked at for one program. Sockets lie near to what is named, so the nearest are looked at first.
const ENTRIES_MAX: usize = 16_384;

/// The sockets in these folders, in order, as far as [`ENTRIES_MAX`] entries show them; nothing is looked for below `apart`.
pub fn sockets(files: &dyn Files, roots: &[&Path], apart: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut left) = (BTreeSet::new(), ENTRIES_MAX);
    let mut open: VecDeque<PathBuf> = roots.iter().map(|root| (*root).to_owned()).collect();
    while let Some(folder) = open.pop_front().filter(|_| left > 0) {
        let entries = files.entries(&folder, left);
        left = left.saturating_sub(entries.len());
        for (path, kind) in entries.into_iter().filter(|(path, _)| !apart(path)) {
            match kind {
                Kind::Folder => open.push_back(path),
                Kind::Socket => {
                    found.insert(path);
                }
                _ => {}
            }
        }
    }
    found.into_iter().collect()
}

/// Whether a path without links is where services of the machine or of an account keep their sockets: all of `/run`, or what one
/// account has there.
pub fn is_of_services(path: &Path) -> bool {
    let run = Path::new("/run");
    path == run || path == run.join("user") || path.parent() == Some(run.join("user").as_path())
}
