//! Who may do what with runs, and their bounds.

use althing_protocol::group::{Missed, Rule, Schedule};

use super::super::{RUN_RESULTS_MAX, RUNS_BYTES_MAX, RUNS_FINISHED_MAX, RUNS_UNFINISHED_MAX};
use super::*;

fn single() -> Workflow {
    workflow([Step::new("one", &[], task("{{input}}"))])
}

/// P-126, P-134
#[test]
fn a_canceled_run_ends_its_tasks_and_stays_as_it_is() {
    let mut group = begun(workflow([Step::new("a", &[], task("")), Step::new("b", &[], task(""))]), "");
    let (done, other) = (open(&group, "a"), open(&group, "b"));
    complete_task(&mut group, done, "1");
    let unknown = WorkId::from_bytes([8; 16]);
    assert_eq!(group.execute(member(1), &Command::CancelRun(unknown)), Err(Refusal::UnknownRun(unknown)));
    assert!(matches!(group.execute(member(2), &Command::CancelRun(RUN)), Err(Refusal::NotPermitted(_))));
    assert_eq!(group.execute(owner(), &Command::CancelRun(RUN)), Ok(None));
    assert!(group.work.tasks().get(&other).expect("it is kept").state.is_finished());
    let ended = Refusal::RunState { run: RUN, state: RunState::Canceled };
    assert_eq!(group.execute(owner(), &Command::CancelRun(RUN)), Err(ended.clone()));
    assert_eq!(group.execute(owner(), &Command::ResumeRun(RUN)), Err(ended.clone()));
    assert_eq!(group.execute(owner(), &run_of(single(), "")), Err(ended), "an id is used once");
    restart(&mut group);
}

/// P-125, P-133
#[test]
fn only_who_began_a_run_and_the_owners_resume_it_and_only_if_it_failed() {
    let mut group = begun(single(), "");
    let running = Refusal::RunState { run: RUN, state: RunState::Running };
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Err(running));
    let task = open(&group, "one");
    assert_eq!(group.execute(member(1), &Command::Cancel(task)), Ok(None), "a task of a step may be canceled");
    assert_eq!(run(&group).state, RunState::Failed);
    assert!(matches!(group.execute(member(2), &Command::ResumeRun(RUN)), Err(Refusal::NotPermitted(_))));
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
}

/// P-126, P-136
#[test]
fn runs_that_ended_are_forgotten_and_those_that_did_not_are_bounded() {
    let mut group = group();
    let large = "x".repeat(60 << 10);
    let id = |number: u32| WorkId::from_bytes(u128::from(number).to_be_bytes());
    let run = |number: u32, input: &str| {
        let command = RunWorkflow { run: id(number), workflow: single(), input: input.to_owned() };
        Command::RunWorkflow(Box::new(command))
    };
    let refused = (0..).find(|number| group.execute(member(1), &run(*number, &large)).is_err());
    let count = refused.expect("a bound is reached");
    assert!((150..=220).contains(&count) && group.flows.runs().bytes() <= RUNS_BYTES_MAX, "{count}");
    for number in 0..count {
        assert_eq!(group.execute(member(1), &Command::CancelRun(id(number))), Ok(None));
    }
    for number in 1_000..1_300 {
        assert!(group.execute(member(1), &run(number, "")).is_ok());
        assert_eq!(group.execute(member(1), &Command::CancelRun(id(number))), Ok(None));
    }
    assert_eq!(group.flows.runs().len(), RUNS_FINISHED_MAX);
    assert!(group.flows.runs().get(&id(0)).is_none() && group.flows.runs().get(&id(1_299)).is_some());
    restart(&mut group);
}

