//! A version is promoted that nothing is known of yet.

use althing_verification::machine::rollout::Plan;

use super::Flaw;

pub(super) struct UndecidedPromotion;

impl Flaw for UndecidedPromotion {
    fn name(&self) -> &'static str {
        "undecided-promoted"
    }

    fn plan(&self, plan: Plan) -> Plan {
        Plan { calls_min: 1, margin_permille: 999, ..plan }
    }
}
