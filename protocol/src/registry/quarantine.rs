//! What the operator of a registry hides, as its log says it.

use minicbor::{Decode, Encode};

use super::{Salt, Version};
use crate::cbor;
use crate::identity::AgentId;

const RECORD_BYTES_MAX: usize = 1 << 10;

/// An agent, or one of its versions, that is hidden or shown again. It is on the operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Quarantine {
    /// The agent.
    #[n(0)]
    pub agent: AgentId,
    /// The version; none means all, also those that are released later.
    #[n(1)]
    pub version: Option<Version>,
    /// Why it is hidden; none shows it again.
    #[n(2)]
    pub reason: Option<String>,
    /// Random, so that nobody finds by trying out what the digest in the log is of.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub salt: Salt,
}

impl Quarantine {
    /// The bytes whose digest is in the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a record; none if these bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Quarantine> {
        cbor::check(bytes, RECORD_BYTES_MAX).ok()?;
        let read: Quarantine = minicbor::decode(bytes).ok()?;
        (read.encode() == bytes).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::PublisherId;

    #[test]
    fn a_record_has_one_encoding() {
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "billing").expect("a name");
        for (version, reason) in [(None, None), (Some("1.0.0".parse().expect("a version")), Some("malware".to_owned()))]
        {
            let record = Quarantine { agent: agent.clone(), version, reason, salt: [9; 16] };
            let bytes = record.encode();
            assert_eq!(Quarantine::decode(&bytes), Some(record));
            assert_eq!(Quarantine::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
