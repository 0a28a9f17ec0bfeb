//! What has been granted so far, and which folders are too wide to be granted as a side effect.
//!
//! What a program may write decides nothing: it could lay a link there, and would be granted what that leads to when it
//! is started again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::sockets::is_of_services;
use super::way::Way;
use super::{ContainmentError, Files, Kind, PATHS_MAX, Reach};

/// Folders that hold what belongs to many; granted only where a file names them under `sandbox`.
const WIDE: [&str; 20] = [
    "/",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/srv",
    "/sys",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/tmp",
    "/Users",
];
/// Folders of homes.
const HOMES: [&str; 2] = ["/home", "/Users"];
/// Folders in a home that hold what belongs to many.
const WIDE_AT_HOME: [&str; 7] =
    [".cache", ".config", ".local", ".local/lib", ".local/share", ".local/state", "Library"];

/// What has been granted so far.
pub struct Scope<'a> {
    /// The file system.
    pub files: &'a dyn Files,
    /// Where the program starts.
    pub cwd: PathBuf,
    /// The folders of `PATH`.
    pub search: Vec<PathBuf>,
    homes: BTreeSet<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    /// Within what is the node's own, and the program's to read nevertheless.
    own: BTreeSet<PathBuf>,
    private: BTreeSet<PathBuf>,
    links: BTreeSet<PathBuf>,
    /// What every program is granted, and its own sockets.
    common: BTreeSet<PathBuf>,
    /// What the agent file names to be written.
    stated: BTreeSet<PathBuf>,
}

