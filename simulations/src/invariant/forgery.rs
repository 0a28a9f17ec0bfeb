//! What is found is what its node has, and nothing else.

use super::{Invariant, Look, Truth};

pub(super) struct Forgery;

impl Invariant for Forgery {
    fn name(&self) -> &'static str {
        "nothing-forged-is-believed"
    }

    fn check(&mut self, look: &Look, truth: &Truth) -> Result<(), String> {
        for (agent, node) in &look.found {
            if truth.agents.get(node) != Some(agent) {
                return Err(format!("node {} found {agent} on {node}, which has no such agent", look.seeker));
            }
        }
        Ok(())
    }
}
