//! No replica fails: not by a panic, not by data that it cannot use.

use super::{Invariant, Seen};

pub(super) struct Unbroken;

impl Invariant for Unbroken {
    fn name(&self) -> &'static str {
        "replicas-do-not-fail"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        match seen.evidence.failures.first() {
            Some((node, why)) => Err(format!("the replica of {node} failed: {why}")),
            None => Ok(()),
        }
    }
}
