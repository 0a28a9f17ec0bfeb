//! What a registry shows of a release, and how a reader verifies it without believing the registry.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{Entry, Mark, Release, Standing, Version};
use crate::cbor::{self, CborError};
use crate::identity::AgentId;
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{KEYLOG_EVENTS_MAX, RELEASE_MARKS_MAX, SUBMISSION_BYTES_MAX};
use crate::object::{self, Authored, Description, Kind, ObjectError};
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
}

/// A release with what verifies it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReleaseEvidence {
    /// The publisher's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// The release.
    #[n(1)]
    pub release: Logged,
    /// The signed description that it names.
    #[n(2)]
    pub description: ByteVec,
    /// The marks on it, in the order in which they were accepted.
    #[n(3)]
    pub marks: Vec<Logged>,
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

/// A release that was verified.
#[derive(Debug, Clone)]
pub struct VerifiedRelease {
    /// The release.
    pub release: Authored<Release>,
    /// Its description.
    pub description: Authored<Description>,
    /// Its standing after all marks.
    pub standing: Standing,
    /// Why, if a mark says so.
    pub reason: Option<String>,
    /// The publisher's keys.
    pub key_log: KeyLog,
    /// The newest checkpoint that was shown.
    pub checkpoint: Checkpoint,
}

impl ReleaseEvidence {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a registry sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`ReleaseError::Cbor`] or [`ReleaseError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<ReleaseEvidence, ReleaseError> {
        cbor::check(bytes, SUBMISSION_BYTES_MAX)?;
        let read: ReleaseEvidence = minicbor::decode(bytes).map_err(|error| ReleaseError::Shape(error.to_string()))?;
        if read.key_log.len() > KEYLOG_EVENTS_MAX || read.marks.len() > RELEASE_MARKS_MAX || read.encode() != bytes {
            let message = "too many events or marks, or members that this version does not know";
            return Err(ReleaseError::Shape(message.to_owned()));
        }
        Ok(read)
    }

    /// Verifies that the publisher of `agent` released that version, and that the log of `registry` has all of it. A signer
    /// must have had the publisher's key when the registry accepted the statement.
    ///
    /// # Errors
    /// See [`ReleaseError`].
    pub fn verify(
        &self,
        network: &str,
        agent: &AgentId,
        version: &Version,
        registry: &NoteKey,
    ) -> Result<VerifiedRelease, ReleaseError> {
        let mismatch = |what| ReleaseError::Mismatch { what, agent: agent.clone(), version: version.clone() };
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        let key_log = KeyLog::verify(&events)?;
        if key_log.publisher() != agent.publisher() {
            return Err(mismatch("key log"));
        }
        let mut newest = self.release.check("release", Kind::Release, registry)?;
        let release: Authored<Release> = opened("release", &self.release.statement, network)?;
        if release.body.agent != *agent || release.body.version != *version || release.body.by != agent.publisher() {
            return Err(mismatch("release"));
        }
        key_log.accepted(release.signer, self.release.at_ms)?;
        let description: Authored<Description> = opened("description", &self.description, network)?;
        if description.body.agent != *agent || description.digest() != release.body.description {
            return Err(mismatch("description"));
        }
        let (mut standing, mut reason) = (Standing::Good, None);
        for logged in &self.marks {
            let checkpoint = logged.check("mark", Kind::Mark, registry)?;
            let mark: Authored<Mark> = opened("mark", &logged.statement, network)?;
            if mark.body.agent != *agent || mark.body.version != *version || mark.body.by != agent.publisher() {
                return Err(mismatch("mark"));
            }
            key_log.accepted(mark.signer, logged.at_ms)?;
            // What was revoked stays revoked, in whatever order the registry shows it.
            if standing != Standing::Revoked {
                (standing, reason) = (mark.body.standing, Some(mark.body.reason).filter(|reason| !reason.is_empty()));
            }
            if checkpoint.head.size > newest.head.size {
                newest = checkpoint;
            }
        }
        Ok(VerifiedRelease { release, description, standing, reason, key_log, checkpoint: newest })
    }
}

impl Logged {
    fn check(&self, what: &'static str, kind: Kind, registry: &NoteKey) -> Result<Checkpoint, ReleaseError> {
        let refused = |error| ReleaseError::Proof { what, error };
        let proof: LogProof = self.proof.parse().map_err(refused)?;
        let entry = Entry::of(kind, &self.statement, self.at_ms).encode();
        proof.check(&entry, registry, &[], 0).map_err(refused)
    }
}

fn opened<T: object::Statement>(what: &'static str, bytes: &[u8], network: &str) -> Result<Authored<T>, ReleaseError> {
    object::open(bytes, network, "").map_err(|error| ReleaseError::Object { what, error })
}
