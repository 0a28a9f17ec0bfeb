//! Liveness: within 5 s after everything has healed, each member writes a value.

use super::{Invariant, Seen};

/// How long it may take.
const WITHIN_MS: u64 = 5_000;

pub(super) struct Serves;

impl Invariant for Serves {
    fn name(&self) -> &'static str {
        "serves-within-5-s"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let late = |after_ms: &Option<u64>| after_ms.is_none_or(|after_ms| after_ms > WITHIN_MS);
        match seen.evidence.served.after_ms.iter().find(|(_, after_ms)| late(after_ms)) {
            Some((node, Some(after_ms))) => Err(format!("{node} wrote a value {after_ms} ms after all had healed")),
            Some((node, None)) => Err(format!("{node} could write no value after all had healed")),
            None => Ok(()),
        }
    }
}
