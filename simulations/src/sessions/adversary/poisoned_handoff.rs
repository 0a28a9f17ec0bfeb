//! A sender whose handoff is full of orders to the agent that reads it, or that claims what is not so.

use super::{Adversary, Plan};
use crate::sessions::handoff::Poison;

pub(super) struct PoisonedHandoff;

impl Adversary for PoisonedHandoff {
    fn name(&self) -> &'static str {
        "poisoned-handoff"
    }

    fn prepare(&self, plan: &mut Plan) {
        let kind = plan.handoff.seed % Poison::ALL.len() as u64;
        plan.handoff.poison = Poison::ALL.get(usize::try_from(kind).unwrap_or_default()).copied();
    }
}
