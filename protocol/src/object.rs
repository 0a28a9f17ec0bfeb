//! Authored objects: signed statements that outlive the connection on which they are sent.
//!
//! The context of a signature (`external_aad`) is kind ‖ network ‖ scope, so that an object of one kind, network or group is
//! never valid as one of another.

mod handoff;
mod handoff_answer;
mod owner_order;
mod placement;
mod task_move;

use std::sync::Arc;

pub use handoff::{
    AgentMemory, ApprovalError, AuditEntry, Handoff, HandoffArtifact, HandoffConstraints, HandoffContext,
    HandoffSender, Regulation, SignOff, sign_off_statement,
};
pub use handoff_answer::{HandoffAnswer, HandoffReason, HandoffVerdict};
pub use owner_order::{OrderSubject, OrderWord, OwnerOrder};
pub use placement::{AgentLoad, Health, Hosted, Machine, Placement};
pub use task_move::TaskMove;

use minicbor::{Decode, Encode};

use crate::Digest;
use crate::cbor;
use crate::duration;
use crate::identity::{AgentId, PublicKey, PublisherId, SecretKey};
use crate::limits::{CLOCK_SKEW_MAX_MS, GRANT_LIFE_MAX_MS, OBJECT_BYTES_MAX};
use crate::sign1::{self, Sign1Error};

/// The kinds of authored objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Kind {
    /// A publisher describes an agent.
    #[n(1)]
    Description,
    /// A publisher allows a node to host an agent.
    #[n(2)]
    Grant,
    /// A node lists the agents that it hosts, and its load.
    #[n(3)]
    Placement,
    /// An event of a key log.
    #[n(4)]
    KeyEvent,
    /// An owner confirms that a node is its own.
    #[n(5)]
    Membership,
    /// A node seals the binding of a contract.
    #[n(6)]
    Binding,
    /// A node publishes the addresses at which it can be dialled.
    #[n(7)]
    Contact,
    /// A publisher revokes the grants and memberships of a node.
    #[n(8)]
    Withdrawal,
    /// Owners define a group.
    #[n(9)]
    Charter,
    /// Owners of a group admit a node.
    #[n(10)]
    Invitation,
    /// Owners of a group remove a node.
    #[n(11)]
    Expulsion,
    /// Owners end a group.
    #[n(12)]
    Dissolution,
    /// Commands to a group.
    #[n(13)]
    GroupCommands,
    /// An owner deploys an agent on its nodes in a group.
    #[n(14)]
    Deployment,
    /// A publisher gives an agent a version.
    #[n(15)]
    Release,
    /// A publisher changes the standing of a release.
    #[n(16)]
    Mark,
    /// An organisation names its members.
    #[n(17)]
    Roster,
    /// Somebody states a finding of an agent.
    #[n(18)]
    Attestation,
    /// A publisher shows a registry who it is.
    #[n(19)]
    Visit,
    /// A node hands a task over to another one.
    #[n(20)]
    TaskMove,
    /// An agent gives work to another one.
    #[n(21)]
    Handoff,
    /// The node of an agent says what becomes of a handoff that it was offered.
    #[n(22)]
    HandoffAnswer,
    /// An owner stops an agent, or says which policy set holds.
    #[n(24)]
    OwnerOrder,
}

