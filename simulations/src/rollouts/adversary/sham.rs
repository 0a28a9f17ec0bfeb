//! A version that does well as a shadow, where it is watched, and badly once its answers are shown.

use super::{Adversary, Plan, VersionPlan};

pub(super) struct Sham;

impl Adversary for Sham {
    fn name(&self) -> &'static str {
        "sham"
    }

    fn prepare(&self, plan: &mut Plan) {
        let sham = VersionPlan { malformed_permille: 900, behaves_when_watched: true, ..VersionPlan::default() };
        plan.shadow = true;
        plan.versions.iter_mut().skip(1).for_each(|version| *version = sham);
    }
}
