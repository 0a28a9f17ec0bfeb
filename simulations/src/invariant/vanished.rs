//! Who has been gone for 8 s is not found.

use super::{Invariant, Look, Truth};

/// Three heartbeats, and two seconds until the last of them is noticed to be missing.
const GONE_MS: u64 = 8_000;

pub(super) struct Vanished;

impl Invariant for Vanished {
    fn name(&self) -> &'static str {
        "the-vanished-are-gone"
    }

    fn check(&mut self, look: &Look, truth: &Truth) -> Result<(), String> {
        for (agent, node) in &look.found {
            if let Some(gone_ms) = truth.gone_ms.get(node)
                && gone_ms + GONE_MS < look.began_ms
            {
                let ago = look.began_ms - gone_ms;
                return Err(format!("node {} found {agent} on {node}, which went {ago} ms before", look.seeker));
            }
        }
        Ok(())
    }
}
