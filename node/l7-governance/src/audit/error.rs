//! Why nothing can be recorded, and why what was recorded cannot be read.

use althing_log::{AppendError, LogError};
use althing_protocol::audit::AuditError;
use althing_protocol::tlog::NoteKeyError;
use althing_store::{ReadError, WriteError, mebibytes};

/// Why something is refused because it could not be recorded (`AUDIT_UNAVAILABLE`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditUnavailable {
    /// The log takes no leaves.
    #[error("nothing can be recorded in the audit log, so nothing with an effect is done: {0}")]
    Stopped(String),
    /// The bodies have no room left.
    #[error(
        "the bodies of the audit log have {} and may have {}, so nothing with an effect is done: delete the older \
         ones, or give them more",
        mebibytes(*.bytes), mebibytes(*.share)
    )]
    Full {
        /// Bytes of the bodies.
        bytes: u64,
        /// Bytes that they may have.
        share: u64,
    },
    /// Too many subjects whose first bodies were not written yet.
    #[error("{0} subjects at once have bodies that are not on disk yet: try again in a moment")]
    Subjects(usize),
    /// A reader would refuse the leaf.
    #[error("what happens cannot be recorded, so it is not done: {0}")]
    Leaf(#[from] AuditError),
    /// The store fails.
    #[error("nothing can be recorded in the audit log, so nothing with an effect is done: {0}")]
    Store(#[from] ReadError),
}

/// Why the log cannot be opened, continued or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// The store fails.
    #[error("the audit log cannot be read: {0}")]
    Read(#[from] ReadError),
    /// The store fails.
    #[error("the audit log cannot be written: {0}")]
    Write(#[from] WriteError),
    /// The log is not whole, or there is no such entry.
    #[error("the audit log cannot be read: {0}")]
    Log(#[from] LogError),
    /// Nothing was appended.
    #[error("the audit log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// A row is not what was written there.
    #[error(
        "the audit log is damaged at {0}: restore the node's folder from a copy; what is there still proves what it has"
    )]
    Damaged(String),
    /// The name of the log is none.
    #[error("the name of the audit log is refused: {0}")]
    Name(#[from] NoteKeyError),
    /// What was to be recorded cannot be.
    #[error(transparent)]
    Unavailable(#[from] AuditUnavailable),
}
