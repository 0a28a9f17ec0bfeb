//! Keys and names: one ed25519 key printed as libp2p PeerId and as `did:key`; publishers named by the digest of their
//! inception; agents named by their publisher.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::Signer as _;

use crate::limits::AGENT_NAME_MAX;
use crate::{base58, points};

/// Multicodec prefix of an ed25519 public key in `did:key` (varint 0xed).
const DID_PREFIX: [u8; 2] = [0xed, 0x01];
/// Multihash prefix of a SHA-256 digest: its code and its length.
const SHA_256_PREFIX: [u8; 2] = [0x12, 0x20];
/// The prefix of the ids of publishers and agents.
const URN: &str = "urn:althing:";
/// A PeerId is the identity multihash of the protobuf `PublicKey {type: Ed25519, data: 32 bytes}` (libp2p peer-ids spec).
const PEER_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// Why a printed key or agent id is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Not `did:key:z…` of an ed25519 key.
    #[error("{0:?} is not the did:key of an ed25519 key; it looks like did:key:z6Mk…")]
    Did(String),
    /// Not the PeerId of an ed25519 key.
    #[error("{0:?} is not the peer id of an ed25519 key; it looks like 12D3KooW…")]
    PeerId(String),
    /// 32 bytes that are not a key: not a point, a non-canonical point (y ≥ p), or one of the eight of small order.
    #[error("the key's 32 bytes are no usable point of edwards25519")]
    NotAPoint,
    /// Not `urn:althing:<digest>`.
    #[error("{0:?} is not a publisher's id; it looks like urn:althing:zQm…")]
    PublisherId(String),
    /// An agent where a node or a publisher is expected.
    #[error("{0} is an agent; name its publisher, {1}")]
    AgentNotCaller(AgentId, PublisherId),
    /// Neither a node nor a publisher.
    #[error(
        "{0:?} is neither a node, which looks like did:key:z6Mk…, nor a publisher, which looks like urn:althing:zQm…"
    )]
    CallerId(String),
    /// Not `urn:althing:<digest>:<name>`.
    #[error("{0:?} is not an agent id; it looks like urn:althing:zQm…:name")]
    AgentId(String),
    /// A name with characters that are not allowed.
    #[error("{0:?} is not an agent's name: 1 to {AGENT_NAME_MAX} of a-z, 0-9 and -, no - at either end")]
    AgentName(String),
}

/// An ed25519 public key. It identifies a node; publishers are not identified by their keys, which rotate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key with these 32 bytes.
    ///
    /// # Errors
    /// [`IdentityError::NotAPoint`].
    pub fn from_bytes(bytes: [u8; 32]) -> Result<PublicKey, IdentityError> {
        points::point(&bytes).map(|_| PublicKey(bytes)).ok_or(IdentityError::NotAPoint)
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `did:key:z6Mk…` (W3C did:key, multibase base58btc).
    #[must_use]
    pub fn did(&self) -> String {
        ["did:key:", base58::written(&self.prefixed()).as_str()].concat()
    }

    /// `z6Mk…`, the part of the DID that names the key.
    #[must_use]
    pub fn multibase(&self) -> String {
        base58::written(&self.prefixed()).as_str().to_owned()
    }

    fn prefixed(&self) -> [u8; base58::BYTES] {
        prefixed(DID_PREFIX, &self.0)
    }

    /// `12D3KooW…`, the libp2p PeerId of the same key.
    #[must_use]
    pub fn peer_id(&self) -> String {
        bs58::encode(self.peer_id_bytes()).into_string()
    }

    /// The 38 bytes of the PeerId's multihash.
    #[must_use]
    pub fn peer_id_bytes(&self) -> [u8; 38] {
        let mut bytes = [0; 38];
        bytes[..6].copy_from_slice(&PEER_PREFIX);
        bytes[6..].copy_from_slice(&self.0);
        bytes
    }

    /// Reads `did:key:z6Mk…`.
    ///
    /// # Errors
    /// [`IdentityError::Did`] or [`IdentityError::NotAPoint`].
    pub fn from_did(text: &str) -> Result<PublicKey, IdentityError> {
        text.strip_prefix("did:key:")
            .and_then(from_multibase)
            .ok_or_else(|| IdentityError::Did(text.chars().take(100).collect()))
            .and_then(PublicKey::from_bytes)
    }

    /// Reads `12D3KooW…`.
    ///
    /// # Errors
    /// [`IdentityError::PeerId`] or [`IdentityError::NotAPoint`].
    pub fn from_peer_id(text: &str) -> Result<PublicKey, IdentityError> {
        let refused = || IdentityError::PeerId(text.chars().take(100).collect());
        let mut bytes = [0u8; 38];
        match bs58::decode(text).onto(&mut bytes) {
            Ok(38) => PublicKey::from_peer_id_bytes(&bytes).ok_or_else(refused)?,
            _ => Err(refused()),
        }
    }

    /// Reads a PeerId's multihash; `None` when it is not an ed25519 key's.
    #[must_use]
    pub fn from_peer_id_bytes(bytes: &[u8]) -> Option<Result<PublicKey, IdentityError>> {
        let key = bytes.strip_prefix(&PEER_PREFIX)?;
        Some(PublicKey::from_bytes(key.try_into().ok()?))
    }

    /// Whether `signature` is valid for `message`, verified strictly (no small-order key, canonical scalars), so that two
    /// honest nodes never disagree.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        points::point(&self.0).is_some_and(|key| key.verify_strict(message, &signature).is_ok())
    }
}