impl Kind {
    fn domain(self) -> &'static str {
        match self {
            Kind::Description => "althing/description/1",
            Kind::Grant => "althing/grant/1",
            Kind::Placement => "althing/placement/1",
            Kind::KeyEvent => "althing/key-event/1",
            Kind::Membership => "althing/membership/1",
            Kind::Binding => "althing/binding/1",
            Kind::Contact => "althing/contact/1",
            Kind::Withdrawal => "althing/withdrawal/1",
            Kind::Charter => "althing/charter/1",
            Kind::Invitation => "althing/invitation/1",
            Kind::Expulsion => "althing/expulsion/1",
            Kind::Dissolution => "althing/dissolution/1",
            Kind::GroupCommands => "althing/group-commands/1",
            Kind::Deployment => "althing/deployment/1",
            Kind::Release => "althing/release/1",
            Kind::Mark => "althing/mark/1",
            Kind::Roster => "althing/roster/1",
            Kind::Attestation => "althing/attestation/1",
            Kind::Visit => "althing/visit/1",
            Kind::TaskMove => "althing/task-move/1",
            Kind::Handoff => "althing/handoff/1",
            Kind::HandoffAnswer => "althing/handoff-answer/1",
            Kind::OwnerOrder => "althing/owner-order/1",
        }
    }
}

/// Why an authored object is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The envelope is malformed, or its signature is invalid in this context.
    #[error("object refused: {0}")]
    Envelope(#[from] Sign1Error),
    /// An object of another kind.
    #[error("object refused: a {got:?} was offered where a {expected:?} is wanted")]
    WrongKind {
        /// The actual kind.
        got: Kind,
        /// The expected kind.
        expected: Kind,
    },
    /// The signature is valid, but the content is malformed.
    #[error("object refused: {0}")]
    Shape(String),
    /// The wrong key signed it.
    #[error("object refused: signed by {signer}, and only {expected} may")]
    WrongKey {
        /// The signer.
        signer: PublicKey,
        /// The required signer.
        expected: PublicKey,
    },
    /// It has expired.
    #[error("object refused: it expired {} ago", duration::words(*ago_ms))]
    Expired {
        /// Milliseconds since.
        ago_ms: u64,
    },
    /// It is not valid yet: one of the clocks is wrong.
    #[error(
        "object refused: the clock of the machine that signed it is {} ahead; compare the clocks of both machines",
        duration::words(*in_ms)
    )]
    NotYetValid {
        /// Milliseconds until.
        in_ms: u64,
    },
    /// Its lifetime exceeds the limit of the protocol.
    #[error("object refused: it claims a life of {life_ms} ms, and at most {max_ms} are allowed")]
    LivesTooLong {
        /// Claimed, milliseconds.
        life_ms: u64,
        /// Allowed, milliseconds.
        max_ms: u64,
    },
}

/// A publisher's description of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Description {
    #[n(0)]
    kind: Kind,
    /// The agent described.
    #[n(1)]
    pub agent: AgentId,
    /// Higher in later descriptions; the highest wins.
    #[n(2)]
    pub sequence: u64,
    /// When it was made, Unix milliseconds.
    #[n(3)]
    pub issued_at_ms: u64,
    /// The Thing Description, byte for byte as submitted.
    #[cbor(n(4), with = "shared_bytes")]
    pub td: Arc<[u8]>,
}

/// Shared bytes, which readers keep without copying.
mod shared_bytes {
    use std::sync::Arc;

    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub fn encode<C, W: Write>(bytes: &Arc<[u8]>, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(bytes)?.ok()
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Arc<[u8]>, DecodeError> {
        Ok(d.bytes()?.into())
    }
}

/// A publisher's permission for a node to host an agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Grant {
    #[n(0)]
    kind: Kind,
    /// The agent.
    #[n(1)]
    pub agent: AgentId,
    /// The node that may host it.
    #[n(2)]
    pub node: PublicKey,
    /// Unix milliseconds.
    #[n(3)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most 24 h after `not_before_ms`.
    #[n(4)]
    pub not_after_ms: u64,
}

/// An owner's statement that a node is its own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Membership {
    #[n(0)]
    kind: Kind,
    /// The owner.
    #[n(1)]
    pub owner: PublisherId,
    /// The node.
    #[n(2)]
    pub node: PublicKey,
    /// Unix milliseconds.
    #[n(3)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most 24 h after `not_before_ms`.
    #[n(4)]
    pub not_after_ms: u64,
}

