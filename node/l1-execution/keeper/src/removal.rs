//! Removes what programs left.
//!
//! **Input**: a folder in which programs wrote, and may write still. **Output**: it is gone, or an error.
//!
//! **Invariants**
//! - No link is followed: each folder is held by a descriptor before it is emptied, and each entry is removed by its name in a folder
//!   that is held. What a program puts in the place of an entry meanwhile is removed itself, and not what it leads to.
//! - Depth takes neither stack nor descriptors: what lies in a folder of the folder is moved up before.
//! - A program that goes on writing in a folder of the folder is not followed without end.
//!
//! **Never knows**: whose the folder is. Its parent is to be one that no program writes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::NixPath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Names that are read of a folder at once.
const NAMES_MAX: usize = 1_024;
/// How often the names in one folder are read before it is another's turn.
const READINGS_MAX: usize = 64;
/// How often an entry may be there still after its turn: somebody writes there on and on.
const VAIN_MAX: u32 = 1_024;

/// Removes a folder with all in it, however deep it is; what is no folder is removed itself.
///
/// # Errors
/// Those of the system; also where somebody writes there on and on.
pub fn remove_all(folder: &Path) -> io::Result<()> {
    remove_some(folder, u64::MAX).map(drop)
}

/// The same, if at most `most` files and folders lie in it; else as many are removed. Whether it is gone.
///
/// # Errors
/// As of [`remove_all`].
pub fn remove_some(folder: &Path, most: u64) -> io::Result<bool> {
    match unlinkat(AT_FDCWD, folder, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => {}
        done => return done.map(|()| true).map_err(io::Error::from),
    }
    let is_empty = empty(hold(AT_FDCWD, folder)?, most)?;
    if is_empty {
        unlinkat(AT_FDCWD, folder, UnlinkatFlags::RemoveDir)?;
    }
    Ok(is_empty)
}

/// Lets this account do with a folder again what it likes, where a program forbade that.
///
/// # Errors
/// Those of the system; also where there is no folder itself.
pub fn regain(folder: &Path) -> io::Result<()> {
    hold(AT_FDCWD, folder).map(drop).map_err(io::Error::from)
}

/// Empties a folder in which at most `most` files and folders lie; else as many are removed. Whether it is empty.
///
/// # Errors
/// As of [`remove_all`].
pub(crate) fn empty(folder: OwnedFd, most: u64) -> nix::Result<bool> {
    let mut top = Dir::from_fd(folder)?;
    let (mut removal, mut vain) = (Removal { left: most, next: 0 }, 0);
    loop {
        let names = names(&mut top)?;
        if names.is_empty() {
            return Ok(true);
        }
        for name in &names {
            if !removal.goes_on() {
                return Ok(false);
            }
            if !removal.remove(&top, name)? {
                vain += 1;
            }
            if vain > VAIN_MAX {
                return Err(Errno::ENOTEMPTY);
            }
        }
    }
}

/// Holds a folder that is at a path itself, where no link leads to it, and lets this account do with it what it likes: what the
/// program forbade itself is not forbidden to its account.
///
/// # Errors
/// The system's; `ELOOP` or `ENOTDIR` where there is no folder.
pub(crate) fn hold<P: ?Sized + NixPath>(at: impl AsFd, path: &P) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let held = match openat(at.as_fd(), path, flags, Mode::empty()) {
        Err(Errno::EACCES) => {
            let closed = openat(at.as_fd(), path, flags | OFlag::O_PATH, Mode::empty())?;
            // fchmod(2) takes no such descriptor; this path leads to the folder that it holds, and to no other.
            let itself = format!("/proc/self/fd/{}", closed.as_raw_fd());
            fchmodat(AT_FDCWD, itself.as_str(), Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
            openat(&closed, ".", flags, Mode::empty())?
        }
        held => held?,
    };
    // An error means that it is another account's; what can be done in it nevertheless, the next call shows.
    let _ = fchmod(&held, Mode::S_IRWXU);
    Ok(held)
}

/// The names in a folder, at most [`NAMES_MAX`]; none if it is not there any more.
fn names(folder: &mut Dir) -> nix::Result<Vec<CString>> {
    let is_above = |name: &CString| name.as_c_str() == c"." || name.as_c_str() == c"..";
    let all = folder.iter().map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let named: nix::Result<Vec<CString>> =
        all.filter(|name| !name.as_ref().is_ok_and(is_above)).take(NAMES_MAX).collect();
    match named {
        Err(Errno::ENOENT) => Ok(Vec::new()),
        named => named,
    }
}

/// Removes an entry that is no folder; false if it is one.
fn is_unlinked(folder: &Dir, name: &CStr) -> nix::Result<bool> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::EISDIR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How far a removal is.
struct Removal {
    /// Entries that may be removed yet.
    left: u64,
    /// The number in the next name of what is moved up.
    next: u64,
}

impl Removal {
    /// Whether one more entry may be removed.
    fn goes_on(&mut self) -> bool {
        let more = self.left.checked_sub(1);
        self.left = more.unwrap_or_default();
        more.is_some()
    }