/// P-136, SG-11: who begins and cancels runs without end forgets its own, and no other owner's.
#[test]
fn one_owners_ended_runs_do_not_end_the_memory_of_anothers() {
    let mut group = begun(single(), "");
    assert_eq!(group.execute(member(1), &Command::CancelRun(RUN)), Ok(None));
    group.members.join(node(3), PublisherId::from_digest([2; 32]), Vec::new(), None, 5).expect("another member");
    let id = |number: u32| WorkId::from_bytes(u128::from(number).to_be_bytes());
    let large = "x".repeat(60 << 10);
    for number in 0..600 {
        let input = if number < 300 { String::new() } else { large.clone() };
        let command = RunWorkflow { run: id(number), workflow: single(), input };
        assert!(group.execute(member(3), &Command::RunWorkflow(Box::new(command))).is_ok());
        assert_eq!(group.execute(member(3), &Command::CancelRun(id(number))), Ok(None));
        assert!(group.flows.runs().len() <= RUNS_FINISHED_MAX && group.flows.runs().bytes() <= RUNS_BYTES_MAX);
        assert!(group.flows.runs().get(&RUN).is_some(), "another owner's, after {number}");
    }
    assert!(group.flows.runs().get(&id(599)).is_some() && group.flows.runs().get(&id(300)).is_none());
    restart(&mut group);
}

/// P-125
#[test]
fn the_charter_says_who_runs_approves_and_schedules() {
    let mut group = group();
    let ask = workflow([Step::new("ask", &[], Action::Approval("?".to_owned()))]);
    let charter = group.charter.as_mut().expect("it is founded");
    charter.policy.write = Rule::Owners;
    let other = Author::Publisher(PublisherId::from_digest([2; 32]));
    let scheduled = Schedule {
        name: "hourly".to_owned(),
        cron: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::Skip,
        overlap: None,
        workflow: single(),
        input: String::new(),
    };
    for command in [run_of(ask, ""), approve("ask", 0, true), Command::Schedule(Box::new(scheduled))] {
        for author in [member(1), other] {
            assert!(matches!(group.execute(author, &command), Err(Refusal::NotPermitted(_))), "{command:?}");
        }
        assert!(group.execute(owner(), &command).is_ok(), "{command:?}");
    }
    for command in [Command::CancelRun(RUN), Command::ResumeRun(RUN), Command::Unschedule("hourly".to_owned())] {
        for author in [member(1), other] {
            assert!(matches!(group.execute(author, &command), Err(Refusal::NotPermitted(_))), "{command:?}");
        }
    }
}

/// P-132, P-133, P-134
#[test]
fn a_run_that_is_not_there_is_named() {
    let mut group = group();
    for command in [approve("ask", 0, true), Command::CancelRun(RUN), Command::ResumeRun(RUN)] {
        assert_eq!(group.execute(owner(), &command), Err(Refusal::UnknownRun(RUN)));
    }
    group = begun(single(), "");
    complete(&mut group, "one", "done");
    let ended = Err(Refusal::RunState { run: RUN, state: RunState::Completed });
    for command in [Command::CancelRun(RUN), Command::ResumeRun(RUN), run_of(single(), "")] {
        assert_eq!(group.execute(owner(), &command), ended);
    }
    assert_eq!(group.execute(owner(), &approve("one", 0, true)), Err(Refusal::NotAsked("one".to_owned())));
    assert_eq!(group.execute(owner(), &approve("none", 0, true)), Err(Refusal::NotAsked("none".to_owned())));
}

/// P-126, P-133
#[test]
fn a_group_has_a_bounded_number_of_runs_that_have_not_ended() {
    let mut group = begun(single(), "");
    let failing = open(&group, "one");
    fail_task(&mut group, failing, false);
    for number in 0..RUNS_UNFINISHED_MAX {
        let run = WorkId::from_bytes((number as u128).to_be_bytes());
        let command = RunWorkflow { run, workflow: single(), input: String::new() };
        assert_eq!(group.execute(member(1), &Command::RunWorkflow(Box::new(command))), Ok(Some(number as u64 + 2)));
    }
    let another = RunWorkflow { run: WorkId::from_bytes([9; 16]), workflow: single(), input: String::new() };
    let refused = group.execute(member(1), &Command::RunWorkflow(Box::new(another)));
    assert!(matches!(refused, Err(Refusal::Full(_))), "{refused:?}");
    assert!(matches!(group.execute(member(1), &Command::ResumeRun(RUN)), Err(Refusal::Full(_))));
}