/// 32 bytes behind the two that say what they are.
fn prefixed(prefix: [u8; 2], bytes: &[u8; 32]) -> [u8; base58::BYTES] {
    let mut prefixed = [0; base58::BYTES];
    prefixed[..2].copy_from_slice(&prefix);
    prefixed[2..].copy_from_slice(bytes);
    prefixed
}

fn from_multibase(text: &str) -> Option<[u8; 32]> {
    base58::read(text)?.strip_prefix(&DID_PREFIX)?.try_into().ok()
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "did:key:{}", base58::written(&self.prefixed()).as_str())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.multibase())
    }
}

impl<C> minicbor::Encode<C> for PublicKey {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for PublicKey {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let at = d.position();
        let refused = |_| minicbor::decode::Error::message("a key is 32 bytes on the curve").at(at);
        let bytes = <[u8; 32]>::try_from(d.bytes()?).map_err(|_| refused(IdentityError::NotAPoint))?;
        PublicKey::from_bytes(bytes).map_err(refused)
    }
}

/// An ed25519 secret key. Its bytes are wiped when it is dropped, and never printed.
#[derive(Clone)]
pub struct SecretKey(ed25519_dalek::SigningKey);

impl SecretKey {
    /// The key of these 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> SecretKey {
        SecretKey(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The 32 bytes of the seed, for the key file and for libp2p's type.
    #[must_use]
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// The dalek key, for signatures in other formats (JWS of agent cards).
    #[must_use]
    pub fn signing_key(&self) -> &ed25519_dalek::SigningKey {
        &self.0
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey of {:?}", self.public())
    }
}

/// The id of a publisher (or owner): the digest of the inception event of its key log. Not a key: a thief of the first key
/// cannot make another inception with the same id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId([u8; 32]);

impl PublisherId {
    /// The id with this digest.
    #[must_use]
    pub fn from_digest(digest: crate::Digest) -> PublisherId {
        PublisherId(digest)
    }

    /// The 32 bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `zQm…`: the digest as a multihash in multibase base58btc.
    #[must_use]
    pub fn multibase(&self) -> String {
        base58::written(&prefixed(SHA_256_PREFIX, &self.0)).as_str().to_owned()
    }
}

impl FromStr for PublisherId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<PublisherId, IdentityError> {
        let refused = || IdentityError::PublisherId(text.chars().take(200).collect());
        text.strip_prefix(URN).and_then(from_multihash).map(PublisherId).ok_or_else(refused)
    }
}

impl fmt::Display for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{URN}{}", base58::written(&prefixed(SHA_256_PREFIX, &self.0)).as_str())
    }
}

impl fmt::Debug for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.multibase())
    }
}

impl<C> minicbor::Encode<C> for PublisherId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for PublisherId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let at = d.position();
        let digest = <[u8; 32]>::try_from(d.bytes()?);
        digest.map(PublisherId).map_err(|_| minicbor::decode::Error::message("a publisher's id has 32 bytes").at(at))
    }
}

fn from_multihash(text: &str) -> Option<[u8; 32]> {
    base58::read(text)?.strip_prefix(&SHA_256_PREFIX)?.try_into().ok()
}

/// The identity of a caller: a node, or the publisher that owns nodes. One never counts as the other, even if their bytes
/// are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerId {
    /// A publisher: all nodes that show its membership.
    Publisher(PublisherId),
    /// One node, whoever owns it.
    Node(PublicKey),
}

