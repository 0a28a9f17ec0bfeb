//! Entries of a registry's log: what anybody may see of what it accepted.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::cbor;
use crate::limits::SUBMISSION_BYTES_MAX;
use crate::object::Kind;
use crate::{Digest, digest};

const ENTRY_BYTES_MAX: usize = 128;
/// Random bytes beside a statement that is not for everybody.
pub type Salt = [u8; 16];

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
    /// Something that was not for everybody was purged (67).
    Purge,
    /// The operator hides something, or shows it again (68).
    Quarantine,
    /// A signed statement that is not for everybody, which the entry names by a salted digest (128 more than its kind).
    Salted(Kind),
}

impl EntryKind {
    const THING: u8 = 64;
    const THING_DELETED: u8 = 65;
    const DOMAIN_FINDING: u8 = 66;
    const PURGE: u8 = 67;
    const QUARANTINE: u8 = 68;
    const SALTED: u8 = 128;

    /// What the entry is about, salted or not.
    #[must_use]
    pub fn plain(self) -> EntryKind {
        match self {
            EntryKind::Salted(kind) => EntryKind::Signed(kind),
            other => other,
        }
    }
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
            EntryKind::Purge => e.u8(Self::PURGE)?.ok(),
            EntryKind::Quarantine => e.u8(Self::QUARANTINE)?.ok(),
            EntryKind::Salted(kind) => e.u8(Self::SALTED + number(*kind))?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for EntryKind {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<EntryKind, DecodeError> {
        match d.probe().u8() {
            Ok(Self::THING) => d.u8().map(|_| EntryKind::Thing),
            Ok(Self::THING_DELETED) => d.u8().map(|_| EntryKind::ThingDeleted),
            Ok(Self::DOMAIN_FINDING) => d.u8().map(|_| EntryKind::DomainFinding),
            Ok(Self::PURGE) => d.u8().map(|_| EntryKind::Purge),
            Ok(Self::QUARANTINE) => d.u8().map(|_| EntryKind::Quarantine),
            Ok(number @ Self::SALTED..) => {
                d.u8()?;
                let number = minicbor::to_vec(number - Self::SALTED).expect("writing to a vector cannot fail");
                minicbor::decode(&number).map(EntryKind::Salted)
            }
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

    /// The entry of a statement that is not for everybody: who does not have the salt cannot try out what it is of.
    #[must_use]
    pub fn salted(kind: Kind, statement: &[u8], salt: &Salt, at_ms: u64) -> Entry {
        Entry { kind: EntryKind::Salted(kind), at_ms, statement: commitment(statement, salt) }
    }

    /// Whether it names the statement: with that salt if it has one.
    #[must_use]
    pub fn names(&self, statement: &[u8], salt: Option<&Salt>) -> bool {
        match (self.kind, salt) {
            (EntryKind::Salted(_), Some(salt)) => self.statement == commitment(statement, salt),
            (EntryKind::Salted(_), None) | (_, Some(_)) => false,
            (_, None) => self.statement == digest(statement),
        }
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

/// A statement that a salted entry names, for those who may see it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SaltedStatement {
    /// The signed bytes.
    #[n(0)]
    pub statement: ByteVec,
    /// What the entry is salted with.
    #[n(1)]
    pub salt: ByteArray<16>,
}

impl SaltedStatement {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads one; none if these bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<SaltedStatement> {
        cbor::check(bytes, SUBMISSION_BYTES_MAX).ok()?;
        let read: SaltedStatement = minicbor::decode(bytes).ok()?;
        (read.encode() == bytes).then_some(read)
    }
}

/// The number of a kind.
fn number(kind: Kind) -> u8 {
    let encoded = minicbor::to_vec(kind).expect("writing to a vector cannot fail");
    minicbor::decode(&encoded).expect("a kind is a small number")
}

/// The digest that an entry has of a statement with a salt.
fn commitment(statement: &[u8], salt: &Salt) -> Digest {
    digest(&[&salt[..], statement].concat())
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
        for kind in [
            EntryKind::Thing,
            EntryKind::ThingDeleted,
            EntryKind::DomainFinding,
            EntryKind::Purge,
            EntryKind::Quarantine,
            EntryKind::Salted(Kind::Release),
            Kind::Attestation.into(),
        ] {
            let entry = Entry::of(kind, b"said", 1);
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        // P-190
        let salted = Entry::salted(Kind::Release, b"said", &[7; 16], 1);
        assert!(salted.names(b"said", Some(&[7; 16])));
        assert!(!salted.names(b"said", Some(&[8; 16])) && !salted.names(b"said", None));
        assert!(!salted.names(&[&[7; 16][..], b"said"].concat(), None), "a salted entry is of no longer statement");
        assert!(!entry.names(b"signed", Some(&[7; 16])) && entry.names(b"signed", None));
        // A salted one of no kind.
        let other = [&[0xa3, 0x00, 0x18, 255, 0x01, 0x01, 0x02, 0x58, 32][..], &[7; 32]].concat();
        assert_eq!(Entry::decode(&other), None);
        // A kind that this version does not know: 0x18 0x3f is 63.
        let other = [&[0xa3, 0x00, 0x18, 63, 0x01, 0x01, 0x02, 0x58, 32][..], &[7; 32]].concat();
        assert_eq!(Entry::decode(&other), None);
    }
}
