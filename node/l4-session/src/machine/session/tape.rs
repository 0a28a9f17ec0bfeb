//! What the clocks said that a turn read: a turn that is resumed is told the same once more, and then what they say now.

use std::collections::VecDeque;

use althing_execution::journal::{Clock, JournalError, READINGS_MAX, Reading};

/// The readings of one turn, since its beginning or its last checkpoint.
#[derive(Debug, Default)]
pub struct Tape {
    /// To be told again.
    told: VecDeque<Reading>,
    /// Not in any row yet.
    new: Vec<Reading>,
    /// All of them.
    count: usize,
    /// The next step of the turn.
    step: u32,
}

impl Tape {
    /// Those that rows have, to be told again to a turn whose next step is that one.
    #[must_use]
    pub fn of(told: Vec<Reading>, step: u32) -> Tape {
        Tape { count: told.len(), told: told.into(), step, ..Tape::default() }
    }

    /// The turn comes to that step.
    pub fn reach(&mut self, step: u32) {
        self.step = step;
    }

    /// The turn reads a clock that stands at `now`; gives what it is told.
    ///
    /// # Errors
    /// [`JournalError::Diverged`]: it read another clock there. [`JournalError::TooLong`]: it reads clocks too often.
    pub fn read(&mut self, now: Reading) -> Result<Reading, JournalError> {
        match self.told.pop_front() {
            Some(told) if told.clock == now.clock => Ok(told),
            Some(told) => Err(self.diverged(told, name(now.clock))),
            None if self.count >= READINGS_MAX => {
                let what = format!("{} readings of clocks", self.count);
                Err(JournalError::TooLong { what, most: READINGS_MAX as u64 })
            }
            None => {
                self.count += 1;
                self.new.push(now);
                Ok(now)
            }
        }
    }

    /// Takes the readings that are in no row yet.
    pub fn take(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.new)
    }

    /// The turn makes a checkpoint: what it read before is not told again.
    ///
    /// # Errors
    /// [`JournalError::Diverged`]: it read a clock there.
    pub fn clear(&mut self) -> Result<(), JournalError> {
        if let Some(told) = self.told.front() {
            return Err(self.diverged(*told, super::CHECKPOINT));
        }
        *self = Tape { step: self.step, ..Tape::default() };
        Ok(())
    }

    fn diverged(&self, was: Reading, came: &str) -> JournalError {
        JournalError::Diverged { seq: self.step, was: name(was.clock).to_owned(), came: came.to_owned() }
    }
}

/// A clock, as people are told of it.
fn name(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "a look at the time of day",
        Clock::Monotonic => "a look at the clock of the turn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(ns: u64) -> Reading {
        Reading { clock: Clock::Wall, ns }
    }

    #[test]
    fn what_was_read_is_told_again_and_then_what_the_clock_says() {
        let mut first = Tape::default();
        for ns in [5, 7] {
            assert_eq!(first.read(wall(ns)), Ok(wall(ns)));
        }
        let rows = first.take();
        assert_eq!((rows.clone(), first.take()), (vec![wall(5), wall(7)], Vec::new()));
        let mut again = Tape::of(rows, 0);
        let told = [90, 91, 92].map(|ns| again.read(wall(ns)));
        assert_eq!(told, [Ok(wall(5)), Ok(wall(7)), Ok(wall(92))]);
        assert_eq!(again.take(), [wall(92)], "the others are in rows");
    }

    #[test]
    fn another_clock_or_a_checkpoint_in_place_of_a_reading_stops_the_turn() {
        let mut tape = Tape::of(vec![wall(5), wall(6)], 1);
        tape.reach(3);
        let refused = tape.clear().expect_err("it read a clock there");
        assert!(matches!(&refused, JournalError::Diverged { seq: 3, .. }), "{refused:?}");
        let refused = tape.read(Reading { clock: Clock::Monotonic, ns: 1 }).expect_err("another clock");
        let (was, came) = ("a look at the time of day".to_owned(), "a look at the clock of the turn".to_owned());
        assert_eq!(refused, JournalError::Diverged { seq: 3, was, came });
    }

    #[test]
    fn a_turn_reads_clocks_so_often_and_again_as_often_after_a_checkpoint() {
        let mut tape = Tape::of(vec![wall(1); READINGS_MAX - 1], 0);
        for _ in 0..READINGS_MAX {
            tape.read(wall(2)).expect("a reading more");
        }
        let refused = tape.read(wall(2)).expect_err("one too many");
        assert!(matches!(&refused, JournalError::TooLong { most: 65_536, .. }), "{refused:?}");
        tape.clear().expect("all of them were told");
        assert!(tape.take().is_empty());
        tape.read(wall(2)).expect("after the checkpoint");
    }
}
