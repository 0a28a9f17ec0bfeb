//! What a version must not do is counted as any failure.

use althing_verification::machine::rollout::Breach;

use super::Flaw;

pub(super) struct BoundBlindness;

impl Flaw for BoundBlindness {
    fn name(&self) -> &'static str {
        "bound-ignored"
    }

    fn breach(&self, _breach: Option<Breach>) -> Option<Breach> {
        None
    }
}
