//! The turns of stable versions that wait until the new ones are given them too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_calls::TurnCopy;
use althing_verification::machine::rollout::{Outcome, Ticket};
use althing_verification::machine::tape::TurnOutput;
use tokio::sync::Notify;

use super::divided::AgentRollout;

/// Turns that wait for their shadow; of more, none is made of those that ended last.
const WAITING_MAX: usize = 64;

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
