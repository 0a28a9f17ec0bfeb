//! A recipient that accepts work, begins it and denies that it ever accepted it.

use super::{Adversary, Plan};

pub(super) struct Denier;

impl Adversary for Denier {
    fn name(&self) -> &'static str {
        "denier"
    }

    fn prepare(&self, plan: &mut Plan) {
        plan.handoff.is_denied = true;
    }
}
