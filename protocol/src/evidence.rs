//! Evidence: the proof that a node may host an agent, made of key log, description and grant.

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::Digest;
use crate::cbor::{self, CborError};
use crate::identity::{AgentId, PublicKey};
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{BODY_BYTES_MAX, KEYLOG_EVENTS_MAX};
use crate::object::{self, Authored, Description, Grant, ObjectError};

/// The answer of `/althing/describe/1` about one agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Evidence {
    /// The publisher's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// The signed description.
    #[n(1)]
    pub description: ByteVec,
    /// The signed hosting grant.
    #[n(2)]
    pub grant: ByteVec,
}

/// Why evidence is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// Not strict CBOR.
    #[error("the evidence is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the evidence has the wrong shape: {0}")]
    Shape(String),
    /// The key log is invalid, or does not accept the signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// The description is invalid.
    #[error("description: {0}")]
    Description(ObjectError),
    /// The grant is invalid.
    #[error("hosting grant: {0}")]
    Grant(ObjectError),
    /// The parts name different agents, nodes or publishers.
    #[error("the {part} is about {got}, not about {expected}")]
    Mismatch {
        /// Which part.
        part: &'static str,
        /// What it names.
        got: String,
        /// What it had to name.
        expected: String,
    },
}

/// Verified evidence of an agent on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAgent {
    /// The agent.
    pub agent: AgentId,
    /// The node that may host it.
    pub node: PublicKey,
    /// The description.
    pub description: Authored<Description>,
    /// The grant.
    pub grant: Authored<Grant>,
    /// The publisher's keys.
    pub key_log: Arc<KeyLog>,
}

impl Evidence {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Decodes evidence from a peer; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`EvidenceError::Cbor`] or [`EvidenceError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<Evidence, EvidenceError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let evidence: Evidence = minicbor::decode(bytes).map_err(|error| EvidenceError::Shape(error.to_string()))?;
        if evidence.key_log.len() > KEYLOG_EVENTS_MAX || evidence.encode() != bytes {
            return Err(EvidenceError::Shape("too many events, or members that this version does not know".to_owned()));
        }
        Ok(evidence)
    }

    /// The agent of the description, whose signature is verified.
    ///
    /// # Errors
    /// [`EvidenceError::Description`].
    pub fn described(&self, network: &str) -> Result<AgentId, EvidenceError> {
        let description = object::open::<Description>(&self.description, network, "");
        Ok(description.map_err(EvidenceError::Description)?.body.agent)
    }

    /// Verifies that the description is of `agent`, and that `node` may host it at `now_ms`.
    ///
    /// # Errors
    /// See [`EvidenceError`].
    pub fn verify(
        &self,
        network: &str,
        agent: &AgentId,
        node: PublicKey,
        now_ms: u64,
    ) -> Result<VerifiedAgent, EvidenceError> {
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        let key_log = Arc::new(KeyLog::verify(&events)?);
        same("key log", &key_log.publisher(), &agent.publisher())?;
        let description: Authored<Description> =
            object::open(&self.description, network, "").map_err(EvidenceError::Description)?;
        same("description", &description.body.agent, agent)?;
        key_log.accepts(description.signer, now_ms)?;
        description.body.issued(now_ms).map_err(EvidenceError::Description)?;
        let grant: Authored<Grant> = object::open(&self.grant, network, "").map_err(EvidenceError::Grant)?;
        same("grant's agent", &grant.body.agent, agent)?;
        same("grant's node", &grant.body.node, &node)?;
        key_log.accepts(grant.signer, now_ms)?;
        grant.body.in_force(now_ms).map_err(EvidenceError::Grant)?;
        Ok(VerifiedAgent { agent: agent.clone(), node, description, grant, key_log })
    }
}

impl VerifiedAgent {
    /// The evidence from which this was verified.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        Evidence {
            key_log: self.key_log.to_bytes().into_iter().map(ByteVec::from).collect(),
            description: self.description.bytes.clone().into(),
            grant: self.grant.bytes.clone().into(),
        }
    }

    /// Digests of the signed description and grant, as a placement names them.
    #[must_use]
    pub fn digests(&self) -> (Digest, Digest) {
        (self.description.digest(), self.grant.digest())
    }
}

fn same<T: PartialEq + std::fmt::Display>(part: &'static str, got: &T, expected: &T) -> Result<(), EvidenceError> {
    if got == expected {
        Ok(())
    } else {
        Err(EvidenceError::Mismatch { part, got: got.to_string(), expected: expected.to_string() })
    }
}
