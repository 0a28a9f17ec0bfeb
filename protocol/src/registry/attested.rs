//! What a registry shows of attestations, and how a reader verifies them without believing the registry.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::logged::opened;
use super::{Attestation, Logged, ReleaseError};
use crate::cbor;
use crate::identity::PublisherId;
use crate::keylog::KeyLog;
use crate::limits::{ATTESTATIONS_SHOWN_MAX, KEYLOG_EVENTS_MAX, SUBMISSION_BYTES_MAX};
use crate::object::{Authored, Kind};
use crate::tlog::{Checkpoint, NoteKey};

/// An attestation with what verifies it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AttestationEvidence {
    /// The signer's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// The attestation.
    #[n(1)]
    pub attestation: Logged,
}

/// A page of attestations, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attestations {
    /// The attestations.
    #[n(0)]
    pub shown: Vec<AttestationEvidence>,
    /// The entry before which the next page begins, if there is one.
    #[n(1)]
    pub before: Option<u64>,
}

/// An attestation that was verified.
#[derive(Debug, Clone)]
pub struct VerifiedAttestation {
    /// What was signed.
    pub attestation: Authored<Attestation>,
    /// The signer's keys.
    pub key_log: KeyLog,
    /// When the registry accepted it, Unix milliseconds.
    pub accepted_ms: u64,
    /// The checkpoint of the proof.
    pub checkpoint: Checkpoint,
}

impl AttestationEvidence {
    /// Verifies who signed it, that the log of `registry` has it, and that it is in force at `now_ms`.
    fn verify(
        &self,
        network: &str,
        registry: &NoteKey,
        now_ms: u64,
        accepted: impl Fn(PublisherId) -> Option<KeyLog>,
    ) -> Result<VerifiedAttestation, ReleaseError> {
        const WHAT: &str = "attestation";
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        let shown = KeyLog::verify(&events)?;
        let key_log = match accepted(shown.publisher()) {
            // Who shows an older one would let a key speak that was rotated away (P-69).
            Some(accepted) if !shown.continues(&accepted) => accepted,
            _ => shown,
        };
        let (_, checkpoint) = self.attestation.check(WHAT, Kind::Attestation, registry)?;
        let attestation: Authored<Attestation> = opened(WHAT, &self.attestation.statement, network)?;
        if attestation.body.by != key_log.publisher() {
            return Err(ReleaseError::Signer);
        }
        key_log.accepted(attestation.signer, self.attestation.at_ms)?;
        attestation.body.in_force(now_ms).map_err(|error| ReleaseError::Object { what: WHAT, error })?;
        Ok(VerifiedAttestation { attestation, key_log, accepted_ms: self.attestation.at_ms, checkpoint })
    }
}

impl Attestations {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a registry sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`ReleaseError::Cbor`] or [`ReleaseError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<Attestations, ReleaseError> {
        cbor::check(bytes, SUBMISSION_BYTES_MAX)?;
        let read: Attestations = minicbor::decode(bytes).map_err(|error| ReleaseError::Shape(error.to_string()))?;
        if read.shown.len() > ATTESTATIONS_SHOWN_MAX
            || read.shown.iter().any(|one| one.key_log.len() > KEYLOG_EVENTS_MAX)
            || read.encode() != bytes
        {
            let message = "too many attestations or events, or members that this version does not know";
            return Err(ReleaseError::Shape(message.to_owned()));
        }
        Ok(read)
    }

    /// Verifies each by itself: who signed it, that the log of `registry` has it, and that it is in force at `now_ms`.
    /// `accepted` gives the log of a signer's keys that the reader has accepted, if it has one: it counts unless what is shown
    /// goes on from it.
    ///
    /// # Errors
    /// [`ReleaseError::Checkpoints`]: the proofs are not under one checkpoint, which the reader compares with what it saw.
    pub fn verify(
        &self,
        network: &str,
        registry: &NoteKey,
        now_ms: u64,
        accepted: impl Fn(PublisherId) -> Option<KeyLog>,
    ) -> Result<Vec<Result<VerifiedAttestation, ReleaseError>>, ReleaseError> {
        if !self.shown.windows(2).all(|two| two[0].attestation.checkpoint() == two[1].attestation.checkpoint()) {
            return Err(ReleaseError::Checkpoints);
        }
        Ok(self.shown.iter().map(|one| one.verify(network, registry, now_ms, &accepted)).collect())
    }
}
