//! Inquiries: a node asks another which of its agents match a search (SPEC chapter 11).

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::AgentId;
use crate::limits::{BODY_BYTES_MAX, INQUIRY_AGENTS_MAX, INQUIRY_BYTES_MAX};

/// A search for agents. All present members must match, and at least one is present.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Inquiry {
    /// A capability's id; `billing.*` stands for all that begin with `billing.`.
    #[n(0)]
    pub capability: Option<String>,
    /// The action.
    #[n(1)]
    pub action: Option<String>,
    /// The target.
    #[n(2)]
    pub target: Option<String>,
    /// Exactly this agent.
    #[n(3)]
    pub agent: Option<AgentId>,
}

/// The answer: the placement of the node, and the evidence of matching agents.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Testimony {
    /// The node's placement, as signed.
    #[n(0)]
    pub placement: ByteVec,
    /// The evidence of each matching agent, as in the answer to `describe`.
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

    /// Decodes an inquiry of a peer.
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

    /// Decodes the answer of a peer; nothing in it is verified yet.
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
