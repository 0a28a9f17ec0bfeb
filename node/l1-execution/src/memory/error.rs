//! The errors of memory.

use althing_failure::Kind;
use althing_store::{ReadError, WriteError};

use crate::journal::JournalError;
use crate::lease::Superseded;
use crate::secrets::SecretLookupError;

/// Why a memory operation failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MemoryError {
    /// The namespace belongs to another agent, which does not share it.
    #[error(
        "the namespace {namespace:?} belongs to agent {owner:?}, whose contract does not share it with {agent:?}; name it \
         in `memory.share_with` there, or choose another namespace"
    )]
    NotShared {
        /// Which namespace.
        namespace: String,
        /// Whose it is.
        owner: String,
        /// Who asked.
        agent: String,
    },
    /// The turn works on a group's task that another member has by now.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// There is no namespace of that name.
    #[error("this node keeps no namespace {0:?}")]
    Unknown(String),
    /// The secret is not the one that encrypts the namespace.
    #[error(
        "the secret {secret:?} does not open the namespace {namespace:?}: it was encrypted with another one; set that \
         again, or remove the namespace"
    )]
    WrongKey {
        /// Which namespace.
        namespace: String,
        /// The secret's name.
        secret: String,
    },
    /// The secret that encrypts the namespace is not available.
    #[error(transparent)]
    Secret(#[from] SecretLookupError),
    /// The contract's terms differ from those of the existing namespace.
    #[error(
        "the namespace {namespace:?} is {was}, and the contract wants it {wants}; remove the namespace, or change the contract"
    )]
    Terms {
        /// Which namespace.
        namespace: String,
        /// How it is.
        was: String,
        /// How it should be.
        wants: String,
    },
    /// The quota is exhausted.
    #[error("the namespace {namespace:?} has {used} of {quota} bytes, and {more} more do not fit; forget something")]
    Quota {
        /// Which namespace.
        namespace: String,
        /// Stored bytes.
        used: u64,
        /// The quota, bytes.
        quota: u64,
        /// Bytes that were to be added.
        more: u64,
    },
    /// A passage of another source has the same id.
    #[error("a passage of {source_name:?} has the id of one of {other:?}; change its text")]
    Collision {
        /// The new one's source.
        source_name: String,
        /// The other's.
        other: String,
    },
    /// An argument is too long, or empty.
    #[error("{what} has {bytes} bytes, and may have 1 to {most}")]
    Length {
        /// What.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// The embedder failed.
    #[error("the texts could not be embedded: {0}")]
    Embedding(String),
    /// A row is damaged.
    #[error(
        "a row of the namespace {0:?} is damaged, or was changed on disk; remove the namespace, or restore the node's data"
    )]
    Damaged(String),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The journal of the turn cannot go on: nothing was changed, and the turn ends.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl MemoryError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            MemoryError::Unknown(_) => Kind::NotFound,
            MemoryError::NotShared { .. }
            | MemoryError::WrongKey { .. }
            | MemoryError::Quota { .. }
            | MemoryError::Superseded(_) => Kind::Refused,
            MemoryError::Collision { .. }
            | MemoryError::Length { .. }
            | MemoryError::Secret(_)
            | MemoryError::Terms { .. } => Kind::Invalid,
            MemoryError::Embedding(_)
            | MemoryError::Damaged(_)
            | MemoryError::Read(_)
            | MemoryError::Write(_)
            | MemoryError::Journal(_) => Kind::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_memory_have_the_kinds_that_they_always_had() {
        let word = || "notes".to_owned();
        let table = [
            (MemoryError::Unknown(word()), Kind::NotFound),
            (MemoryError::NotShared { namespace: word(), owner: word(), agent: word() }, Kind::Refused),
            (MemoryError::WrongKey { namespace: word(), secret: word() }, Kind::Refused),
            (MemoryError::Quota { namespace: word(), used: 1, quota: 2, more: 3 }, Kind::Refused),
            (MemoryError::Terms { namespace: word(), was: word(), wants: word() }, Kind::Invalid),
            (MemoryError::Collision { source_name: word(), other: word() }, Kind::Invalid),
            (MemoryError::Length { what: "a key", bytes: 0, most: 1 }, Kind::Invalid),
            (MemoryError::Embedding(word()), Kind::Failed),
            (MemoryError::Damaged(word()), Kind::Failed),
            (MemoryError::Journal(JournalError::Write), Kind::Failed),
        ];
        for (error, kind) in table {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