impl<'a> Scope<'a> {
    /// Nothing is granted yet.
    pub fn new(files: &'a dyn Files, homes: &[PathBuf], hidden: &[PathBuf]) -> Scope<'a> {
        let ends = |paths: &[PathBuf]| paths.iter().map(|path| Way::of(files, path).end).collect();
        Scope {
            files,
            cwd: PathBuf::from("/"),
            search: Vec::new(),
            homes: ends(homes),
            hidden: ends(hidden),
            read: BTreeSet::new(),
            write: BTreeSet::new(),
            own: BTreeSet::new(),
            private: BTreeSet::new(),
            links: BTreeSet::new(),
            common: BTreeSet::new(),
            stated: BTreeSet::new(),
        }
    }

    /// Where a path leads.
    pub fn way(&self, path: &Path) -> Way {
        Way::of(self.files, path)
    }

    /// Whether the program may write there.
    pub fn is_writable(&self, path: &Path) -> bool {
        self.write.iter().any(|at| path.starts_with(at))
    }

    /// The first link on the way that the program may change.
    pub fn own_link<'w>(&self, way: &'w Way) -> Option<&'w Path> {
        way.links.iter().find(|link| self.is_writable(link)).map(PathBuf::as_path)
    }

    /// Whether the path is the node's own, and not granted nevertheless.
    pub fn is_hidden(&self, path: &Path) -> bool {
        let own = || self.write.iter().chain(&self.own);
        let granted = |hidden: &Path| own().any(|at| at.starts_with(hidden) && path.starts_with(at));
        self.hidden.iter().any(|hidden| path.starts_with(hidden) && !granted(hidden))
    }

    /// Whether the folder holds something of the node's own, or is that.
    pub fn holds_hidden(&self, folder: &Path) -> bool {
        self.hidden.iter().any(|hidden| hidden.starts_with(folder))
    }

    /// Whether the folder holds what belongs to many.
    pub fn is_common(&self, folder: &Path) -> bool {
        let system = WIDE.iter().any(|wide| folder == Path::new(wide));
        let other = folder.parent().is_some_and(|at| HOMES.iter().any(|homes| at == Path::new(homes)));
        let home = self
            .homes
            .iter()
            .any(|home| home.starts_with(folder) || WIDE_AT_HOME.iter().any(|wide| folder == home.join(wide)));
        system || other || home || is_of_services(folder)
    }

    /// Whether the folder is too wide to be granted as a side effect.
    pub fn is_wide(&self, folder: &Path) -> bool {
        self.is_common(folder) || self.holds_hidden(folder) || self.is_hidden(folder)
    }

    /// Whether the folder is a home's own folder for one program's settings: `~/.ssh`, `~/.aws`.
    pub fn is_dotted(&self, folder: &Path) -> bool {
        let dotted = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        dotted && folder.parent().is_some_and(|at| self.homes.contains(at))
    }

    /// Notes the links of a way, so that its path leads where it leads on the machine.
    pub fn link(&mut self, way: &Way) {
        self.links.extend(way.links.iter().cloned());
    }

    /// Grants a path without links for reading, unless it is the node's own; false where it was granted before.
    pub fn read(&mut self, path: PathBuf) -> bool {
        !self.is_hidden(&path) && self.read.insert(path)
    }

    /// Grants what a path leads to for reading, unless it is missing or a socket, or a link that the program may change leads
    /// there.
    pub fn read_through(&mut self, path: &Path) {
        let way = self.way(path);
        if !matches!(way.kind, Kind::Missing | Kind::Socket) && self.own_link(&way).is_none() {
            self.link(&way);
            self.read(way.end);
        }
    }

    /// Grants a path without links for reading, wherever it lies.
    pub fn read_own(&mut self, path: PathBuf) {
        self.own.insert(path.clone());
        self.read.insert(path);
    }

    /// Grants a path without links for writing.
    pub fn write(&mut self, path: PathBuf) {
        self.write.insert(path);
    }

    /// Grants a path without links that the agent file names to be written.
    pub fn write_stated(&mut self, path: PathBuf) {
        self.stated.insert(path.clone());
        self.write(path);
    }

    /// Grants its own socket, or the folder of one.
    pub fn write_own(&mut self, path: PathBuf) {
        self.common.insert(path.clone());
        self.write(path);
    }

    /// Grants what a path of the system leads to, as every program may read it: as [`Scope::read_through`].
    pub fn read_common(&mut self, path: &Path) {
        let end = self.way(path).end;
        if !self.read.contains(&end) {
            self.read_through(path);
            self.common.insert(end);
        }
    }

    /// Puts an empty folder at a path, unless that is granted itself.
    pub fn empty(&mut self, path: &Path) {
        let way = self.way(path);
        self.link(&way);
        if !self.read.contains(&way.end) && !self.write.contains(&way.end) {
            self.private.insert(way.end);
        }
    }

    /// Whether a path without links is granted, by itself or with a folder that it lies in.
    pub fn is_granted(&self, path: &Path) -> bool {
        self.read.union(&self.write).any(|at| path.starts_with(at) && !self.is_parted(at, path))
    }

    /// Whether an empty folder, or what is hidden, lies between a granted folder and a path in it.
    fn is_parted(&self, granted: &Path, path: &Path) -> bool {
        let between = |at: &PathBuf| at.starts_with(granted) && path.starts_with(at);
        self.hidden.iter().any(between) || self.private.iter().any(between)
    }

    /// All that was granted, without what a wider grant has already.
    ///
    /// # Errors
    /// It is more than [`PATHS_MAX`] paths.
    pub fn done(self) -> Result<Reach, ContainmentError> {
        let wider = |all: &BTreeSet<PathBuf>, path: &PathBuf| {
            all.iter().any(|at| at != path && path.starts_with(at) && !self.is_parted(at, path))
        };
        let kept = |paths: &BTreeSet<PathBuf>, keep: &dyn Fn(&PathBuf) -> bool| -> Vec<PathBuf> {
            paths.iter().filter(|path| keep(path)).cloned().collect()
        };
        let needed = |path: &PathBuf| !self.common.contains(path);
        let mut needed: BTreeSet<PathBuf> = self.read.union(&self.write).filter(|path| needed(path)).cloned().collect();
        needed.insert(self.cwd.clone());
        let reach = Reach {
            read: kept(&self.read, &|path| {
                !self.write.contains(path) && !wider(&self.read, path) && !wider(&self.write, path)
            }),
            write: kept(&self.write, &|path| !wider(&self.write, path)),
            private: kept(&self.private, &|_| true),
            hidden: kept(&self.hidden, &|_| true),
            links: kept(&self.links, &|path| !self.is_hidden(path) && !self.is_granted(path)),
            needed: kept(&needed, &|path| !wider(&self.read, path) && !wider(&self.write, path)),
            stated: kept(&self.stated, &|_| true),
            sockets: Vec::new(),
            withheld: Vec::new(),
        };
        let count = reach.read.len() + reach.write.len() + reach.private.len() + reach.hidden.len() + reach.links.len();
        if count > PATHS_MAX { Err(ContainmentError::TooMany(count)) } else { Ok(reach) }
    }
}
