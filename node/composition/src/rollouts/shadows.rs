//! The turns of stable versions that wait until the new ones are given them too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_calls::{TurnCopy, TurnCourse, TurnOutcome};
use althing_verification::machine::rollout::{Outcome, Ticket};
use althing_verification::machine::tape::TurnOutput;
use tokio::sync::Notify;

use super::divided::AgentRollout;

/// Turns that wait for their shadow; of more, none is made of those that ended last.
const WAITING_MAX: usize = 64;

/// As what a turn of stable counts: one of which the new version has a copy by itself. The copy has no turns before it, and would
/// be the better one in all that is found of several.
pub(super) fn course_of(outcome: &TurnOutcome, is_copied: bool) -> TurnCourse {
    if is_copied { outcome.alone } else { outcome.course }
}

/// A turn of the stable version that the new one is given too.
pub(super) struct ShadowTurn {
    pub divided: Arc<AgentRollout>,
    /// By what its shadow is counted.
    pub ticket: Ticket,
    /// What came of it with stable, which is counted with its shadow or not at all.
    pub stable: (Ticket, Outcome),
    pub copy: TurnCopy,
    /// What the stable version answered.
    pub answered: TurnOutput,
}

/// The turns that wait for their shadow.
#[derive(Default)]
pub(super) struct Shadows {
    waiting: Mutex<VecDeque<ShadowTurn>>,
    more: Notify,
}

impl Shadows {
    /// Adds one, if there is room.
    pub fn push(&self, turn: ShadowTurn) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push_back(turn);
            self.more.notify_one();
        }
    }

    /// The next one, when there is one.
    pub async fn next(&self) -> ShadowTurn {
        loop {
            if let Some(turn) = self.pop() {
                return turn;
            }
            self.more.notified().await;
        }
    }

    fn pop(&self) -> Option<ShadowTurn> {
        let mut waiting = self.lock();
        let turn = waiting.pop_front();
        if !waiting.is_empty() {
            self.more.notify_one();
        }
        turn
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ShadowTurn>> {
        self.waiting.lock().expect("no holder of the shadows panics")
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::{AgentRef, PublisherId};

    use super::*;

    #[test]
    fn a_turn_that_is_compared_with_its_copy_counts_by_itself() {
        let of = |course, alone| TurnOutcome {
            agent: AgentRef::new(PublisherId::from_digest([1; 32]), "shop", "1.0.0").expect("a name"),
            caller: "maria".to_owned(),
            context: "c".to_owned(),
            message: "m".to_owned(),
            course,
            alone,
            first: None,
            effects: Vec::new(),
            copy: None,
        };
        // It gave different questions one answer, and nothing else failed in it.
        let repeated = of(TurnCourse::Silent, TurnCourse::Good);
        assert_eq!([true, false].map(|is| course_of(&repeated, is)), [TurnCourse::Good, TurnCourse::Silent]);
        let silent = of(TurnCourse::Silent, TurnCourse::Silent);
        assert_eq!([true, false].map(|is| course_of(&silent, is)), [TurnCourse::Silent; 2]);
    }
}
