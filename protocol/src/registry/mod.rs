//! What publishers and organisations sign for registries: releases of agents, marks on them, rosters and attestations.
//!
//! A registry only keeps these statements. Whoever reads one verifies it against the key log of the publisher that it names;
//! the registry's own signature is on the head of its log alone ([`crate::tlog`]).

mod approval;
mod attestation;
mod attested;
mod domain;
mod entry;
mod evidence;
mod files;
mod logged;
mod mark;
mod name;
mod presence;
mod quarantine;
mod release;
mod roster;
mod submission;
mod version;
mod visit;

pub use approval::Approval;
pub use attestation::{Attestation, Blueprint, Subject};
pub use attested::{AttestationEvidence, Attestations, VerifiedAttestation};
pub use domain::{Domain, DomainError, DomainFinding, Means};
pub use entry::{Entry, EntryKind, Salt, SaltedStatement};
pub use evidence::{ReleaseEvidence, VerifiedRelease};
pub use files::{BundleError, BundleFiles, is_plain_path};
pub use logged::{Logged, ReleaseError};
pub use mark::{Mark, Standing};
pub use name::{NameEvidence, NameEvidenceError, VerifiedName};
pub use presence::{Presence, PresenceError, VerifiedPresence};
pub use quarantine::Quarantine;
pub use release::{Audience, Bundle, Reach, Release};
pub use roster::{NamePattern, NamePatternError, Role, Roster, RosterMember};
pub use submission::{Receipt, Submission, SubmissionError};
pub use version::{Version, VersionError};
pub use visit::{SignIn, SignInError, Visit};

use crate::hidden_in;
use crate::object::ObjectError;

/// Bytes of a text that people read, such as the reason of a mark.
const TEXT_BYTES_MAX: usize = 512;

fn text(what: &str, text: &str, max: usize) -> Result<(), ObjectError> {
    if text.len() > max || text.chars().any(char::is_control) || hidden_in(text).is_some() {
        let message = format!("{what} has at most {max} bytes, and no control characters or invisible ones");
        return Err(ObjectError::Shape(message));
    }
    Ok(())
}
