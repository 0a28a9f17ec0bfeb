//! Entries of a registry's log: what anybody may see of what it accepted.

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::cbor;
use crate::object::Kind;
use crate::{Digest, digest};

/// Bytes of an entry.
const ENTRY_BYTES_MAX: usize = 128;

/// What an entry is about. Signed statements have the numbers of their kinds, which end below 64; from 64 on it is what a
/// registry keeps on the word of its users, without a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A signed statement.
    Signed(Kind),
    /// The description of a Thing, new or changed (64).
    Thing,
    /// A Thing that was deleted (65).
    ThingDeleted,
    /// What the registry found when it looked for the proof of a domain (66).
    DomainFinding,
}

impl EntryKind {
    const THING: u8 = 64;
    const THING_DELETED: u8 = 65;
    const DOMAIN_FINDING: u8 = 66;
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> EntryKind {
        EntryKind::Signed(kind)
    }
}

impl<C> Encode<C> for EntryKind {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), EncodeError<W::Error>> {
        match self {
            EntryKind::Signed(kind) => kind.encode(e, context),
            EntryKind::Thing => e.u8(Self::THING)?.ok(),
            EntryKind::ThingDeleted => e.u8(Self::THING_DELETED)?.ok(),
            EntryKind::DomainFinding => e.u8(Self::DOMAIN_FINDING)?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for EntryKind {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<EntryKind, DecodeError> {
        match d.probe().u8() {
            Ok(Self::THING) => d.u8().map(|_| EntryKind::Thing),
            Ok(Self::THING_DELETED) => d.u8().map(|_| EntryKind::ThingDeleted),
            Ok(Self::DOMAIN_FINDING) => d.u8().map(|_| EntryKind::DomainFinding),
            _ => Kind::decode(d, context).map(EntryKind::Signed),
        }
    }
}

/// An entry. It names a statement by its digest, so that the log stays small, and so that a statement can be taken away
/// without a gap in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Entry {
    /// The kind of the statement.
    #[n(0)]
    pub kind: EntryKind,
    /// When the registry accepted it, Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// The digest of its bytes, which are signed if the kind is.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub statement: Digest,
}

impl Entry {
    /// The entry of a statement that was accepted at that time.
    #[must_use]
    pub fn of(kind: impl Into<EntryKind>, statement: &[u8], at_ms: u64) -> Entry {
        Entry { kind: kind.into(), at_ms, statement: digest(statement) }
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
        for kind in [EntryKind::Thing, EntryKind::ThingDeleted, EntryKind::DomainFinding, Kind::Attestation.into()] {
            let entry = Entry::of(kind, b"said", 1);
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        // A kind that this version does not know: 0x18 0x3f is 63.
        let other = [&[0xa3, 0x00, 0x18, 63, 0x01, 0x01, 0x02, 0x58, 32][..], &[7; 32]].concat();
        assert_eq!(Entry::decode(&other), None);
    }
}
