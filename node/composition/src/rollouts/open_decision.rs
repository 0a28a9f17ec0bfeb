//! A decision that holds and is not on disk yet.

use althing_protocol::Digest;
use althing_verification::machine::rollout::{Reason, Versions};

/// That new calls are another version's, which is not on disk yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenDecision {
    /// What was done, as it is recorded.
    pub what: &'static str,
    /// The version that gets no new calls.
    pub from: Digest,
    /// The one that gets them.
    pub to: Digest,
    /// Why, in words.
    pub why: String,
}

impl OpenDecision {
    /// That the version that was tried went back.
    pub fn back(versions: &Versions, reason: Reason) -> OpenDecision {
        OpenDecision::of(versions, "going back", reason.words())
    }

    /// That the version that everybody had before has all new calls; `what` was done, as it is recorded.
    pub fn of(versions: &Versions, what: &'static str, why: String) -> OpenDecision {
        let to = versions.stable();
        let from = versions.rollout().map_or(to, |rollout| rollout.plan().to);
        OpenDecision { what, from, to, why }
    }
}
