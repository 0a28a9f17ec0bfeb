//! Proofs of equivocation: two appends, signed by one leader for one term, with different entries at one index.
//!
//! In its term a leader only appends to its log, so that no leader that keeps to Raft ever signs two such appends. Who
//! verifies a proof needs nothing but the proof: the frames are those that the members were sent, and name the leader's key.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use minicbor::decode::Error as Malformed;
use minicbor::{Decode, Decoder, Encode};

use super::GroupId;
use crate::cbor::{self, CborError};
use crate::frame::{self, FrameError};
use crate::identity::PublicKey;
use crate::limits::{BODY_BYTES_MAX, SIGNED_APPEND_BYTES_MAX};
use crate::sign1;
use crate::stream::{Challenge, StreamBinding};
use crate::{Digest, digest};

/// The protocol whose streams appends are sent on.
const RAFT: &str = "/althing/raft/1";

/// An append as its leader signed it: the frame, and what the stream bound it to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignedAppend {
    /// The leader, which opened the stream.
    #[n(0)]
    pub leader: PublicKey,
    /// The member that it was sent to.
    #[n(1)]
    pub to: PublicKey,
    /// The leader's challenge.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub opener_challenge: Challenge,
    /// The member's challenge.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub acceptor_challenge: Challenge,
    /// The frame.
    #[n(4)]
    pub frame: ByteVec,
}

/// What an append says: in this term, the log of its leader has these entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The group.
    pub group: GroupId,
    /// Who says so.
    pub leader: PublicKey,
    /// The term that it leads.
    pub term: u64,
    /// The digest of each entry, as it is encoded, by its index.
    pub entries: BTreeMap<u64, Digest>,
}

/// A proof that a leader equivocated.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Equivocation {
    /// What it sent to one member.
    #[n(0)]
    pub one: SignedAppend,
    /// What it sent to another one, or to the same.
    #[n(1)]
    pub other: SignedAppend,
}

/// What a proof proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Equivocated {
    /// In which group.
    pub group: GroupId,
    /// Who equivocated: whoever has this key.
    pub leader: PublicKey,
    /// As leader of which term.
    pub term: u64,
    /// The first index with two entries.
    pub index: u64,
    /// The digests of these entries.
    pub entries: [Digest; 2],
}

/// Why a proof proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EquivocationError {
    /// Not strict CBOR, or too long.
    #[error("the proof is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the proof has the wrong shape: {0}")]
    Shape(String),
    /// A frame was not signed so by the leader, in this network.
    #[error("the leader did not sign it: {0}")]
    Frame(#[from] FrameError),
    /// Two leaders, groups or terms.
    #[error("its two messages are of two leaders, groups or terms")]
    Unrelated,
    /// Whoever sent both said the same.
    #[error("its two messages do not contradict each other")]
    Consistent,
}

impl SignedAppend {
    /// The append in this frame of a stream, if it is short enough to be kept.
    #[must_use]
    pub fn new(binding: &StreamBinding, frame: &[u8]) -> Option<SignedAppend> {
        (frame.len() <= SIGNED_APPEND_BYTES_MAX).then(|| SignedAppend {
            leader: binding.opener,
            to: binding.acceptor,
            opener_challenge: binding.opener_challenge,
            acceptor_challenge: binding.acceptor_challenge,
            frame: frame.to_vec().into(),
        })
    }

    /// What it says, if the leader signed it so in `network`.
    ///
    /// # Errors
    /// Any but [`EquivocationError::Unrelated`] and [`EquivocationError::Consistent`].
    pub fn verify(&self, network: &str) -> Result<Said, EquivocationError> {
        let binding = StreamBinding {
            network: network.to_owned(),
            protocol: RAFT.to_owned(),
            opener: self.leader,
            acceptor: self.to,
            opener_challenge: self.opener_challenge,
            acceptor_challenge: self.acceptor_challenge,
        };
        if self.frame.len() > SIGNED_APPEND_BYTES_MAX {
            return Err(EquivocationError::Shape("a frame is too long".to_owned()));
        }
        let frame = frame::verify_request(&binding, &self.frame)?;
        if frame.operation.as_deref() != Some("append") {
            return Err(EquivocationError::Shape("a frame holds no append".to_owned()));
        }
        Said::read(&frame.body, self.leader)
    }
}

