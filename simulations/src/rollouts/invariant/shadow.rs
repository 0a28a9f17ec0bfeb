//! A shadow is told to nobody, and changes nothing.

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct SilentShadow;

impl Invariant for SilentShadow {
    fn name(&self) -> &'static str {
        "a-shadow-is-silent"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for event in &seen.events {
            match event {
                Event::Showing { call, is_shadow: true, .. } => {
                    return Err(format!("what the shadow of call {call} said was shown"));
                }
                Event::Effect { call, is_shadow: true } => {
                    return Err(format!("the shadow of call {call} did something"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
