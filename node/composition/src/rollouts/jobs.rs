//! What came of the jobs of a control loop.
//!
//! Jobs come too often to be counted one by one: those of one look are one call of each version.

use althing_execution::HardStatus;
use althing_verification::machine::rollout::{Breach, Outcome};

/// Jobs of one version, as its executor counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Jobs {
    all: u64,
    /// Those that missed their deadline, less those of which it is known by now that a stall of the machine explains it. That is known
    /// some milliseconds after the miss.
    unexplained: u64,
    /// Those that missed their deadline by no fault of the machine: what was unexplained at the look before, and still is.
    late: u64,
    over: u64,
    failed: u64,
    /// Those that put out what breaks their limits.
    out_of_limits: u64,
}

impl Jobs {
    /// As at a first look.
    pub fn of(status: &HardStatus) -> Jobs {
        let HardStatus { jobs, missed, explained, overruns, failures, out_of_limits, .. } = *status;
        let unexplained = missed.saturating_sub(explained);
        Jobs { all: jobs, unexplained, late: unexplained, over: overruns, failed: failures, out_of_limits }
    }

    /// The same, where there was a look before.
    fn after(self, before: Jobs) -> Jobs {
        Jobs { late: self.unexplained.min(before.unexplained), ..self }
    }

    /// Those since an earlier look.
    fn since(self, before: Jobs) -> Jobs {
        Jobs {
            all: self.all.saturating_sub(before.all),
            unexplained: self.unexplained.saturating_sub(before.unexplained),
            late: self.late.saturating_sub(before.late),
            over: self.over.saturating_sub(before.over),
            failed: self.failed.saturating_sub(before.failed),
            out_of_limits: self.out_of_limits.saturating_sub(before.out_of_limits),
        }
    }

    /// From where the first look counts: what passed its budget, failed or broke its limits did so by itself; that it was late may be for
    /// what was started beside it.
    fn at_first_look(self) -> Jobs {
        Jobs { unexplained: self.unexplained, late: self.late, ..Jobs::default() }
    }

    /// What is among them that must not be, the worst first.
    fn breaches(self) -> impl Iterator<Item = Breach> {
        let Jobs { over, failed, out_of_limits, late, .. } = self;
        let counts = [
            (over, Breach::Budget),
            (failed, Breach::Crash),
            (out_of_limits, Breach::Refusal),
            (late, Breach::Deadline),
        ];
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, breach)| breach)
    }

    /// What came of them, as of one call, where the other version did that; nothing where there were none, or where it is known at the
    /// next look. What both did is no breach of this one: it is as bad of both.
    fn outcome(self, other: Jobs) -> Option<Outcome> {
        let is_error = [self.over, self.failed, self.late].iter().any(|count| *count > 0);
        let is_refused = self.out_of_limits > 0;
        let breach = self.breaches().find(|breach| other.breaches().all(|known| known != *breach));
        let is_good = self.all > 0 && self.unexplained == 0;
        (is_error || is_refused || is_good).then(|| Outcome { is_error, is_refused, breach, ..Outcome::default() })
    }
}

