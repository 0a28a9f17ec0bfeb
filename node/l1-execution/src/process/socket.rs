//! The folder of a program's sockets, which only this account can enter, so that no other account can connect to one or
//! replace it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
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

/// What the program may write: its socket, which it may make again.
const OWN: &str = "own";
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
                Ok(()) => {
                    fs::DirBuilder::new().mode(0o700).create(folder.join(OWN))?;
                    return Ok(Folder(folder));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("no name is free for a folder in {}", place.display())))
    }

    /// What in it the program may use: its own folder, and the socket of its calls if there is one.
    pub(super) fn own(&self) -> Vec<PathBuf> {
        let calls = self.0.join(CALLS);
        [self.0.join(OWN)].into_iter().chain(calls.exists().then_some(calls)).collect()
    }

    /// Where a socket of that name is, or will be.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        let folder = if name == AGENT { self.0.join(OWN) } else { self.0.clone() };
        folder.join(name)
    }

    /// A folder in it for temporary files, with none of an earlier program.
    pub(super) fn temporary(&self) -> io::Result<PathBuf> {
        let path = self.0.join(TEMPORARY);
        clear(&path)?;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// A new listening socket of that name, replacing the previous one.
    pub(super) fn listen(&self, name: &str) -> io::Result<(UnixListener, PathBuf)> {
        let path = self.place(name);
        if name == AGENT {
            // An earlier program may have left anything there.
            clear(&self.0.join(OWN))?;
            fs::DirBuilder::new().mode(0o700).create(self.0.join(OWN))?;
        }
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
        let _ = clear(&self.0);
    }
}

/// Removes a folder in which a program wrote, if it is there: at once, or where there is much in it, by and by beside it.
///
/// # Errors
/// Those of the system.
fn clear(folder: &Path) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let known = [OWN, TEMPORARY].map(|name| folder.join(name));
    let sockets = [folder.join(AGENT), folder.join(CALLS), folder.join(OWN).join(AGENT)];
    sockets.iter().for_each(|socket| drop(fs::remove_file(socket)));
    known.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => return done,
    }
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let aside = folder.with_file_name(format!(".left-{}-{n}", std::process::id()));
    fs::rename(folder, &aside)?;
    // As much as it likes: nobody waits for it. An error leaves it until the node starts again.
    std::thread::Builder::new().name("clear".to_owned()).spawn(move || drop(remove_all(&aside)))?;
    Ok(())
}

/// Removes a folder with all in it, however deep it is: what lies in a folder of it is moved up before.
///
/// # Errors
/// Those of the system.
pub fn remove_all(folder: &Path) -> io::Result<()> {
    let mut next = 0_u64;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            is_empty = false;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            // What the program forbade itself is not forbidden to its account.
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700))?;
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.file_type()?.is_dir() {
                    fs::rename(inner.path(), folder.join(format!(".up-{next}")))?;
                    next += 1;
                } else {
                    fs::remove_file(inner.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if is_empty {
            return fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with others in it, one in the other.
    fn deep(at: &Path, levels: usize) {
        use std::os::fd::AsFd as _;
        let mut folder = std::os::fd::OwnedFd::from(fs::File::open(at).expect("it is there"));
        for _ in 0..levels {
            nix::sys::stat::mkdirat(folder.as_fd(), "d", nix::sys::stat::Mode::S_IRWXU).expect("a folder");
            let flags = nix::fcntl::OFlag::O_DIRECTORY;
            folder = nix::fcntl::openat(folder.as_fd(), "d", flags, nix::sys::stat::Mode::empty()).expect("it opens");
        }
    }

    #[test]
    fn what_is_deeper_than_any_stack_is_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("left");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("file"), "").expect("a file");
        deep(&folder, 20_000);
        let removing = std::thread::Builder::new().stack_size(128 << 10);
        let removed = removing.spawn(move || remove_all(&folder).map(|()| folder.exists())).expect("a thread");
        assert!(!removed.join().expect("it ends").expect("it is removed"));
    }

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
