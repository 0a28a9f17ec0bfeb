//! Calls are counted as they came out, whatever their version says of them.

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct Verdicts;

impl Invariant for Verdicts {
    fn name(&self) -> &'static str {
        "verdicts-count"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for event in &seen.events {
            let Event::End { call, truth, counted, .. } = event else { continue };
            if truth != counted {
                return Err(format!("call {call} was {truth:?}, and was counted as {counted:?}"));
            }
        }
        Ok(())
    }
}
