//! The records of the distributed hash table (SPEC chapter 11): keys, and self-certifying values. A record is only a hint: a
//! node verifies it with the named node before using it.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::{AgentId, PublicKey, PublisherId};
use crate::keylog::{KeyLog, KeyLogError, Relation};
use crate::limits::{CONTACT_ADDRESSES_MAX, CONTACT_LIFE_MAX_MS, KEYLOG_EVENTS_MAX, RECORD_BYTES_MAX};
use crate::object::{self, Authored, Kind, ObjectError, Statement};

/// Bytes of one address.
const ADDRESS_BYTES_MAX: usize = 256;
/// The multihash prefix of a SHA-256 digest: its code and its length.
const SHA_256: [u8; 2] = [0x12, 0x20];

/// The key of a record: a SHA-256 digest, specific to one network (SPEC P-62).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey([u8; 32]);

impl RecordKey {
    fn of(network: &str, what: &str, which: &str) -> RecordKey {
        let mut e = minicbor::Encoder::new(Vec::with_capacity(128));
        e.array(4)
            .and_then(|e| e.str("althing/record/1"))
            .and_then(|e| e.str(network))
            .and_then(|e| e.str(what))
            .and_then(|e| e.str(which))
            .expect("writing to a vector cannot fail");
        RecordKey(crate::digest(&e.into_writer()))
    }

    /// Finds hosts of agents with the capability `id`, or with one that begins with it and a dot.
    #[must_use]
    pub fn capability(network: &str, id: &str) -> RecordKey {
        RecordKey::of(network, "capability", id)
    }

    /// Finds hosts of agents with the action `action`, in lower case.
    #[must_use]
    pub fn action(network: &str, action: &str) -> RecordKey {
        RecordKey::of(network, "action", &action.to_lowercase())
    }

    /// Finds hosts of agents with the target `target`, in lower case.
    #[must_use]
    pub fn target(network: &str, target: &str) -> RecordKey {
        RecordKey::of(network, "target", &target.to_lowercase())
    }

    /// Finds hosts of `agent`.
    #[must_use]
    pub fn agent(network: &str, agent: &AgentId) -> RecordKey {
        RecordKey::of(network, "agent", &agent.to_string())
    }

    /// Finds the addresses of `node`: a [`Contact`].
    #[must_use]
    pub fn contact(network: &str, node: PublicKey) -> RecordKey {
        RecordKey::of(network, "contact", &node.did())
    }

    /// Finds the key log of `publisher`.
    #[must_use]
    pub fn key_log(network: &str, publisher: PublisherId) -> RecordKey {
        RecordKey::of(network, "key-log", &publisher.to_string())
    }

    /// The digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key as a multihash, as Kademlia of libp2p uses it.
    #[must_use]
    pub fn to_multihash(self) -> Vec<u8> {
        [&SHA_256[..], &self.0].concat()
    }

    /// The key of a multihash, if it is a SHA-256 one.
    #[must_use]
    pub fn from_multihash(bytes: &[u8]) -> Option<RecordKey> {
        Some(RecordKey(bytes.strip_prefix(&SHA_256)?.try_into().ok()?))
    }
}

/// The addresses of a node, signed by it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Contact {
    #[n(0)]
    kind: Kind,
    /// The node, which signs it.
    #[n(1)]
    pub node: PublicKey,
    /// Increases with each contact, also across restarts.
    #[n(2)]
    pub sequence: u64,
    /// Unix milliseconds.
    #[n(3)]
    pub issued_at_ms: u64,
    /// Unix milliseconds, at most 24 h after `issued_at_ms`.
    #[n(4)]
    pub not_after_ms: u64,
    /// Multiaddresses, the best first.
    #[n(5)]
    pub addresses: Vec<String>,
}

impl Contact {
    /// A contact to be signed by `node`.
    #[must_use]
    pub fn new(
        node: PublicKey,
        sequence: u64,
        issued_at_ms: u64,
        not_after_ms: u64,
        addresses: Vec<String>,
    ) -> Contact {
        Contact { kind: Kind::Contact, node, sequence, issued_at_ms, not_after_ms, addresses }
    }
}

impl Statement for Contact {
    const KIND: Kind = Kind::Contact;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        let count = self.addresses.len();
        if count == 0 || count > CONTACT_ADDRESSES_MAX {
            return Err(ObjectError::Shape(format!("a contact has 1 to {CONTACT_ADDRESSES_MAX} addresses")));
        }
        if self.addresses.iter().any(|address| address.is_empty() || address.len() > ADDRESS_BYTES_MAX) {
            return Err(ObjectError::Shape(format!("an address has 1 to {ADDRESS_BYTES_MAX} bytes")));
        }
        object::life(self.issued_at_ms, self.not_after_ms, CONTACT_LIFE_MAX_MS)
    }
}

