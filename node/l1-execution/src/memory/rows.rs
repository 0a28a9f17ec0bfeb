//! How a namespace lies in the store.
//!
//! `h` name → the header; `r` name 0 row → when it was kept (milliseconds, 8 bytes) and the entry; `t` name 0 row → when
//! it went (8 bytes) and why (1 byte). A row's name is its kind and key, or an HMAC of them where the namespace is
//! encrypted.

use althing_store::Family;
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use althing_store::seal::{NONCE_BYTES, Seal};

/// Rows of memory.
pub const MEMORY: Family = Family("execution.memory");

/// The terms of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Header {
    /// The agent that it belongs to.
    pub owner: String,
    /// Those that may use it too.
    pub share_with: Vec<String>,
    /// Seconds after which a row is gone.
    pub retention_s: Option<u64>,
    /// Bytes of all rows.
    pub quota_bytes: u64,
    /// What made its vectors.
    pub embedder: String,
    /// How it is encrypted.
    pub sealed: Option<Sealed>,
}

/// How a namespace is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The node's secret.
    pub secret: String,
    /// What goes into the key with it.
    #[serde(with = "serde_bytes")]
    pub salt: Vec<u8>,
    /// Tells the right key from others.
    #[serde(with = "serde_bytes")]
    pub check: Vec<u8>,
}

/// What a row holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A value under a key.
    Value {
        /// The key.
        key: String,
        /// The value.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
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
        /// Who kept it.
        by: String,
        /// Its vector, a signed byte for each place.
        #[serde(with = "serde_bytes")]
        vector: Vec<u8>,
    },
}

impl Entry {
    /// What names it within its namespace.
    pub fn name(&self) -> Name {
        match self {
            Entry::Value { key, .. } => Name::Value(key.clone()),
            Entry::Passage { id, .. } => Name::Passage(id.clone()),
        }
    }
}

/// What names a row within its namespace.
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

/// Why a row went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Somebody asked for it.
    Forgotten = 0,
    /// Its time was over.
    Expired = 1,
}

pub fn header_key(namespace: &str) -> Vec<u8> {
    format!("h{namespace}").into_bytes()
}

/// Before all rows of a namespace: those that are there (`r`), or those that went (`t`).
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

/// A row's value.
pub fn close(key: &[u8], at_ms: u64, entry: &Entry, seal: Option<(&Seal, [u8; NONCE_BYTES])>) -> Vec<u8> {
    let (at, plain) = (at_ms.to_be_bytes(), write(entry));
    let body = seal.map_or_else(|| plain.clone(), |(seal, nonce)| seal.close(nonce, &[key, &at].concat(), &plain));
    [at.as_slice(), &body].concat()
}

/// When a row was kept.
pub fn kept_ms(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|at| u64::from_be_bytes(*at))
}

/// What a row's value holds; nothing where it is not what was written under that key.
pub fn open(key: &[u8], value: &[u8], seal: Option<&Seal>) -> Option<(u64, Entry)> {
    let (at, body) = value.split_first_chunk::<8>()?;
    let opened = match seal {
        Some(seal) => seal.open(&[key, at].concat(), body)?,
        None => body.to_vec(),
    };
    Some((u64::from_be_bytes(*at), ciborium::from_reader(opened.as_slice()).ok()?))
}
