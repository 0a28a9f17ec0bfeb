//! The folder of a program's sockets, which only this account can enter, so that no other account can connect to one or
//! replace it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use althing_keeper::{regain, remove_all, remove_some};
use nix::unistd::{geteuid, mkdtemp};

/// The longest path of the parent folder, bytes: the path of a socket has at most 103 on some systems.
const FOLDER_BYTES_MAX: usize = 60;
/// The socket that the program listens on.
pub(super) const AGENT: &str = "agent.sock";
/// The socket that the node listens on for the program's system calls.
pub(super) const CALLS: &str = "calls.sock";

/// What the program may write: its socket, which it may make again.
const OWN: &str = "own";
/// Its temporary files, where it shares the machine's folders.
const TEMPORARY: &str = "tmp";

/// In a folder elsewhere: a link to the place whose path was too long, by which it is known when its node was killed.
const PLACE: &str = "place";
/// How the names of folders begin, and of those that are about to be removed.
const PREFIX: &str = "althing-";
const LEFT: &str = ".left-";
/// How they go on: what nobody else can foresee, and so give to something of its own before.
const ANY: &str = "XXXXXX";
/// Entries of a place elsewhere that are looked at.
const ENTRIES_MAX: usize = 65_536;
/// Files and folders that are removed while their program, or whoever starts it, waits.
const AT_ONCE_MAX: u64 = 64;
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
        let near = place.filter(|place| fits(place));
        if let Some(near) = near {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(near)?;
        }
        let at = near.map_or_else(|| elsewhere().swap_remove(0), Path::to_owned);
        // Only a folder made by this call is used: whoever made another one could enter it.
        let folder = Folder(fresh(&at, PREFIX)?);
        fs::DirBuilder::new().mode(0o700).create(folder.0.join(OWN))?;
        if let Some(place) = place.filter(|_| near.is_none()) {
            symlink(std::path::absolute(place)?, folder.0.join(PLACE))?;
        }
        Ok(folder)
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

/// A new folder with mode 0700, whose name begins so.
fn fresh(at: &Path, begins: &str) -> io::Result<PathBuf> {
    Ok(mkdtemp(&at.join(format!("{begins}{ANY}")))?)
}

/// Removes a folder in which a program wrote, if it is there: at once, or where there is much in it, by and by beside it. The program
/// may write there still: nothing is looked at by a path through that folder.
///
/// # Errors
/// Those of the system.
fn clear(folder: &Path) -> io::Result<()> {
    let aside = match set_aside(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        aside => aside?,
    };
    match remove_some(&aside, AT_ONCE_MAX) {
        Ok(true) => Ok(()),
        // As much as it likes: nobody waits for it. What is not removed is when the node starts again.
        Ok(false) | Err(_) => remove_by_and_by(vec![aside]).map(drop),
    }
}

/// Moves a folder into a new one beside it, so that its own name is free, and that no program was granted what it lies in.
fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    };
    // No new folder where there is nothing.
    fs::symlink_metadata(folder).map(drop)?;
    let aside = fresh(above, LEFT)?;
    let moved = fs::rename(folder, aside.join(name)).or_else(|error| match error.kind() {
        // A folder that may not be written does not move.
        io::ErrorKind::PermissionDenied => regain(folder).and_then(|()| fs::rename(folder, aside.join(name))),
        _ => Err(error),
    });
    if let Err(error) = moved {
        // An error leaves an empty folder, until the node starts again.
        let _ = fs::remove_dir(&aside);
        return Err(error);
    }
    Ok(aside)
}

/// Removes folders in a thread of its own, again and again where somebody writes still.
fn remove_by_and_by(folders: Vec<PathBuf>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("clear".to_owned()).spawn(move || {
        for folder in &folders {
            let is_gone = || remove_all(folder).is_ok() || fs::symlink_metadata(folder).is_err();
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
        let aside = elsewhere().into_iter().flat_map(|folder| named(&folder, LEFT));
        left.extend(
            aside.filter(|aside| is_own(aside) && named(aside, PREFIX).iter().any(|folder| stands_for(folder, &place))),
        );
    }
    remove_by_and_by(left)
}

/// Whether a folder is one of this account that was made because the path of that place is too long.
fn stands_for(folder: &Path, place: &Path) -> bool {
    is_own(folder) && fs::read_link(folder.join(PLACE)).is_ok_and(|of| of == place)
}

/// Whether there is a folder of this account, and no link.
fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
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
    fn nothing_is_removed_through_a_link_that_a_program_put_into_its_folder() {
        let place = tempfile::tempdir().expect("a folder");
        let [mine, other] = ["mine", "other"].map(|name| {
            let folder = Folder::new(Some(&place.path().join(name))).expect("a folder");
            let (listener, path) = folder.listen(AGENT).expect("a socket");
            (folder, listener, path)
        });
        let of_other = other.2.parent().expect("its folder");
        let temporary = mine.0.temporary().expect("a folder");
        // Where an earlier program's socket, or its own folder, would be.
        for link in [mine.0.0.join(OWN).join(OWN), temporary.join(OWN), temporary.join(TEMPORARY)] {
            symlink(of_other, link).expect("a link");
        }
        mine.0.temporary().expect("without what was there");
        let (_listener, path) = mine.0.listen(AGENT).expect("a socket");
        let mut inside = fs::read_dir(path.parent().expect("its folder")).expect("it is there");
        assert!(inside.all(|entry| entry.expect("an entry").file_name() == AGENT), "nothing else");
        // What has the name of its folder may be a link too.
        fs::remove_dir(mine.0.0.join(TEMPORARY)).expect("it is empty");
        symlink(of_other, mine.0.0.join(TEMPORARY)).expect("a link");
        mine.0.temporary().expect("a folder in its place");
        drop(mine);
        assert!(other.2.exists(), "the socket of another program stays");
    }

    #[test]
    fn what_is_set_aside_lies_in_a_new_folder_that_nobody_else_enters() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("folder");
        assert_eq!(set_aside(&folder).expect_err("nothing is there").kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 0, "no folder for nothing");
        let twice = [0, 1].map(|_| {
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("file"), "").expect("a file");
            set_aside(&folder).expect("it has another name")
        });
        assert_ne!(twice[0], twice[1]);
        for aside in &twice {
            assert_eq!(fs::metadata(aside).expect("it is there").permissions().mode() & 0o777, 0o700);
            assert!(aside.join("folder/file").exists() && !folder.exists());
        }
    }

    #[test]
    fn much_is_removed_by_and_by_and_its_name_is_free_at_once() {
        let place = tempfile::tempdir().expect("a folder");
        let near = place.path().join("run");
        let folder = Folder::new(Some(&near)).expect("a folder");
        let temporary = folder.temporary().expect("a folder");
        for number in 0..2 * AT_ONCE_MAX {
            fs::write(temporary.join(number.to_string()), "").expect("a file");
        }
        // It may not be written, which a program says itself.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o0)).expect("it is ours");
        let again = folder.temporary().expect("another in its place");
        assert_eq!(again, temporary);
        assert_eq!(fs::read_dir(again).expect("it is there").count(), 0);
    }
}
