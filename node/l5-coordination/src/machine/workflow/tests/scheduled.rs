//! Schedules: each time counts once, and the third failure in a row raises an alarm.

use althing_protocol::group::{Fire, Missed, Overlap, Rule, Schedule};

use super::*;

fn schedule(name: &str) -> Command {
    overlapping(name, None)
}

fn overlapping(name: &str, overlap: Option<Overlap>) -> Command {
    Command::Schedule(Box::new(Schedule {
        name: name.to_owned(),
        cron: "0 * * * *".to_owned(),
        zone: "Europe/Berlin".to_owned(),
        missed: Missed::Skip,
        overlap,
        workflow: workflow([Step::new("one", &[], task("{{input}}"))]),
        input: "x".to_owned(),
    }))
}

fn fire(at_ms: u64, since_ms: u64) -> Command {
    Command::Fire(Fire { name: "hourly".to_owned(), at_ms, since_ms })
}

fn scheduled(group: &Group) -> (u32, Option<u64>) {
    let known = group.flows.schedules().get("hourly").expect("it is there");
    (known.failures, known.alarm_ms)
}

/// Ends the last run of the schedule.
fn end(group: &mut Group, completes: bool) {
    let last = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    let (.., task) = group.flows.runs().get(&last).expect("it is there").open().next().expect("a task");
    if completes { complete_task(group, task, "ok") } else { fail_task(group, task, false) }
}

/// P-125, P-138
#[test]
fn a_time_counts_once_after_those_before_and_not_before_it_has_come() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &fire(1_500, 1_000)), Err(Refusal::UnknownSchedule("hourly".to_owned())));
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    group.advance(5_000);
    let not_due = |last_ms| Err(Refusal::NotDue { last_ms });
    assert_eq!(group.execute(member(2), &fire(1_000, 1_000)), not_due(1_000), "it was made then");
    assert_eq!(group.execute(member(2), &fire(5_001, 1_000)), not_due(1_000), "it has not come");
    assert!(matches!(group.execute(owner(), &fire(3_000, 1_000)), Err(Refusal::Author(_))));
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(Some(1)));
    restart(&mut group);
    assert_eq!(group.execute(member(1), &fire(3_000, 1_000)), not_due(3_000), "another leader says it again");
    assert_eq!(group.execute(member(1), &fire(2_000, 1_000)), not_due(3_000));
    assert_eq!(group.execute(member(1), &fire(4_000, 1_000)), Ok(Some(2)));
    let run = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    assert_eq!(group.flows.runs().get(&run).map(|run| run.author), Some(member(1)), "who made the schedule");
    // Another schedule of that name: what was said of the first one is not meant.
    assert!(matches!(group.execute(member(2), &schedule("hourly")), Err(Refusal::NotPermitted(_))));
    assert_eq!(group.execute(owner(), &schedule("hourly")), Ok(None));
    assert!(group.execute(member(1), &fire(4_500, 1_000)).is_err());
    assert_eq!(group.execute(owner(), &Command::Unschedule("hourly".to_owned())), Ok(None));
    assert!(group.execute(owner(), &Command::Unschedule("hourly".to_owned())).is_err());
}

/// P-139
#[test]
fn the_third_failure_in_a_row_raises_one_alarm_and_a_completion_ends_it() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    let mut at_ms = 1_000;
    let mut next = |group: &mut Group, completes: bool| {
        at_ms += 1_000;
        group.advance(at_ms);
        assert!(group.execute(member(1), &fire(at_ms, 1_000)).is_ok());
        end(group, completes);
        restart(group);
        scheduled(group)
    };
    assert_eq!(next(&mut group, false), (1, None));
    assert_eq!(next(&mut group, false), (2, None));
    assert_eq!(next(&mut group, true), (0, None));
    assert_eq!(next(&mut group, false), (1, None));
    assert_eq!(next(&mut group, false), (2, None));
    assert_eq!(next(&mut group, false), (3, Some(7_000)));
    assert_eq!(next(&mut group, false), (4, Some(7_000)), "it is the same alarm");
    assert_eq!(group.flows.schedules().alarms().count(), 1);
    assert_eq!(next(&mut group, true), (0, None));
}