    /// Removes an entry of the top, after what lies in it was moved up. Whether it is gone.
    fn remove(&mut self, top: &Dir, name: &CStr) -> nix::Result<bool> {
        if is_unlinked(top, name)? {
            return Ok(true);
        }
        let mut folder = match hold(top, name) {
            Ok(folder) => Dir::from_fd(folder)?,
            // Something else took its place meanwhile.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(false),
            Err(error) => return Err(error),
        };
        for _ in 0..READINGS_MAX {
            let inside = names(&mut folder)?;
            if inside.is_empty() {
                break;
            }
            for inner in &inside {
                if !self.goes_on() {
                    return Ok(false);
                }
                if !is_unlinked(&folder, inner)? {
                    self.lift(&folder, inner, top)?;
                }
            }
        }
        match unlinkat(top, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves what lies in a folder up, under a name that is free there, or that something has which is removed too.
    fn lift(&mut self, folder: &Dir, name: &CStr, top: &Dir) -> nix::Result<()> {
        let mut is_opened = false;
        loop {
            let free = format!(".up-{}", self.next);
            match renameat(folder, name, top, free.as_str()) {
                Ok(()) | Err(Errno::ENOENT) => {
                    self.next += 1;
                    return Ok(());
                }
                // The program gave that name to something.
                Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR | Errno::EISDIR) if self.goes_on() => {
                    self.next += 1;
                }
                // A folder that may not be written does not move either.
                Err(Errno::EACCES) if !is_opened => {
                    is_opened = true;
                    // An error shows when it is moved.
                    drop(hold(folder, name));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// A folder with others in it, one in the other.
    fn deep(at: &Path, levels: usize) {
        let mut folder = OwnedFd::from(fs::File::open(at).expect("it is there"));
        for _ in 0..levels {
            nix::sys::stat::mkdirat(folder.as_fd(), "d", Mode::S_IRWXU).expect("a folder");
            folder = openat(folder.as_fd(), "d", OFlag::O_DIRECTORY, Mode::empty()).expect("it opens");
        }
    }

    /// A place with a folder that is removed, and one with a file that stays.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        let [left, stays] = ["left", "stays"].map(|name| place.path().join(name));
        for folder in [&left, &stays] {
            fs::create_dir(folder).expect("a folder");
        }
        fs::write(stays.join("file"), "another's").expect("a file");
        (place, left, stays)
    }

    #[test]
    fn what_is_deeper_than_any_stack_is_removed() {
        let (_place, folder, _) = place();
        fs::write(folder.join("file"), "").expect("a file");
        deep(&folder, 20_000);
        let removing = thread::Builder::new().stack_size(128 << 10);
        let removed = removing.spawn(move || remove_all(&folder).map(|()| folder.exists())).expect("a thread");
        assert!(!removed.join().expect("it ends").expect("it is removed"));
    }

    #[test]
    fn a_link_is_removed_and_nothing_of_what_it_leads_to() {
        let (place, left, stays) = place();
        fs::create_dir(left.join("in")).expect("a folder");
        for link in [left.join("link"), left.join("in/link"), place.path().join("top")] {
            symlink(&stays, link).expect("a link");
        }
        remove_all(&left).expect("it is removed");
        remove_all(&place.path().join("top")).expect("the link itself");
        assert!(!left.exists() && fs::symlink_metadata(place.path().join("top")).is_err());
        assert!(stays.join("file").exists(), "it was another's");
        let missing = remove_all(&left).expect_err("it is gone");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_exchanged_for_a_link_meanwhile_is_not_followed() {
        let (_place, left, stays) = place();
        symlink(&stays, left.join("to")).expect("a link");
        let at = fs::File::open(&left).expect("it is there");
        let mode = || fs::metadata(&stays).expect("it stays").permissions().mode();
        let before = mode();
        let refused = hold(&at, c"to").map(drop);
        assert!(matches!(refused, Err(Errno::ELOOP | Errno::ENOTDIR)), "{refused:?}");
        // What a program does that runs on: a folder, a link in its place, and again.
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                let (own, aside) = (left.join("own"), left.join("aside"));
                while !is_over.load(Ordering::Relaxed) {
                    // Any of it may be gone by then.
                    let _ = fs::create_dir_all(own.join("in"));
                    let _ = fs::rename(&own, &aside);
                    let _ = symlink(&stays, &own);
                    let _ = fs::remove_file(&own);
                }
            });
            for _ in 0..2_000 {
                // It may be written to still.
                let _ = remove_all(&left);
                let _ = fs::create_dir(&left);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        remove_all(&left).expect("nobody writes any more");
        assert_eq!(fs::read_to_string(stays.join("file")).expect("it was another's"), "another's");
        assert_eq!(mode(), before, "nor is its mode another one");
    }

    #[test]
    fn what_a_program_closed_or_gave_the_names_of_what_is_moved_is_removed() {
        let (_place, left, _) = place();
        for number in 0..64 {
            let taken = left.join(format!(".up-{number}"));
            match number % 3 {
                0 => fs::write(taken, "").expect("a file"),
                1 => symlink("nowhere", taken).expect("a link"),
                _ => fs::create_dir_all(taken.join("a/b")).expect("folders"),
            }
        }
        for number in 0..64 {
            fs::create_dir_all(left.join(format!("closed-{number}/in/in"))).expect("folders");
            for folder in ["in/in", "in", ""] {
                let closed = left.join(format!("closed-{number}")).join(folder);
                fs::set_permissions(closed, fs::Permissions::from_mode(0o0)).expect("it is ours");
            }
        }
        fs::set_permissions(&left, fs::Permissions::from_mode(0o0)).expect("it is ours");
        remove_all(&left).expect("it is removed");
        assert!(!left.exists());
    }

    #[test]
    fn no_more_is_removed_at_once_than_is_said() {
        let (_place, left, _) = place();
        for number in 0..9 {
            fs::write(left.join(number.to_string()), "").expect("a file");
        }
        let count = || fs::read_dir(&left).expect("it is there").count();
        assert!(!remove_some(&left, 4).expect("a part of it"));
        assert_eq!(count(), 5);
        assert!(!remove_some(&left, 4).expect("a part of it"));
        assert_eq!(count(), 1);
        assert!(remove_some(&left, 1).expect("the rest"));
        assert!(!left.exists());
    }
}
