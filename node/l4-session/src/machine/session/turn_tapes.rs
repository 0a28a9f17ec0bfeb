//! The journals of turns that are over and that stay with their tasks: the newest ones of a node, as far as there is room.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of all of them, with their keys.
pub const TAPES_BYTES_MAX: u64 = 64 << 20;
/// Tasks that are named whose turns may go on anew.
const RESTARTABLE_MAX: usize = 32;

/// The journal of a turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnTape {
    /// The task's id.
    pub task: String,
    /// When the turn ended, Unix milliseconds.
    pub ended_ms: u64,
    /// Bytes of its rows, with their keys.
    pub bytes: u64,
    /// Until when it may go on anew from one of its steps, Unix milliseconds, if it stopped where its agent did something else.
    pub restart_ms: Option<u64>,
    /// When its rows go though its task is there, Unix milliseconds; none if they stay with that.
    pub gone_ms: Option<u64>,
}

/// What the keys of a turn's rows begin with.
type TurnKey = Vec<u8>;

/// Those of a node.
#[derive(Debug, Default)]
pub struct TurnTapes {
    all: BTreeMap<TurnKey, TurnTape>,
    /// By when they ended.
    order: BTreeSet<(u64, TurnKey)>,
    tasks: BTreeMap<String, BTreeSet<TurnKey>>,
    bytes: u64,
}

impl TurnTapes {
    /// Adds one. Gives those that make room for it, the oldest first: they are none any more, and their rows are to be deleted.
    #[must_use]
    pub fn add(&mut self, turn: TurnKey, tape: TurnTape) -> Vec<TurnKey> {
        self.remove(&turn);
        let mut gone = Vec::new();
        while self.bytes.saturating_add(tape.bytes) > TAPES_BYTES_MAX {
            let Some((_, oldest)) = self.order.first().cloned() else { break };
            self.remove(&oldest);
            gone.push(oldest);
        }
        self.bytes = self.bytes.saturating_add(tape.bytes);
        self.order.insert((tape.ended_ms, turn.clone()));
        self.tasks.entry(tape.task.clone()).or_default().insert(turn.clone());
        self.all.insert(turn, tape);
        gone
    }

    /// Takes those of a task that is deleted: their rows are to be deleted.
    #[must_use]
    pub fn take(&mut self, task: &str) -> Vec<TurnKey> {
        let turns: Vec<TurnKey> = self.tasks.get(task).into_iter().flatten().cloned().collect();
        turns.iter().for_each(|turn| self.remove(turn));
        turns
    }

    /// Those of a task, the oldest first.
    #[must_use]
    pub fn of(&self, task: &str) -> Vec<(TurnKey, TurnTape)> {
        let turns = self.tasks.get(task).into_iter().flatten();
        let mut all: Vec<(TurnKey, TurnTape)> =
            turns.filter_map(|turn| Some((turn.clone(), self.all.get(turn)?.clone()))).collect();
        all.sort_by_key(|(_, tape)| tape.ended_ms);
        all
    }

    /// That of a task which may go on anew at that time, Unix milliseconds: the last one to end.
    #[must_use]
    pub fn restartable(&self, task: &str, now_ms: u64) -> Option<TurnKey> {
        let (turn, tape) = self.of(task).pop()?;
        tape.restart_ms.is_some_and(|until| now_ms < until).then_some(turn)
    }

    /// The tasks whose last turn may go on anew at that time, and until when, Unix milliseconds; the one that ended last first, and
    /// the newest of many.
    #[must_use]
    pub fn all_restartable(&self, now_ms: u64) -> Vec<(String, u64)> {
        let newest = self.order.iter().rev().filter_map(|(_, turn)| Some((turn, self.all.get(turn)?)));
        let stopped = newest.filter_map(|(turn, tape)| {
            let until = tape.restart_ms.filter(|until| now_ms < *until)?;
            let is_last = self.restartable(&tape.task, now_ms).as_ref() == Some(turn);
            is_last.then(|| (tape.task.clone(), until))
        });
        stopped.take(RESTARTABLE_MAX).collect()
    }

    /// Whether one goes at some time though its task stays.
    #[must_use]
    pub fn has_expiring(&self) -> bool {
        self.all.values().any(|tape| tape.gone_ms.is_some())
    }

    /// Takes those whose time is over: their rows are to be deleted.
    #[must_use]
    pub fn take_expired(&mut self, now_ms: u64) -> Vec<TurnKey> {
        let is_over = |tape: &TurnTape| tape.gone_ms.is_some_and(|gone| gone <= now_ms);
        let turns: Vec<TurnKey> =
            self.all.iter().filter(|(_, tape)| is_over(tape)).map(|(turn, _)| turn.clone()).collect();
        turns.iter().for_each(|turn| self.remove(turn));
        turns
    }

    /// One is none any more: its turn goes on.
    pub fn release(&mut self, turn: &[u8]) {
        self.remove(turn);
    }

    /// Whether rows with those keys are such a journal.
    #[must_use]
    pub fn has(&self, turn: &[u8]) -> bool {
        self.all.contains_key(turn)
    }

