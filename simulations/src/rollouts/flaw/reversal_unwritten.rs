//! That a version went back is not written.

use althing_store::Durability;
use althing_verification::machine::rollout::Change;

use super::Flaw;

pub(super) struct UnwrittenReversal;

impl Flaw for UnwrittenReversal {
    fn name(&self) -> &'static str {
        "reversal-unwritten"
    }

    fn durability(&self, change: Option<Change>, durability: Durability) -> Option<Durability> {
        (!matches!(change, Some(Change::WentBack(_)))).then_some(durability)
    }
}
