//! Each call ends, and an undisturbed one succeeds.

use super::{Called, Invariant, LONGEST_MS, Truth};

pub(super) struct Answered;

impl Invariant for Answered {
    fn name(&self) -> &'static str {
        "calls-are-answered"
    }

    fn check_call(&mut self, called: &Called, _: &Truth) -> Result<(), String> {
        let (caller, agent, took_ms) = (called.caller, &called.agent, called.ended_ms - called.began_ms);
        if took_ms > LONGEST_MS {
            return Err(format!("node {caller} waited {took_ms} ms for {agent}"));
        }
        match &called.task {
            Ok((_, true)) => Ok(()),
            _ if !called.undisturbed || called.trusted != Some(true) => Ok(()),
            other => Err(format!("node {caller} called {agent}, and nothing was in the way: {other:?}")),
        }
    }
}
