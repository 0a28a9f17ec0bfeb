//! What the log says of a Thing. The entry names the digest of such a record; the description itself lies beside it.

use std::sync::Arc;

use althing_protocol::registry::EntryKind;
use althing_protocol::{Digest, cbor};
use minicbor::{Decode, Encode};

/// Bytes of a record: an id, a title, two names and numbers.
const RECORD_BYTES_MAX: usize = 4_096;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;

/// Text that is shared with the keys of maps.
mod shared_text {
    use std::sync::Arc;

    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub fn encode<C, W: Write>(text: &Arc<str>, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(text)?.ok()
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Arc<str>, DecodeError> {
        Ok(d.str()?.into())
    }
}

/// A Thing was registered, or its description was changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Written {
    /// Its id.
    #[cbor(n(0), with = "shared_text")]
    pub id: Arc<str>,
    /// Whose it is: the name of a token; empty if anybody may change it.
    #[n(1)]
    pub owner: String,
    /// Who wrote this; the owner, or an administrator.
    #[n(2)]
    pub by: String,
    /// When, Unix milliseconds.
    #[n(3)]
    pub at_ms: u64,
    /// The digest of the description as it was sent.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub body: Digest,
    /// Its bytes.
    #[n(5)]
    pub bytes: u64,
    /// Its title, cut; lists are sorted by it.
    #[n(6)]
    pub title: String,
    /// The entry that this one follows; none if the Thing is new.
    #[n(7)]
    pub follows: Option<u64>,
    /// How long it stays, seconds, if that was said.
    #[n(8)]
    pub ttl_s: Option<u64>,
    /// When it ends, Unix milliseconds.
    #[n(9)]
    pub expires_ms: Option<u64>,
    /// Random, so that nobody finds what was written by trying out what the digest in the log could be of.
    #[cbor(n(10), with = "minicbor::bytes")]
    pub salt: [u8; SALT_BYTES],
}

impl Written {
    /// Whether the Thing has ended by then.
    #[must_use]
    pub fn has_ended(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

/// A Thing was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Deleted {
    /// Its id.
    #[cbor(n(0), with = "shared_text")]
    pub id: Arc<str>,
    /// Who deleted it.
    #[n(1)]
    pub by: String,
    /// When, Unix milliseconds.
    #[n(2)]
    pub at_ms: u64,
    /// As in [`Written`].
    #[cbor(n(3), with = "minicbor::bytes")]
    pub salt: [u8; SALT_BYTES],
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThingRecord {
    /// A Thing was registered, or changed.
    Written(Written),
    /// A Thing was deleted.
    Deleted(Deleted),
}

impl ThingRecord {
    /// The kind of its entry.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        match self {
            ThingRecord::Written(_) => EntryKind::Thing,
            ThingRecord::Deleted(_) => EntryKind::ThingDeleted,
        }
    }

    /// The id of the Thing.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            ThingRecord::Written(written) => &written.id,
            ThingRecord::Deleted(deleted) => &deleted.id,
        }
    }

    /// The bytes whose digest is in the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let encoded = match self {
            ThingRecord::Written(written) => minicbor::to_vec(written),
            ThingRecord::Deleted(deleted) => minicbor::to_vec(deleted),
        };
        encoded.expect("writing to a vector cannot fail")
    }

    /// Reads a record of that kind; none if these bytes are none.
    #[must_use]
    pub fn decode(kind: EntryKind, bytes: &[u8]) -> Option<ThingRecord> {
        cbor::check(bytes, RECORD_BYTES_MAX).ok()?;
        let record = match kind {
            EntryKind::Thing => ThingRecord::Written(minicbor::decode(bytes).ok()?),
            EntryKind::ThingDeleted => ThingRecord::Deleted(minicbor::decode(bytes).ok()?),
            _ => return None,
        };
        (record.encode() == bytes).then_some(record)
    }
}
