//! Labels hold: a task says at its end what may be done with all that its turn was given, whatever happened to its node; and no work is
//! taken over that may not come there.

use althing_protocol::Label;

use super::super::evidence::Evidence;
use super::super::handoff::HandoffEvent;
use super::Invariant;

pub(super) struct Labels;

impl Invariant for Labels {
    fn name(&self) -> &'static str {
        "labels-hold"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for (turn, plan) in seen.plan.turns.iter().enumerate() {
            let Some(last) = seen.last(turn).filter(|last| last.is_completed()) else { continue };
            // Of what the owner of the node says that a call brought, nobody knows the label.
            let given = plan.steps.iter().enumerate().filter(|(step, _)| !seen.is_settled(turn, *step));
            let label = given.fold(None, |label, (_, step)| Label::of_both(label, step.label));
            if Label::of_both(label, last.label) != last.label {
                return Err(format!("turn {turn} was given {label:?}, and its task is {:?}", last.label));
            }
        }
        let begins = seen.handoff.iter().any(|event| matches!(event, HandoffEvent::Beginning { .. }));
        match seen.plan.handoff.poison {
            Some(poison) if begins && !poison.is_harmless() => {
                Err(format!("work began by a handoff that is {poison:?}"))
            }
            _ => Ok(()),
        }
    }
}
