//! Why a registry cannot be used, or is not believed.

use althing_fetch::FetchError;
use althing_protocol::AgentId;
use althing_protocol::registry::{NameEvidenceError, ReleaseError, SubmissionError, Version};
use althing_protocol::tlog::{CheckpointError, LogProofError, TreeError};

/// Why a registry cannot be used, or is not believed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A registry does not show what it must show to everybody.
    #[error(
        "the registry keeps back what entry {0} says, a roster or a finding about a domain, which is for everybody: ask its \
         operator why, and tell its witnesses"
    )]
    Withholds(u64),
    /// The address is none.
    #[error("{0:?} is no address of a registry: write http://… or https://…")]
    Address(String),
    /// A token would be sent in the clear.
    #[error(
        "{at} is asked without encryption, and whoever is on the way would read the token: write https://, or an address of this \
         machine (http://127.0.0.1:PORT)"
    )]
    Clear {
        /// Its address.
        at: String,
    },
    /// It cannot be reached.
    #[error("the registry {at} cannot be reached: {error}")]
    Unreachable {
        /// Its address.
        at: String,
        /// Why.
        error: FetchError,
    },
    /// It refuses the request.
    #[error("the registry refuses this ({status}): {detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its reason.
        detail: String,
    },
    /// It answers with something else.
    #[error("the registry answers with something that is no {what}: {why}")]
    Answer {
        /// What was asked for.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Its checkpoint is not signed by the key that was given.
    #[error("the registry's checkpoint is refused: {0}; the key of a registry never changes")]
    Checkpoint(#[from] CheckpointError),
    /// It shows a history that does not go on from the one before.
    #[error(
        "the registry shows two histories: its log of {new} entries does not go on from the one of {old} that it signed \
         before ({error}). Both signed checkpoints are kept as evidence, and it is asked nothing more"
    )]
    Forked {
        /// Entries of the log that was seen before.
        old: u64,
        /// Entries of the log that it shows now.
        new: u64,
        /// Why the one does not continue the other.
        error: TreeError,
        /// The checkpoint that was seen before.
        before: String,
        /// The checkpoint that it shows now.
        now: String,
    },
    /// It does not prove what it says of a name.
    #[error(transparent)]
    Name(#[from] NameEvidenceError),
    /// Its entries are not those under its checkpoint.
    #[error(
        "the registry shows other entries than those that it signed: their root is another one than its checkpoint's"
    )]
    Entries,
    /// Its log is too long to be read as a whole.
    #[error("the log has {size} entries, and at most {max} are read as a whole")]
    TooLong {
        /// Entries of the log.
        size: u64,
        /// Entries at most.
        max: u64,
    },
    /// It shows something else for an entry than what the entry names.
    #[error("the registry shows another statement for entry {0} of its log than the entry names")]
    OtherStatement(u64),
    /// It leaves out what its own log has on a release.
    #[error(
        "the registry hides entry {entry} of its own log, a mark on {agent} {version}: do not rely on what it shows"
    )]
    Hides {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// The index of the mark.
        entry: u64,
    },
    /// It shows an old state of its log, and does not prove that the newer one goes on from it.
    #[error(
        "the registry went back: it shows {new} entries, signed {old} before, and proves nothing between them. It was set \
         back to a copy, or shows a history that it will go on with otherwise"
    )]
    WentBack {
        /// Entries that it signed before.
        old: u64,
        /// Entries that it shows now.
        new: u64,
    },
    /// A release has too few approvals for the name that it was looked up by.
    #[error(
        "{approved} of those whom the organisation's roster names approve this release of {agent}, and {wanted} must"
    )]
    NotApproved {
        /// The agent.
        agent: AgentId,
        /// How many do.
        approved: usize,
        /// How many must.
        wanted: u8,
    },
    /// A request to sign in cannot be made.
    #[error("cannot sign in: {0}")]
    SignIn(String),
    /// It does not prove what it says of a release.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// It does not prove that it accepted a statement.
    #[error("the registry does not prove that it accepted statement {at}: {error}")]
    Receipt {
        /// The number of the statement, from 0.
        at: usize,
        /// Why.
        error: LogProofError,
    },
    /// The submission is none.
    #[error(transparent)]
    Submission(#[from] SubmissionError),
    /// The bundle is not the one that the publisher signed.
    #[error("the registry's bundle is not the one that the publisher released: its digest differs")]
    Bundle,
}
