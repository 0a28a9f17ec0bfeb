//! The stalls of the machine that the sentinel detected.

use std::collections::VecDeque;

/// The number of stalls that are kept.
const STALLS_MAX: usize = 256;

/// The last stalls, oldest first: `[from, to)` in nanoseconds.
#[derive(Debug)]
pub struct Stalls(VecDeque<(u64, u64)>);

impl Default for Stalls {
    fn default() -> Stalls {
        Stalls(VecDeque::with_capacity(STALLS_MAX))
    }
}

impl Stalls {
    /// Adds a stall, later than all before.
    pub fn push(&mut self, from_ns: u64, to_ns: u64) {
        if self.0.len() == STALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((from_ns, to_ns));
    }

    /// The stalled time between two moments.
    #[must_use]
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let inside = |(begun, ended): &(u64, u64)| (*ended).min(to_ns).saturating_sub((*begun).max(from_ns));
        self.0.iter().rev().take_while(|(_, ended)| *ended > from_ns).map(inside).sum()
    }
}

impl Stalls {
    /// The longest possible stalled time between two moments, if each stall began up to `unseen_ns` before it was detected,
    /// and not before the previous one ended.
    #[must_use]
    pub fn possibly_within(&self, from_ns: u64, to_ns: u64, unseen_ns: u64) -> u64 {
        let (mut sum, mut later) = (0, to_ns);
        for (begun, ended) in self.0.iter().rev().take_while(|(_, ended)| *ended > from_ns) {
            let (begun, ended) = (begun.saturating_sub(unseen_ns).max(from_ns), (*ended).min(later));
            sum += ended.saturating_sub(begun);
            later = later.min(begun);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_may_have_begun_before_it_was_seen_and_counts_once() {
        let mut stalls = Stalls::default();
        [(10, 20), (30, 50)].into_iter().for_each(|(from, to)| stalls.push(from, to));
        assert_eq!(stalls.possibly_within(0, 100, 0), 30);
        assert_eq!(stalls.possibly_within(0, 100, 5), 40);
        assert_eq!(stalls.possibly_within(0, 100, 1_000), 50);
        assert_eq!(stalls.possibly_within(28, 40, 5), 12);
        assert_eq!(stalls.possibly_within(50, 100, 5), 0);
    }

    #[test]
    fn only_what_lies_inside_counts() {
        let mut stalls = Stalls::default();
        [(10, 20), (30, 50)].into_iter().for_each(|(from, to)| stalls.push(from, to));
        assert_eq!(stalls.within(0, 100), 30);
        assert_eq!(stalls.within(15, 40), 15);
        assert_eq!(stalls.within(20, 30), 0);
        (0..STALLS_MAX as u64).for_each(|n| stalls.push(100 + n, 101 + n));
        assert_eq!(stalls.within(0, 1_000), STALLS_MAX as u64);
    }
}
