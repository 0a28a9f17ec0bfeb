//! The store's own lock: one process at a time, and the refusal names the holder.

use crate::OpenError;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

const NAME: &str = "LOCK";
/// Longer than any process id in decimal.
const PID_BYTES_MAX: u64 = 20;

/// Held while the store is open. The kernel releases it when the process ends, however it ends.
pub(crate) struct StoreLock {
    _file: Flock<File>,
}

impl StoreLock {
    /// Takes the lock of the store in `dir`, or says who holds it.
    pub(crate) fn acquire(dir: &Path) -> Result<StoreLock, OpenError> {
        let path = dir.join(NAME);
        let io = |source| OpenError::Io { doing: "lock", path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                sign(&mut file).map_err(io)?;
                Ok(StoreLock { _file: file })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                Err(OpenError::Locked { dir: dir.to_owned(), holder: holder(&mut file) })
            }
            Err((_, errno)) => Err(io(errno.into())),
        }
    }
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

/// The process named in the lock file; `None` in the moment before it has signed.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