/// P-124, P-129
#[test]
fn results_that_are_too_large_fail_their_step() {
    let ids: Vec<String> = (0..20).map(|at| format!("s{at}")).collect();
    let mut group = begun(workflow(ids.iter().map(|id| Step::new(id, &[], task("")))), "");
    let large = "x".repeat(60 << 10);
    for id in &ids {
        complete(&mut group, id, &large);
    }
    assert_eq!(run(&group).state, RunState::Failed);
    assert!(run(&group).results_bytes() <= RUN_RESULTS_MAX);
    restart(&mut group);
    let pair = [Step::new("a", &[], task("")), Step::new("b", &["a"], task("{{step.a}}{{step.a}}"))];
    let mut group = begun(workflow(pair), "");
    complete(&mut group, "a", &large);
    assert_eq!(run(&group).failure().map(|(step, _)| step), Some("b"), "its input would be too large");
}

/// P-105
#[test]
fn rows_that_contradict_themselves_are_refused() {
    let group = begun(single(), "");
    let rows: Vec<FlowRow> = group.flows.rows().collect();
    let read = |rows: &[FlowRow], work: &mut Work| {
        let mut reading = Reading::default();
        rows.iter().try_for_each(|row| reading.take(row.clone())).and_then(|()| reading.finish(work).map(drop))
    };
    assert!(read(&rows, &mut Work::default()).is_err(), "its task is missing");
    assert!(read(&rows[..2], &mut Work::default()).is_err(), "its step is missing");
    assert!(read(&rows[2..], &mut Work::default()).is_err(), "its run is missing");
    let twice = [rows[1].clone(), rows[2].clone(), rows[1].clone()];
    assert!(read(&twice, &mut Work::default()).is_err(), "it is there twice");
    let FlowRow::Run(mut changed) = rows[1].clone() else { panic!("a run") };
    changed.state = RunState::Completed;
    assert!(read(&[FlowRow::Run(changed)], &mut Work::default()).is_err(), "it completed and did not end");
    let FlowRow::Step(_, mut step) = rows[2].clone() else { panic!("a step") };
    (step.round, step.round_first) = (0, 1);
    let early = [rows[1].clone(), FlowRow::Step(RUN, step.clone())];
    assert!(read(&early, &mut group.work.clone()).is_err(), "its loop began in a later round");
    (step.round, step.round_first) = (u32::MAX, 0);
    assert!(read(&[rows[1].clone(), FlowRow::Step(RUN, step)], &mut group.work.clone()).is_err());
    assert!(read(&[FlowRow::Counts(u64::MAX, 0)], &mut Work::default()).is_err(), "no run could begin any more");
}

/// P-105
#[test]
fn rows_of_schedules_that_cannot_be_are_refused() {
    let mut group = group();
    let schedule = Schedule {
        name: "hourly".to_owned(),
        cron: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::Skip,
        overlap: None,
        workflow: single(),
        input: String::new(),
    };
    assert_eq!(group.execute(member(1), &Command::Schedule(Box::new(schedule))), Ok(None));
    let rows: Vec<FlowRow> = group.flows.rows().collect();
    let [_, FlowRow::Schedule(row)] = rows.as_slice() else { panic!("a schedule") };
    let read = |rows: &[FlowRow]| rows.iter().try_for_each(|row| Reading::default().take(row.clone()));
    assert_eq!(read(&rows), Ok(()));
    let mut reading = Reading::default();
    assert!(reading.take(rows[1].clone()).is_ok() && reading.take(rows[1].clone()).is_err(), "it is there twice");
    let (mut endless, mut nameless) = (row.clone(), row.clone());
    endless.schedule.workflow.steps = (0..65).map(|at| Step::new(&format!("s{at}"), &[], task(""))).collect();
    nameless.schedule.name = String::new();
    for wrong in [endless, nameless] {
        assert!(read(&[FlowRow::Schedule(wrong)]).is_err());
    }
}
