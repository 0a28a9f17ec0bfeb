//! What a program may reach of the machine's files: pure, from the agent file and from what the file system answers.

pub mod accounts;
pub mod folders;
pub mod grant;
pub mod interpreter;
pub mod mounts;
pub mod needs;
pub mod offers;
pub mod package;
pub mod scope;
pub mod sockets;
#[cfg(test)]
mod tests;
pub mod way;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use althing_td::Sandbox;

/// The most that is read of a file, bytes: the line of its interpreter, or the settings of a Python environment.
pub const HEAD_BYTES_MAX: usize = 4 << 10;
/// The most names that are read of a folder.
pub const NAMES_MAX: usize = 4_096;
/// The most that is read of what is mounted, bytes.
pub const MOUNTS_BYTES_MAX: usize = 4 << 20;
/// The most paths that one program is granted.
pub const PATHS_MAX: usize = 1_024;

/// What is at a path; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, or nothing that this account sees.
    Missing,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A Unix socket.
    Socket,
    /// A device, a pipe.
    Other,
}

/// The file system, as far as it is asked.
pub trait Files {
    /// What is at the path itself.
    fn kind(&self, path: &Path) -> Kind;
    /// Where the link at the path leads, as it is written there.
    fn target(&self, path: &Path) -> Option<PathBuf>;
    /// The start of a file, [`HEAD_BYTES_MAX`] at most; empty if it cannot be read.
    fn head(&self, path: &Path) -> Vec<u8>;
    /// The names in a folder, [`NAMES_MAX`] at most; none if it cannot be read.
    fn names(&self, folder: &Path) -> Vec<String>;
    /// The paths of what lies in a folder, with what it is, at most that many; none if it cannot be read.
    fn entries(&self, folder: &Path, most: usize) -> Vec<(PathBuf, Kind)>;
    /// How many entries a folder has, at most that many, and those among them that are folders and sockets: what is only counted takes
    /// no memory.
    fn list_folder(&self, folder: &Path, most: usize) -> (usize, Vec<(PathBuf, Kind)>) {
        let all = self.entries(folder, most);
        let is_looked_at = |(_, kind): &(PathBuf, Kind)| matches!(kind, Kind::Folder | Kind::Socket);
        (all.len(), all.into_iter().filter(is_looked_at).collect())
    }
}

/// Where the node keeps what no program may reach.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    /// The node's data, the owner's keys, the sockets; absolute.
    pub hidden: Vec<PathBuf>,
}

/// A program as an agent file names it.
#[derive(Debug, Clone, Copy)]
pub struct ProgramSpec<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// The folder of the agent file; absolute.
    pub folder: &'a Path,
    /// Where it starts; absolute.
    pub cwd: &'a Path,
    /// All variables of its environment.
    pub environment: &'a BTreeMap<String, String>,
    /// What its file says of its sandbox.
    pub sandbox: &'a Sandbox,
}

/// What a program may reach; absolute paths without links, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// What it may read and execute, with all below.
    pub read: Vec<PathBuf>,
    /// What it may also write.
    pub write: Vec<PathBuf>,
    /// Empty folders of its own.
    pub private: Vec<PathBuf>,
    /// What it never reaches, but for what is granted within.
    pub hidden: Vec<PathBuf>,
    /// Links on the way to what is granted. A link grants nothing of what it leads to.
    pub links: Vec<PathBuf>,
    /// What of that it must reach, or it is no use to start it: not what every program is granted of the system.
    pub needed: Vec<PathBuf>,
    /// What its file names to be written.
    pub stated: Vec<PathBuf>,
    /// Unix sockets in what it may read, which it does not connect to.
    pub sockets: Vec<PathBuf>,
    /// Folders in what it may read, or of that, which hold too much to be searched for sockets, or too many of them.
    pub withheld: Vec<PathBuf>,
}

