//! What a registry shows of a release, and how a reader verifies it without believing the registry.

use std::collections::BTreeSet;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::approval::{self, Approved};
use super::logged::opened;
use super::{Approval, Logged, Mark, Release, ReleaseError, Roster, Standing, Version};
use crate::cbor;
use crate::identity::{AgentId, PublisherId};
use crate::keylog::KeyLog;
use crate::limits::{KEYLOG_EVENTS_MAX, RELEASE_APPROVALS_MAX, RELEASE_MARKS_MAX, SUBMISSION_BYTES_MAX};
use crate::object::{Authored, Description, Kind};
use crate::tlog::{Checkpoint, NoteKey};

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
    /// What others signed who approve it.
    #[n(4)]
    pub approvals: Vec<Approval>,
    /// The roster under which it was accepted, if its publisher is an organisation.
    #[n(5)]
    pub roster: Option<Logged>,
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
    /// When the registry accepted the release and its last approval, Unix milliseconds.
    pub accepted_ms: u64,
    /// Its publisher, and all others who approve it.
    pub approvers: BTreeSet<PublisherId>,
    /// The roster under which it was accepted, if the registry shows one.
    pub roster: Option<Authored<Roster>>,
    /// The checkpoint of all proofs.
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
        let keys = read.approvals.iter().map(|approval| &approval.key_log).chain([&read.key_log]);
        if keys.into_iter().any(|log| log.len() > KEYLOG_EVENTS_MAX)
            || read.marks.len() > RELEASE_MARKS_MAX
            || read.approvals.len() > RELEASE_APPROVALS_MAX
            || read.encode() != bytes
        {
            let message = "too many events, marks or approvals, or members that this version does not know";
            return Err(ReleaseError::Shape(message.to_owned()));
        }
        Ok(read)
    }

    /// The same, to be verified by the log of the publisher's keys that the reader has accepted, unless the one that is shown
    /// goes on from it: who shows an older one would let a key speak that was rotated away (P-69).
    #[must_use]
    pub fn under(mut self, accepted: &KeyLog) -> ReleaseEvidence {
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        if !KeyLog::verify(&events).is_ok_and(|shown| shown.continues(accepted)) {
            self.key_log = accepted.to_bytes().into_iter().map(ByteVec::from).collect();
        }
        self
    }

    /// Verifies that the publisher of `agent` released that version, and that the log of `registry` has all of it, under one
    /// checkpoint. A signer must have had the publisher's key when the registry accepted the statement.
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
        if !self.has_one_checkpoint() {
            return Err(ReleaseError::Checkpoints);
        }
        let (mut before, checkpoint) = self.release.check("release", Kind::Release, registry)?;
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
            let (index, _) = logged.check("mark", Kind::Mark, registry)?;
            if index <= before {
                return Err(ReleaseError::Order);
            }
            before = index;
            let mark: Authored<Mark> = opened("mark", &logged.statement, network)?;
            if mark.body.agent != *agent || mark.body.version != *version || mark.body.by != agent.publisher() {
                return Err(mismatch("mark"));
            }
            key_log.accepted(mark.signer, logged.at_ms)?;
            // What was revoked stays revoked, whatever the log has after it.
            if standing != Standing::Revoked {
                (standing, reason) = (mark.body.standing, Some(mark.body.reason).filter(|reason| !reason.is_empty()));
            }
        }
        let Approved { by: approvers, roster, at_ms: accepted_ms } = approval::approved(
            (&self.approvals, &self.roster),
            self.release.at_ms,
            network,
            &release,
            &key_log,
            registry,
        )?;
        Ok(VerifiedRelease {
            release,
            description,
            standing,
            reason,
            key_log,
            accepted_ms,
            approvers,
            roster,
            checkpoint,
        })
    }
}

impl ReleaseEvidence {
    /// Whether all proofs are under the same checkpoint: a reader compares one with what it saw before, and a statement under
    /// another one could be in a log that it would not believe.
    fn has_one_checkpoint(&self) -> bool {
        let approvals = self.approvals.iter().map(|approval| &approval.release);
        let mut others = self.marks.iter().chain(approvals).chain(&self.roster);
        others.all(|logged| logged.checkpoint() == self.release.checkpoint())
    }
}
