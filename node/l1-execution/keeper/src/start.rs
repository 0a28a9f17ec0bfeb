//! A node's end of a keeper, as far as it needs no runtime: which program it is, and what is written to it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::channel::tell;
use crate::job::Order;
use crate::keep::NAME;

/// The program of keepers as this process found it first: a later one beside it, of an upgrade, may speak otherwise.
static PROGRAM: OnceLock<Option<File>> = OnceLock::new();

/// The path by which a process of this program starts a keeper, whose name (`argv[0]`) must be [`NAME`]: the program beside
/// this one, or where there is none this very program, which must begin with [`crate::keep_here`].
#[must_use]
pub fn executable() -> PathBuf {
    let program = PROGRAM.get_or_init(|| std::env::current_exe().ok().and_then(|here| beside(&here)));
    match program {
        // The child opens it before its descriptors are closed.
        Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => PathBuf::from("/proc/self/exe"),
    }
}

/// The keepers' program beside another one. Test programs are a folder below it.
fn beside(here: &Path) -> Option<File> {
    let folder = here.parent()?;
    let folder = if folder.ends_with("deps") { folder.parent()? } else { folder };
    File::open(folder.join(NAME)).ok()
}

/// Gives a keeper an order.
///
/// # Errors
/// When the keeper is gone.
pub fn order(channel: &UnixStream, order: &Order) -> io::Result<()> {
    let mut line = Vec::new();
    tell(&mut line, order)?;
    (&*channel).write_all(&line)
}
