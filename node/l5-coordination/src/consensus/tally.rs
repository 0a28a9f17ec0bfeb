//! How many bytes of the log were executed since the last snapshot, and where so many ago were: entries have up to a megabyte,
//! so that their number alone bounds nothing.

use std::collections::VecDeque;

/// What an entry counts beside its content.
const ENTRY_BYTES: u64 = 64;
/// Marks within the bytes that are kept.
const MARKS: u64 = 64;

/// Counts what is executed.
pub(crate) struct Tally {
    /// Bytes that are kept in the log, and that are executed until another snapshot is due.
    keep: u64,
    /// Bytes that were executed.
    executed: u64,
    /// How many had been when the last snapshot was made.
    at_snapshot: u64,
    /// Some entries, each with the bytes that had been executed with it. At most the first one is farther back than `keep`.
    marks: VecDeque<(u64, u64)>,
}

impl Tally {
    /// Nothing was executed yet.
    pub fn new(keep: u64) -> Tally {
        Tally { keep, executed: 0, at_snapshot: 0, marks: VecDeque::new() }
    }

    /// An entry with so many bytes of content was executed.
    pub fn add(&mut self, index: u64, bytes: usize) {
        self.executed += ENTRY_BYTES + bytes as u64;
        let marked = self.marks.back().map_or(0, |(_, executed)| *executed);
        if self.executed - marked > self.keep / MARKS {
            self.marks.push_back((index, self.executed));
        }
        while self.marks.get(1).is_some_and(|(_, executed)| self.executed - executed >= self.keep) {
            self.marks.pop_front();
        }
    }

    /// Whether so much was executed since the last snapshot that another one is due.
    pub fn is_due(&self) -> bool {
        self.executed - self.at_snapshot >= self.keep
    }

    /// A snapshot of what is executed now is being made.
    pub fn covered(&mut self) {
        self.at_snapshot = self.executed;
    }

    /// Another member's snapshot took the place of what was executed here.
    pub fn replaced(&mut self) {
        *self = Tally::new(self.keep);
    }

    /// The last entry that is so far back that the log need not keep it, once a snapshot covers it.
    pub fn superfluous(&self) -> Option<u64> {
        let (index, executed) = self.marks.front()?;
        (self.executed - executed >= self.keep).then_some(*index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_after_so_many_bytes_whatever_the_number_of_entries() {
        for bytes in [0_usize, 1_000, 900_000] {
            let mut tally = Tally::new(64 << 20);
            let each = ENTRY_BYTES + bytes as u64;
            let due = (64_u64 << 20).div_ceil(each);
            for index in 0..due {
                assert!(!tally.is_due(), "at {index} of {due}");
                tally.add(index, bytes);
            }
            assert!(tally.is_due());
            tally.covered();
            assert!(!tally.is_due());
        }
    }

    #[test]
    fn what_is_kept_is_about_as_many_bytes_whatever_their_entries_have() {
        const KEEP: u64 = 1 << 20;
        for bytes in [0_usize, 1_000, 40_000, 2_000_000] {
            let (mut tally, each) = (Tally::new(KEEP), ENTRY_BYTES + bytes as u64);
            for index in 0..100_000 {
                tally.add(index, bytes);
                let kept = tally.superfluous().map_or(index + 1, |last| index - last) * each;
                assert!(kept <= KEEP + KEEP / MARKS + 2 * each, "{kept} bytes at {index}");
                assert!(kept >= KEEP.min((index + 1) * each), "{kept} bytes at {index}");
                assert!(tally.marks.len() as u64 <= MARKS + 2);
            }
        }
    }

    #[test]
    fn another_members_snapshot_begins_it_anew() {
        let mut tally = Tally::new(100);
        (0..10).for_each(|index| tally.add(index, 100));
        assert!(tally.is_due() && tally.superfluous().is_some());
        tally.replaced();
        assert!(!tally.is_due() && tally.superfluous().is_none());
    }
}
