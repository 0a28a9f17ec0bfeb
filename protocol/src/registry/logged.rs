//! Statements in a registry's log, and why a reader refuses what is shown of a release.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use super::{Entry, EntryKind, Version};
use crate::cbor::CborError;
use crate::identity::AgentId;
use crate::keylog::KeyLogError;
use crate::object::{self, Authored, Kind, ObjectError};
use crate::tlog::{Checkpoint, LogProof, LogProofError, NoteKey};

/// A signed statement, and the proof that the registry's log has it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Logged {
    /// The signed bytes.
    #[n(0)]
    pub statement: ByteVec,
    /// When the registry says that it accepted it, Unix milliseconds; part of the entry that is proven.
    #[n(1)]
    pub at_ms: u64,
    /// The proof (C2SP tlog-proof).
    #[n(2)]
    pub proof: String,
    /// What the entry is salted with, if the statement is not for everybody.
    #[n(3)]
    pub salt: Option<ByteArray<16>>,
}

/// Why evidence of a release is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Not strict CBOR.
    #[error("the evidence is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the evidence has the wrong shape: {0}")]
    Shape(String),
    /// The key log is invalid, or does not accept the signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// A statement is invalid.
    #[error("{what}: {error}")]
    Object {
        /// Which one.
        what: &'static str,
        /// Why.
        error: ObjectError,
    },
    /// The log's proof is invalid.
    #[error("the registry does not prove that its log has the {what}: {error}")]
    Proof {
        /// Which statement.
        what: &'static str,
        /// Why.
        error: LogProofError,
    },
    /// The proofs are under different checkpoints, of which only one could be compared with what was seen before.
    #[error("the registry proves the release under several checkpoints; ask it again")]
    Checkpoints,
    /// The marks are not in the order of the log, or one is there twice.
    #[error("the marks are not in the order in which the registry's log has them")]
    Order,
    /// Fewer approve it than the organisation wants.
    #[error("{approved} of those whom the organisation's roster names approve it, and {wanted} must")]
    NotApproved {
        /// How many do.
        approved: usize,
        /// How many must.
        wanted: u8,
    },
    /// The key log beside an attestation is somebody else's.
    #[error("the key log beside the attestation is not that of the publisher who signed it")]
    Signer,
    /// The parts do not belong together.
    #[error("the {what} is not of {agent} {version}")]
    Mismatch {
        /// Which part.
        what: &'static str,
        /// What was asked for.
        agent: AgentId,
        /// Its version.
        version: Version,
    },
}

impl Logged {
    /// The note of the proof's checkpoint, not verified.
    pub(super) fn checkpoint(&self) -> Option<&str> {
        Some(self.proof.split_once("\n\n")?.1)
    }

    /// The entry that names the statement, as it must be in the log.
    ///
    /// # Errors
    /// [`LogProofError::Shape`]: it has a salt, and its kind has none.
    pub fn entry(&self, kind: impl Into<EntryKind>) -> Result<Entry, LogProofError> {
        let kind: EntryKind = kind.into();
        match (kind, &self.salt) {
            (EntryKind::Signed(kind), Some(salt)) => Ok(Entry::salted(kind, &self.statement, salt, self.at_ms)),
            (_, Some(_)) => Err(LogProofError::Shape("only signed statements are salted")),
            (kind, None) => Ok(Entry::of(kind, &self.statement, self.at_ms)),
        }
    }

    /// Verifies that the log of `registry` has the statement; gives the checkpoint of the proof.
    ///
    /// # Errors
    /// [`LogProofError`].
    pub fn verify(&self, kind: impl Into<EntryKind>, registry: &NoteKey) -> Result<Checkpoint, LogProofError> {
        Ok(self.prove(kind.into(), registry)?.1)
    }

    /// The same, with the index of the entry.
    fn prove(&self, kind: EntryKind, registry: &NoteKey) -> Result<(u64, Checkpoint), LogProofError> {
        let proof: LogProof = self.proof.parse()?;
        let entry = self.entry(kind)?.encode();
        Ok((proof.index, proof.check(&entry, registry, &[], 0)?))
    }

    pub(super) fn check(
        &self,
        what: &'static str,
        kind: Kind,
        registry: &NoteKey,
    ) -> Result<(u64, Checkpoint), ReleaseError> {
        self.prove(kind.into(), registry).map_err(|error| ReleaseError::Proof { what, error })
    }
}

pub(super) fn opened<T: object::Statement>(
    what: &'static str,
    bytes: &[u8],
    network: &str,
) -> Result<Authored<T>, ReleaseError> {
    object::open(bytes, network, "").map_err(|error| ReleaseError::Object { what, error })
}
