//! One enum per operation. Each message says what failed, where, why, and what to do.

use crate::{Cause, Family};
use std::{io, path::PathBuf};

/// Why a store could not be opened. Nothing in the directory was changed by a refusal.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the store.
    #[error("{} has the store at {} open; stop it first, or name another data directory", holder_name(*.holder), .dir.display())]
    Locked {
        /// The store's directory.
        dir: PathBuf,
        /// The process that holds it, if it has written its id.
        holder: Option<u32>,
    },
    /// A newer program wrote the store.
    #[error(
        "the store at {} was written by althing {written_by} in format {found}; this program knows formats up to {known}: start it with althing {written_by} or newer, or use another data directory",
        .dir.display()
    )]
    Newer {
        /// The store's directory.
        dir: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format this program knows.
        known: u32,
        /// The version of the program that wrote it.
        written_by: String,
    },
    /// An older program wrote the store, and what is in it means something else now.
    #[error(
        "the store at {} was written by althing {written_by} in format {found}, which named publishers by their keys; this program has format {known} and cannot read it: move {} away and start again, or go on with althing {written_by}",
        .dir.display(), .dir.display()
    )]
    Older {
        /// The store's directory.
        dir: PathBuf,
        /// The format found.
        found: u32,
        /// The format of this program.
        known: u32,
        /// The version of the program that wrote it.
        written_by: String,
    },
    /// Something in the directory is not what was written there.
    #[error(
        "the store is damaged at {}: {detail}. Check the disk, then put back a copy of the directory, or move it away to start empty",
        .path.display()
    )]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The disk has no room to open the store.
    #[error("the disk of {} is full ({} free); free space there and start again", .path.display(), mebibytes(*.free_bytes))]
    Full {
        /// The store's directory.
        path: PathBuf,
        /// Bytes free on its file system.
        free_bytes: u64,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}; check that the directory exists on a writable disk and belongs to this user", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl OpenError {
    /// Whether the holder ends at the moment: it has no memory any more (`/proc/PID/cmdline` is empty), or is gone.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        let OpenError::Locked { holder: Some(pid), .. } = self else { return false };
        let told = std::fs::read(format!("/proc/{pid}/cmdline"));
        cfg!(target_os = "linux") && told.map_or(true, |told| told.is_empty())
    }
}

/// Bytes for people.
#[must_use]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// For whom a disk is full: where others have room, for this user.
fn for_whom(free_bytes: u64, reserve_bytes: u64) -> &'static str {
    if free_bytes <= reserve_bytes { "" } else { " for this user, by its quota" }
}

/// The program that holds a store, by its file's name where the operating system tells it.
fn holder_name(holder: Option<u32>) -> String {
    let Some(pid) = holder else { return "another program".to_owned() };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = program.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    format!("{} (pid {pid})", name.unwrap_or_else(|| "another program".to_owned()))
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A programming error: the family was not named when the store was opened.
    #[error("the store has no column family \"{family}\"; name it when the store is opened")]
    UnknownFamily {
        /// The family asked for.
        family: Family,
    },
    /// A read met damage. The family stays stopped until the store is opened again; other families go on.
    #[error(
        "column family \"{family}\" in {} is damaged and stopped: {detail}. Check the disk, then put back a copy of the directory",
        .dir.display()
    )]
    Damaged {
        /// The family that is stopped.
        family: Family,
        /// The store's directory.
        dir: PathBuf,
        /// What the read met, with the file.
        detail: String,
    },
    /// The disk failed; nothing is known to be damaged, and a later read may succeed.
    #[error("cannot read column family \"{family}\" in {}: {detail}; check the disk and the limit of open files", .dir.display())]
    Io {
        /// The family read.
        family: Family,
        /// The store's directory.
        dir: PathBuf,
        /// Why it failed.
        detail: String,
    },
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A programming error: the family was not named when the store was opened.
    #[error("the store has no column family \"{family}\"; name it when the store is opened")]
    UnknownFamily {
        /// The family named in the batch.
        family: Family,
    },
    /// The batch is larger than a batch may be.
    #[error("a batch of {bytes} bytes is over the limit of {bytes_max}; write it in several batches")]
    TooLarge {
        /// Bytes of its keys and values.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The batch touches a family that damage has stopped.
    #[error("column family \"{family}\" in {} is damaged and takes no writes. Check the disk, then put back a copy of the directory", .dir.display())]
    Damaged {
        /// The family that is stopped.
        family: Family,
        /// The store's directory.
        dir: PathBuf,
    },
    /// The disk is full. Writes succeed again, without a restart, within about 5 s after space is freed.
    #[error(
        "the disk of {} is full{} ({} free, {} are kept in reserve); free space there, writes resume by themselves",
        .path.display(), for_whom(*.free_bytes, *.reserve_bytes), mebibytes(*.free_bytes), mebibytes(*.reserve_bytes)
    )]
    Full {
        /// The store's directory.
        path: PathBuf,
        /// Bytes free on its file system.
        free_bytes: u64,
        /// Bytes that must stay free.
        reserve_bytes: u64,
    },
    /// The disk failed, or background work met damage: the store takes no writes until it is opened again, which it is by itself
    /// where nothing is damaged.
    #[error("the store at {} takes no writes: {detail}. What to do: {}", .dir.display(), Cause::of(.detail).remedy())]
    Stopped {
        /// The store's directory.
        dir: PathBuf,
        /// Why, with the file and its family where they are known.
        detail: String,
    },
    /// The store was closed while the write waited.
    #[error("the store at {} is closed", .dir.display())]
    Closed {
        /// The store's directory.
        dir: PathBuf,
    },
}
