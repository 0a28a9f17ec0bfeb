//! Keys and values of the rows of an audit log.

use althing_protocol::{Digest, hex};
use minicbor::{Decode, Encode};

use super::error::AuditFault;

/// Bytes of most rows.
const ROW_BYTES: usize = 512;

/// The id of a leaf: when it was drafted, as a number that never falls here (8 bytes, big-endian), and 8 random bytes. Rows of
/// the queue are in this order.
pub type LeafId = [u8; 16];
/// The name of a key: the subject's digest, and 16 random bytes.
pub(super) type KeyName = [u8; 48];

/// A leaf that waits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct QueueRow {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub leaf: Vec<u8>,
    /// Bytes of its bodies in the store.
    #[n(1)]
    pub body_bytes: u64,
    /// With which key these are sealed.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub key: Option<KeyName>,
}

/// A body in the store.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct BodyRow {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub key: KeyName,
    /// Nonce and ciphertext.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub sealed: Vec<u8>,
}

/// What is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct BodyPlain {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub salt: [u8; 32],
    /// None of a body that was too large.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub body: Option<Vec<u8>>,
    /// Of the whole body.
    #[n(2)]
    pub bytes: u64,
}

/// Where a leaf is: which of the node's logs, and at which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub log: u32,
    pub index: u64,
}

impl Place {
    pub(super) fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.log.to_be_bytes());
        bytes[4..].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Place> {
        let (log, index) = bytes.split_first_chunk::<4>()?;
        Some(Place { log: u32::from_be_bytes(*log), index: u64::from_be_bytes(index.try_into().ok()?) })
    }
}

/// When the leaf of an id was drafted: the number with which it begins.
pub(super) fn ordinal_of(id: &LeafId) -> u64 {
    id.first_chunk::<8>().map_or(0, |ordinal| u64::from_be_bytes(*ordinal))
}

/// The key in the index of the place of a leaf.
pub(super) fn place_of(id: &LeafId) -> Vec<u8> {
    [&b"i"[..], id].concat()
}

/// The key in the index of the id of the leaf at a place.
pub(super) fn id_at(place: Place) -> Vec<u8> {
    [&b"n"[..], &place.bytes()].concat()
}

/// What the keys of the bodies of a leaf begin with; the role is the last byte.
pub(super) fn bodies_of(at_ms: u64, id: &LeafId) -> Vec<u8> {
    [&at_ms.to_be_bytes()[..], id].concat()
}

/// When the leaf of a body was made, Unix milliseconds.
pub(super) fn time_of_body(key: &[u8]) -> Option<u64> {
    key.first_chunk::<8>().map(|at_ms| u64::from_be_bytes(*at_ms))
}

/// The key in the family of keys that says that a key was burned.
pub(super) fn burned(key: &KeyName) -> Vec<u8> {
    [&b"burned/"[..], key].concat()
}

/// What the keys of a subject's keys begin with.
pub(super) fn keys_of(subject: &Digest) -> Vec<u8> {
    [&b"key/"[..], subject].concat()
}

/// The key in the family of keys of a key.
pub(super) fn key_row(key: &KeyName) -> Vec<u8> {
    [&b"key/"[..], key].concat()
}

pub(super) fn written<T: Encode<()>>(row: &T) -> Vec<u8> {
    // A vector that begins with nothing is moved again and again while a row of this size is written.
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    minicbor::encode(row, &mut bytes).expect("writing to a vector cannot fail");
    bytes
}

/// # Errors
/// [`AuditFault::Damaged`], with the family and the key.
pub(super) fn read<'b, T: Decode<'b, ()>>(what: &str, key: &[u8], row: &'b [u8]) -> Result<T, AuditFault> {
    minicbor::decode(row).map_err(|_| damaged(what, key))
}

pub(super) fn damaged(what: &str, key: &[u8]) -> AuditFault {
    AuditFault::Damaged(format!("{what} {}", hex(key)))
}
