//! What a registry shows of the name of an organisation's agent, and how a reader verifies it.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{Domain, DomainFinding, EntryKind, Logged, Role, Roster};
use crate::cbor::{self, CborError};
use crate::identity::AgentId;
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{KEYLOG_EVENTS_MAX, SUBMISSION_BYTES_MAX};
use crate::object::{self, Authored, Kind, ObjectError};
use crate::tlog::{Checkpoint, LogProofError, NoteKey};

/// The agent that an organisation means by a name, with what verifies it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NameEvidence {
    /// The agent, as the registry says.
    #[n(0)]
    pub agent: AgentId,
    /// The organisation's key log.
    #[n(1)]
    pub key_log: Vec<ByteVec>,
    /// The organisation's roster.
    #[n(2)]
    pub roster: Logged,
    /// What the registry found of the domain.
    #[n(3)]
    pub finding: Logged,
}

/// Why evidence of a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameEvidenceError {
    /// Not strict CBOR.
    #[error("the evidence is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the evidence has the wrong shape: {0}")]
    Shape(String),
    /// The key log is invalid, or does not accept the signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// The roster is invalid, or over.
    #[error("the organisation's roster: {0}")]
    Roster(#[from] ObjectError),
    /// The log's proof is invalid.
    #[error("the registry does not prove that its log has the {what}: {error}")]
    Proof {
        /// Which statement.
        what: &'static str,
        /// Why.
        error: LogProofError,
    },
    /// The proofs are under different checkpoints, of which only one could be compared with what was seen before.
    #[error("the registry proves the name under several checkpoints; ask it again")]
    Checkpoints,
    /// The roster is another domain's.
    #[error("the roster that the registry shows is not that of {0}")]
    OtherDomain(Domain),
    /// The domain is not proven, or its proof is too old.
    #[error("the registry shows no valid proof that {0} is this organisation's")]
    NotProven(Domain),
    /// The roster does not give the agent that name.
    #[error("the roster of {domain} does not give {agent} the name {name}")]
    NotNamed {
        /// The domain.
        domain: Domain,
        /// The name that was asked for.
        name: String,
        /// The agent that the registry says.
        agent: AgentId,
    },
}

/// A name that was verified.
#[derive(Debug, Clone)]
pub struct VerifiedName {
    /// The agent.
    pub agent: AgentId,
    /// The roster, whose organisation holds the domain.
    pub roster: Authored<Roster>,
    /// By what the domain is proven; the registry's word.
    pub finding: DomainFinding,
    /// When the registry found it, Unix milliseconds.
    pub found_ms: u64,
    /// The checkpoint of all proofs.
    pub checkpoint: Checkpoint,
}

impl NameEvidence {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a registry sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`NameEvidenceError::Cbor`] or [`NameEvidenceError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<NameEvidence, NameEvidenceError> {
        let wrong = NameEvidenceError::Shape;
        cbor::check(bytes, SUBMISSION_BYTES_MAX)?;
        let read: NameEvidence = minicbor::decode(bytes).map_err(|error| wrong(error.to_string()))?;
        if read.key_log.len() > KEYLOG_EVENTS_MAX || read.encode() != bytes {
            return Err(wrong("too many events, or members that this version does not know".to_owned()));
        }
        Ok(read)
    }

    /// Verifies that the organisation which holds `domain` means this agent by `name`, at `now_ms`. That the domain is the
    /// organisation's is the registry's word, fixed in its log; all else the organisation signed.
    ///
    /// # Errors
    /// See [`NameEvidenceError`].
    pub fn verify(
        &self,
        network: &str,
        (domain, name): (&Domain, &str),
        registry: &NoteKey,
        now_ms: u64,
    ) -> Result<VerifiedName, NameEvidenceError> {
        let proof = |what| move |error| NameEvidenceError::Proof { what, error };
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        let key_log = KeyLog::verify(&events)?;
        let first = self.roster.verify(Kind::Roster, registry).map_err(proof("roster"))?;
        let roster: Authored<Roster> = object::open(&self.roster.statement, network, "")?;
        let organisation = roster.body.organisation;
        if key_log.publisher() != organisation || roster.body.domain.as_ref() != Some(domain) {
            return Err(NameEvidenceError::OtherDomain(domain.clone()));
        }
        key_log.accepted(roster.signer, self.roster.at_ms)?;
        roster.body.in_force(now_ms)?;
        // A reader compares one checkpoint with what it saw before, so both proofs are under it.
        let second = self.finding.verify(EntryKind::DomainFinding, registry).map_err(proof("proof of the domain"))?;
        if second.head != first.head {
            return Err(NameEvidenceError::Checkpoints);
        }
        let finding = DomainFinding::decode(&self.finding.statement);
        let holds = |finding: &DomainFinding| {
            let same = finding.domain == *domain && finding.organisation == organisation;
            same && finding.holds(self.finding.at_ms, now_ms)
        };
        let finding = finding.filter(holds).ok_or_else(|| NameEvidenceError::NotProven(domain.clone()))?;
        if self.agent.name() != name || !roster.body.names(&self.agent) {
            let (domain, name, agent) = (domain.clone(), name.to_owned(), self.agent.clone());
            return Err(NameEvidenceError::NotNamed { domain, name, agent });
        }
        let checkpoint = first;
        Ok(VerifiedName { agent: self.agent.clone(), roster, finding, found_ms: self.finding.at_ms, checkpoint })
    }
}

impl Roster {
    /// Whether an agent is the organisation's: its own, or one of a member who publishes under that name.
    #[must_use]
    pub fn names(&self, agent: &AgentId) -> bool {
        [Role::Stage, Role::Approve].into_iter().any(|role| self.allows(agent.publisher(), role, agent))
    }
}
