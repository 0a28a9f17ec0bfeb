//! What nodes ask each other when somebody looks for an agent (SPEC chapter 11): "which of your agents can do that?"

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::AgentId;
use crate::limits::{BODY_BYTES_MAX, INQUIRY_AGENTS_MAX, INQUIRY_BYTES_MAX};

/// Which agents are looked for. Every member that is there must hold; one at least is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Inquiry {
    /// A capability's id; `billing.*` stands for all that begin with `billing.`.
    #[n(0)]
    pub capability: Option<String>,
    /// What is done.
    #[n(1)]
    pub action: Option<String>,
    /// What it is done to.
    #[n(2)]
    pub target: Option<String>,
    /// That very agent.
    #[n(3)]
    pub agent: Option<AgentId>,
}

/// The answer: how the node is, and the evidence for the agents that were asked about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Testimony {
    /// The node's placement, as signed.
    #[n(0)]
    pub placement: ByteVec,
    /// The evidence of each agent that was found, as in the answer to `describe`.
    #[n(1)]
    pub evidence: Vec<ByteVec>,
}

/// Why an inquiry, or its answer, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InquiryError {
    /// Not strict CBOR.
    #[error("it is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("it has the wrong shape: {0}")]
    Shape(String),
}

impl Inquiry {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a peer asks.
    ///
    /// # Errors
    /// See [`InquiryError`].
    pub fn decode(bytes: &[u8]) -> Result<Inquiry, InquiryError> {
        cbor::check(bytes, INQUIRY_BYTES_MAX)?;
        let inquiry: Inquiry = minicbor::decode(bytes).map_err(|error| InquiryError::Shape(error.to_string()))?;
        if inquiry.encode() != bytes {
            return Err(InquiryError::Shape("members that this version does not know".to_owned()));
        }
        if inquiry == Inquiry::default() {
            return Err(InquiryError::Shape("it asks for nothing".to_owned()));
        }
        Ok(inquiry)
    }
}

impl Testimony {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a peer answered; nothing in it is verified yet.
    ///
    /// # Errors
    /// See [`InquiryError`].
    pub fn decode(bytes: &[u8]) -> Result<Testimony, InquiryError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let testimony: Testimony = minicbor::decode(bytes).map_err(|error| InquiryError::Shape(error.to_string()))?;
        if testimony.evidence.len() > INQUIRY_AGENTS_MAX || testimony.encode() != bytes {
            return Err(InquiryError::Shape("too many agents, or members that this version does not know".to_owned()));
        }
        Ok(testimony)
    }
}
