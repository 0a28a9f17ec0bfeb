//! The stable names of the errors, as the vectors carry them: each `match` is complete, so that a new variant needs a
//! name before the tests compile.

use althing_protocol::audit::AuditError;
use althing_protocol::cbor::CborError as C;
use althing_protocol::group::EndorsementError;
use althing_protocol::group::EquivocationError;
use althing_protocol::inquiry::InquiryError;
use althing_protocol::keyring::KeyringError;
use althing_protocol::record::RecordError;
use althing_protocol::registry::{
    BundleError, NameEvidenceError, PresenceError, ReleaseError, SignInError, SubmissionError,
};
use althing_protocol::sign1::Sign1Error as S;
use althing_protocol::stream::{HelloError as H, OwnerProofError};
use althing_protocol::tlog::{CheckpointError, LogProofError, NoteError, NoteKeyError, TreeError};
use althing_protocol::{EvidenceError as E, FrameError as F, IdentityError as I, KeyLogError as K, ObjectError as O};

pub trait Name {
    fn name(&self) -> String;
}

impl Name for AuditError {
    fn name(&self) -> String {
        match self {
            AuditError::Cbor(inner) => format!("AuditError::Cbor({})", inner.name()),
            AuditError::Shape(_) => "AuditError::Shape".to_owned(),
        }
    }
}

impl Name for C {
    fn name(&self) -> String {
        let variant = match self {
            C::Size { .. } => "Size",
            C::Truncated { .. } => "Truncated",
            C::TrailingBytes { .. } => "TrailingBytes",
            C::Indefinite { .. } => "Indefinite",
            C::NonMinimal { .. } => "NonMinimal",
            C::Unsorted { .. } => "Unsorted",
            C::Duplicate { .. } => "Duplicate",
            C::Depth { .. } => "Depth",
            C::Items { .. } => "Items",
            C::Float { .. } => "Float",
            C::Tag { .. } => "Tag",
            C::Simple { .. } => "Simple",
            C::Utf8 { .. } => "Utf8",
        };
        format!("CborError::{variant}")
    }
}

impl Name for S {
    fn name(&self) -> String {
        match self {
            S::Cbor(inner) => format!("Sign1Error::Cbor({})", inner.name()),
            S::Shape(_) => "Sign1Error::Shape".to_owned(),
            S::Algorithm => "Sign1Error::Algorithm".to_owned(),
            S::KeyId => "Sign1Error::KeyId".to_owned(),
            S::Signature => "Sign1Error::Signature".to_owned(),
        }
    }
}

impl Name for H {
    fn name(&self) -> String {
        match self {
            H::Cbor(inner) => format!("HelloError::Cbor({})", inner.name()),
            H::Shape(_) => "HelloError::Shape".to_owned(),
            H::Version(_) => "HelloError::Version".to_owned(),
            H::Network { .. } => "HelloError::Network".to_owned(),
        }
    }
}

impl Name for I {
    fn name(&self) -> String {
        let variant = match self {
            I::Did(_) => "Did",
            I::PeerId(_) => "PeerId",
            I::NotAPoint => "NotAPoint",
            I::PublisherId(_) => "PublisherId",
            I::AgentNotCaller(..) => "AgentNotCaller",
            I::CallerId(_) => "CallerId",
            I::AgentId(_) => "AgentId",
            I::AgentName(_) => "AgentName",
        };
        format!("IdentityError::{variant}")
    }
}

impl Name for F {
    fn name(&self) -> String {
        match self {
            F::Envelope(inner) => format!("FrameError::Envelope({})", inner.name()),
            F::WrongKey { .. } => "FrameError::WrongKey".to_owned(),
            F::WrongAudience(_) => "FrameError::WrongAudience".to_owned(),
            F::WrongStream => "FrameError::WrongStream".to_owned(),
            F::WrongCounter { .. } => "FrameError::WrongCounter".to_owned(),
            F::TooLong(_) => "FrameError::TooLong".to_owned(),
            F::Shape(_) => "FrameError::Shape".to_owned(),
        }
    }
}

impl Name for O {
    fn name(&self) -> String {
        match self {
            O::Envelope(inner) => format!("ObjectError::Envelope({})", inner.name()),
            O::WrongKind { .. } => "ObjectError::WrongKind".to_owned(),
            O::Shape(_) => "ObjectError::Shape".to_owned(),
            O::WrongKey { .. } => "ObjectError::WrongKey".to_owned(),
            O::Expired { .. } => "ObjectError::Expired".to_owned(),
            O::NotYetValid { .. } => "ObjectError::NotYetValid".to_owned(),
            O::LivesTooLong { .. } => "ObjectError::LivesTooLong".to_owned(),
        }
    }
}

impl Name for K {
    fn name(&self) -> String {
        match self {
            K::Empty => "KeyLogError::Empty".to_owned(),
            K::TooLong => "KeyLogError::TooLong".to_owned(),
            K::Event { reason, .. } => format!("KeyLogError::Event({})", reason.name()),
            K::Chain { .. } => "KeyLogError::Chain".to_owned(),
            K::Revoked(_) => "KeyLogError::Revoked".to_owned(),
            K::NotItsKey { .. } => "KeyLogError::NotItsKey".to_owned(),
            K::Outdated(_) => "KeyLogError::Outdated".to_owned(),
            K::Unknown(_) => "KeyLogError::Unknown".to_owned(),
        }
    }
}

