//! Unix sockets in what a program may read: whoever connects to one has all that its service does for the account, which is
//! more than to read a file.
//!
//! **Input**: the folders that it may read, and what the file system answers. **Output**: the sockets that are kept from it, and
//! the folders that are kept from it as a whole.
//!
//! **Invariants**
//! - A folder that was not searched is kept from it: it may hold any number of sockets.
//! - Whatever lies in those folders, what is kept from a program is bounded in number, and in what has to be granted one by one
//!   beside it. Who may only write there cannot keep a program from starting: what is too much is kept from it with its folder.
//!
//! **Never knows**: how that is kept from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::{Files, Kind};

/// Entries of folders that are looked at for one program: more than there are in the folder of a large build, or in one of data, which
/// has hundreds of thousands of files. Sockets lie near to what is named, so the nearest are looked at first.
const ENTRIES_MAX: usize = 4_194_304;
/// Entries of folders around what is kept apart: each of them is granted by itself.
const PARTS_MAX: usize = 2_048;
/// Sockets and folders that are kept apart.
const APART_MAX: usize = 512;

/// What is kept from a program of the folders that it may read; in order, without links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exclusion {
    /// Sockets.
    pub sockets: Vec<PathBuf>,
    /// Folders, with all below them: they hold too much to be searched, or too many sockets. One of those that it may read may be
    /// among them.
    pub folders: Vec<PathBuf>,
}

/// What is kept from a program of these folders; nothing is looked for below `apart`.
pub fn exclusion(files: &dyn Files, roots: &[&Path], apart: &dyn Fn(&Path) -> bool) -> Exclusion {
    bounded(&search(files, roots, apart, ENTRIES_MAX), roots)
}

/// What was found.
#[derive(Default)]
struct Search {
    /// The folders that were searched, with how many entries each has.
    searched: BTreeMap<PathBuf, usize>,
    /// Those that were not.
    unknown: BTreeSet<PathBuf>,
    sockets: BTreeSet<PathBuf>,
}

/// Looks at that many entries at most.
fn search(files: &dyn Files, roots: &[&Path], apart: &dyn Fn(&Path) -> bool, most: usize) -> Search {
    let (mut found, mut left) = (Search::default(), most);
    let mut open: VecDeque<PathBuf> = roots.iter().map(|root| (*root).to_owned()).collect();
    while let Some(folder) = open.pop_front() {
        let (count, entries) = if left == 0 { (0, Vec::new()) } else { files.list_folder(&folder, left + 1) };
        if left == 0 || count > left {
            left = 0;
            found.unknown.insert(folder);
            continue;
        }
        left -= count;
        found.searched.insert(folder, count);
        for (path, kind) in entries.into_iter().filter(|(path, _)| !apart(path)) {
            match kind {
                Kind::Folder => open.push_back(path),
                Kind::Socket => {
                    found.sockets.insert(path);
                }
                _ => {}
            }
        }
    }
    found
}

/// Keeps apart what was found, as far as that is little; else the folder that it lies in.
fn bounded(found: &Search, roots: &[&Path]) -> Exclusion {
    let mut all: Vec<&Path> = found.sockets.iter().chain(&found.unknown).map(PathBuf::as_path).collect();
    // The nearest first, so that it is those far away whose folders go.
    all.sort_by_key(|path| (path.components().count(), *path));
    let (mut apart, mut whole, mut parted) =
        (BTreeSet::<&Path>::new(), BTreeSet::<&Path>::new(), BTreeSet::<&Path>::new());
    for path in all {
        let within: Vec<&Path> = path.ancestors().collect();
        if within.iter().any(|at| whole.contains(at)) {
            continue;
        }
        let Some(root) = within.iter().position(|at| roots.contains(at)) else { continue };
        // As little as possible: itself, or what it lies in, up to all that was granted.
        for (place, at) in within[..=root].iter().enumerate() {
            let around = within[place + 1..=root].iter().copied().filter(|around| !parted.contains(around));
            let around: Vec<&Path> = around.collect();
            let parts = entries(found, parted.iter().chain(&around));
            let others = apart.iter().chain(&whole).filter(|other| !other.starts_with(at)).count();
            if place < root && (parts > PARTS_MAX || others >= APART_MAX) {
                continue;
            }
            // What is kept apart in there is so with it.
            for paths in [&mut apart, &mut whole, &mut parted] {
                paths.retain(|other| !other.starts_with(at));
            }
            parted.extend(around);
            let kept = if found.sockets.contains(*at) { &mut apart } else { &mut whole };
            kept.insert(*at);
            break;
        }
    }
    let owned = |paths: BTreeSet<&Path>| paths.into_iter().map(Path::to_path_buf).collect();
    Exclusion { sockets: owned(apart), folders: owned(whole) }
}

/// How many entries these folders have together.
fn entries<'a, 'b: 'a>(found: &Search, folders: impl Iterator<Item = &'a &'b Path>) -> usize {
    folders.filter_map(|folder| found.searched.get(*folder)).sum()
}

