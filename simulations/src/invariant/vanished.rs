//! Nodes that crashed more than 8 s ago are not found.

use super::{Invariant, Search, Truth};

/// Three heartbeats, and two seconds until the expiry is noticed.
const GONE_MS: u64 = 8_000;

pub(super) struct Vanished;

impl Invariant for Vanished {
    fn name(&self) -> &'static str {
        "the-vanished-are-gone"
    }

    fn check(&mut self, search: &Search, truth: &Truth) -> Result<(), String> {
        for (agent, node) in &search.found {
            if let Some(gone_ms) = truth.gone_ms.get(node)
                && gone_ms + GONE_MS < search.began_ms
            {
                let ago = search.began_ms - gone_ms;
                return Err(format!("node {} found {agent} on {node}, which went {ago} ms before", search.seeker));
            }
        }
        Ok(())
    }
}
