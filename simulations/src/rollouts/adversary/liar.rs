//! A version that says of each call that it went well, and of whose answers none is what the contract says.

use super::{Adversary, Plan, VersionPlan};

pub(super) struct Liar;

impl Adversary for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn prepare(&self, plan: &mut Plan) {
        let lies = VersionPlan { malformed_permille: 1_000, ..VersionPlan::default() };
        plan.versions.iter_mut().skip(1).for_each(|version| *version = lies);
    }
}