/// What is to be noted of the jobs of the stable version and of the one that is tried, and what came of them since the look before, of
/// each by itself: one that was suspended runs none any more, and hides nothing of the other one.
pub(super) fn look([stable, new]: [Jobs; 2], before: Option<[Jobs; 2]>) -> ([Jobs; 2], [Option<Outcome>; 2]) {
    let Some([of_stable, of_new]) = before else {
        // When stable broke its limits is not known: perhaps long ago, perhaps by what both were just given.
        let of_stable = Jobs { out_of_limits: stable.out_of_limits, ..stable.at_first_look() };
        let came = [stable.since(of_stable).outcome(Jobs::default()), new.since(new.at_first_look()).outcome(stable)];
        return ([stable, new], came);
    };
    let [stable, new] = [stable.after(of_stable), new.after(of_new)];
    let did = stable.since(of_stable);
    ([stable, new], [did.outcome(Jobs::default()), new.since(of_new).outcome(did)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(came: [Option<Outcome>; 2]) -> [Option<Breach>; 2] {
        came.map(|one| one.and_then(|one| one.breach))
    }

    #[test]
    fn jobs_of_a_look_are_one_call_and_the_worst_of_them_is_told() {
        let before = Jobs { all: 100, unexplained: 3, late: 3, over: 0, failed: 1, out_of_limits: 2 };
        let after = |late: u64, over: u64, failed: u64, broken: u64| {
            let (late, failed, out_of_limits) = (3 + late, 1 + failed, 2 + broken);
            let now = Jobs { all: 200, unexplained: late, late, over, failed, out_of_limits };
            now.since(before).outcome(Jobs::default()).expect("there were jobs")
        };
        assert_eq!(after(0, 0, 0, 0), Outcome::default(), "what was before says nothing");
        for (late, over, failed, broken, breach) in [
            (5, 0, 0, 0, Breach::Deadline),
            (5, 0, 0, 1, Breach::Refusal),
            (5, 0, 1, 1, Breach::Crash),
            (5, 1, 1, 1, Breach::Budget),
        ] {
            let came = after(late, over, failed, broken);
            assert_eq!((came.is_error, came.is_refused, came.breach), (true, broken > 0, Some(breach)));
        }
        assert_eq!(before.since(before).outcome(Jobs::default()), None);
    }

    #[test]
    fn a_version_that_is_suspended_in_its_first_job_is_heard_of_and_a_stable_one_that_rests_hides_nothing() {
        let stable = Jobs { all: 900, unexplained: 2, late: 2, ..Jobs::default() };
        let suspended = Jobs { all: 1, over: 1, ..Jobs::default() };
        let (noted, came) = look([stable, suspended], None);
        assert_eq!(breaches(came), [None, Some(Breach::Budget)]);
        assert_eq!(look([stable, suspended], Some(noted)).1, [None, None], "it is counted once");

        let late = Jobs { all: 50, unexplained: 1, late: 1, ..Jobs::default() };
        let (noted, came) = look([stable, late], None);
        assert_eq!(breaches(came), [None, None], "it was just started");
        let failed = Jobs { all: 60, failed: 1, ..late };
        let (_, rests) = look([stable, failed], Some(noted));
        assert!(rests[0].is_none(), "{rests:?}");
        assert_eq!(breaches(rests), [None, Some(Breach::Crash)]);
    }

    #[test]
    fn one_job_that_breaks_its_limits_is_enough_unless_stable_breaks_them_too() {
        let jobs = |all: u64, out_of_limits: u64| Jobs { all, out_of_limits, ..Jobs::default() };
        let refused = |breach: Option<Breach>| Some(Outcome { is_refused: true, breach, ..Outcome::default() });
        let good = Some(Outcome::default());
        let (noted, came) = look([jobs(900, 0), jobs(50, 50)], None);
        assert_eq!(came, [good, refused(Some(Breach::Refusal))]);
        let (noted, came) = look([jobs(1_000, 1), jobs(150, 150)], Some(noted));
        assert_eq!(came, [refused(Some(Breach::Refusal)), refused(None)], "it is as bad of both");
        let (_, came) = look([jobs(1_100, 1), jobs(250, 151)], Some(noted));
        assert_eq!(came, [good, refused(Some(Breach::Refusal))], "whether stable did it before is known to who counts");

        let (noted, came) = look([jobs(900, 7), jobs(50, 1)], None);
        assert_eq!(came, [good, refused(None)], "stable may have been given what breaks both");
        let (_, came) = look([jobs(1_000, 7), jobs(150, 2)], Some(noted));
        assert_eq!(came, [good, refused(Some(Breach::Refusal))]);
    }

    #[test]
    fn what_stable_does_as_well_hides_nothing_else_that_the_new_version_does() {
        let stable = Jobs { all: 100, out_of_limits: 4, ..Jobs::default() };
        let new = Jobs { late: 1, ..stable };
        assert_eq!(new.outcome(stable).and_then(|came| came.breach), Some(Breach::Deadline));
    }

    #[test]
    fn a_late_job_is_judged_at_the_look_after_when_what_explains_it_is_known() {
        let jobs = |all: u64, unexplained: u64| Jobs { all, unexplained, late: unexplained, ..Jobs::default() };
        let (mut noted, _) = look([jobs(10, 0), jobs(10, 2)], None);
        let late = Some(Outcome { is_error: true, breach: Some(Breach::Deadline), ..Outcome::default() });
        let mut all = 10;
        for (unexplained, runs, came, why) in [
            (3, 10, None, "it may be explained yet"),
            (2, 10, Some(Outcome::default()), "a stall explained it"),
            (3, 10, None, "another one"),
            (4, 10, late, "it is still unexplained, and so may the next one be"),
            (4, 0, late, "also where nothing ran since"),
            (4, 10, Some(Outcome::default()), "each is counted once"),
        ] {
            all += runs;
            let (now, told) = look([jobs(all, 0), jobs(all, unexplained)], Some(noted));
            assert_eq!(told[1], came, "{why}");
            noted = now;
        }

        // Of stable at the same look, so that a miss of both is known of it by then.
        let (noted, _) = look([jobs(10, 0), jobs(10, 0)], None);
        let (noted, _) = look([jobs(20, 1), jobs(20, 1)], Some(noted));
        let (_, came) = look([jobs(30, 1), jobs(30, 1)], Some(noted));
        assert_eq!(breaches(came), [Some(Breach::Deadline), None]);
    }
}
