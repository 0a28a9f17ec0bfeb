//! What is committed stays: at one index no two entries are ever committed, and none is missing.

use super::{Invariant, Seen};

pub(super) struct Committed;

impl Invariant for Committed {
    fn name(&self) -> &'static str {
        "the-committed-stays"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        if let Some(index) = seen.replay.gap {
            return Err(format!("the committed entry {index} is in no log"));
        }
        match seen.evidence.committed.iter().find(|(_, entries)| entries.len() > 1) {
            Some((index, entries)) => {
                let terms: Vec<u64> = entries.keys().map(|(term, _)| *term).collect();
                Err(format!("at {index} several entries were committed, of the terms {terms:?}"))
            }
            None => Ok(()),
        }
    }
}
