//! Why the owner's keys cannot be read or changed.

use std::path::PathBuf;

use althing_protocol::object::ObjectError;
use althing_protocol::{KeyLogError, PublicKey, PublisherId};
use althing_store::file::FileError;
use althing_store::keyfile::KeyFileError;

use crate::error::Kind;

/// Why the owner's keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// There is no owner yet.
    #[error("there is no owner in {} yet; `althing up` makes one", .0.display())]
    None(PathBuf),
    /// The folder of the keys cannot be worked with.
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
        "{} is missing beside {}: without it nobody knows whose key that is; put your copy of it back (`althing key \
         import`), or move the files owner* in {} away, and be somebody new",
        .folder.join("owner.log").display(), .folder.join("owner.key").display(), .folder.display()
    )]
    LogMissing {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// A log without its key.
    #[error(
        "{} is missing, and without it nobody speaks for the owner of {}: put your copy of it back (`althing key \
         import`); or move that file away as well, and be somebody new",
        .folder.join("owner.key").display(), .folder.join("owner.log").display()
    )]
    KeyMissing {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// The log is damaged.
    #[error(
        "{} cannot be read: {why}; put your copy of it back, or move the files owner* in {} away and bring the keys back \
         that you exported (`althing key import`)",
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
         on with it: move the files owner* in {} away, and be somebody new",
        .folder.join("owner.log").display(), .folder.display()
    )]
    LogOfEarlierVersion {
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// The file of what was taken back is damaged.
    #[error("{}: {why}", .path.display())]
    WithdrawalsDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: minicbor::decode::Error,
    },
    /// A key file of another length.
    #[error("{} is no key: it has {len} bytes, not 32", .path.display())]
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
    /// Nobody speaks for the owner any more, and a node cannot start as it.
    #[error(
        "the owner {owner} revoked its keys: nobody speaks for it any more; move the files owner* in {} away, and be \
         somebody new",
        .folder.display()
    )]
    Revoked {
        /// Who.
        owner: PublisherId,
        /// Where the keys lie.
        folder: PathBuf,
    },
    /// The keys were revoked, and are to be changed.
    #[error("the owner {0} revoked its keys already; that is final")]
    RevokedAlready(PublisherId),
    /// The log does not take the event.
    #[error("the keys cannot be {what}: {source}{}", hint(*.brought))]
    Event {
        /// `rotated` or `revoked`.
        what: &'static str,
        /// Why.
        source: KeyLogError,
        /// Whether the keys were brought from elsewhere.
        brought: bool,
    },
    /// The keys to come are others.
    #[error("the keys to come are not those that the log commits to{}", hint(*.brought))]
    OtherNextKeys {
        /// Whether they were brought from elsewhere.
        brought: bool,
    },
    /// The next keys were exported and removed.
    #[error("the next keys do not lie on this machine: name the file that they were exported to (--from FILE)")]
    NextKeysElsewhere,
    /// The next keys were exported and removed, and cannot be again.
    #[error("the next keys do not lie on this machine, so they cannot be moved away")]
    NextKeysGone,
    /// An owner's key was given where a node is meant.
    #[error(
        "{} is a key of this owner's, and no node; `althing key rotate --overlap-minutes 0` gives it up", .0.did()
    )]
    OwnKey(PublicKey),
    /// The folder of a file to be written is not there.
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
    /// The exported key is not the log's.
    #[error("the exported key is not the one that its log names last; export it anew")]
    ExportedApart,
    /// What is here is newer.
    #[error("the keys here are newer than the exported ones")]
    ExportedOlder,
    /// What is here is another owner's.
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

/// What may be wrong with keys that were brought from elsewhere.
fn hint(brought: bool) -> &'static str {
    if brought { "; is the exported file from before the last rotation? the one after it is needed" } else { "" }
}

impl OwnerError {
    /// What kind of failure it is.
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
}
