//! Who revoked its keys is not found any more (requirement E44).

use super::{Invariant, Look, Truth};

/// From contact until the last node refuses it.
const GONE_MS: u64 = 10_000;

pub(super) struct Revoked;

impl Invariant for Revoked {
    fn name(&self) -> &'static str {
        "the-revoked-are-gone"
    }

    fn check(&mut self, look: &Look, truth: &Truth) -> Result<(), String> {
        for (agent, _) in &look.found {
            if let Some(revoked_ms) = truth.revoked_ms.get(&agent.publisher())
                && revoked_ms + GONE_MS < look.began_ms
            {
                let ago = look.began_ms - revoked_ms;
                return Err(format!(
                    "node {} found {agent}, whose owner revoked its keys {ago} ms before",
                    look.seeker
                ));
            }
        }
        Ok(())
    }
}
