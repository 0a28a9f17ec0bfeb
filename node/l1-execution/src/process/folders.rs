//! Folders that programs may read, looked through for what they hold.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::dir::{Dir, Type};
use nix::fcntl::OFlag;
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs,
};
use nix::time::{ClockId, clock_gettime};

use super::machine::Kind;
use super::machine::folders::{Contents, FolderMemory, Stamp};

/// About what is remembered of folders, bytes.
const MEMORY_BYTES_MAX: usize = 8 << 20;
/// XFS, which not every C library names.
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);
/// File systems that note each change of a folder with its time: others, such as those of the kernel itself, of programs and of other
/// machines, may say what they like.
const EXACT: [FsType; 6] =
    [BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC];

/// What is known of the folders of this machine, for as long as the node runs.
static KNOWN: Mutex<FolderMemory> = Mutex::new(FolderMemory::new(MEMORY_BYTES_MAX));

/// How many entries a folder has, at most that many, and those among them that are folders and sockets; none if it cannot be read, or is
/// a link.
pub fn list_folder(folder: &Path, most: usize) -> (usize, Vec<(PathBuf, Kind)>) {
    look(&KNOWN, folder, most, now_s()).unwrap_or_default()
}

/// Seconds of Unix time, by the clock with which the kernel notes changes of files: a node may have another one.
fn now_s() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map(Duration::from);
    // At the beginning of time nothing was read long after its change.
    now.ok().and_then(|now| i64::try_from(now.as_secs()).ok()).unwrap_or(0)
}

fn look(
    known: &Mutex<FolderMemory>,
    folder: &Path,
    most: usize,
    now_s: i64,
) -> io::Result<(usize, Vec<(PathBuf, Kind)>)> {
    let seen = stamp(&fs::symlink_metadata(folder)?);
    if let Some(contents) = held(known).get(&seen, now_s).filter(|contents| contents.count <= most) {
        return Ok(placed(folder, contents));
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags.bits()).open(folder)?;
    let before = stamp(&file.metadata()?);
    let mut dir = Dir::from_fd(OwnedFd::from(file))?;
    let (contents, is_whole) = read(&mut dir, folder, most);
    let found = placed(folder, &contents);
    if is_whole && is_exact(&dir) {
        let after = stamp(&File::from(dir.as_fd().try_clone_to_owned()?).metadata()?);
        if after == before {
            held(known).put(after, contents, now_s);
        }
    }
    Ok(found)
}

/// What lies in a folder, at most that many entries, and whether that is all.
fn read(dir: &mut Dir, folder: &Path, most: usize) -> (Contents, bool) {
    let mut contents = Contents { count: 0, inside: Vec::new() };
    for entry in dir.iter() {
        let Ok(entry) = entry else { return (contents, false) };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if contents.count == most {
            return (contents, false);
        }
        contents.count += 1;
        let kind = match entry.file_type() {
            Some(Type::Directory) => Kind::Folder,
            Some(Type::Socket) => Kind::Socket,
            Some(_) => Kind::Other,
            // Some file systems say that of the entry itself only; what is gone by now is missing.
            None => fs::symlink_metadata(folder.join(name)).map_or(Kind::Missing, |found| kind(&found)),
        };
        if matches!(kind, Kind::Folder | Kind::Socket) {
            contents.inside.push((name.to_owned(), kind));
        }
    }
    (contents, true)
}

fn kind(found: &Metadata) -> Kind {
    if found.is_dir() {
        Kind::Folder
    } else if found.file_type().is_socket() {
        Kind::Socket
    } else {
        Kind::Other
    }
}

fn placed(folder: &Path, contents: &Contents) -> (usize, Vec<(PathBuf, Kind)>) {
    (contents.count, contents.inside.iter().map(|(name, kind)| (folder.join(name), *kind)).collect())
}

fn is_exact(dir: &Dir) -> bool {
    fstatfs(dir).is_ok_and(|facts| EXACT.contains(&facts.filesystem_type()))
}

fn stamp(found: &Metadata) -> Stamp {
    Stamp {
        device: found.dev(),
        number: found.ino(),
        changed: (found.ctime(), found.ctime_nsec()),
        modified: (found.mtime(), found.mtime_nsec()),
    }
}

fn held(known: &Mutex<FolderMemory>) -> MutexGuard<'_, FolderMemory> {
    known.lock().expect("no holder of what is known of folders panics")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::SystemTime;

    use super::*;

    /// So long after all changes that each is over.
    const LATER_S: i64 = i64::MAX / 2;

    fn found(known: &Mutex<FolderMemory>, folder: &Path, most: usize) -> (usize, Vec<(PathBuf, Kind)>) {
        let (count, mut all) = look(known, folder, most, LATER_S).expect("it is read");
        all.sort_by(|one, other| one.0.cmp(&other.0));
        (count, all)
    }

    #[test]
    fn what_is_known_of_a_folder_is_not_read_again_and_a_change_is_seen_at_once() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, known) = (place.path().join("own"), Mutex::new(FolderMemory::new(1 << 20)));
        fs::create_dir_all(folder.join("inner")).expect("a folder");
        fs::write(folder.join("file"), "").expect("a file");
        std::os::unix::fs::symlink("inner", folder.join("link")).expect("a link");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let age = || File::open(&folder).and_then(|file| file.set_modified(long_ago)).expect("its time is set");
        age();
        let inner = (folder.join("inner"), Kind::Folder);
        for _ in 0..2 {
            assert_eq!(found(&known, &folder, 9), (3, vec![inner.clone()]));
            assert_eq!(found(&known, &folder, 2).0, 2, "as many as are asked for");
        }
        let seen = stamp(&fs::symlink_metadata(&folder).expect("it is there"));
        let other = Contents { count: 7, inside: vec![("known".into(), Kind::Socket)] };
        held(&known).put(seen, other, LATER_S);
        assert_eq!(found(&known, &folder, 7), (7, vec![(folder.join("known"), Kind::Socket)]), "it is not read");
        assert_eq!(found(&known, &folder, 6).0, 3, "more than were asked for are counted anew");
        // What lies in it changed now, and not long ago.
        held(&known).put(seen, Contents { count: 7, inside: Vec::new() }, LATER_S);
        let _socket = UnixListener::bind(folder.join("socket")).expect("a socket");
        assert_eq!(found(&known, &folder, 9), (4, vec![inner.clone(), (folder.join("socket"), Kind::Socket)]));
        age();
        assert_eq!(found(&known, &folder, 9).0, 4);
        fs::remove_file(folder.join("socket")).expect("it is removed");
        assert_eq!(found(&known, &folder, 9), (3, vec![inner]));
    }

    #[test]
    fn what_is_no_folder_holds_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        fs::write(place.path().join("file"), "").expect("a file");
        fs::create_dir_all(place.path().join("folder/inner")).expect("a folder");
        std::os::unix::fs::symlink("folder", place.path().join("link")).expect("a link");
        for name in ["file", "link", "nothing"] {
            assert_eq!(list_folder(&place.path().join(name), 9), (0, Vec::new()), "{name}");
        }
        assert_eq!(list_folder(&place.path().join("folder"), 9).0, 1);
    }
}
