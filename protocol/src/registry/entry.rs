//! Entries of a registry's log: what anybody may see of what it accepted.

use minicbor::{Decode, Encode};

use crate::cbor;
use crate::object::Kind;
use crate::{Digest, digest};

/// Bytes of an entry.
const ENTRY_BYTES_MAX: usize = 128;

/// An entry. It names a statement by its digest, so that the log stays small, and so that a statement can be taken away
/// without a gap in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Entry {
    /// The kind of the statement.
    #[n(0)]
    pub kind: Kind,
    /// When the registry accepted it, Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// The digest of its signed bytes.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub statement: Digest,
}

impl Entry {
    /// The entry of a statement that was accepted at that time.
    #[must_use]
    pub fn of(kind: Kind, statement: &[u8], at_ms: u64) -> Entry {
        Entry { kind, at_ms, statement: digest(statement) }
    }

    /// The bytes in the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads an entry; none if these bytes are no entry that this version writes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        cbor::check(bytes, ENTRY_BYTES_MAX).ok()?;
        let entry: Entry = minicbor::decode(bytes).ok()?;
        (entry.encode() == bytes).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_encoding() {
        let entry = Entry::of(Kind::Release, b"signed", 1_700_000_000_000);
        let bytes = entry.encode();
        assert!(bytes.len() <= ENTRY_BYTES_MAX);
        assert_eq!(Entry::decode(&bytes), Some(entry));
        assert_eq!(Entry::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Entry::decode(&bytes[1..]), None);
    }
}
