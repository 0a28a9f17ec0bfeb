//! What no contract permits is shown to nobody.

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct JudgedAnswers;

impl Invariant for JudgedAnswers {
    fn name(&self) -> &'static str {
        "nothing-refused-is-shown"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let shown = seen.events.iter().find_map(|event| match event {
            Event::Showing { call, is_malformed: true, .. } => Some(*call),
            _ => None,
        });
        shown.map_or(Ok(()), |call| Err(format!("call {call} was answered with what its contract does not permit")))
    }
}
