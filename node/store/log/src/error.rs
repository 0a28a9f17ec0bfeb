//! Why a log cannot be read, or not be written.

use althing_protocol::tlog::TreeError;
use althing_store::{ReadError, WriteError};

/// Why a log cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// What is asked for cannot be.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A row is missing, or is not what its hash says.
    #[error(
        "the log is damaged at {what}: restore the folder from a copy, or start with an empty one and fetch the log from a replica"
    )]
    Damaged {
        /// Which row.
        what: String,
    },
}

/// Why nothing was appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// An entry is too long.
    #[error("an entry of {bytes} bytes is over {max}")]
    TooLong {
        /// Bytes of the entry.
        bytes: usize,
        /// Bytes that an entry may have.
        max: usize,
    },
    /// The store fails.
    #[error(transparent)]
    Store(#[from] WriteError),
}
