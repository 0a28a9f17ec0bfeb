//! Turns that did not go on after their node had ended, for whoever looks for what an agent lost. Pure.

use std::collections::VecDeque;

/// How many are remembered: the newest.
const LOSSES_MAX: usize = 32;
/// How long one is told of, milliseconds: a day.
const TOLD_MS: u64 = 24 * 60 * 60 * 1_000;

/// A turn that did not go on where its node had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLoss {
    /// The agent's name.
    pub agent: String,
    /// The task's id.
    pub task: String,
    /// Why it does not go on, as the task says it.
    pub why: String,
    /// Until when the owner of the node can have it go on anew from one of its steps, Unix milliseconds; none if nobody can.
    pub restart_until_ms: Option<u64>,
}

/// Those since the node began.
#[derive(Debug, Default)]
pub(crate) struct Losses(VecDeque<(u64, TurnLoss)>);

impl Losses {
    /// Adds one.
    pub fn add(&mut self, at_ms: u64, loss: TurnLoss) {
        self.forget(&loss.task);
        self.0.push_front((at_ms, loss));
        self.0.truncate(LOSSES_MAX);
    }

    /// The turn of a task goes on after all, or the task is deleted.
    pub fn forget(&mut self, task: &str) {
        self.0.retain(|(_, known)| known.task != task);
    }

    /// Those of the last day, the newest first.
    pub fn at(&self, now_ms: u64) -> Vec<TurnLoss> {
        let is_told = |at_ms: u64| now_ms.saturating_sub(at_ms) < TOLD_MS;
        self.0.iter().filter(|(at_ms, _)| is_told(*at_ms)).map(|(_, loss)| loss.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(task: &str) -> TurnLoss {
        let text = |text: &str| text.to_owned();
        TurnLoss { agent: text("clerk"), task: text(task), why: text("it was damaged"), restart_until_ms: None }
    }

    #[test]
    fn the_newest_are_told_of_for_a_day_and_each_once() {
        let mut all = Losses::default();
        for number in 0..40_u64 {
            all.add(number, loss(&format!("t{number}")));
        }
        all.add(40, loss("t39"));
        let told = all.at(41);
        assert_eq!((told.len(), told[0].task.as_str(), told[1].task.as_str()), (LOSSES_MAX, "t39", "t38"));
        all.forget("t39");
        assert_eq!(all.at(41)[0].task, "t38");
        assert_eq!(all.at(38 + TOLD_MS - 1).len(), 1);
        assert!(all.at(38 + TOLD_MS).is_empty());
    }
}
