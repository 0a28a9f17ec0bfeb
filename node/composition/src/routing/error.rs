//! Why a sentence is not routed.

use crate::error::{Kind, NodeError};

/// Why a sentence is not routed.
#[derive(Debug, thiserror::Error)]
pub enum RoutingError {
    /// What was learned cannot be read or written, or the model not be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A file of rows.
    #[error("{path}: {why}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// More was learned than a node keeps.
    #[error(
        "a node keeps at most {} labelled sentences of {} MiB in all: `althing route forget` makes room",
        althing_routing::ROWS_MAX,
        althing_routing::FILE_BYTES_MAX >> 20
    )]
    Full,
    /// The model did not answer.
    #[error("the model did not choose: {0}; `--mode hybrid` needs none")]
    Model(String),
}

impl RoutingError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RoutingError::Node(error) => error.kind(),
            RoutingError::File { .. } => Kind::Invalid,
            RoutingError::Full => Kind::Refused,
            RoutingError::Model(_) => Kind::Failed,
        }
    }
}
