//! What was decided is written, and not synced.

use althing_store::Durability;
use althing_verification::machine::rollout::Change;

use super::Flaw;

pub(super) struct UnsyncedDecision;

impl Flaw for UnsyncedDecision {
    fn name(&self) -> &'static str {
        "decision-unsynced"
    }

    fn durability(&self, _change: Option<Change>, _durability: Durability) -> Option<Durability> {
        Some(Durability::Buffered)
    }
}