impl FromStr for CallerId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<CallerId, IdentityError> {
        if text.starts_with("did:") {
            return PublicKey::from_did(text).map(CallerId::Node);
        }
        if let Ok(agent) = text.parse::<AgentId>() {
            let publisher = agent.publisher();
            return Err(IdentityError::AgentNotCaller(agent, publisher));
        }
        let publisher = text.parse().map(CallerId::Publisher);
        publisher.map_err(|_| IdentityError::CallerId(text.chars().take(200).collect()))
    }
}

impl fmt::Display for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallerId::Publisher(publisher) => publisher.fmt(f),
            CallerId::Node(node) => node.fmt(f),
        }
    }
}

/// An agent's name in the world: `urn:althing:<digest of the publisher's inception>:<name>`. No location, and it survives
/// a change of key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId {
    publisher: PublisherId,
    name: String,
}

impl AgentId {
    /// The agent `name` of `publisher`.
    ///
    /// # Errors
    /// [`IdentityError::AgentName`].
    pub fn new(publisher: PublisherId, name: &str) -> Result<AgentId, IdentityError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=AGENT_NAME_MAX).contains(&name.len()) && !name.starts_with('-') && !name.ends_with('-');
        if fits && name.chars().all(allowed) {
            Ok(AgentId { publisher, name: name.to_owned() })
        } else {
            Err(IdentityError::AgentName(name.chars().take(100).collect()))
        }
    }

    /// The publisher.
    #[must_use]
    pub fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// The name, unique within its publisher.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for AgentId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<AgentId, IdentityError> {
        let refused = || IdentityError::AgentId(text.chars().take(200).collect());
        let (publisher, name) = text.strip_prefix(URN).and_then(|rest| rest.split_once(':')).ok_or_else(refused)?;
        AgentId::new(from_multihash(publisher).map(PublisherId).ok_or_else(refused)?, name)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.publisher, self.name)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<C> minicbor::Encode<C> for AgentId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(&self.to_string())?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for AgentId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let at = d.position();
        d.str()?.parse().map_err(|_| minicbor::decode::Error::message("not an agent id").at(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_two_printings() {
        // P-11: RFC 8032 §7.1 test 1's public key; both printings computed anew from their definitions, without this code.
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let key = SecretKey::from_seed(&seed).public();
        assert_eq!(key.did(), "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw");
        assert_eq!(key.peer_id(), "12D3KooWQK1wnefoLrcVHbbnf5tLzbopUd3K3bFAoJpA7YJgL5pV");
        assert_eq!(PublicKey::from_did(&key.did()), Ok(key));
        assert_eq!(PublicKey::from_peer_id(&key.peer_id()), Ok(key));
    }

    #[test]
    fn publishers_and_nodes_are_never_read_as_each_other() {
        // P-12: the printing computed anew from its definition, without this code.
        let digest = crate::digest(b"abc");
        let publisher = PublisherId::from_digest(digest);
        assert_eq!(publisher.to_string(), "urn:althing:zQmatYkNGZnELf8cAGdyJpUca2PyY4szai3RHyyWofNY1pY");
        assert_eq!(publisher.to_string().parse(), Ok(publisher));
        let node = SecretKey::from_seed(&[7; 32]).public();
        assert_eq!(publisher.to_string().parse(), Ok(CallerId::Publisher(publisher)));
        assert_eq!(node.did().parse(), Ok(CallerId::Node(node)));
        let twin = PublisherId::from_digest(*node.as_bytes());
        assert_ne!(CallerId::Publisher(twin).to_string(), CallerId::Node(node).to_string());
        let agent = AgentId::new(publisher, "echo").expect("a good name");
        assert_eq!(agent.to_string().parse::<CallerId>(), Err(IdentityError::AgentNotCaller(agent.clone(), publisher)));
        for bad in ["", "local", "urn:althing:", &format!("urn:althing:{}", node.multibase()), "did:web:example.org"] {
            assert!(bad.parse::<CallerId>().is_err() && bad.parse::<PublisherId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn agent_ids_survive_printing_and_refuse_the_rest() {
        // P-12
        let publisher = PublisherId::from_digest([7; 32]);
        let id = AgentId::new(publisher, "echo-1").expect("a good name");
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        for bad in ["", "Echo", "-a", "a-", "a b", "é", &"x".repeat(64)] {
            assert!(matches!(AgentId::new(publisher, bad), Err(IdentityError::AgentName(_))), "{bad}");
            assert!(format!("{publisher}:{bad}").parse::<AgentId>().is_err());
        }
        for bad in ["urn:althing:echo", "urn:other:z6Mk:echo", &id.to_string().replace(":z", ":m"), "did:key:zz"] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad}");
        }
    }
}
