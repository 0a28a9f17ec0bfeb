//! Purging: what is not for everybody is taken away, and the log stays whole.

use althing_protocol::AgentId;
use althing_protocol::cbor;
use althing_protocol::registry::{Salt, Version};
use minicbor::{Decode, Encode};

const RECORD_BYTES_MAX: usize = 16 << 10;

/// Who wanted something to be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum PurgedBy {
    /// Its publisher.
    #[n(1)]
    Publisher,
    /// The registry's operator.
    #[n(2)]
    Operator,
}

/// A release that was purged, with its marks, approvals and attestations. It is on the registry's word; only a digest of it is
/// in the log.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Purge {
    /// The agent.
    #[n(0)]
    pub agent: AgentId,
    /// The version, which nothing else ever is.
    #[n(1)]
    pub version: Version,
    /// The entries whose statements are gone.
    #[n(2)]
    pub entries: Vec<u64>,
    /// Who wanted it.
    #[n(3)]
    pub by: PurgedBy,
    /// The highest sequence of the agent's statements, below which none is accepted later.
    #[n(4)]
    pub sequence: u64,
    /// Random, so that nobody finds by trying out what the digest in the log is of.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub salt: Salt,
}

impl Purge {
    /// The bytes whose digest is in the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a record; none if these bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Purge> {
        cbor::check(bytes, RECORD_BYTES_MAX).ok()?;
        let purge: Purge = minicbor::decode(bytes).ok()?;
        (purge.encode() == bytes).then_some(purge)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn a_record_has_one_encoding() {
        let purge = Purge {
            agent: AgentId::new(PublisherId::from_digest([1; 32]), "billing").expect("a name"),
            version: "1.0.0".parse().expect("a version"),
            entries: (0..49).map(|at| u64::MAX - at).collect(),
            by: PurgedBy::Operator,
            sequence: 7,
            salt: [9; 16],
        };
        let bytes = purge.encode();
        assert_eq!(Purge::decode(&bytes), Some(purge));
        assert_eq!(Purge::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
