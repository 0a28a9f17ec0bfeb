//! The machine's files.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use crate::machine::facts::{Facts, Kind};

/// The files that this process sees.
pub(super) struct Disk;

impl Facts for Disk {
    fn kind(&self, path: &Path) -> Kind {
        let Ok(found) = fs::symlink_metadata(path) else { return Kind::Missing };
        if found.is_dir() {
            Kind::Folder
        } else if found.is_symlink() {
            fs::read_link(path).map_or(Kind::Missing, Kind::Link)
        } else {
            Kind::File
        }
    }

    fn list_folder(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).take(most).collect();
        paths.sort();
        paths
    }
}

/// What is at an absolute path below `root`, held by a descriptor that is good for nothing else: what was looked at is
/// what is used, whatever the path leads to by then.
///
/// # Errors
/// The system's; `ELOOP` where a part of the path is a link.
pub(super) fn held(root: impl AsFd, path: &Path) -> nix::Result<OwnedFd> {
    let below = path.strip_prefix("/").unwrap_or(path);
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    // Not O_NOFOLLOW: with that, a link at the end would be held itself.
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(root, below, how)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::errno::Errno;
    use nix::fcntl::AT_FDCWD;

    use super::*;

    #[test]
    fn what_became_a_link_is_not_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("it is there");
        fs::create_dir(at.join("own")).expect("a folder");
        fs::write(at.join("own/file"), "").expect("a file");
        symlink("own", at.join("link")).expect("a link");
        let root = fs::File::open("/").expect("the root");
        let held = |path: &str| held(&root, &at.join(path)).map(drop);
        assert_eq!(held("own/file"), Ok(()));
        assert_eq!((held("link"), held("link/file")), (Err(Errno::ELOOP), Err(Errno::ELOOP)));
        assert_eq!(held("none"), Err(Errno::ENOENT));
        assert!(super::held(AT_FDCWD, Path::new("/")).is_ok());
    }

    #[test]
    fn links_are_seen_as_links_and_folders_are_read_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        fs::create_dir(at.join("b")).expect("a folder");
        fs::write(at.join("a\n "), "").expect("a file");
        symlink("b", at.join("c")).expect("a link");
        let kinds: Vec<Kind> = ["a\n ", "b", "c", "d", "c/d"].iter().map(|name| Disk.kind(&at.join(name))).collect();
        assert_eq!(kinds, [Kind::File, Kind::Folder, Kind::Link("b".into()), Kind::Missing, Kind::Missing]);
        assert_eq!(Disk.list_folder(at, 9), ["a\n ", "b", "c"].map(|name| at.join(name)));
        assert_eq!(Disk.list_folder(at, 2).len(), 2);
        assert!(Disk.list_folder(&at.join("d"), 9).is_empty());
    }
}
