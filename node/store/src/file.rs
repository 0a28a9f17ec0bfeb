//! Files that others wrote or named: read only if they are regular files, and only up to a bound.
//!
//! A pipe has no end, a device has no length, and a socket cannot be opened: naming one instead of a file must not block the
//! reader or exhaust its memory. The type is checked on the open descriptor, not on the path, so that the file cannot be
//! replaced in between; bytes that are appended during the read are ignored.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::{
    fs::{File, FileType, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// It is not a regular file.
    #[error("it is {0}, and only regular files are read; name a file")]
    NotRegular(&'static str),
    /// It exceeds the limit.
    #[error("it has more than {0} bytes, the limit of such a file; shorten it")]
    TooLong(u64),
    /// Its bytes are not UTF-8.
    #[error("it is not UTF-8 text from byte {0} on; save it as UTF-8")]
    NotText(usize),
}

impl FileError {
    /// Whether the path does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, FileError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens `path` (following symbolic links) if it is a regular file. Never blocks.
///
/// # Errors
/// [`FileError::NotRegular`] for a pipe, socket, device or directory, [`FileError::Io`] when the system refuses.
pub fn open_regular(path: &Path) -> Result<File, FileError> {
    // Without O_NONBLOCK, opening a pipe waits for a writer. std sets O_CLOEXEC itself.
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        // What open(2) answers for a socket, and for a device that has no driver.
        Some(Errno::ENXIO | Errno::ENODEV) => FileError::NotRegular("a socket or a device"),
        _ => FileError::Io(error),
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(FileError::NotRegular(named(kind))) }
}

/// All bytes of the regular file at `path`, at most `bytes_max`.
///
/// # Errors
/// [`FileError::TooLong`] when there are more; else as [`open_regular`].
pub fn read_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(FileError::TooLong(bytes_max)) } else { Ok(bytes) }
}

/// As [`read_bytes`], for UTF-8 text.
///
/// # Errors
/// [`FileError::NotText`] when it is none; else as [`read_bytes`].
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let bytes = read_bytes(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| FileError::NotText(error.utf8_error().valid_up_to()))
}

fn named(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe (FIFO)"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
