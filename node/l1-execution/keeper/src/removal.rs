//! Removes what programs left.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

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
}
