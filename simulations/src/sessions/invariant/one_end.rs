//! One end per task: what was read of a task that is over is never read otherwise.

use std::collections::BTreeMap;

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct OneEnd;

impl Invariant for OneEnd {
    fn name(&self) -> &'static str {
        "one-end-per-task"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let mut ends = BTreeMap::new();
        for event in &seen.events {
            let Event::Look { turn, seen } = event else { continue };
            match ends.get(turn) {
                Some(end) if *end != seen => {
                    return Err(format!("the task of turn {turn} ended so: {end:?}, and was then: {seen:?}"));
                }
                None if seen.is_end() => {
                    ends.insert(*turn, seen);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
