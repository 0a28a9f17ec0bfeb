//! Why a benchmark failed.

use std::io;
use std::path::PathBuf;

use althing_client::{ClientError, InputError, NodeProcessError};

/// Why a benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Goals were missed: how many.
    #[error("goals that were missed: {0}")]
    GoalsMissed(usize),
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A node process could not be started or ended.
    #[error(transparent)]
    Node(#[from] NodeProcessError),
    /// A node could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An agent file of a benchmark cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A measurement could not be made.
    #[error("{0}")]
    NotMeasured(String),
}

impl BenchError {
    pub(crate) fn not_measured(error: impl std::fmt::Display) -> BenchError {
        BenchError::NotMeasured(error.to_string())
    }
}
