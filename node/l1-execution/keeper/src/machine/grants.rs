//! What a program may reach of the machine's files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a program may read and write; absolute paths of the machine, without links.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grants {
    /// Files and folders, with all below them, that it may read and execute.
    pub read: Vec<PathBuf>,
    /// Those that it may read, execute and write. A socket is connected to.
    pub write: Vec<PathBuf>,
    /// Empty folders of its own, in memory, in place of those of the machine: `/tmp`, the home.
    pub private: Vec<PathBuf>,
    /// What it never reaches, wherever else it is granted: the node's keys, secrets, store and sockets.
    pub hidden: Vec<PathBuf>,
    /// Unix sockets in what it may read, which it does not reach: to connect to one is to write.
    pub sockets: Vec<PathBuf>,
    /// Folders in what it may read, or of that, which it does not reach where it has files of its own: nobody knows which sockets
    /// are in there, or too many are.
    pub withheld: Vec<PathBuf>,
}
