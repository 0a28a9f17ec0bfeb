//! Counts of calls.

use minicbor::{Decode, Encode};

/// Calls, and how many of them were bad.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Tally {
    /// All of them.
    #[n(0)]
    pub calls: u64,
    /// At most as many as `calls`.
    #[n(1)]
    pub bad: u64,
}

impl Tally {
    /// Counts a call.
    pub fn add(&mut self, is_bad: bool) {
        // Counts come from rows, too.
        self.calls = self.calls.saturating_add(1);
        self.bad = self.bad.saturating_add(u64::from(is_bad));
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally { calls: self.calls.saturating_add(other.calls), bad: self.bad.saturating_add(other.bad) }
    }

    /// The same share of bad ones among fewer calls, if there are more than that: what is known from before should not outweigh
    /// what is seen now.
    #[must_use]
    pub fn at_most(self, calls: u64) -> Tally {
        if self.calls <= calls {
            return self;
        }
        let (bad, of) = (u128::from(self.bad.min(self.calls)), u128::from(self.calls));
        let bad = (bad * u128::from(calls) + of / 2) / of;
        Tally { calls, bad: u64::try_from(bad).unwrap_or(calls) }
    }
}

/// Calls of both versions that are weighed together. Which calls are in it must not depend on how they went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Block {
    /// Those of the version that everybody had.
    #[n(0)]
    pub stable: Tally,
    /// Those of the version that is tried.
    #[n(1)]
    pub new: Tally,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_counts_as_a_shorter_one_of_the_same_share() {
        assert_eq!(Tally { calls: 10_000, bad: 125 }.at_most(200), Tally { calls: 200, bad: 3 });
        assert_eq!(Tally { calls: 200, bad: 7 }.at_most(200), Tally { calls: 200, bad: 7 });
        let largest = Tally { calls: u64::MAX, bad: u64::MAX };
        assert_eq!(largest.at_most(200), Tally { calls: 200, bad: 200 });
        assert_eq!(largest.plus(largest), largest);
    }
}
