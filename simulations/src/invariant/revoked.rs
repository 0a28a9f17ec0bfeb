//! Agents of an owner that revoked its keys are no longer found (requirement E44).

use super::{Invariant, Search, Truth};

/// The time until the last node refuses the keys.
const GONE_MS: u64 = 10_000;

pub(super) struct Revoked;

impl Invariant for Revoked {
    fn name(&self) -> &'static str {
        "the-revoked-are-gone"
    }

    fn check(&mut self, search: &Search, truth: &Truth) -> Result<(), String> {
        for (agent, _) in &search.found {
            if let Some(revoked_ms) = truth.revoked_ms.get(&agent.publisher())
                && revoked_ms + GONE_MS < search.began_ms
            {
                let ago = search.began_ms - revoked_ms;
                return Err(format!(
                    "node {} found {agent}, whose owner revoked its keys {ago} ms before",
                    search.seeker
                ));
            }
        }
        Ok(())
    }
}
