//! Why governance cannot start, change or take an answer.

use althing_policy::ReadError as PolicyReadError;
use althing_store::{ReadError, WriteError};
use althing_td::PeopleFileError;

use crate::audit::{AuditFault, AuditUnavailable};
use crate::machine::consent::ConsentError;
use crate::machine::node_profile::{NodeProfile, ProfileGap};

/// Why governance does not start: without what it remembers it can decide nothing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A row is not what it should be.
    #[error(
        "a row of {family} ({key}) cannot be read, so that nobody can say what people agreed to: restore the node's data \
         folder from a backup"
    )]
    Row {
        /// Which kind of rows it is of.
        family: &'static str,
        /// The row's key, hexadecimal.
        key: String,
    },
    /// One of the newest decisions.
    #[error("what is kept of decision {number} is damaged: what was decided there is in the audit log alone")]
    Decision {
        /// Which decision, by its number.
        number: String,
    },
    /// The audit log.
    #[error(transparent)]
    Audit(#[from] AuditFault),
}

/// Why policies or people stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The policies are wrong; all that is known of it.
    #[error("the policies stay as they were:\n{0}")]
    Policies(#[from] PolicyReadError),
    /// They name too much.
    #[error("the policies stay as they were: {0}")]
    World(#[from] althing_policy::WorldError),
    /// The file of people is wrong.
    #[error("the people stay as they were: {0}")]
    People(#[from] PeopleFileError),
    /// The node's profile demands people that would be gone.
    #[error("the people stay as they were, since this node has the profile {profile}: {gap}")]
    Profile {
        /// Which.
        profile: NodeProfile,
        /// What would be missing.
        gap: ProfileGap,
    },
    /// There are none to take out.
    #[error("nothing changed: no policies are in force")]
    NoPolicies,
    /// Only the owner changes them.
    #[error("{0:?} may not change this: only the owner of this node may, on this node")]
    NotOwner(String),
    /// The file could not be written.
    #[error("nothing changed, since {path} could not be written: {reason}")]
    File {
        /// Where it is.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// The change could not be put on record.
    #[error("nothing changed, since it could not be put on record: {0}")]
    Audit(#[from] AuditUnavailable),
    /// The store.
    #[error("nothing changed, since it could not be put on record: {0}")]
    Write(#[from] WriteError),
    /// What the policies would be tried on.
    #[error("the decisions that are remembered cannot be read: {0}")]
    Decisions(Box<OpenError>),
}

/// Why something is not done that must be on record (`AUDIT_UNAVAILABLE`).
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The log takes nothing.
    #[error("AUDIT_UNAVAILABLE: {0}")]
    Audit(#[from] AuditUnavailable),
    /// The store.
    #[error("AUDIT_UNAVAILABLE: nothing can be recorded in the audit log: {0}")]
    Write(#[from] WriteError),
    /// The store.
    #[error("AUDIT_UNAVAILABLE: what was recorded last cannot be read: {0}")]
    Read(#[from] ReadError),
}

/// Why not all of what is kept of somebody is erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The store.
    #[error("not all of it is erased, since what people were asked, or what was decided, cannot be read: {0}")]
    Read(#[from] ReadError),
    /// The store.
    #[error(
        "not all of it is erased, since what people were asked, or what was decided, cannot be written: {0}; try again"
    )]
    Write(#[from] WriteError),
    /// What lies beside the audit log.
    #[error(transparent)]
    Audit(#[from] AuditFault),
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It is no id of a question.
    #[error("{0:?} is no id of a question; one has 32 hexadecimal digits")]
    Id(String),
    /// What people may answer.
    #[error(transparent)]
    Consent(#[from] ConsentError),
    /// Somebody who must sign did not.
    #[error(
        "the answer does not count: {0} is not the user of this machine and must sign it (`ssh-keygen -Y sign -n \
         althing-consent`)"
    )]
    Unsigned(String),
    /// The signature is that of somebody else.
    #[error("the answer does not count: it is sent as that of {said}, and signed by somebody else")]
    Another {
        /// Who is said to have given it.
        said: String,
    },
    /// Somebody takes back the standing yes of somebody else.
    #[error("it stays: it is the standing yes of {0}, and only that person and the owner may take it back")]
    NotGiver(String),
    /// A standing yes where there can be none.
    #[error("no standing yes is given: {0}")]
    Standing(&'static str),
    /// The answer could not be put on record.
    #[error("the answer was not taken, since it could not be put on record: {0}")]
    Audit(#[from] AuditUnavailable),
    /// The store.
    #[error("the answer was not taken, since it could not be written: {0}")]
    Write(#[from] WriteError),
}
