//! The opening of a stream: both sides send a random challenge, and every frame of the stream is bound to both.

use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::{PublicKey, PublisherId};
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{HELLO_BYTES_MAX, NETWORK_BYTES_MAX};
use crate::object::{self, Authored, Membership, ObjectError};

/// 32 random bytes that one side chose for one stream.
pub type Challenge = [u8; 32];

/// The version of frames that this crate speaks.
pub const FRAME_VERSION: u8 = 1;

/// The first message of each side on a new stream. Not signed itself: every later signature covers its content.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hello {
    /// [`FRAME_VERSION`].
    #[n(0)]
    pub version: u8,
    /// The sender's challenge.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub challenge: Challenge,
    /// The network that the sender belongs to.
    #[n(2)]
    pub network: String,
    /// Proof of the owner of the sender.
    #[n(3)]
    pub owner: Option<OwnerProof>,
}

/// Proof of the owner of a node: the signed membership, and the inception event whose digest is the id of the owner and which
/// holds the signing key of an owner that never rotated. About 600 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OwnerProof {
    /// An authored object of kind `Membership`.
    #[n(0)]
    pub membership: ByteVec,
    /// The inception of the owner's key log.
    #[n(1)]
    pub inception: ByteVec,
}

/// An [`OwnerProof`] with valid signatures. The keyring decides whether the signer is valid for the owner now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedOwner {
    /// The membership.
    pub membership: Authored<Membership>,
    /// The inception of the owner, as a log of one event.
    pub inception: Arc<KeyLog>,
}

/// Why a proof of the owner is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnerProofError {
    /// The membership is invalid.
    #[error("membership: {0}")]
    Membership(#[from] ObjectError),
    /// The inception is invalid.
    #[error("the owner's inception: {0}")]
    Inception(#[from] KeyLogError),
    /// They name different owners.
    #[error("the membership is of {membership}, and the inception that was shown with it of {inception}")]
    Mismatch {
        /// The owner in the membership.
        membership: PublisherId,
        /// The owner of the inception.
        inception: PublisherId,
    },
}

impl OwnerProof {
    /// The proof from a membership and the key log of the owner.
    #[must_use]
    pub fn new(membership: Vec<u8>, log: &KeyLog) -> OwnerProof {
        let inception = log.inception().to_bytes().pop().expect("a verified log has an inception");
        OwnerProof { membership: membership.into(), inception: inception.into() }
    }

    /// The claimed owner; not verified.
    #[must_use]
    pub fn owner(&self) -> PublisherId {
        PublisherId::from_digest(crate::digest(&self.inception))
    }

    /// Verifies both signatures.
    ///
    /// # Errors
    /// See [`OwnerProofError`].
    pub fn verify(&self, network: &str) -> Result<VerifiedOwner, OwnerProofError> {
        let membership = object::open::<Membership>(&self.membership, network, "")?;
        let inception = KeyLog::verify(&[self.inception.as_slice()])?;
        if inception.publisher() != membership.body.owner {
            let (membership, inception) = (membership.body.owner, inception.publisher());
            return Err(OwnerProofError::Mismatch { membership, inception });
        }
        Ok(VerifiedOwner { membership, inception: Arc::new(inception) })
    }
}

/// The member that every version of a `Hello` has.
#[derive(Decode)]
#[cbor(map)]
struct Versioned {
    #[n(0)]
    version: u8,
}

/// Why a `Hello` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not strict CBOR.
    #[error("the opening is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the opening has the wrong shape: {0}")]
    Shape(String),
    /// Another version.
    #[error("the peer speaks frame version {0}, this node {FRAME_VERSION}; upgrade the older of the two")]
    Version(u8),
    /// Another network.
    #[error("the peer belongs to network {theirs:?}, this node to {ours:?}; set the same `network` on both")]
    Network {
        /// The network of the peer.
        theirs: String,
        /// The network of this node.
        ours: String,
    },
}

impl Hello {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Decodes the message of a peer, for the network `ours`.
    ///
    /// # Errors
    /// See [`HelloError`].
    pub fn decode(bytes: &[u8], ours: &str) -> Result<Hello, HelloError> {
        cbor::check(bytes, HELLO_BYTES_MAX)?;
        let shape = |error: minicbor::decode::Error| HelloError::Shape(error.to_string());
        // Checked first, because other versions may have other members.
        let Versioned { version } = minicbor::decode(bytes).map_err(shape)?;
        if version != FRAME_VERSION {
            return Err(HelloError::Version(version));
        }
        let hello: Hello = minicbor::decode(bytes).map_err(shape)?;
        if hello.network != ours {
            let theirs = hello.network.chars().take(NETWORK_BYTES_MAX).collect();
            return Err(HelloError::Network { theirs, ours: ours.to_owned() });
        }
        if hello.encode() != bytes {
            return Err(HelloError::Shape("members that this version does not know".to_owned()));
        }
        Ok(hello)
    }
}

/// The binding of all frames of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamBinding {
    /// The network's name.
    pub network: String,
    /// The stream's protocol, such as `/althing/call/1`.
    pub protocol: String,
    /// The side that opened the stream.
    pub opener: PublicKey,
    /// The side that accepted it.
    pub acceptor: PublicKey,
    /// The opener's challenge.
    pub opener_challenge: Challenge,
    /// The acceptor's challenge.
    pub acceptor_challenge: Challenge,
}

impl StreamBinding {
    /// `external_aad` of the frames that `sender` sends: a CBOR array of domain, network, protocol, sender, receiver
    /// and both challenges.
    #[must_use]
    pub fn aad(&self, sender: PublicKey) -> Vec<u8> {
        let receiver = if sender == self.opener { self.acceptor } else { self.opener };
        let mut e = minicbor::Encoder::new(Vec::with_capacity(256));
        e.array(7)
            .and_then(|e| e.str("althing/frame/1"))
            .and_then(|e| e.str(&self.network))
            .and_then(|e| e.str(&self.protocol))
            .and_then(|e| e.bytes(sender.as_bytes()))
            .and_then(|e| e.bytes(receiver.as_bytes()))
            .and_then(|e| e.bytes(&self.opener_challenge))
            .and_then(|e| e.bytes(&self.acceptor_challenge))
            .expect("writing to a vector cannot fail");
        e.into_writer()
    }

    /// A short id of the stream in each frame, to give frames of another stream their own error.
    #[must_use]
    pub fn id(&self) -> [u8; 8] {
        let hash = crate::digest(&[&self.opener_challenge[..], &self.acceptor_challenge].concat());
        hash[..8].try_into().expect("a digest has 32 bytes")
    }
}
