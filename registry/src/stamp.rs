//! What tells one version of a file from another.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Of a file that is replaced, and never written in place: its number, its length, and when it was changed.
pub type Stamp = (u64, u64, i64, i64);

/// That of a file as it is now; of one that is not there, or cannot be looked at, always the same.
pub fn stamp(path: &Path) -> Stamp {
    std::fs::metadata(path).map_or((0, 0, 0, 0), |facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
}