/// Why it is not known where else the node's own shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountsGap {
    /// Nobody says what is mounted.
    #[error("what is mounted cannot be read ({}: {why}): mount /proc where the node runs", .at.display())]
    Unreadable {
        /// What was read.
        at: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// More than is read of it.
    #[error("more is mounted than the {} MiB that are read of it: unmount what nobody needs", MOUNTS_BYTES_MAX >> 20)]
    TooLong,
    /// No mount is known to hold it: the node has another root than the machine.
    #[error(
        "of no mount that the node sees {} is a part, as where its root is a folder of another one: mount that folder over itself \
         before the node starts",
        .0.display()
    )]
    Rootless(PathBuf),
    /// More paths than are hidden.
    #[error("it shows at {found} other paths, and {most} are hidden at most: unmount what nobody needs")]
    TooMany {
        /// How many there are.
        found: usize,
        /// How many are hidden.
        most: usize,
    },
}

/// Why it cannot be said what a program may reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainmentError {
    /// The agent file names no program.
    #[error("its `command` is empty: name the program there")]
    NoCommand,
    /// The program is not there.
    #[error(
        "there is no program {name:?} in {}: install it, or write its whole path into `command`",
        .looked.display()
    )]
    NoProgram {
        /// As the agent file names it.
        name: String,
        /// The folders of `PATH`, or where it starts.
        looked: PathBuf,
    },
    /// The program is a script whose interpreter is not there.
    #[error(
        "{} is run by {interpreter:?}, which is not there: install that, or put its folder into `PATH` under `env`",
        .script.display()
    )]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// As its first line names it.
        interpreter: String,
    },
    /// Scripts that are run by scripts, without end.
    #[error("{} is run by a script, that by another, and so on: name the interpreter in `command`", .0.display())]
    Scripts(PathBuf),
    /// A snap is started by a program that takes rights of its own, which no contained program gets.
    #[error(
        "{name:?} is a snap, which cannot be started within a sandbox: install it otherwise, or write the program \
         itself into `command` (/snap/NAME/current/bin/NAME) and /snap/NAME under `sandbox: read`"
    )]
    Snap {
        /// As the agent file names it.
        name: String,
    },
    /// It starts in a folder that is not there.
    #[error("there is no folder {}, in which it is to start: make it, or change `cwd`", .0.display())]
    NoFolder(PathBuf),
    /// The agent file grants what is not there.
    #[error("`sandbox: {key}` names {}, which is not there: make it, or take it out", .path.display())]
    NotThere {
        /// `read` or `write`.
        key: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// The agent file names what is the node's own.
    #[error("`{key}` names {}, which holds the node's keys or data: no program reaches those", .path.display())]
    NodesOwn {
        /// The key of the agent file.
        key: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// A link that the program itself may change would decide what it is granted.
    #[error(
        "`sandbox: {key}` names {}, which leads through the link {}, which the program may change: name what \
         the link leads to",
        .path.display(), .link.display()
    )]
    OwnLink {
        /// `read` or `write`.
        key: &'static str,
        /// What it names.
        path: PathBuf,
        /// The link on its way.
        link: PathBuf,
    },
    /// To connect to a socket is more than to read it.
    #[error(
        "`sandbox: read` names {}, which is a socket: whoever connects to it has all that its service does for you. Name it \
         under `write` if the program is to have that, or take it out",
        .0.display()
    )]
    Socket(PathBuf),
    /// All sockets of the machine's services, or of the account's.
    #[error(
        "`sandbox: {key}` names {}, in which services have their sockets: name what the program needs of it",
        .path.display()
    )]
    Services {
        /// `read` or `write`.
        key: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// It is to be contained, and where the node's own shows is not known.
    #[error(
        "its file says `sandbox: required`, and the node's keys and data may show at paths that are not known to be hidden: {0}; or \
         write `sandbox` without `required`"
    )]
    Mounts(MountsGap),
    /// More than [`PATHS_MAX`] paths.
    #[error("it would be granted {0} paths, and {most} is the most: name folders instead of files", most = PATHS_MAX)]
    TooMany(usize),
}
