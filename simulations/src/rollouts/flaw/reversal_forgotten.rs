//! A version that went back may be tried again.

use althing_verification::machine::rollout::Versions;

use super::Flaw;

pub(super) struct ForgottenReversal;

impl Flaw for ForgottenReversal {
    fn name(&self) -> &'static str {
        "reversal-forgotten"
    }

    fn remembered(&self, versions: Versions) -> Versions {
        Versions::new(versions.stable())
    }
}