impl SignedAppend {
    /// What it says, without verifying that the leader signed it: for whoever has verified the frame before.
    #[must_use]
    pub fn read(&self) -> Option<Said> {
        let envelope = sign1::read(&self.frame, SIGNED_APPEND_BYTES_MAX).ok()?;
        Said::read(&frame::body_of(envelope.payload())?, self.leader).ok()
    }
}

impl Said {
    /// What the body of an append says, if `sender` sent it.
    ///
    /// # Errors
    /// [`EquivocationError::Cbor`], [`EquivocationError::Shape`].
    pub fn read(body: &[u8], sender: PublicKey) -> Result<Said, EquivocationError> {
        cbor::check(body, BODY_BYTES_MAX)?;
        let shape = |error: Malformed| EquivocationError::Shape(error.to_string());
        let (said, is_leader) = read_append(body, sender).map_err(shape)?;
        // A member refuses it then, and nobody said anything.
        if !is_leader {
            return Err(EquivocationError::Shape("an append is not of a leader that speaks for itself".to_owned()));
        }
        Ok(said)
    }

    /// The first index at which it says something else than `other`, with what each says, if both are of one leader's term.
    #[must_use]
    pub fn contradicts(&self, other: &Said) -> Option<(u64, [Digest; 2])> {
        if (self.group, self.leader, self.term) != (other.group, other.leader, other.term) {
            return None;
        }
        let differs = |(index, one): (&u64, &Digest)| {
            let two = other.entries.get(index).filter(|two| *two != one)?;
            Some((*index, [*one, *two]))
        };
        self.entries.iter().find_map(differs)
    }
}

/// Members 0, 1 and 4 of an append (chapter 13), and whether its ballot is that of `sender` as an elected leader.
fn read_append(body: &[u8], sender: PublicKey) -> Result<(Said, bool), Malformed> {
    let definite = |length: Option<u64>| length.ok_or(Malformed::message("a length is not definite"));
    let mut d = Decoder::new(body);
    let (mut group, mut ballot, mut entries) = (None, None, BTreeMap::new());
    for _ in 0..definite(d.map()?)? {
        match d.u64()? {
            0 => group = Some(d.decode::<GroupId>()?),
            1 => ballot = Some(d.decode::<(u64, PublicKey, bool)>()?),
            4 => {
                for _ in 0..definite(d.array()?)? {
                    let begins = d.position();
                    if definite(d.array()?)? != 2 {
                        return Err(Malformed::message("an entry is a position and what it holds"));
                    }
                    let (_, index) = d.decode::<(u64, u64)>()?;
                    d.skip()?;
                    if entries.insert(index, digest(&body[begins..d.position()])).is_some() {
                        return Err(Malformed::message("an index is there twice"));
                    }
                }
            }
            _ => d.skip()?,
        }
    }
    let (Some(group), Some((term, node, elected))) = (group, ballot) else {
        return Err(Malformed::message("an append names its group and its leader"));
    };
    Ok((Said { group, leader: sender, term, entries }, elected && node == sender))
}

impl Equivocation {
    /// The proof that two appends make, if they do.
    ///
    /// # Errors
    /// See [`EquivocationError`].
    pub fn of(
        one: SignedAppend,
        other: SignedAppend,
        network: &str,
    ) -> Result<(Equivocation, Equivocated), EquivocationError> {
        let proof = Equivocation { one, other };
        let proves = proof.verify(network)?;
        Ok((proof, proves))
    }

    /// The bytes to keep, and to hand to others.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Decodes a proof; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`EquivocationError::Cbor`] or [`EquivocationError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<Equivocation, EquivocationError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let proof: Equivocation =
            minicbor::decode(bytes).map_err(|error| EquivocationError::Shape(error.to_string()))?;
        if proof.encode() != bytes {
            return Err(EquivocationError::Shape("members that this version does not know".to_owned()));
        }
        Ok(proof)
    }

    /// What it proves, in `network`. Whoever verifies it needs to know nobody, and to have been nowhere.
    ///
    /// # Errors
    /// See [`EquivocationError`].
    pub fn verify(&self, network: &str) -> Result<Equivocated, EquivocationError> {
        if self.one.leader != self.other.leader {
            return Err(EquivocationError::Unrelated);
        }
        let (one, other) = (self.one.verify(network)?, self.other.verify(network)?);
        if (one.group, one.term) != (other.group, other.term) {
            return Err(EquivocationError::Unrelated);
        }
        let (index, entries) = one.contradicts(&other).ok_or(EquivocationError::Consistent)?;
        Ok(Equivocated { group: one.group, leader: one.leader, term: one.term, index, entries })
    }
}