    fn remove(&mut self, turn: &[u8]) {
        let Some((turn, TurnTape { task, ended_ms, bytes, .. })) = self.all.remove_entry(turn) else { return };
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(turns) = self.tasks.get_mut(&task) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.tasks.remove(&task);
            }
        }
        self.order.remove(&(ended_ms, turn));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tape(task: u8, ended_ms: u64, bytes: u64) -> TurnTape {
        TurnTape { task: task.to_string(), ended_ms, bytes, restart_ms: None, gone_ms: None }
    }

    #[test]
    fn a_turn_that_stopped_may_go_on_anew_for_a_time_and_goes_when_that_is_over() {
        let mut all = TurnTapes::default();
        let stopped = TurnTape { restart_ms: Some(50), gone_ms: Some(50), ..tape(1, 10, 5) };
        assert!(all.add(vec![1], stopped.clone()).is_empty());
        // One that is recorded stays with its task.
        assert!(all.add(vec![2], TurnTape { task: "2".to_owned(), gone_ms: None, ..stopped }).is_empty());
        assert!(all.add(vec![3], tape(3, 10, 5)).is_empty());
        assert_eq!((all.restartable("1", 49), all.restartable("1", 50)), (Some(vec![1]), None));
        assert_eq!((all.restartable("2", 49), all.restartable("3", 49)), (Some(vec![2]), None));
        let stopped = |task: &str| (task.to_owned(), 50);
        assert_eq!((all.all_restartable(49), all.all_restartable(50)), (vec![stopped("2"), stopped("1")], vec![]));
        assert!(all.take_expired(49).is_empty());
        assert_eq!((all.take_expired(50), all.take_expired(50)), (vec![vec![1]], Vec::new()));
        assert!(all.has(&[2]) && all.has(&[3]) && all.bytes == 10);
        all.release(&[2]);
        assert!(!all.has(&[2]) && all.restartable("2", 49).is_none());
        // A turn that ended after it decides.
        assert!(all.add(vec![4], TurnTape { restart_ms: Some(50), ..tape(5, 10, 5) }).is_empty());
        assert!(all.add(vec![5], tape(5, 11, 5)).is_empty());
        assert_eq!(all.restartable("5", 20), None);
        assert!(all.all_restartable(20).is_empty());
    }

    #[test]
    fn the_oldest_make_room() {
        let mut all = TurnTapes::default();
        let third = TAPES_BYTES_MAX / 3;
        for (turn, ended_ms) in [(1, 30), (2, 10), (3, 20)] {
            assert!(all.add(vec![turn], tape(turn, ended_ms, third)).is_empty());
        }
        assert_eq!(all.add(vec![4], tape(4, 40, third)), [[2]]);
        assert_eq!(all.add(vec![5], tape(5, 50, 2 * third)), [[3], [1]]);
        assert!(all.has(&[4]) && all.has(&[5]) && !all.has(&[1]));
        // It is there once, however often it is added.
        assert!(all.add(vec![5], tape(5, 51, 2 * third)).is_empty());
    }

    #[test]
    fn they_go_with_their_task() {
        let mut all = TurnTapes::default();
        for (turn, task) in [(1, 1), (2, 2), (3, 1)] {
            assert!(all.add(vec![turn], tape(task, 9 - u64::from(turn), 5)).is_empty());
        }
        let turns = |all: &TurnTapes, task: &str| all.of(task).into_iter().map(|(turn, _)| turn).collect::<Vec<_>>();
        assert_eq!(turns(&all, "1"), [[3], [1]], "the oldest first");
        assert_eq!(all.take("1"), [[1], [3]]);
        assert!(all.of("1").is_empty() && all.take("1").is_empty());
        assert_eq!((turns(&all, "2"), all.bytes), (vec![vec![2]], 5));
    }

    proptest! {
        /// Whatever is added and deleted: the bound holds, what is counted is what is there, and each goes once.
        #[test]
        fn no_more_is_there_than_there_is_room_for(
            changes in proptest::collection::vec((any::<u8>(), 0..8_u8, 0..100_u64, 0..(20_u64 << 20)), 1..60),
        ) {
            let mut all = TurnTapes::default();
            let mut there = BTreeSet::new();
            for (turn, task, ended_ms, bytes) in changes {
                let gone = match turn {
                    0..32 => all.take(&task.to_string()),
                    _ => {
                        let turn = vec![turn];
                        let gone = all.add(turn.clone(), tape(task, ended_ms, bytes));
                        prop_assert!(!gone.contains(&turn));
                        there.insert(turn);
                        gone
                    }
                };
                for turn in gone {
                    prop_assert!(there.remove(&turn), "it was there");
                }
                prop_assert_eq!(all.all.keys().cloned().collect::<BTreeSet<_>>(), there.clone());
                prop_assert_eq!(all.bytes, all.all.values().map(|one| one.bytes).sum::<u64>());
                prop_assert_eq!(all.order.len(), there.len());
                prop_assert_eq!(all.tasks.values().map(BTreeSet::len).sum::<usize>(), there.len());
                prop_assert!(all.bytes <= TAPES_BYTES_MAX);
            }
        }
    }
}
