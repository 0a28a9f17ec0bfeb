//! What was acknowledged is kept: the task is there whenever it is read again, and comes to an end, which is that of its agent unless
//! there is a reason that people are told.

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct Acknowledgement;

impl Invariant for Acknowledgement {
    fn name(&self) -> &'static str {
        "the-acknowledged-is-kept"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let mut tasks = std::collections::BTreeMap::new();
        for event in &seen.events {
            match event {
                Event::Absence { turn } => return Err(format!("the task of turn {turn} is not there any more")),
                Event::Acknowledgement { turn, task } => {
                    let first = tasks.entry(*turn).or_insert(task);
                    if *first != task {
                        return Err(format!("turn {turn} is the tasks {first} and {task}"));
                    }
                }
                _ => {}
            }
        }
        for (turn, plan) in seen.plan.turns.iter().enumerate() {
            let last = seen.last(turn).ok_or_else(|| format!("turn {turn} was never begun"))?;
            let is_forged = seen.forged.contains(&turn);
            let is_as_it_should = if is_forged {
                last.is_end()
            } else if plan.is_too_long {
                last.is_end() && last.text.contains("TOO_LONG")
            } else {
                // A step that diverges is judged where what was heard is.
                last.is_completed() || last.text.contains("DIVERGED")
            };
            if !is_as_it_should {
                return Err(format!("turn {turn} is {} at the end: {:?}", last.state, last.text));
            }
        }
        Ok(())
    }
}
