//! Why a registry does not start, or does not answer.

use althing_log::{AppendError, LogError};
use althing_protocol::registry::{Domain, PresenceError, SignInError, Version};
use althing_protocol::tlog::NoteKeyError;
use althing_protocol::{AgentId, PublisherId};
use althing_store::{ReadError, WriteError};

use super::KEPT_BUNDLE_BYTES_MAX;
use super::staging_room::NoRoom;
use crate::machine::Refusal;

/// Why a registry does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// Nothing can be written.
    #[error("nothing can be written: {0}")]
    Write(#[from] WriteError),
    /// The log began before, and its store is not here.
    #[error(
        "this registry's log began before, and its store has {size} entries and no signed checkpoint: `store/` is not mounted, \
         or was lost. Mount it, or restore the folder as a whole; if there is no copy, begin anew in another folder with a \
         new key, and tell your users: going on with this key would show them two histories"
    )]
    NoCheckpoint {
        /// Entries of the log.
        size: u64,
    },
    /// The name of the log is none.
    #[error("the name of the log is refused: {0}")]
    Name(#[from] NoteKeyError),
    /// What was purged is still in files of the store.
    #[error(
        "what was purged cannot be taken out of the files of the store: {0}; make room on the disk, and start again"
    )]
    Scrub(Box<RequestError>),
    /// A statement is not what the log says.
    #[error("statement {0} is damaged or missing: restore the folder from a copy; nothing was changed")]
    Statement(u64),
    /// The network is not the one that the log's statements are signed for.
    #[error(
        "entry {index} of this registry's log is signed for another network than {network:?}: nothing is damaged, and nothing \
         was changed. Name the network with which it was started before, --network NAME: `network` of the configuration of \
         the nodes that publish here, or as GET / of the registry told it"
    )]
    OtherNetwork {
        /// The entry.
        index: u64,
        /// The network that was named.
        network: String,
    },
    /// The log is not the one whose head was signed.
    #[error(
        "the log has {size} entries and does not go on from the checkpoint that was signed at {signed}: a part of the \
         folder is missing or was replaced. Restore the folder as a whole; going on would show others two histories"
    )]
    Forked {
        /// Entries of the log.
        size: u64,
        /// Entries that were signed.
        signed: u64,
    },
}

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// What was sent is refused; nothing of it was accepted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What a node tells of itself is refused.
    #[error(transparent)]
    Presence(#[from] PresenceError),
    /// There is no room for the node, or it told something newer before.
    #[error("this registry knows as many nodes as it can, or something newer of this one: it is tried again by itself")]
    NoRoom,
    /// There is no such agent.
    #[error("there is no release of {0} here")]
    NoAgent(AgentId),
    /// There is no such version.
    #[error("there is no release {1} of {0} here")]
    NoVersion(AgentId, Version),
    /// The operator hides it.
    #[error(
        "the operator of this registry put {agent} {version} in quarantine: {reason}. That is the operator's word; its \
         publisher did not take it back"
    )]
    Quarantined {
        /// The agent.
        agent: Box<AgentId>,
        /// The version.
        version: Box<Version>,
        /// Why.
        reason: String,
    },
    /// The organisation has no agent of that name, or none that the reader sees.
    #[error("{domain} has no agent {name:?} here")]
    NoName {
        /// The domain.
        domain: Domain,
        /// The name.
        name: String,
    },
    /// There is no such statement, or none that the reader sees.
    #[error("there is no statement of entry {0} to be shown")]
    NoStatement(u64),
    /// Nobody is signed in.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// Somebody signs in for whom there is nothing here.
    #[error(
        "{0} may not publish in this registry, nor has it anything here that it could read: ask its operator to admit it \
         (althing-registry publisher add, or --publisher)"
    )]
    Stranger(PublisherId),
    /// Somebody signs in with keys that are not the newest that are known here.
    #[error("the keys of {0} were changed: sign in with the whole key log, newest event included")]
    OldKeys(PublisherId),
    /// Nobody can sign in now.
    #[error("nobody can sign in here: this registry takes no visitors")]
    NoSessions,
    /// A publisher has to show who it is.
    #[error("this is for publishers that signed in (POST /sessions)")]
    SignInFirst,
    /// A token is needed.
    #[error(
        "this needs a token with the scope releases:stage: the registry's operator makes one (althing-registry token add \
         NAME --scope releases:stage --publisher URN)"
    )]
    StageFirst,
    /// There is nothing to salt entries with.
    #[error("this registry was opened without randomness, and takes nothing that is not for everybody")]
    NoSalt,
    /// No proof can be looked for.
    #[error("this registry looks for no proofs of domains: its operator says whose they are")]
    NoLookup,
    /// Nothing is staged.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// There is no such bundle.
    #[error("there is no bundle with that digest here")]
    NoBundle,
    /// No release names the bundle.
    #[error("no release here names a bundle with that digest: publish the release first")]
    BundleUnknown,
    /// A bundle is not what its release says.
    #[error("the bundle is not the one that the release names: its digest or its length differs")]
    OtherBundle,
    /// The bundle is too large for this registry.
    #[error("the bundle has {bytes} bytes, and this registry keeps at most {max}")]
    BundleTooLarge {
        /// Bytes of the bundle.
        bytes: u64,
        /// Bytes that are kept.
        max: u64,
    },
    /// Nothing can be written.
    #[error("nothing can be written now: {0}")]
    Append(#[from] AppendError),
    /// A write ended before its time.
    #[error("the request failed here: try again")]
    Unfinished,
    /// A bundle cannot be written.
    #[error("nothing can be written now: {0}")]
    Write(#[from] WriteError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A statement is not what the log says.
    #[error("statement {0} is damaged: the registry must be restored from a copy")]
    Damaged(u64),
}

/// Why nothing is staged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Whoever asks may not stage releases of that agent.
    #[error(
        "this token stages no releases of {0}: the registry's operator makes one that does (althing-registry token add NAME \
         --scope releases:stage --publisher URN)"
    )]
    NotYours(AgentId),
    /// The bundle is not what was said of it.
    #[error("the bundle has another digest than was said: it was damaged or changed on its way; send it again")]
    Digest,
    /// The bundle is too large, or empty.
    #[error("a bundle has 1 to {KEPT_BUNDLE_BYTES_MAX} bytes, and this one {0}")]
    Bytes(usize),
    /// The description is none, or of something else.
    #[error("the description: {0}")]
    Description(String),
    /// The version is there.
    #[error("{0} {1} was released before, and a version never changes: build the next one")]
    Released(AgentId, Version),
    /// There are too many.
    #[error(transparent)]
    Full(#[from] NoRoom),
    /// There is no such staged release, or whoever asks may not see it.
    #[error("no staged release has the id {0:?}; `althing release pending` shows those that wait")]
    None(String),
}
