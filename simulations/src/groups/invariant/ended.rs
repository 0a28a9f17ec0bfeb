//! Every task ends: what a member leaves undone is taken from it when its lease is over.

use super::{Invariant, Seen};

pub(super) struct Ended;

impl Invariant for Ended {
    fn name(&self) -> &'static str {
        "tasks-end"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let unfinished = &seen.evidence.served.unfinished;
        if unfinished.is_empty() { Ok(()) } else { Err(format!("these tasks did not end: {unfinished:?}")) }
    }
}
