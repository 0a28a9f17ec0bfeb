//! Why what a node keeps of releases cannot be read or written.

use althing_store::{ReadError, WriteError};

/// Why what a node keeps of releases cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RevocationError {
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A row of the store is damaged; it names its key.
    #[error("what is stored of the registry {0} is damaged: remove it and add it again")]
    Damaged(String),
}