/// A kind of authored object.
pub trait Statement: Encode<()> + for<'b> Decode<'b, ()> {
    /// Which kind it is.
    const KIND: Kind;
    /// The kind that the object declares.
    fn kind(&self) -> Kind;
    /// Checks the rules that do not depend on the signer.
    ///
    /// # Errors
    /// The rule that the object breaks.
    fn check(&self) -> Result<(), ObjectError> {
        Ok(())
    }
}

/// An authored object with a valid signature, and its signed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authored<T> {
    /// Its content.
    pub body: T,
    /// Who signed it.
    pub signer: PublicKey,
    /// The signed bytes.
    pub bytes: Vec<u8>,
}

impl<T> Authored<T> {
    /// The digest of the signed bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        crate::digest(&self.bytes)
    }
}

fn aad(kind: Kind, network: &str, scope: &str) -> Vec<u8> {
    let mut e = minicbor::Encoder::new(Vec::with_capacity(96));
    e.array(3)
        .and_then(|e| e.str(kind.domain()))
        .and_then(|e| e.str(network))
        .and_then(|e| e.str(scope))
        .expect("writing to a vector cannot fail");
    e.into_writer()
}

/// Signs `body` for `network` and `scope` (empty outside groups).
///
/// # Errors
/// The rule that `body` breaks: any receiver would refuse it.
pub fn sign<T: Statement>(body: T, network: &str, scope: &str, key: &SecretKey) -> Result<Authored<T>, ObjectError> {
    body.check()?;
    let length = cbor::length(&body);
    if length > OBJECT_BYTES_MAX - 256 {
        return Err(ObjectError::Shape(format!("{length} bytes are more than an object may have")));
    }
    let bytes = sign1::seal_value(0, &body, &aad(T::KIND, network, scope), key);
    Ok(Authored { body, signer: key.public(), bytes })
}

/// Verifies the signature of an object of kind `T` for `network` and `scope`. The methods of the body check the signer and
/// the period of validity.
///
/// # Errors
/// See [`ObjectError`].
pub fn open<T: Statement>(bytes: &[u8], network: &str, scope: &str) -> Result<Authored<T>, ObjectError> {
    let envelope = sign1::read(bytes, OBJECT_BYTES_MAX)?;
    let signer = envelope.signer();
    let got = claimed_kind(envelope.payload())?;
    if got != T::KIND {
        return Err(ObjectError::WrongKind { got, expected: T::KIND });
    }
    let payload = envelope.verify(&aad(T::KIND, network, scope))?;
    let body: T = minicbor::decode(payload).map_err(|error| ObjectError::Shape(error.to_string()))?;
    body.check()?;
    if !cbor::is_written_as(&body, payload) {
        return Err(ObjectError::Shape("members that this version does not know".to_owned()));
    }
    Ok(Authored { body, signer, bytes: bytes.to_vec() })
}

/// As [`open`], of an object that was put together from what it says: `bytes` are its envelope, in which nothing is read again.
fn open_joined<T: Statement>(body: T, bytes: Vec<u8>, network: &str, scope: &str) -> Result<Authored<T>, ObjectError> {
    let envelope = sign1::read(&bytes, OBJECT_BYTES_MAX)?;
    let signer = envelope.signer();
    if body.kind() != T::KIND {
        return Err(ObjectError::WrongKind { got: body.kind(), expected: T::KIND });
    }
    let payload = envelope.verify(&aad(T::KIND, network, scope))?;
    body.check()?;
    if !cbor::is_written_as(&body, payload) {
        return Err(ObjectError::Shape("it is not what was signed".to_owned()));
    }
    Ok(Authored { body, signer, bytes })
}

/// Who signed an object, as its envelope says. Nothing is verified: it tells only whose signature would have to be.
///
/// # Errors
/// [`ObjectError::Envelope`].
pub fn claimed_signer(bytes: &[u8]) -> Result<PublicKey, ObjectError> {
    Ok(sign1::read(bytes, OBJECT_BYTES_MAX)?.signer())
}

