//! How the turns of an agent went, by verdicts where its contract has gates, and else by what the agent says of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one turn counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnSuccess {
    /// Its answer passed the gates of the contract.
    Verified,
    /// It completed, and no gate judged its answer.
    Claimed,
    /// It failed: by its own word, by a gate's, or in silence.
    Failed {
        /// Whether its contract has gates, which judge what does not fail.
        is_judged: bool,
    },
}

/// The turns of one version of an agent, since it was added.
#[derive(Debug, Default)]
pub(crate) struct SuccessCounts {
    verified: AtomicU64,
    claimed: AtomicU64,
    failed: AtomicU64,
    /// Of those that failed, the ones of a contract with gates.
    failed_judged: AtomicU64,
}

impl SuccessCounts {
    /// Counts a turn.
    pub fn count(&self, success: TurnSuccess) {
        let count = match success {
            TurnSuccess::Verified => &self.verified,
            TurnSuccess::Claimed => &self.claimed,
            TurnSuccess::Failed { is_judged } => {
                self.failed_judged.fetch_add(u64::from(is_judged), Ordering::Relaxed);
                &self.failed
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts as they are.
    pub fn record(&self) -> SuccessRecord {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SuccessRecord {
            verified: read(&self.verified),
            claimed: read(&self.claimed),
            failed: read(&self.failed),
            failed_judged: read(&self.failed_judged),
        }
    }
}

/// How turns went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SuccessRecord {
    verified: u64,
    claimed: u64,
    failed: u64,
    failed_judged: u64,
}

/// Turns of one version of an agent, since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnCounts {
    /// Those that say something of it.
    pub all: u64,
    /// Those of them that failed: by the agent's own word, by a gate's, or in silence.
    pub failed: u64,
}

/// The share of turns that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuccessRate {
    /// Whole percents, rounded down: all of them only where nothing failed.
    pub percent: u8,
    /// Whether verdicts were given, and nothing of it is what the agent says of itself: failures alone are no measure of one without
    /// gates, which would be taken for good as soon as it says so.
    pub is_measured: bool,
}

impl SuccessRecord {
    /// Both together: of several versions.
    pub fn and(self, other: SuccessRecord) -> SuccessRecord {
        SuccessRecord {
            verified: self.verified + other.verified,
            claimed: self.claimed + other.claimed,
            failed: self.failed + other.failed,
            failed_judged: self.failed_judged + other.failed_judged,
        }
    }

    /// All turns, and those that failed.
    pub fn counts(self) -> TurnCounts {
        TurnCounts { all: self.verified + self.claimed + self.failed, failed: self.failed }
    }

    /// The share that went well; none where no turn ended yet.
    pub fn rate(self) -> Option<SuccessRate> {
        let well = self.verified + self.claimed;
        let percent = (well * 100).checked_div(well + self.failed)?;
        let is_measured = self.claimed == 0 && self.verified + self.failed_judged > 0;
        Some(SuccessRate { percent: u8::try_from(percent).unwrap_or(100), is_measured })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(turns: &[TurnSuccess]) -> Option<(u8, bool)> {
        let counts = SuccessCounts::default();
        turns.iter().for_each(|turn| counts.count(*turn));
        counts.record().rate().map(|rate| (rate.percent, rate.is_measured))
    }

    #[test]
    fn a_rate_is_measured_where_verdicts_were_given_and_nothing_of_it_is_the_agents_word() {
        use TurnSuccess::{Claimed, Verified};
        let [unjudged, judged] = [false, true].map(|is_judged| TurnSuccess::Failed { is_judged });
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[Verified, Verified, judged]), Some((66, true)));
        assert_eq!(rate(&[Claimed, Claimed]), Some((100, false)));
        assert_eq!(rate(&[Claimed, Verified, judged, judged]), Some((50, false)), "a part of it is its word");
        assert_eq!(rate(&[judged]), Some((0, true)));
        assert_eq!(rate(&[unjudged, unjudged]), Some((0, false)), "no gate judged it");
        assert_eq!(rate(&[unjudged, Verified]), Some((50, true)), "of a version without gates, and one with them");
        assert_eq!(rate(&[&[judged][..], &[Verified; 999]].concat()), Some((99, true)), "not all went well");
    }

    #[test]
    fn versions_are_counted_together() {
        let of = |turn| {
            let counts = SuccessCounts::default();
            counts.count(turn);
            counts.record()
        };
        let failed = || of(TurnSuccess::Failed { is_judged: true });
        let both = of(TurnSuccess::Verified).and(failed());
        assert_eq!(both.and(of(TurnSuccess::Claimed)).counts(), TurnCounts { all: 3, failed: 1 });
        assert_eq!(both.rate(), Some(SuccessRate { percent: 50, is_measured: true }));
        assert_eq!(failed().and(failed()).rate(), Some(SuccessRate { percent: 0, is_measured: true }));
    }
}
