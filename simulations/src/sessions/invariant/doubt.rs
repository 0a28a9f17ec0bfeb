//! Doubt is told: of a call that must not be made twice, and whose result its agent never heard, people can read that before its task
//! ends.

use althing_execution::journal::Effect;

use super::super::evidence::{Event, Evidence, View};
use super::Invariant;

pub(super) struct ToldDoubt;

impl Invariant for ToldDoubt {
    fn name(&self) -> &'static str {
        "doubt-is-told"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for event in &seen.events {
            let (turn, step, result) = match event {
                // What came of it is known, or somebody must be asked.
                Event::Call { turn, step, effect: Effect::Final, value, .. } => (*turn, *step, Some(*value)),
                Event::Hearing { turn, step, heard: Err(_) } => (*turn, *step, None),
                _ => continue,
            };
            let is_over = seen.last(turn).is_some_and(View::is_completed);
            let last = seen.heard(turn, step).next_back().map(|(_, heard)| heard);
            let is_known = result.is_some() && last.and_then(|last| last.as_ref().ok()?.as_u64()) == result;
            if is_over && !is_known && !seen.is_told(turn, step) {
                return Err(format!(
                    "turn {turn}, step {step}: nobody was told of its doubt, and it went on with {last:?}"
                ));
            }
        }
        Ok(())
    }
}
