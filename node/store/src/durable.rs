//! Writes small files atomically, also across a power cut.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Tells apart the temporary names of one process.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// Bytes for a file that only its owner may read, on disk under a temporary name; removed unless it is placed.
pub(crate) struct Staged {
    path: PathBuf,
    target: PathBuf,
}

impl Staged {
    /// Writes and syncs `bytes` beside `target`. The file is created with mode 0600, so it is never open to others.
    pub(crate) fn write(target: &Path, bytes: &[u8]) -> io::Result<Staged> {
        let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.new", std::process::id(), STAGED.fetch_add(1, Ordering::Relaxed)));
        let staged = Staged { path: target.with_file_name(hidden), target: target.to_owned() };
        // A process that had the same id may have died here.
        remove_if_there(&staged.path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged.path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(staged)
    }

    /// Puts the file at its place; fails with `AlreadyExists` when there is one.
    pub(crate) fn place_new(self) -> io::Result<()> {
        fs::hard_link(&self.path, &self.target)?;
        sync_parent(&self.target)
    }

    /// Puts the file at its place, instead of the one that may be there.
    pub(crate) fn replace(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)?;
        sync_parent(&self.target)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // It does not exist any more after a rename. If it cannot be removed, it stays, readable by its owner only.
        let _ = remove_if_there(&self.path);
    }
}

/// Writes `bytes` in the place of the file that may be at `path`: readable by its owner only, on disk and complete when it appears.
/// Missing directories on the way are created with mode 0700.
///
/// # Errors
/// The operating system's; what was at `path` is there still.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_dirs(parent(path))?;
    Staged::write(path, bytes)?.replace()
}

/// The directory that holds `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates what is missing of `dir`, with mode 0700, so that it is still there after a power cut.
pub(crate) fn create_dirs(dir: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    missing.into_iter().try_for_each(sync_parent)
}

/// Makes a new name in the directory of `path` durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
