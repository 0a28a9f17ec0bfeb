//! Approvals of a release: what others beside its publisher signed.

use std::collections::BTreeSet;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::logged::opened;
use super::{Logged, Release, ReleaseError, Role, Roster};
use crate::identity::PublisherId;
use crate::keylog::KeyLog;
use crate::object::{Authored, Kind};
use crate::tlog::NoteKey;

/// The release once more, signed by somebody who approves it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Approval {
    /// The signer's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// The same release, by that signer.
    #[n(1)]
    pub release: Logged,
}

/// Who approved a release, under which roster, and when the last one did.
pub(super) struct Approved {
    pub by: BTreeSet<PublisherId>,
    pub roster: Option<Authored<Roster>>,
    pub at_ms: u64,
}

/// Verifies the approvals of `first`, and that they are as many as the organisation's roster wants.
pub(super) fn approved(
    (approvals, roster): (&[Approval], &Option<Logged>),
    released_ms: u64,
    network: &str,
    first: &Authored<Release>,
    key_log: &KeyLog,
    registry: &NoteKey,
) -> Result<Approved, ReleaseError> {
    let publisher = first.body.agent.publisher();
    let mut by: BTreeSet<PublisherId> = [publisher].into();
    let mut at_ms = released_ms;
    for approval in approvals {
        approval.release.check("approval", Kind::Release, registry)?;
        let release: Authored<Release> = opened("approval", &approval.release.statement, network)?;
        let events: Vec<&[u8]> = approval.key_log.iter().map(|event| event.as_slice()).collect();
        let signer = KeyLog::verify(&events)?;
        if !release.body.approves(&first.body) || signer.publisher() != release.body.by {
            return Err(ReleaseError::Mismatch {
                what: "approval",
                agent: first.body.agent.clone(),
                version: first.body.version.clone(),
            });
        }
        signer.accepted(release.signer, approval.release.at_ms)?;
        by.insert(release.body.by);
        at_ms = at_ms.max(approval.release.at_ms);
    }
    let Some(logged) = roster else { return Ok(Approved { by, roster: None, at_ms }) };
    logged.check("roster", Kind::Roster, registry)?;
    let roster: Authored<Roster> = opened("roster", &logged.statement, network)?;
    if roster.body.organisation != publisher {
        let (agent, version) = (first.body.agent.clone(), first.body.version.clone());
        return Err(ReleaseError::Mismatch { what: "roster", agent, version });
    }
    key_log.accepted(roster.signer, logged.at_ms)?;
    roster.body.in_force(at_ms).map_err(|error| ReleaseError::Object { what: "roster", error })?;
    let approved = by.iter().filter(|one| roster.body.allows(**one, Role::Approve, &first.body.agent)).count();
    if approved < usize::from(roster.body.approvals) {
        return Err(ReleaseError::NotApproved { approved, wanted: roster.body.approvals });
    }
    Ok(Approved { by, roster: Some(roster), at_ms })
}
