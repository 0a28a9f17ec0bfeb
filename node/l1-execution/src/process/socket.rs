//! The folder of a program's sockets, which only this account can enter, so that no other account can connect to one or
//! replace it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use althing_keeper::remove_all;
use nix::unistd::geteuid;

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

/// In a folder elsewhere: a link to the place whose path was too long, by which it is known when its node was killed.
const PLACE: &str = "place";
/// How the names of folders begin, and of those that are about to be removed.
const PREFIX: &str = "althing-";
const LEFT: &str = ".left-";
/// Entries of a place elsewhere that are looked at.
const ENTRIES_MAX: usize = 65_536;
/// How often a folder is removed in which somebody writes still, and how long it is waited in between.
const REMOVALS_MAX: u32 = 120;
const PAUSE: Duration = Duration::from_millis(250);

/// A folder with mode 0700 that is removed with its content on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder in `place`, or in the system's runtime folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(place: Option<&Path>) -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let near = place.filter(|place| fits(place));
        if let Some(near) = near {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(near)?;
        }
        let at = near.map_or_else(|| elsewhere().swap_remove(0), Path::to_owned);
        for _ in 0..TRIES_MAX {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = at.join(format!("{PREFIX}{}-{n}", std::process::id()));
            // Only a folder made by this call is used: whoever made another one could enter it.
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let folder = Folder(folder);
                    fs::DirBuilder::new().mode(0o700).create(folder.0.join(OWN))?;
                    if let Some(place) = place.filter(|_| near.is_none()) {
                        symlink(std::path::absolute(place)?, folder.0.join(PLACE))?;
                    }
                    return Ok(folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("no name is free for a folder in {}", at.display())))
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

/// Whether the paths of sockets in a place are short enough.
fn fits(place: &Path) -> bool {
    place.as_os_str().len() <= FOLDER_BYTES_MAX
}

/// Where folders are made whose place has too long a path; the first is used, the others were once.
fn elsewhere() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    runtime.into_iter().chain([std::env::temp_dir()]).collect()
}

/// Removes a folder in which a program wrote, if it is there: at once, or where there is much in it, by and by beside it.
///
/// # Errors
/// Those of the system.
fn clear(folder: &Path) -> io::Result<()> {
    let known = [OWN, TEMPORARY].map(|name| folder.join(name));
    let files = [folder.join(AGENT), folder.join(CALLS), folder.join(PLACE), folder.join(OWN).join(AGENT)];
    files.iter().for_each(|file| drop(fs::remove_file(file)));
    known.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => return done,
    }
    // As much as it likes: nobody waits for it. What is not removed is when the node starts again.
    remove_by_and_by(vec![set_aside(folder)?]).map(drop)
}

/// Gives a folder another name beside it, so that its own is free.
fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..TRIES_MAX {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let aside = folder.with_file_name(format!("{LEFT}{}-{n}", std::process::id()));
        match fs::rename(folder, &aside) {
            // An earlier process had this id.
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {}
            done => return done.map(|()| aside),
        }
    }
    Err(io::Error::other(format!("no name is free beside {}", folder.display())))
}

/// Removes folders in a thread of its own, again and again where somebody writes still.
fn remove_by_and_by(folders: Vec<PathBuf>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("clear".to_owned()).spawn(move || {
        for folder in &folders {
            let is_gone = || remove_all(folder).is_ok() || !folder.exists();
            // An error that stays leaves it until the node starts again.
            (0..REMOVALS_MAX).take_while(|_| !is_gone()).for_each(|_| thread::park_timeout(PAUSE));
        }
    })
}

/// Removes what a node that was killed left in its place of folders, and elsewhere for it. Its programs may write there for a moment
/// still: the place is free at once, and what was in it goes by and by, in the thread that is given.
///
/// # Errors
/// Those of the system.
pub fn remove_left(place: &Path) -> io::Result<JoinHandle<()>> {
    let place = std::path::absolute(place)?;
    let named = |folder: &Path, begins: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
        let has_name = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(begins.as_bytes());
        entries.filter(has_name).map(|entry| entry.path()).collect()
    };
    // What was set aside the last time, and not removed.
    let mut left = place.parent().map(|above| named(above, LEFT)).unwrap_or_default();
    match set_aside(&place) {
        Ok(aside) => left.push(aside),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if !fits(&place) {
        let all = elsewhere().into_iter().flat_map(|folder| named(&folder, PREFIX));
        left.extend(all.filter(|folder| stands_for(folder, &place)));
    }
    remove_by_and_by(left)
}

/// Whether a folder is one of this account that was made because the path of that place is too long.
fn stands_for(folder: &Path, place: &Path) -> bool {
    let is_own = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
    fs::symlink_metadata(folder).is_ok_and(is_own) && fs::read_link(folder.join(PLACE)).is_ok_and(|of| of == place)
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

    #[test]
    fn what_a_killed_node_left_is_removed_where_its_path_is_too_long_too() {
        let place = tempfile::tempdir().expect("a folder");
        let far = |name: &str| place.path().join(name.repeat(FOLDER_BYTES_MAX));
        let near = place.path().join("run");
        let left = |at: &Path| {
            let folder = Folder::new(Some(at)).expect("a folder");
            let (listener, path) = folder.listen(AGENT).expect("a socket");
            fs::write(folder.temporary().expect("a folder").join("file"), "written").expect("a file");
            // It was killed.
            std::mem::forget(folder);
            drop(listener);
            path
        };
        let mine = [left(&near), left(&near), left(&far("a"))];
        let other = Folder::new(Some(&far("b"))).expect("a folder");
        for at in [&near, &far("a")] {
            remove_left(at).expect("it is set aside").join().expect("it is removed");
        }
        assert!(mine.iter().all(|path| !path.ancestors().nth(2).is_some_and(Path::exists)), "{mine:?}");
        assert!(other.0.exists(), "that of another node stays");
        let beside = fs::read_dir(place.path()).expect("it is there").count();
        assert_eq!(beside, 0, "nothing is left aside");
        assert!(remove_left(&near).is_ok(), "there was nothing");
    }

    #[test]
    fn a_name_that_an_earlier_process_used_is_passed_over() {
        let place = tempfile::tempdir().expect("a folder");
        let folders = ["first", "second"].map(|name| place.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).expect("a folder");
            fs::write(folder.join("file"), "").expect("a file");
        }
        let first = set_aside(&folders[0]).expect("it has another name");
        // Numbers may meet again: those of an earlier process with this id.
        let number = |path: &Path| path.to_string_lossy().rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        let next = number(&first).expect("a number") + 1;
        for n in next..next + 20 {
            let taken = first.with_file_name(format!("{LEFT}{}-{n}", std::process::id()));
            fs::create_dir(&taken).expect("a folder");
            fs::write(taken.join("file"), "").expect("a file");
        }
        let second = set_aside(&folders[1]).expect("it has another name");
        assert!(second.join("file").exists() && number(&second) >= Some(next));
    }
}
