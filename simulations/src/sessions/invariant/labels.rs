//! Labels hold: a task says at its end what may be done with all that its turn was given, whatever happened to its node, and also with
//! what somebody said that a call in doubt had brought; and no work is taken over that may not come there.

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;

use super::super::evidence::Evidence;
use super::super::handoff::HandoffEvent;
use super::super::plan::StepPlan;
use super::Invariant;

/// What is said of a call counts as this at least: how far it may go is known of the turn alone, and nobody vouches for it.
const SAID: Label = Label { level: DataLabel::Public, trusted: false };

pub(super) struct Labels;

impl Invariant for Labels {
    fn name(&self) -> &'static str {
        "labels-hold"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for (turn, plan) in seen.plan.turns.iter().enumerate() {
            let Some(last) = seen.last(turn).filter(|last| last.is_completed()) else { continue };
            let labels = plan.steps.iter().enumerate().map(|(number, step)| given(seen, (turn, number), step));
            let label = labels.fold(None, Label::of_both);
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

/// The label of what a turn was given by a step, as far as it is known.
fn given(seen: &Evidence, (turn, number): (usize, usize), step: &StepPlan) -> Option<Label> {
    match seen.settlement(turn, number) {
        Some(true) => Some(SAID),
        // It was given up, and its agent heard the node's own words.
        Some(false) if seen.plan.gives_up => None,
        // It was made again, or was never in doubt.
        Some(false) | None => step.label,
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::journal::Effect;

    use super::*;
    use crate::sessions::adversary;
    use crate::sessions::evidence::{Event, View};
    use crate::sessions::plan::{Deed, Plan, TurnPlan};

    const RESTRICTED: Label = Label { level: DataLabel::Restricted, trusted: true };

    /// Whether it holds of a turn of one call with that label, of which that was said, if anything was, and whose task has that label
    /// at its end.
    fn holds(said: Option<bool>, label: Option<Label>) -> bool {
        let (what, effect, label_of_step) = (Deed::Call, Effect::Final, Some(RESTRICTED));
        let step = StepPlan {
            what,
            effect,
            of: 0,
            bytes: 0,
            label: label_of_step,
            checkpoint: false,
            before_ms: 1,
            call_ms: 1,
        };
        let mut plan = Plan::draw(1, Some(adversary::NONE));
        plan.handoff.poison = None;
        plan.gives_up = false;
        plan.turns = vec![TurnPlan { at_ms: 0, steps: vec![step], is_too_long: false }];
        let mut seen = Evidence::of(plan);
        seen.events.extend(said.map(|is_result| Event::Settlement { turn: 0, step: 0, is_result }));
        let state = "TASK_STATE_COMPLETED".to_owned();
        seen.events.push(Event::Look { turn: 0, seen: View { state, label, ..View::default() } });
        Labels.check(&seen).is_ok()
    }

    #[test]
    fn what_somebody_said_of_a_call_is_not_trusted_and_what_it_brought_itself_has_its_label() {
        for (label, is_enough) in [(None, false), (Some(RESTRICTED), false), (Some(SAID), true)] {
            assert_eq!(holds(Some(true), label), is_enough, "{label:?}");
        }
        for said in [None, Some(false)] {
            for (label, is_enough) in [(None, false), (Some(SAID), false), (Some(RESTRICTED), true)] {
                assert_eq!(holds(said, label), is_enough, "{said:?}, {label:?}");
            }
        }
    }
}