impl Name for E {
    fn name(&self) -> String {
        match self {
            E::Cbor(inner) => format!("EvidenceError::Cbor({})", inner.name()),
            E::Shape(_) => "EvidenceError::Shape".to_owned(),
            E::KeyLog(inner) => format!("EvidenceError::KeyLog({})", inner.name()),
            E::Description(inner) => format!("EvidenceError::Description({})", inner.name()),
            E::Grant(inner) => format!("EvidenceError::Grant({})", inner.name()),
            E::Mismatch { .. } => "EvidenceError::Mismatch".to_owned(),
        }
    }
}

impl Name for EquivocationError {
    fn name(&self) -> String {
        match self {
            EquivocationError::Cbor(inner) => format!("EquivocationError::Cbor({})", inner.name()),
            EquivocationError::Shape(_) => "EquivocationError::Shape".to_owned(),
            EquivocationError::Frame(inner) => format!("EquivocationError::Frame({})", inner.name()),
            EquivocationError::Unrelated => "EquivocationError::Unrelated".to_owned(),
            EquivocationError::Consistent => "EquivocationError::Consistent".to_owned(),
        }
    }
}

impl Name for RecordError {
    fn name(&self) -> String {
        match self {
            RecordError::Cbor(inner) => format!("RecordError::Cbor({})", inner.name()),
            RecordError::Shape(_) => "RecordError::Shape".to_owned(),
            RecordError::Contact(inner) => format!("RecordError::Contact({})", inner.name()),
            RecordError::KeyLog(inner) => format!("RecordError::KeyLog({})", inner.name()),
            RecordError::WrongKey => "RecordError::WrongKey".to_owned(),
        }
    }
}

impl Name for KeyringError {
    fn name(&self) -> String {
        match self {
            KeyringError::Cbor(inner) => format!("KeyringError::Cbor({})", inner.name()),
            KeyringError::Shape(_) => "KeyringError::Shape".to_owned(),
            KeyringError::KeyLog(inner) => format!("KeyringError::KeyLog({})", inner.name()),
            KeyringError::Forked(_) => "KeyringError::Forked".to_owned(),
            KeyringError::NotInUse(_) => "KeyringError::NotInUse".to_owned(),
            KeyringError::Object(inner) => format!("KeyringError::Object({})", inner.name()),
            KeyringError::Withdrawn { .. } => "KeyringError::Withdrawn".to_owned(),
            KeyringError::Full => "KeyringError::Full".to_owned(),
        }
    }
}

impl Name for OwnerProofError {
    fn name(&self) -> String {
        match self {
            OwnerProofError::Membership(inner) => format!("OwnerProofError::Membership({})", inner.name()),
            OwnerProofError::Inception(inner) => format!("OwnerProofError::Inception({})", inner.name()),
            OwnerProofError::Mismatch { .. } => "OwnerProofError::Mismatch".to_owned(),
        }
    }
}

impl Name for EndorsementError {
    fn name(&self) -> String {
        match self {
            EndorsementError::Count(_) => "EndorsementError::Count".to_owned(),
            EndorsementError::Object(inner) => format!("EndorsementError::Object({})", inner.name()),
            EndorsementError::Different => "EndorsementError::Different".to_owned(),
            EndorsementError::NotAnOwner(_) => "EndorsementError::NotAnOwner".to_owned(),
            EndorsementError::TooFew { .. } => "EndorsementError::TooFew".to_owned(),
        }
    }
}

impl Name for InquiryError {
    fn name(&self) -> String {
        match self {
            InquiryError::Cbor(inner) => format!("InquiryError::Cbor({})", inner.name()),
            InquiryError::Shape(_) => "InquiryError::Shape".to_owned(),
        }
    }
}

impl Name for NoteKeyError {
    fn name(&self) -> String {
        let variant = match self {
            NoteKeyError::Shape => "Shape",
            NoteKeyError::Name => "Name",
            NoteKeyError::Hash => "Hash",
            NoteKeyError::Key => "Key",
        };
        format!("NoteKeyError::{variant}")
    }
}

impl Name for NoteError {
    fn name(&self) -> String {
        let variant = match self {
            NoteError::Bound => "Bound",
            NoteError::Shape(_) => "Shape",
            NoteError::Unsigned(_) => "Unsigned",
            NoteError::Forged(_) => "Forged",
        };
        format!("NoteError::{variant}")
    }
}

impl Name for CheckpointError {
    fn name(&self) -> String {
        match self {
            CheckpointError::Note(inner) => format!("CheckpointError::Note({})", inner.name()),
            CheckpointError::Shape(_) => "CheckpointError::Shape".to_owned(),
            CheckpointError::Origin { .. } => "CheckpointError::Origin".to_owned(),
        }
    }
}

