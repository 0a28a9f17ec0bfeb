//! Who may do what with runs, and their bounds.

use super::super::{RUN_RESULTS_MAX, RUNS_BYTES_MAX, RUNS_FINISHED_MAX};
use super::*;

fn single() -> Workflow {
    workflow([Step::new("one", &[], task("{{input}}"))])
}

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
}
