//! Why the owner's keys cannot be read or changed.

use std::path::PathBuf;

use althing_failure::{KeyStep, Kind, Remedy};
use althing_protocol::object::ObjectError;
use althing_protocol::{KeyLogError, PublicKey, PublisherId};
use althing_store::file::FileError;
use althing_store::keyfile::KeyFileError;

/// Why the owner's keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// There is no owner yet.
    #[error("there is no owner in {} yet", .0.display())]
    None(PathBuf),
    /// The folder of the keys cannot be used.
    #[error("cannot {doing} the owner's keys in {}: {source}", .folder.display())]
    Folder {
        /// What was being done.
        doing: &'static str,
        /// The folder.
        folder: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file of the keys cannot be moved or removed.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A secret cannot be read or written.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A file that is no secret cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// A key without its log: a new log would silently be a new owner.
    #[error(
        "{} is missing beside {}: without it the key's owner is unknown; restore your copy of it, or move the files owner* \
         in {} away to start over with a new identity",
        .folder.join("owner.log").display(), .folder.join("owner.key").display(), .folder.display()
    )]
    LogMissing {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// A log without its key.
    #[error(
        "{} is missing, and without it nothing can be signed for the owner of {}: restore your copy of it, or move that \
         file away as well to start over with a new identity",
        .folder.join("owner.key").display(), .folder.join("owner.log").display()
    )]
    KeyMissing {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// The log is damaged.
    #[error(
        "{} cannot be read: {why}; put your copy of it back, or move the files owner* in {} away and bring the keys back \
         that you exported",
        .folder.join("owner.log").display(), .folder.display()
    )]
    LogDamaged {
        /// Where the keys lie.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The log names its owner by a key.
    #[error(
        "{} was written by an earlier version of althing, whose owners were named by their keys; this version cannot go \
         on with it: move the files owner* in {} away to start over with a new identity",
        .folder.join("owner.log").display(), .folder.display()
    )]
    LogOfEarlierVersion {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// The file of withdrawals is damaged.
    #[error("{}: {why}", .path.display())]
    WithdrawalsDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: minicbor::decode::Error,
    },
    /// A key file of another length.
    #[error("{} is not a key: it has {len} bytes, not 32", .path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        len: usize,
    },
    /// The key is not the log's.
    #[error("the owner's keys in {} do not belong together: {source}", .folder.display())]
    Apart {
        /// Where the keys lie.
        folder: PathBuf,
        /// Why.
        source: KeyLogError,
    },
    /// The owner's keys are revoked, so a node cannot start.
    #[error(
        "the owner {owner} revoked its keys, which is final; move the files owner* in {} away to start over with a new \
         identity",
        .folder.display()
    )]
    Revoked {
        /// The owner.
        owner: PublisherId,
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// Revoked keys cannot be changed.
    #[error("the owner {0} revoked its keys already; that is final")]
    RevokedAlready(PublisherId),
    /// The log refuses the event.
    #[error("the keys cannot be {what}: {source}{}", hint(*.imported))]
    Event {
        /// `rotated` or `revoked`.
        what: &'static str,
        /// Why.
        source: KeyLogError,
        /// Whether the next keys came from an exported file.
        imported: bool,
    },
    /// The next keys are not those that the log commits to.
    #[error("the next keys are not those that the log commits to{}", hint(*.imported))]
    OtherNextKeys {
        /// Whether they came from an exported file.
        imported: bool,
    },
    /// The next keys were exported and removed.
    #[error("the next keys are not on this machine: name the file that they were exported to")]
    NextKeysElsewhere,
    /// The next keys were exported and removed before.
    #[error("the next keys are not on this machine, so they cannot be removed here")]
    NextKeysGone,
    /// An owner's key was given where a node is meant.
    #[error("{} is a key of this owner, not a node", .0.did())]
    OwnKey(PublicKey),
    /// The folder of a file to be written does not exist.
    #[error("there is no folder {}; make it first, or mount the medium that it is on", .0.display())]
    NoFolder(PathBuf),
    /// An exported file cannot be used.
    #[error("{}: {why}", .path.display())]
    Exported {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The exported key is not the last one of its log.
    #[error("the exported key is not the last one of its log; export the keys again")]
    ExportedApart,
    /// The keys here are newer.
    #[error("the keys here are newer than the exported ones")]
    ExportedOlder,
    /// The keys here are another owner's.
    #[error(
        "{} holds the keys of another owner, {owner}; move the files owner* away first if you do not need them",
        .folder.display()
    )]
    OtherOwner {
        /// Where these keys lie.
        folder: PathBuf,
        /// Whose they are.
        owner: PublisherId,
    },
    /// It could not be signed.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// What may be wrong with an exported file.
fn hint(imported: bool) -> &'static str {
    if imported { "; is the exported file from before the last rotation? the one after it is needed" } else { "" }
}

impl OwnerError {
    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            OwnerError::None(_) => Kind::NotFound,
            OwnerError::NextKeysElsewhere
            | OwnerError::NextKeysGone
            | OwnerError::OwnKey(_)
            | OwnerError::NoFolder(_)
            | OwnerError::Exported { .. }
            | OwnerError::ExportedApart => Kind::Invalid,
            OwnerError::ExportedOlder | OwnerError::OtherOwner { .. } => Kind::Refused,
            _ => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let step = match self {
            OwnerError::None(_) => KeyStep::MakeOwner,
            OwnerError::LogMissing { .. } | OwnerError::KeyMissing { .. } | OwnerError::LogDamaged { .. } => {
                KeyStep::Import
            }
            OwnerError::NextKeysElsewhere => KeyStep::NameExport,
            OwnerError::OwnKey(_) => KeyStep::Rotate,
            _ => return None,
        };
        Some(step.into())
    }
}
