use althing_protocol::group::{Action, Author, Job, Needs, Step, Target, Workflow};

use super::*;

/// 2026-03-29, the day on which Berlin's clocks go from 2:00 to 3:00, at 0:00 UTC.
const SPRING_MS: u64 = 1_774_742_400_000;
/// 2026-10-25, the day on which they go from 3:00 back to 2:00, at 0:00 UTC.
const AUTUMN_MS: u64 = 1_792_886_400_000;
const HOUR_MS: u64 = 3_600_000;

fn schedule(cron: &str, zone: &str) -> Schedule {
    let job = Job::new(Needs::of(Target::Capability("echo".to_owned())), "x");
    let steps = vec![Step::new("one", &[], Action::Task(Box::new(job)))];
    Schedule {
        name: "nightly".to_owned(),
        cron: cron.to_owned(),
        zone: zone.to_owned(),
        missed: Missed::Skip,
        overlap: None,
        workflow: Workflow { name: "one".to_owned(), steps },
        input: String::new(),
    }
}

fn scheduled(cron: &str, missed: Missed, since_ms: u64) -> Scheduled {
    Scheduled {
        schedule: Schedule { missed, ..schedule(cron, "UTC") },
        author: Author::Publisher(althing_protocol::PublisherId::from_digest([1; 32])),
        owner: althing_protocol::PublisherId::from_digest([1; 32]),
        since_ms,
        last_ms: None,
        last_run: None,
        failures: 0,
        alarm_ms: None,
        omissions: None,
    }
}

/// The times of a day, in hours after its beginning in UTC.
fn hours(cron: &str, day_ms: u64) -> Vec<f64> {
    let found = upcoming(&schedule(cron, "Europe/Berlin"), day_ms - 2 * HOUR_MS, UPCOMING_MAX).expect("it has times");
    let of = |ms: u64| (ms as f64 - day_ms as f64) / HOUR_MS as f64;
    found.into_iter().filter(|ms| *ms < day_ms + 22 * HOUR_MS).map(of).collect()
}

#[test]
fn a_time_that_the_clocks_pass_over_comes_when_they_have_and_one_that_comes_twice_counts_once() {
    assert_eq!(hours("30 2 * * *", SPRING_MS), [1.0], "2:30 is not there: 3:00 stands for it");
    assert_eq!(hours("0 4 * * *", SPRING_MS), [2.0], "4:00 in summer time");
    assert_eq!(hours("30 2 * * *", AUTUMN_MS), [0.5], "the first 2:30 of two");
    assert_eq!(hours("0 4 * * *", AUTUMN_MS), [3.0], "4:00 in winter time");
}

#[test]
fn a_time_counts_within_a_minute_and_later_only_where_the_schedule_says_so() {
    let (six, since) = (SPRING_MS + 6 * HOUR_MS, SPRING_MS);
    let at = |missed, now_ms| look(&scheduled("0 6 * * *", missed, since), now_ms).expect("it has times");
    let next = Some(six + 24 * HOUR_MS);
    assert_eq!(at(Missed::Skip, six - 1), (None, Some(six)));
    assert_eq!(at(Missed::Skip, six), (Some(six), next));
    assert_eq!(at(Missed::Skip, six + MISSED_MS), (Some(six), next));
    assert_eq!(at(Missed::Skip, six + MISSED_MS + 1), (None, next));
    assert_eq!(at(Missed::RunOnce, six + 5 * HOUR_MS), (Some(six), next));
    assert_eq!(
        at(Missed::RunOnce, six + 77 * HOUR_MS),
        (Some(six + 72 * HOUR_MS), Some(six + 96 * HOUR_MS)),
        "the last"
    );
    let counted = Scheduled { last_ms: Some(six), ..scheduled("0 6 * * *", Missed::RunOnce, since) };
    assert_eq!(look(&counted, six + 5 * HOUR_MS).expect("it has times").0, None, "it counted");
    let new = scheduled("0 6 * * *", Missed::RunOnce, six + 1);
    assert_eq!(look(&new, six + 2).expect("it has times").0, None, "the schedule is newer");
}

#[test]
fn what_is_no_schedule_is_refused_with_what_to_write() {
    let refused = |cron: &str, zone: &str| upcoming(&schedule(cron, zone), SPRING_MS, 1).expect_err(cron);
    for cron in ["", "* * * *", "61 * * * *", "0 0 0 * * *", "@never", "a b c d e", "0 0 32 * *", "*/90 * * * *"] {
        assert!(matches!(refused(cron, "UTC"), CalendarError::Pattern { .. }), "{cron:?}");
    }
    let said = refused("0 */30 * * *", "UTC").to_string();
    assert!(said.contains("\"0 */30 * * *\" is no pattern of cron: the hour has the step 30"), "{said}");
    assert_eq!(refused("0 6 * * *", "Berlin"), CalendarError::Zone("Berlin".to_owned()));
    assert_eq!(refused("0 6 30 2 *", "UTC"), CalendarError::Never("0 6 30 2 *".to_owned()));
}

#[test]
fn ranges_over_the_end_of_a_day_and_of_a_week_and_what_is_special_have_their_times() {
    let day_ms = SPRING_MS - 12 * 24 * HOUR_MS;
    assert_eq!(hours("0 22-2 * * *", day_ms), [-1.0, 0.0, 1.0, 21.0], "winter time is an hour ahead");
    let days = |cron: &str, count: usize| -> Vec<u64> {
        let found = upcoming(&schedule(cron, "UTC"), SPRING_MS, count).expect("it has times");
        found.into_iter().map(|ms| (ms - SPRING_MS) / (24 * HOUR_MS)).collect()
    };
    // SPRING_MS is a Sunday.
    assert_eq!(days("0 9 * * fri-mon", 5), [0, 1, 5, 6, 7]);
    assert_eq!(days("0 9 * * sunday", 2), [0, 7]);
    assert_eq!(days("0 9 L * *", 2), [2, 32], "the last of March and of April");
    assert_eq!(days("0 9 * * fri#1", 1), [5], "the third of April");
    assert_eq!(days("0 9 * * 5L", 1), [26], "the twenty-fourth of April");
    assert_eq!(days("0 9 1w * *", 1), [3]);
}

#[test]
fn after_an_outage_schedules_catch_up_one_after_the_other() {
    let mut catch_up = CatchUp::default();
    let mut at = |name: &str, now_ms| catch_up.wait(name, now_ms);
    assert_eq!((at("a", 5), at("b", 5), at("c", 5)), (None, Some(5 + CATCH_UP_GAP_MS), Some(5 + CATCH_UP_GAP_MS)));
    assert_eq!(at("a", 6), None, "it is said again until the state has it");
    let later = 5 + CATCH_UP_GAP_MS;
    assert_eq!((at("b", later), at("c", later)), (None, Some(later + CATCH_UP_GAP_MS)));
    assert_eq!(at("c", later + CATCH_UP_GAP_MS), None);
}
