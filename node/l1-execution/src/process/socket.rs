//! The folder of a program's sockets, which only this account can enter, so that no other account can connect to one or
//! replace it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest path of the parent folder, bytes: the path of a socket has at most 103 on some systems.
const FOLDER_BYTES_MAX: usize = 60;
/// The socket that the program listens on.
pub(super) const AGENT: &str = "agent.sock";
/// The socket that the node listens on for the program's system calls.
pub(super) const CALLS: &str = "calls.sock";
/// Attempts to find a free name for the folder.
const TRIES_MAX: u64 = 1_000;

/// Its temporary files, where it shares the machine's folders.
const TEMPORARY: &str = "tmp";

/// A folder with mode 0700 that is removed with its content on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder in `place`, or in the system's runtime folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(place: Option<&Path>) -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let place = place.filter(|place| place.as_os_str().len() <= FOLDER_BYTES_MAX).map(Path::to_owned);
        if let Some(place) = &place {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        }
        let runtime = || std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
        let place = place.or_else(runtime).unwrap_or_else(std::env::temp_dir);
        for _ in 0..TRIES_MAX {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = place.join(format!("althing-{}-{n}", std::process::id()));
            // Only a folder made by this call is used: whoever made another one could enter it.
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Folder(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("no name is free for a folder in {}", place.display())))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Where a socket of that name is, or will be.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A folder in it for temporary files, with none of an earlier program.
    pub(super) fn temporary(&self) -> io::Result<PathBuf> {
        let path = self.0.join(TEMPORARY);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// A new listening socket of that name, replacing the previous one.
    pub(super) fn listen(&self, name: &str) -> io::Result<(UnixListener, PathBuf)> {
        let path = self.0.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok((UnixListener::bind(&path)?, path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it cannot be removed, only a dead socket is left behind.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_can_enter_the_folder_and_it_goes_when_it_is_not_needed() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(Some(&place.path().join("run"))).expect("a folder");
        let (_listener, path) = folder.listen(AGENT).expect("a socket");
        let (_other, again) = folder.listen(AGENT).expect("another in its place");
        assert_eq!(path, again);
        let mode = fs::metadata(&folder.0).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let at = folder.0.clone();
        drop(folder);
        assert!(!at.exists());
    }

    #[test]
    fn a_place_whose_path_is_too_long_for_a_socket_is_not_used() {
        let place = tempfile::tempdir().expect("a folder");
        let long = place.path().join("x".repeat(FOLDER_BYTES_MAX));
        let folder = Folder::new(Some(&long)).expect("a folder elsewhere");
        assert!(!folder.0.starts_with(place.path()));
        folder.listen(AGENT).expect("a socket");
    }
}
