//! Which leaves were drafted and are not in the log yet: those that are worth looking for.

/// The leaves that were drafted since the log was opened.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    /// The beginning of the last id.
    ordinal: u64,
    /// How many there were.
    all: u64,
    /// How many of them are not in the log, as far as is known.
    open: u64,
    /// Those up to this ordinal are not waited for.
    given_up: u64,
}

/// A moment, in drafts.
#[derive(Debug, Clone, Copy)]
pub(super) struct DraftMark {
    ordinal: u64,
    all: u64,
}

impl Drafts {
    /// The ordinal of one more, which never falls; `now` is what it is at least.
    pub(super) fn next(&mut self, now: u64) -> u64 {
        self.ordinal = now.max(self.ordinal + 1);
        self.all += 1;
        self.open += 1;
        self.ordinal
    }

    /// Whether none is waited for.
    pub(super) fn are_done(&self) -> bool {
        self.open == 0
    }

    pub(super) fn mark(&self) -> DraftMark {
        DraftMark { ordinal: self.ordinal, all: self.all }
    }

    /// The leaf of this ordinal is in the log. One that nobody waits for, such as one of an earlier start, takes no other's place.
    pub(super) fn end(&mut self, ordinal: u64) {
        if ordinal > self.given_up && ordinal <= self.ordinal {
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Nobody wrote those that were open at that moment.
    pub(super) fn give_up(&mut self, mark: DraftMark) {
        self.given_up = mark.ordinal;
        self.open = self.open.min(self.all - mark.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_log_is_not_looked_for() {
        let mut drafts = Drafts::default();
        assert!(drafts.are_done());
        let (one, other) = (drafts.next(7), drafts.next(7));
        assert_eq!((one, other), (7, 8), "no two are the same");
        drafts.end(other);
        assert!(!drafts.are_done());
        drafts.end(one);
        assert!(drafts.are_done());
    }

    #[test]
    fn what_nobody_wrote_ends_and_takes_no_place_of_a_later_one() {
        let mut drafts = Drafts::default();
        let lost = drafts.next(7);
        let mark = drafts.mark();
        let later = drafts.next(7);
        drafts.give_up(mark);
        assert!(!drafts.are_done(), "the later one is waited for");
        drafts.end(lost);
        drafts.end(1 << 40);
        assert!(!drafts.are_done(), "neither a late one nor one of an earlier start is it");
        drafts.end(later);
        assert!(drafts.are_done());
    }
}
