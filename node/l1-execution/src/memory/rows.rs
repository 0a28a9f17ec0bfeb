//! The layout of a namespace in the store.
//!
//! `h` name → the header; `r` name 0 row → the time of writing (milliseconds, 8 bytes) and the entry; `t` name 0 row → a
//! tombstone: the time of removal (8 bytes) and the reason (1 byte). A row's name is its kind and key, or an HMAC of them if
//! the namespace is encrypted.

use althing_protocol::Label;
use althing_store::Family;
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use althing_store::seal::{NONCE_BYTES, Seal};

/// Rows of memory.
pub const MEMORY: Family = Family("execution.memory");

/// The terms of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Header {
    /// The agent that owns it.
    pub owner: String,
    /// Other agents that may use it.
    pub share_with: Vec<String>,
    /// Seconds after which a row expires.
    pub retention_s: Option<u64>,
    /// The quota: bytes of all rows.
    pub quota_bytes: u64,
    /// The name of the embedder of its vectors.
    pub embedder: String,
    /// How it is encrypted.
    pub sealed: Option<Sealed>,
}

/// How a namespace is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The node's secret.
    pub secret: String,
    /// The salt of the key derivation.
    #[serde(with = "serde_bytes")]
    pub salt: Vec<u8>,
    /// Verifies the key.
    #[serde(with = "serde_bytes")]
    pub check: Vec<u8>,
}

/// The content of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A value under a key.
    Value {
        /// The key.
        key: String,
        /// The value.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
        /// The label of all that the turn had been given that wrote it. What the operator wrote, and rows from before there were
        /// labels, have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
    },
    /// A passage of a source.
    Passage {
        /// Its id.
        id: String,
        /// Where it is from.
        source: String,
        /// SHA-256 of the whole source, hexadecimal.
        source_hash: String,
        /// Its place in the source, from 0.
        place: u32,
        /// What it says.
        text: String,
        /// Who stored it.
        by: String,
        /// Its vector, a signed byte for each place.
        #[serde(with = "serde_bytes")]
        vector: Vec<u8>,
        /// As that of a value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
    },
}

impl Entry {
    /// Its name within the namespace.
    pub fn name(&self) -> Name {
        match self {
            Entry::Value { key, .. } => Name::Value(key.clone()),
            Entry::Passage { id, .. } => Name::Passage(id.clone()),
        }
    }

    /// How it was labelled when it was written, if at all.
    pub fn label(&self) -> Option<Label> {
        match self {
            Entry::Value { label, .. } | Entry::Passage { label, .. } => *label,
        }
    }
}

/// The name of a row within its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A value's key.
    Value(String),
    /// A passage's id.
    Passage(String),
}

impl Name {
    fn plain(&self) -> Vec<u8> {
        let (kind, text) = match self {
            Name::Value(key) => (b'v', key),
            Name::Passage(id) => (b'p', id),
        };
        [&[kind], text.as_bytes()].concat()
    }
}

/// Why a row was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// On request.
    Forgotten = 0,
    /// Its retention was over.
    Expired = 1,
}

pub fn header_key(namespace: &str) -> Vec<u8> {
    format!("h{namespace}").into_bytes()
}

/// The prefix of all rows (`r`) or tombstones (`t`) of a namespace.
pub fn prefix(kind: u8, namespace: &str) -> Vec<u8> {
    [&[kind], namespace.as_bytes(), &[0]].concat()
}

pub fn row_key(kind: u8, namespace: &str, name: &Name, seal: Option<&Seal>) -> Vec<u8> {
    let plain = name.plain();
    let name = seal.map_or_else(|| plain.clone(), |seal| seal.name(&plain));
    [prefix(kind, namespace), name].concat()
}

pub fn write<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("writing to memory does not fail, and these types are plain");
    bytes
}

pub fn header(namespace: &str, bytes: &[u8]) -> Result<Header, MemoryError> {
    ciborium::from_reader(bytes).map_err(|_| MemoryError::Damaged(namespace.to_owned()))
}

/// Encodes a row's value.
pub fn encode(key: &[u8], at_ms: u64, entry: &Entry, seal: Option<(&Seal, [u8; NONCE_BYTES])>) -> Vec<u8> {
    let (at, plain) = (at_ms.to_be_bytes(), write(entry));
    let body = seal.map_or_else(|| plain.clone(), |(seal, nonce)| seal.close(nonce, &[key, &at].concat(), &plain));
    [at.as_slice(), &body].concat()
}

/// When a row was written.
pub fn kept_ms(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|at| u64::from_be_bytes(*at))
}

/// Decodes a row's value; none if it is not what was written under that key.
pub fn decode(key: &[u8], value: &[u8], seal: Option<&Seal>) -> Option<(u64, Entry)> {
    let (at, body) = value.split_first_chunk::<8>()?;
    let opened = match seal {
        Some(seal) => seal.open(&[key, at].concat(), body)?,
        None => body.to_vec(),
    };
    Some((u64::from_be_bytes(*at), ciborium::from_reader(opened.as_slice()).ok()?))
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::DataLabel;

    use super::*;

    /// Entries as they were before there were labels.
    #[derive(Serialize)]
    enum UnlabelledEntry {
        Value {
            key: String,
            #[serde(with = "serde_bytes")]
            value: Vec<u8>,
        },
        Passage {
            id: String,
            source: String,
            source_hash: String,
            place: u32,
            text: String,
            by: String,
            #[serde(with = "serde_bytes")]
            vector: Vec<u8>,
        },
    }

    fn entries(label: Option<Label>) -> [Entry; 2] {
        let text = |text: &str| text.to_owned();
        let passage = Entry::Passage {
            id: text("0a"),
            source: text("book"),
            source_hash: text("0b"),
            place: 1,
            text: text("once"),
            by: text("clerk"),
            vector: vec![1, 2],
            label,
        };
        [Entry::Value { key: text("k"), value: vec![7], label }, passage]
    }

    #[test]
    fn a_row_keeps_its_label_and_one_from_before_there_were_labels_is_read_and_written_as_it_was() {
        let text = |text: &str| text.to_owned();
        let before = [
            UnlabelledEntry::Value { key: text("k"), value: vec![7] },
            UnlabelledEntry::Passage {
                id: text("0a"),
                source: text("book"),
                source_hash: text("0b"),
                place: 1,
                text: text("once"),
                by: text("clerk"),
                vector: vec![1, 2],
            },
        ];
        for (before, entry) in before.iter().zip(entries(None)) {
            let row = [1_u64.to_be_bytes().as_slice(), &write(before)].concat();
            assert_eq!(decode(b"key", &row, None), Some((1, entry.clone())));
            assert_eq!(encode(b"key", 1, &entry, None), row);
        }
        let label = Some(Label { level: DataLabel::Restricted, trusted: false });
        for entry in entries(label) {
            let row = encode(b"key", 1, &entry, None);
            let read = decode(b"key", &row, None).expect("a row").1;
            assert_eq!((read.label(), read), (label, entry));
        }
    }
}