/// Whether a path without links is where services of the machine or of an account keep their sockets: all of `/run`, or what one
/// account has there.
pub fn is_of_services(path: &Path) -> bool {
    let run = Path::new("/run");
    path == run || path == run.join("user") || path.parent() == Some(run.join("user").as_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders with what lies in them.
    #[derive(Default)]
    struct Disk(BTreeMap<PathBuf, Vec<(PathBuf, Kind)>>);

    impl Disk {
        /// Puts that many of a kind into a folder.
        fn put(&mut self, folder: &str, kind: Kind, count: usize) {
            let folder = PathBuf::from(folder);
            let inside = self.0.entry(folder.clone()).or_default();
            let before = inside.len();
            inside.extend((before..before + count).map(|number| (folder.join(format!("{number:06}")), kind)));
        }

        fn folder(&mut self, folder: &str) {
            let (folder, above) = (PathBuf::from(folder), Path::new(folder).parent().expect("not the root"));
            self.0.entry(folder.clone()).or_default();
            self.0.entry(above.to_owned()).or_default().push((folder, Kind::Folder));
        }
    }

    impl Files for Disk {
        fn kind(&self, path: &Path) -> Kind {
            if self.0.contains_key(path) { Kind::Folder } else { Kind::Missing }
        }

        fn target(&self, _: &Path) -> Option<PathBuf> {
            None
        }

        fn head(&self, _: &Path) -> Vec<u8> {
            Vec::new()
        }

        fn names(&self, _: &Path) -> Vec<String> {
            Vec::new()
        }

        fn entries(&self, folder: &Path, most: usize) -> Vec<(PathBuf, Kind)> {
            self.0.get(folder).into_iter().flatten().take(most).cloned().collect()
        }
    }

    fn kept(disk: &Disk, roots: &[&str], most: usize) -> Exclusion {
        let roots: Vec<&Path> = roots.iter().map(Path::new).collect();
        bounded(&search(disk, &roots, &|_| false, most), &roots)
    }

    #[test]
    fn a_few_sockets_are_kept_apart_each_by_itself() {
        let mut disk = Disk::default();
        disk.folder("/srv/app/run");
        disk.put("/srv/app/run", Kind::Socket, 2);
        disk.put("/srv/app", Kind::File, 7);
        let found = kept(&disk, &["/srv/app"], 100);
        assert_eq!(found.sockets, [Path::new("/srv/app/run/000000"), Path::new("/srv/app/run/000001")]);
        assert!(found.folders.is_empty());
    }

    #[test]
    fn a_tree_that_is_too_large_to_be_searched_is_kept_from_it_and_the_rest_is_not() {
        let mut disk = Disk::default();
        for folder in ["/srv/app/a", "/srv/app/b", "/srv/app/b/deep"] {
            disk.folder(folder);
        }
        disk.put("/srv/app/a", Kind::File, 3);
        disk.put("/srv/app/b/deep", Kind::Socket, 1);
        disk.put("/srv/app/b/deep", Kind::File, 50);
        // Two folders, three files and one folder.
        for (most, folders) in [(6, &["/srv/app/b/deep"][..]), (5, &["/srv/app/b"]), (1, &["/srv/app"]), (57, &[])] {
            let found = kept(&disk, &["/srv/app"], most);
            let expected: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            assert_eq!(found.folders, expected, "{most} entries");
            assert_eq!(found.sockets.is_empty(), most < 57, "{most} entries");
        }
    }

    #[test]
    fn whoever_plants_sockets_loses_the_folder_and_keeps_no_program_from_starting() {
        // More than are kept apart, more than are granted beside them, and many in each of many folders.
        for (folders, count) in [(1, 1_025), (1, 5_000), (700, 3), (3_000, 1)] {
            let mut disk = Disk::default();
            disk.folder("/srv/shared/own");
            disk.put("/srv/shared/own", Kind::File, 9);
            disk.folder("/srv/shared/others");
            for number in 0..folders {
                let folder = format!("/srv/shared/others/{number:06}.d");
                disk.folder(&folder);
                disk.put(&folder, Kind::Socket, count);
            }
            let found = kept(&disk, &["/srv/shared"], ENTRIES_MAX);
            let all = found.sockets.iter().chain(&found.folders);
            assert!(all.clone().count() <= APART_MAX, "{folders} folders with {count}");
            let is_apart = |path: &str| all.clone().any(|at| Path::new(path).starts_with(at));
            assert!(!is_apart("/srv/shared/own"), "what nobody planted anything in stays: {folders} with {count}");
            for number in [0, folders - 1] {
                let planted = format!("/srv/shared/others/{number:06}.d/000000");
                assert!(is_apart(&planted), "{planted}");
            }
            let around: BTreeSet<&Path> =
                all.clone().flat_map(|at| at.ancestors().skip(1)).filter(|at| at.starts_with("/srv/shared")).collect();
            let parts: usize = around.into_iter().map(|at| disk.entries(at, usize::MAX).len()).sum();
            assert!(parts <= PARTS_MAX, "{parts} are granted one by one: {folders} with {count}");
        }
        let mut disk = Disk::default();
        disk.put("/srv/shared", Kind::Socket, 1_025);
        assert_eq!(kept(&disk, &["/srv/shared", "/srv/own"], ENTRIES_MAX).folders, [Path::new("/srv/shared")]);
    }
}