impl Name for TreeError {
    fn name(&self) -> String {
        let variant = match self {
            TreeError::Size(_) => "Size",
            TreeError::Index { .. } => "Index",
            TreeError::Smaller { .. } => "Smaller",
            TreeError::Hashes { .. } => "Hashes",
            TreeError::Root => "Root",
        };
        format!("TreeError::{variant}")
    }
}

impl Name for LogProofError {
    fn name(&self) -> String {
        match self {
            LogProofError::Shape(_) => "LogProofError::Shape".to_owned(),
            LogProofError::Checkpoint(inner) => format!("LogProofError::Checkpoint({})", inner.name()),
            LogProofError::Tree(inner) => format!("LogProofError::Tree({})", inner.name()),
            LogProofError::Witnesses { .. } => "LogProofError::Witnesses".to_owned(),
        }
    }
}

impl Name for ReleaseError {
    fn name(&self) -> String {
        match self {
            ReleaseError::Cbor(inner) => format!("ReleaseError::Cbor({})", inner.name()),
            ReleaseError::Shape(_) => "ReleaseError::Shape".to_owned(),
            ReleaseError::KeyLog(inner) => format!("ReleaseError::KeyLog({})", inner.name()),
            ReleaseError::Object { error, .. } => format!("ReleaseError::Object({})", error.name()),
            ReleaseError::Proof { error, .. } => format!("ReleaseError::Proof({})", error.name()),
            ReleaseError::Checkpoints => "ReleaseError::Checkpoints".to_owned(),
            ReleaseError::Order => "ReleaseError::Order".to_owned(),
            ReleaseError::Signer => "ReleaseError::Signer".to_owned(),
            ReleaseError::NotApproved { .. } => "ReleaseError::NotApproved".to_owned(),
            ReleaseError::Mismatch { .. } => "ReleaseError::Mismatch".to_owned(),
        }
    }
}

impl Name for NameEvidenceError {
    fn name(&self) -> String {
        match self {
            NameEvidenceError::Cbor(inner) => format!("NameEvidenceError::Cbor({})", inner.name()),
            NameEvidenceError::Shape(_) => "NameEvidenceError::Shape".to_owned(),
            NameEvidenceError::KeyLog(inner) => format!("NameEvidenceError::KeyLog({})", inner.name()),
            NameEvidenceError::Roster(inner) => format!("NameEvidenceError::Roster({})", inner.name()),
            NameEvidenceError::Proof { error, .. } => format!("NameEvidenceError::Proof({})", error.name()),
            NameEvidenceError::Checkpoints => "NameEvidenceError::Checkpoints".to_owned(),
            NameEvidenceError::OtherDomain(_) => "NameEvidenceError::OtherDomain".to_owned(),
            NameEvidenceError::NotProven(_) => "NameEvidenceError::NotProven".to_owned(),
            NameEvidenceError::NotNamed { .. } => "NameEvidenceError::NotNamed".to_owned(),
        }
    }
}

impl Name for SubmissionError {
    fn name(&self) -> String {
        match self {
            SubmissionError::Cbor(inner) => format!("SubmissionError::Cbor({})", inner.name()),
            SubmissionError::Shape(_) => "SubmissionError::Shape".to_owned(),
        }
    }
}

impl Name for SignInError {
    fn name(&self) -> String {
        match self {
            SignInError::Cbor(inner) => format!("SignInError::Cbor({})", inner.name()),
            SignInError::Shape(_) => "SignInError::Shape".to_owned(),
            SignInError::KeyLog(inner) => format!("SignInError::KeyLog({})", inner.name()),
            SignInError::Visit(inner) => format!("SignInError::Visit({})", inner.name()),
            SignInError::OtherKeyLog(_) => "SignInError::OtherKeyLog".to_owned(),
        }
    }
}

impl Name for PresenceError {
    fn name(&self) -> String {
        match self {
            PresenceError::Cbor(inner) => format!("PresenceError::Cbor({})", inner.name()),
            PresenceError::Shape(_) => "PresenceError::Shape".to_owned(),
            PresenceError::Contact(inner) => format!("PresenceError::Contact({})", inner.name()),
            PresenceError::Grant { error, .. } => format!("PresenceError::Grant({})", error.name()),
            PresenceError::OtherNode { .. } => "PresenceError::OtherNode".to_owned(),
        }
    }
}

impl Name for BundleError {
    fn name(&self) -> String {
        match self {
            BundleError::Cbor(inner) => format!("BundleError::Cbor({})", inner.name()),
            BundleError::Shape(_) => "BundleError::Shape".to_owned(),
            BundleError::Path(_) => "BundleError::Path".to_owned(),
            BundleError::TooMany => "BundleError::TooMany".to_owned(),
        }
    }
}

/// The name of the reason to refuse; panics when there is none, with what was accepted.
pub fn reason<T: std::fmt::Debug, R: Name>(result: Result<T, R>) -> String {
    match result {
        Ok(accepted) => panic!("accepted: {accepted:?}"),
        Err(error) => error.name(),
    }
}