/// P-137
#[test]
fn a_group_has_a_bounded_number_of_schedules() {
    let mut group = group();
    let name = |at: usize| format!("s{at}");
    for at in 0..super::super::SCHEDULES_MAX {
        assert_eq!(group.execute(member(1), &schedule(&name(at))), Ok(None));
    }
    assert!(matches!(group.execute(member(1), &schedule("more")), Err(Refusal::Full(_))));
    assert_eq!(group.execute(member(1), &schedule("s1")), Ok(None), "it replaces one");
}

/// P-138: the id was computed by another program.
#[test]
fn the_id_of_a_run_follows_from_the_schedule_and_the_time() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    group.advance(5_000);
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(Some(1)));
    let run = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    assert_eq!(run.to_string(), "51a22f761de1740d16e1b6d1b1cf36d0");
}

/// P-138, P-139
#[test]
fn a_time_whose_run_cannot_begin_counts_as_a_failure() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    group.advance(5_000);
    let taken = RunWorkflow {
        run: "51a22f761de1740d16e1b6d1b1cf36d0".parse().expect("an id"),
        workflow: workflow([Step::new("one", &[], task(""))]),
        input: String::new(),
    };
    assert_eq!(group.execute(member(2), &Command::RunWorkflow(Box::new(taken))), Ok(Some(1)));
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(None));
    assert_eq!(scheduled(&group), (1, None));
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Err(Refusal::NotDue { last_ms: 3_000 }));
}

/// P-138
#[test]
fn a_run_is_its_authors_whatever_the_charter_says_now() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    group.charter.as_mut().expect("it is founded").policy.write = Rule::Owners;
    group.advance(5_000);
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(Some(1)));
    end(&mut group, true);
    assert_eq!(scheduled(&group), (0, None));
}

/// P-139
#[test]
fn each_end_of_a_run_counts_for_its_own_schedule_and_a_canceled_run_counts_nothing() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    group.advance(5_000);
    assert!(group.execute(member(1), &fire(2_000, 1_000)).is_ok());
    end(&mut group, false);
    let run = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    assert_eq!(group.execute(member(1), &Command::ResumeRun(run)), Ok(None));
    end(&mut group, false);
    assert_eq!(scheduled(&group), (2, None));
    assert_eq!(group.execute(member(1), &Command::CancelRun(run)), Ok(None));
    assert!(group.execute(member(1), &fire(3_000, 1_000)).is_ok());
    let canceled = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    assert_eq!(group.execute(member(1), &Command::CancelRun(canceled)), Ok(None));
    assert_eq!(scheduled(&group), (2, None));
    assert!(group.execute(member(1), &fire(4_000, 1_000)).is_ok());
    let last = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
    let (.., task) = group.flows.runs().get(&last).and_then(|run| run.open().next()).expect("a task");
    // What its run comes to is nothing to the schedule in its place.
    assert_eq!(group.execute(member(1), &schedule("hourly")), Ok(None));
    fail_task(&mut group, task, false);
    assert_eq!(scheduled(&group), (0, None));
}

