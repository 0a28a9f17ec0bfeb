//! State-machine safety: each state that a member shows is that after some entry of the one committed log, and at last all
//! show the state after the last one.

use std::collections::BTreeMap;

use super::{Invariant, Seen};

pub(super) struct SameState;

impl Invariant for SameState {
    fn name(&self) -> &'static str {
        "states-follow-the-log"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let mut last = BTreeMap::new();
        for (node, at_ms, digest) in &seen.evidence.states {
            let Some(index) = seen.replay.states.get(digest) else {
                return Err(format!("at {at_ms} ms {node} had a state to which no part of the committed log leads"));
            };
            last.insert(*node, *index);
        }
        let mut indexes = last.values();
        let first = indexes.next();
        if indexes.any(|other| Some(other) != first) {
            return Err(format!("at last the members had applied different entries: {last:?}"));
        }
        Ok(())
    }
}
