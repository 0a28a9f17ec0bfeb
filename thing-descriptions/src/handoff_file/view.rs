//! What a view of a handoff is read into.

use althing_protocol::PublicKey;
use althing_protocol::object::Handoff;

/// A handoff, and who signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffFile {
    /// Its content, of the shape that the protocol asks for.
    pub handoff: Handoff,
    /// None as long as nobody did.
    pub signature: Option<HandoffSignature>,
}

/// Whose signature a view has; not yet checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffSignature {
    /// In which network it is valid.
    pub network: String,
    /// The node that made it.
    pub signer: PublicKey,
    /// Its 64 bytes.
    pub value: [u8; 64],
}
