//! What came of the jobs of a control loop.
//!
//! Jobs come too often to be counted one by one: those of one look are one call of each version.

use althing_execution::HardStatus;
use althing_verification::machine::rollout::{Breach, Outcome};

/// Jobs of one version, as its executor counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Jobs {
    all: u64,
    /// Those that missed their deadline by no fault of the machine.
    late: u64,
    over: u64,
    failed: u64,
}

impl Jobs {
    pub fn of(status: &HardStatus) -> Jobs {
        let HardStatus { jobs, missed, explained, overruns, failures, .. } = *status;
        Jobs { all: jobs, late: missed.saturating_sub(explained), over: overruns, failed: failures }
    }

    /// Those since an earlier look.
    pub fn since(self, before: Jobs) -> Jobs {
        Jobs {
            all: self.all.saturating_sub(before.all),
            late: self.late.saturating_sub(before.late),
            over: self.over.saturating_sub(before.over),
            failed: self.failed.saturating_sub(before.failed),
        }
    }

    /// From where the first look counts: what passed its budget or failed did so by itself, and may not run a second time; that
    /// it was late may be for what was started beside it.
    fn at_first_look(self) -> Jobs {
        Jobs { late: self.late, ..Jobs::default() }
    }

    /// What came of them, as of one call; nothing where there were none.
    pub fn outcome(self) -> Option<Outcome> {
        let Jobs { all, late, over, failed } = self;
        let breach = match (over, failed, late) {
            (0, 0, 0) => None,
            (0, 0, _) => Some(Breach::Deadline),
            (0, _, _) => Some(Breach::Crash),
            _ => Some(Breach::Budget),
        };
        (all > 0).then(|| Outcome { is_error: breach.is_some(), breach, ..Outcome::default() })
    }
}

/// What came of the jobs of the stable version and of the one that is tried since the look before, of each by itself: one that was
/// suspended runs none any more, and hides nothing of the other one.
pub(super) fn outcomes(now: [Jobs; 2], before: Option<[Jobs; 2]>) -> [Option<Outcome>; 2] {
    let [of_stable, of_new] = before.unwrap_or_else(|| now.map(Jobs::at_first_look));
    let [stable, new] = now;
    [stable.since(of_stable).outcome(), new.since(of_new).outcome()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_look_are_one_call_and_the_worst_of_them_is_told() {
        let before = Jobs { all: 100, late: 3, over: 0, failed: 1 };
        let after = |late: u64, over: u64, failed: u64| {
            let now = Jobs { all: 200, late: 3 + late, over, failed: 1 + failed };
            now.since(before).outcome().expect("there were jobs")
        };
        assert_eq!(after(0, 0, 0), Outcome::default(), "what was before says nothing");
        for (late, over, failed, breach) in
            [(5, 0, 0, Breach::Deadline), (5, 0, 1, Breach::Crash), (5, 1, 1, Breach::Budget)]
        {
            let came = after(late, over, failed);
            assert_eq!((came.is_error, came.breach), (true, Some(breach)));
        }
        assert_eq!(before.since(before).outcome(), None);
    }
    #[test]
    fn a_version_that_is_suspended_in_its_first_job_is_heard_of_and_a_stable_one_that_rests_hides_nothing() {
        let breaches = |came: [Option<Outcome>; 2]| came.map(|one| one.and_then(|one| one.breach));
        let stable = Jobs { all: 900, late: 2, ..Jobs::default() };
        let suspended = Jobs { all: 1, over: 1, ..Jobs::default() };
        assert_eq!(breaches(outcomes([stable, suspended], None)), [None, Some(Breach::Budget)]);
        assert_eq!(outcomes([stable, suspended], Some([stable, suspended])), [None, None], "it is counted once");

        let late = Jobs { all: 50, late: 1, ..Jobs::default() };
        assert_eq!(breaches(outcomes([stable, late], None)), [None, None], "it was just started");
        let failed = Jobs { all: 60, failed: 1, ..late };
        let rests = outcomes([stable, failed], Some([stable, late]));
        assert!(rests[0].is_none(), "{rests:?}");
        assert_eq!(breaches(rests), [None, Some(Breach::Crash)]);
    }
}