impl Authored<Contact> {
    /// Checks that the node itself signed it, and that it is valid now.
    ///
    /// # Errors
    /// [`ObjectError::WrongKey`], [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        let body = &self.body;
        if self.signer != body.node {
            return Err(ObjectError::WrongKey { signer: self.signer, expected: body.node });
        }
        object::in_time(body.issued_at_ms, body.not_after_ms, now_ms)
    }
}

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not strict CBOR.
    #[error("the value is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the value has the wrong shape: {0}")]
    Shape(String),
    /// An invalid contact.
    #[error("contact: {0}")]
    Contact(ObjectError),
    /// An invalid key log.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// It is valid, but belongs to another key.
    #[error("the value belongs under another key")]
    WrongKey,
}

impl RecordError {
    /// Whether only a malicious peer sends this. A wrong clock or a newer version can cause the other errors.
    #[must_use]
    pub fn is_forged(&self) -> bool {
        match self {
            RecordError::Cbor(_) | RecordError::WrongKey | RecordError::KeyLog(_) => true,
            RecordError::Contact(reason) => matches!(reason, ObjectError::Envelope(_) | ObjectError::WrongKey { .. }),
            RecordError::Shape(_) => false,
        }
    }
}

/// A verified value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The contact of a node.
    Contact(Authored<Contact>),
    /// The key log of a publisher.
    KeyLog(KeyLog),
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Wire {
    #[n(0)]
    contact: Option<ByteVec>,
    #[n(1)]
    key_log: Option<Vec<ByteVec>>,
}

impl Value {
    /// Verifies a value for `key` (SPEC P-63, P-64).
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn open(key: RecordKey, bytes: &[u8], network: &str, now_ms: u64) -> Result<Value, RecordError> {
        cbor::check(bytes, RECORD_BYTES_MAX)?;
        let wire: Wire = minicbor::decode(bytes).map_err(|error| RecordError::Shape(error.to_string()))?;
        let value = match (wire.contact, wire.key_log) {
            (Some(contact), None) => {
                let contact = object::open::<Contact>(&contact, network, "").map_err(RecordError::Contact)?;
                contact.in_force(now_ms).map_err(RecordError::Contact)?;
                Value::Contact(contact)
            }
            (None, Some(events)) if events.len() <= KEYLOG_EVENTS_MAX => {
                let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
                Value::KeyLog(KeyLog::verify(&events)?)
            }
            _ => return Err(RecordError::Shape("neither one contact nor one key log".to_owned())),
        };
        if value.key(network) != key {
            return Err(RecordError::WrongKey);
        }
        if value.encode() != bytes {
            return Err(RecordError::Shape("members that this version does not know".to_owned()));
        }
        Ok(value)
    }

    /// Encodes it for storage.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let wire = match self {
            Value::Contact(contact) => Wire { contact: Some(contact.bytes.clone().into()), key_log: None },
            Value::KeyLog(log) => {
                Wire { contact: None, key_log: Some(log.to_bytes().into_iter().map(ByteVec::from).collect()) }
            }
        };
        minicbor::to_vec(wire).expect("writing to a vector cannot fail")
    }

    /// The only key that it is valid for.
    #[must_use]
    pub fn key(&self, network: &str) -> RecordKey {
        match self {
            Value::Contact(contact) => RecordKey::contact(network, contact.body.node),
            Value::KeyLog(log) => RecordKey::key_log(network, log.publisher()),
        }
    }

    /// When it expires, Unix milliseconds; a key log never does.
    #[must_use]
    pub fn not_after_ms(&self) -> Option<u64> {
        match self {
            Value::Contact(contact) => Some(contact.body.not_after_ms),
            Value::KeyLog(_) => None,
        }
    }

    /// Whether it replaces `held`, the stored value of the same key (SPEC P-65).
    #[must_use]
    pub fn replaces(&self, held: &Value) -> bool {
        match (self, held) {
            (Value::Contact(new), Value::Contact(old)) => new.body.sequence > old.body.sequence,
            (Value::KeyLog(new), Value::KeyLog(old)) => {
                new.publisher() == old.publisher()
                    && matches!(new.relation(old), Relation::Continues | Relation::Displaces)
            }
            _ => false,
        }
    }
}
