//! Log matching: entries of the same index and term are the same in all logs, and so is everything before them. Terms never
//! fall along a log.

use super::{Invariant, Seen};

pub(super) struct SameLog;

impl Invariant for SameLog {
    fn name(&self) -> &'static str {
        "logs-match"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        if let Some((index, term, next)) = seen.evidence.falling.first() {
            return Err(format!("in a log the entry {index} of term {term} is followed by one of term {next}"));
        }
        for ((index, term), written) in &seen.evidence.entries {
            // The terms before it are equal where they are known; with those, by induction, everything before.
            let mut before = written.iter().filter_map(|written| written.before);
            let first = before.next();
            let is_same_before = before.all(|other| Some(other) == first);
            let mut digests = written.iter().map(|written| written.digest);
            let digest = digests.next();
            if !is_same_before || !digests.all(|other| Some(other) == digest) {
                return Err(format!("the entry {index} of term {term} is not the same in all logs: {written:?}"));
            }
        }
        Ok(())
    }
}
