//! Where a delay-tolerant turn makes room for turns that wait for a processor: before a step that it has not made yet, so that
//! nothing is made twice when it goes on from its rows.

use std::time::Duration;

/// How often one turn makes room: each time it begins again, and is told all again that it heard.
pub const PREEMPTIONS_MAX: u32 = 16;
/// How long it makes room at most: turns that never stop waiting do not starve it.
pub const PREEMPTION_MAX: Duration = Duration::from_secs(10);

/// A step that a turn comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the step.
    pub step: u32,
    /// Whether the turn is between two steps: none is under way, and none has rows that it has not come to again.
    pub is_between: bool,
    /// Whether it is a request to a model.
    pub asks_model: bool,
    /// Whether a gate decides on it.
    pub has_gate: bool,
}

/// How often a turn made room by now, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preemption {
    count: u32,
    /// The step before which it made room last; its first one before that.
    last: u32,
    has_asked_model: bool,
}

impl Preemption {
    /// Whether the turn makes room there, while `waiting` turns wait. It makes one step at least in between.
    pub fn makes_room(&mut self, place: Place, waiting: usize) -> bool {
        // The calls that a model asked for at once were decided on at once: what was decided is not asked again.
        let may_be_decided = self.has_asked_model && place.has_gate;
        self.has_asked_model |= place.asks_model;
        let is_new = place.is_between && place.step > self.last && !may_be_decided;
        if waiting == 0 || !is_new || self.count >= PREEMPTIONS_MAX {
            return false;
        }
        self.count += 1;
        self.last = place.step;
        true
    }

    /// Whether it made room by now.
    #[must_use]
    pub fn has_made_room(&self) -> bool {
        self.count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(step: u32) -> Place {
        Place { step, is_between: true, asks_model: false, has_gate: true }
    }

    fn request(step: u32) -> Place {
        Place { asks_model: true, has_gate: false, ..call(step) }
    }

    #[test]
    fn a_turn_makes_room_where_somebody_waits_and_a_step_at_least_in_between() {
        let mut turn = Preemption::default();
        assert!(!turn.makes_room(call(0), 1), "it has done nothing yet");
        assert!(!turn.makes_room(call(1), 0), "nobody waits");
        assert!(!turn.has_made_room());
        assert!(turn.makes_room(call(2), 1) && turn.has_made_room());
        for told_again in 0..2 {
            assert!(!turn.makes_room(Place { is_between: false, ..call(told_again) }, 1));
        }
        assert!(!turn.makes_room(call(2), 1), "this one is made now");
        assert!(!turn.makes_room(Place { is_between: false, ..call(3) }, 1), "another one is under way");
        assert!(turn.makes_room(call(3), 1));
    }

    #[test]
    fn a_turn_makes_room_so_often_and_then_goes_on() {
        let mut turn = Preemption::default();
        let made = (0..100).filter(|step| turn.makes_room(call(*step), 1)).count();
        assert_eq!(made, PREEMPTIONS_MAX as usize);
    }

    #[test]
    fn what_a_model_asked_for_at_once_is_made_before_the_turn_makes_room() {
        let mut turn = Preemption::default();
        assert!(!turn.makes_room(request(0), 1));
        for step in 1..4 {
            assert!(!turn.makes_room(call(step), 1), "step {step}");
        }
        assert!(turn.makes_room(request(4), 1));
    }
}
