//! A call is counted as its version says that it went.

use super::{Course, Flaw};

pub(super) struct BelievedClaim;

impl Flaw for BelievedClaim {
    fn name(&self) -> &'static str {
        "claim-believed"
    }

    fn counted(&self, _verdict: Course, claim: Course) -> Course {
        claim
    }
}
