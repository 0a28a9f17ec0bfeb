//! An acknowledged task is found again later, whatever happened to its node meanwhile.

use super::{Called, Invariant, Truth};

pub(super) struct DurableTasks;

impl Invariant for DurableTasks {
    fn name(&self) -> &'static str {
        "acknowledged-tasks-are-kept"
    }

    fn check_call(&mut self, called: &Called, _: &Truth) -> Result<(), String> {
        match &called.recalled {
            Some(again) if called.undisturbed && called.trusted == Some(true) && *again != called.task => {
                let (caller, agent) = (called.caller, &called.agent);
                Err(format!("node {caller} gave {agent} {:?}, and got {again:?} when it asked again", called.task))
            }
            _ => Ok(()),
        }
    }
}