/// The member of that number in an object that nobody verified.
pub(crate) fn claimed_member(object: &[u8], wanted: u8) -> Option<minicbor::Decoder<'_>> {
    let mut envelope = minicbor::Decoder::new(object);
    envelope.array().ok()?;
    envelope.skip().ok()?;
    envelope.skip().ok()?;
    let mut payload = minicbor::Decoder::new(envelope.bytes().ok()?);
    for _ in 0..payload.map().ok()?.unwrap_or_default() {
        if payload.u8().ok()? == wanted {
            return Some(payload);
        }
        payload.skip().ok()?;
    }
    None
}

/// Member 0 of every object is its kind.
fn claimed_kind(payload: &[u8]) -> Result<Kind, ObjectError> {
    let mut d = minicbor::Decoder::new(payload);
    let mut read = || {
        d.map()?;
        if d.u8()? == 0 { d.decode() } else { Err(minicbor::decode::Error::message("no kind")) }
    };
    read().map_err(|_| ObjectError::Shape("its first member is not a known kind".to_owned()))
}

/// Checks a period of validity against `now_ms`.
pub(crate) fn in_time(from_ms: u64, until_ms: u64, now_ms: u64) -> Result<(), ObjectError> {
    if now_ms > until_ms {
        return Err(ObjectError::Expired { ago_ms: now_ms - until_ms });
    }
    if from_ms > now_ms.saturating_add(CLOCK_SKEW_MAX_MS) {
        return Err(ObjectError::NotYetValid { in_ms: from_ms - now_ms });
    }
    Ok(())
}

pub(crate) fn life(from_ms: u64, until_ms: u64, max_ms: u64) -> Result<(), ObjectError> {
    match until_ms.checked_sub(from_ms) {
        None => Err(ObjectError::Shape("it ends before it begins".to_owned())),
        Some(life_ms) if life_ms > max_ms => Err(ObjectError::LivesTooLong { life_ms, max_ms }),
        Some(_) => Ok(()),
    }
}

impl Description {
    /// A description to be signed.
    #[must_use]
    pub fn new(agent: AgentId, sequence: u64, issued_at_ms: u64, td: impl Into<Arc<[u8]>>) -> Description {
        Description { kind: Kind::Description, agent, sequence, issued_at_ms, td: td.into() }
    }

    /// Checks that it was issued by `now_ms`, within the allowed clock skew.
    ///
    /// # Errors
    /// [`ObjectError::NotYetValid`].
    pub fn issued(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.issued_at_ms, u64::MAX, now_ms)
    }
}

impl Grant {
    /// A grant to be signed.
    #[must_use]
    pub fn new(agent: AgentId, node: PublicKey, not_before_ms: u64, not_after_ms: u64) -> Grant {
        Grant { kind: Kind::Grant, agent, node, not_before_ms, not_after_ms }
    }

    /// Checks that it is valid at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.not_before_ms, self.not_after_ms, now_ms)
    }
}

impl Membership {
    /// A membership to be signed.
    #[must_use]
    pub fn new(owner: PublisherId, node: PublicKey, not_before_ms: u64, not_after_ms: u64) -> Membership {
        Membership { kind: Kind::Membership, owner, node, not_before_ms, not_after_ms }
    }

    /// Checks that it is valid at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.not_before_ms, self.not_after_ms, now_ms)
    }
}

impl Statement for Description {
    const KIND: Kind = Kind::Description;
    fn kind(&self) -> Kind {
        self.kind
    }
}

impl Statement for Grant {
    const KIND: Kind = Kind::Grant;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        life(self.not_before_ms, self.not_after_ms, GRANT_LIFE_MAX_MS)
    }
}

impl Statement for Membership {
    const KIND: Kind = Kind::Membership;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        life(self.not_before_ms, self.not_after_ms, GRANT_LIFE_MAX_MS)
    }
}
