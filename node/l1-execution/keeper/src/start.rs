//! A node's end of a keeper, as far as it needs no runtime: which program it is, and what is written to it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::channel::tell;
use crate::job::Order;

/// The name by which a node starts a keeper, whatever file it is in.
pub const NAME: &str = "althing-keeper";

/// The program of keepers as this process found it first: a later one beside it, of an upgrade, may speak otherwise.
static PROGRAM: OnceLock<Option<File>> = OnceLock::new();
/// Whether this program keeps programs itself, if it is started as a keeper.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Notes that this program keeps programs itself, if it is started as a keeper.
pub(crate) fn begin_with_keeping() {
    KEEPS.store(true, Ordering::Relaxed);
}

/// The path by which this process starts a keeper, whose name (`argv[0]`) must be [`NAME`]: the program beside this one, or where
/// there is none this very program, if it began with [`crate::keep_here`].
///
/// # Errors
/// There is neither: another program would be started anew as itself, without end.
pub fn executable() -> io::Result<PathBuf> {
    let program = PROGRAM.get_or_init(|| std::env::current_exe().ok().and_then(|here| beside(&here)));
    chosen(program.as_ref(), KEEPS.load(Ordering::Relaxed))
}

fn chosen(beside: Option<&File>, keeps: bool) -> io::Result<PathBuf> {
    match beside {
        // The child opens it before its descriptors are closed.
        Some(file) => Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))),
        None if keeps => Ok(PathBuf::from("/proc/self/exe")),
        None => {
            let why =
                format!("there is no {NAME} beside this program, which keeps programs: build or install it there");
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_keeps_programs_is_started_as_a_keeper() {
        assert_eq!(chosen(None, true).expect("itself"), Path::new("/proc/self/exe"));
        let why = chosen(None, false).expect_err("it would be started without end").to_string();
        assert!(why.contains(NAME), "{why}");
        let file = tempfile::tempfile().expect("a file");
        assert!(chosen(Some(&file), false).expect("that file").starts_with("/proc/self/fd"));
    }
}