/// P-138
#[test]
fn a_time_that_comes_while_a_run_has_not_ended_begins_another_is_passed_over_or_replaces_it() {
    let states = |group: &Group| -> Vec<RunState> {
        let mut runs: Vec<_> = group.flows.runs().iter().collect();
        runs.sort_by_key(|run| run.number);
        runs.into_iter().map(|run| run.state).collect()
    };
    let (running, completed, canceled) = (RunState::Running, RunState::Completed, RunState::Canceled);
    for (overlap, second, wanted) in [
        (None, Some(2), vec![running, running]),
        (Some(Overlap::Skip), None, vec![running]),
        (Some(Overlap::Replace), Some(2), vec![canceled, running]),
    ] {
        let mut group = group();
        assert_eq!(group.execute(member(1), &overlapping("hourly", overlap)), Ok(None));
        group.advance(5_000);
        assert_eq!(group.execute(member(1), &fire(2_000, 1_000)), Ok(Some(1)));
        assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(second), "{overlap:?}");
        assert_eq!(states(&group), wanted, "{overlap:?}");
        assert_eq!(scheduled(&group), (0, None), "no failure: {overlap:?}");
        restart(&mut group);
        let known = group.flows.schedules().get("hourly").expect("it is there").clone();
        assert_eq!(known.last_ms, Some(3_000), "the time counted: {overlap:?}");
        let omissions = known.omissions.map(|omissions| (omissions.count, omissions.last_ms));
        assert_eq!(omissions, (overlap == Some(Overlap::Skip)).then_some((1, 3_000)), "{overlap:?}");
        // Once it has ended, the next time begins one.
        if overlap == Some(Overlap::Skip) {
            end(&mut group, true);
            assert_eq!(group.execute(member(1), &fire(4_000, 1_000)), Ok(Some(2)));
            assert_eq!(states(&group), [completed, running]);
        }
    }
}

/// P-138
#[test]
fn a_run_of_the_schedule_that_was_replaced_is_in_nobodys_way() {
    let mut group = group();
    assert_eq!(group.execute(member(1), &overlapping("hourly", Some(Overlap::Skip))), Ok(None));
    group.advance(2_000);
    assert_eq!(group.execute(member(1), &fire(2_000, 1_000)), Ok(Some(1)));
    assert_eq!(group.execute(member(1), &overlapping("hourly", Some(Overlap::Skip))), Ok(None));
    group.advance(4_000);
    assert_eq!(group.execute(member(1), &fire(3_000, 2_000)), Ok(Some(2)));
}

/// It has not ended, and does not look as if it worked.
#[test]
fn a_run_that_waits_for_approval_lets_times_pass_and_is_named() {
    let mut group = group();
    let Command::Schedule(mut asks) = overlapping("hourly", Some(Overlap::Skip)) else { panic!("a schedule") };
    let ask = Step::new("ask", &["one"], Action::Approval("?".to_owned()));
    asks.workflow = workflow([Step::new("one", &[], task("{{input}}")), ask]);
    assert_eq!(group.execute(member(1), &Command::Schedule(asks)), Ok(None));
    group.advance(5_000);
    assert_eq!(group.execute(member(1), &fire(2_000, 1_000)), Ok(Some(1)));
    let asking = |group: &Group| {
        let known = group.flows.schedules().get("hourly").expect("it is there");
        group.flows.asking(known).map(|(run, step)| (run.number, step.to_owned()))
    };
    assert_eq!(asking(&group), None, "it works");
    end(&mut group, true);
    restart(&mut group);
    assert_eq!(asking(&group), Some((1, "ask".to_owned())));
    assert_eq!(group.execute(member(2), &fire(3_000, 1_000)), Ok(None));
    let known = group.flows.schedules().get("hourly").expect("it is there");
    assert_eq!(known.omissions.map(|omissions| omissions.count), Some(1));
    let run = known.last_run.expect("it ran");
    let yes = Approve { run, step: "ask".to_owned(), round: 0, approved: true, note: String::new() };
    assert_eq!(group.execute(owner(), &Command::Approve(yes)), Ok(None));
    assert_eq!(asking(&group), None);
    assert_eq!(group.execute(member(2), &fire(4_000, 1_000)), Ok(Some(2)));
    // Of a schedule that was replaced, no run is named.
    assert_eq!(group.execute(member(1), &overlapping("hourly", Some(Overlap::Skip))), Ok(None));
    assert_eq!(asking(&group), None);
}
