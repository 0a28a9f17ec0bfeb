//! The bounds of number and of bytes.

use althing_protocol::group::Depend;

use super::super::dependencies::SEARCH_TASKS_MAX;
use super::super::tasks::RESULT_BYTES_RESERVED;
use super::super::{TASKS_CONTENDING_MAX, TASKS_FINISHED_MAX, TASKS_UNFINISHED_MAX, WORK_BYTES_MAX};
use super::*;

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("small")
}

fn large(bytes: usize) -> Content {
    Content::Inline(vec![7; bytes].into())
}

fn run_to_the_end(group: &mut Group, which: u32) {
    let claim = assign(group, which, 1).expect("it is ready");
    group.execute(member(1), &complete(claim)).expect("it has it");
}

/// P-120
#[test]
fn unfinished_tasks_are_bounded_in_number() {
    let mut group = group(1);
    let most = number(TASKS_UNFINISHED_MAX);
    for which in 0..most {
        group.execute(owner(), &submit(task(which))).expect("room");
    }
    assert!(matches!(group.execute(owner(), &submit(task(most))), Err(Refusal::Full(_))));
    run_to_the_end(&mut group, 0);
    group.execute(owner(), &submit(task(most))).expect("one ended");
    assert_eq!(group.work.tasks().unfinished(), TASKS_UNFINISHED_MAX);
}

/// P-120
#[test]
fn finished_tasks_are_forgotten_but_for_the_last_ones_and_those_that_are_needed() {
    let mut group = group(1);
    let key = |which: u32| Some(which.to_be_bytes().to_vec().into());
    let most = number(TASKS_FINISHED_MAX);
    for which in 0..most + 3 {
        group.execute(owner(), &submit(Submit { key: key(which), ..task(which) })).expect("room");
    }
    run_to_the_end(&mut group, 0);
    let open = most + 2;
    group.execute(owner(), &Command::Depend(Depend { task: id(open), on: id(0) })).expect("no circle");
    for which in 1..open {
        run_to_the_end(&mut group, which);
    }
    let known = |group: &Group, which| group.work.tasks().get(&id(which)).is_some();
    assert!(known(&group, 0), "a task that is not finished depends on it");
    assert!(!known(&group, 1) && known(&group, 2), "the first one that ended is forgotten");
    assert_eq!(group.work.tasks().len(), TASKS_FINISHED_MAX + 2);
    assert_eq!(group.work.tasks().find(owner(), &1u32.to_be_bytes()), None, "and its key with it");
    assert_eq!(restored(&group), group);
    run_to_the_end(&mut group, open);
    assert!(!known(&group, 0) && known(&group, 3), "it is needed no more, and ended first");
    assert_eq!(group.work.tasks().len(), TASKS_FINISHED_MAX);
}

/// P-120
#[test]
fn inputs_leave_room_for_results_and_finished_tasks_make_room_for_others() {
    let mut group = group(1);
    let with = |which| submit(Submit { input: large(64 << 10), ..task(which) });
    let fit = number((WORK_BYTES_MAX - RESULT_BYTES_RESERVED) >> 16);
    for which in 0..fit {
        group.execute(owner(), &with(which)).expect("room");
    }
    let before = group.clone();
    assert!(matches!(group.execute(owner(), &with(fit)), Err(Refusal::Full(_))));
    assert_eq!(group, before, "what is refused changes nothing");
    let claim = assign(&mut group, 0, 1).expect("it is ready");
    let result = Command::Complete(Complete { claim, result: large(64 << 10) });
    group.execute(member(1), &result).expect("room for results is reserved");
    group.execute(owner(), &with(fit)).expect("the finished task is forgotten for it");
    assert!(group.work.tasks().get(&id(0)).is_none());
    assert_eq!(group.work.tasks().bytes(), WORK_BYTES_MAX - RESULT_BYTES_RESERVED);
}

/// P-120
#[test]
fn results_are_bounded_too_when_what_they_are_for_is_needed() {
    let mut group = group(1);
    let fit = number((WORK_BYTES_MAX - RESULT_BYTES_RESERVED) >> 16);
    let mut refused = None;
    for which in 0..fit {
        group.execute(owner(), &submit(Submit { input: large((64 << 10) - 2), ..task(which) })).expect("room");
        // It keeps the one before.
        group.execute(owner(), &submit(after(10_000 + which, &[which]))).expect("room");
    }
    for which in 0..fit {
        let claim = assign(&mut group, which, 1).expect("it is ready");
        let before = group.clone();
        let result = Command::Complete(Complete { claim, result: large(64 << 10) });
        if let Err(refusal) = group.execute(member(1), &result) {
            assert_eq!(group, before, "what is refused changes nothing");
            refused = Some((which, refusal));
            break;
        }
        assert!(group.work.tasks().bytes() <= WORK_BYTES_MAX);
    }
    let (which, refusal) = refused.expect("the bound is reached");
    assert!(which > 100 && matches!(refusal, Refusal::Full(_)), "{which}: {refusal:?}");
}

/// P-120
#[test]
fn tasks_that_want_resources_are_bounded_in_number() {
    let mut group = group(1);
    let most = number(TASKS_CONTENDING_MAX);
    for which in 0..most {
        group.execute(owner(), &submit(wanting(which, &[&which.to_string()]))).expect("room");
    }
    assert!(matches!(group.execute(owner(), &submit(wanting(most, &["r"]))), Err(Refusal::Full(_))));
    group.execute(owner(), &submit(task(most))).expect("it wants none");
    run_to_the_end(&mut group, 0);
    group.execute(owner(), &submit(wanting(most + 1, &["r"]))).expect("one ended");
}

/// P-113
#[test]
fn a_search_for_a_circle_is_bounded_and_passes_over_what_completed() {
    let mut group = group(1);
    let most = number(SEARCH_TASKS_MAX);
    group.execute(owner(), &submit(task(0))).expect("room");
    for which in 1..=most {
        group.execute(owner(), &submit(after(which, &[which - 1]))).expect("room");
    }
    group.execute(owner(), &submit(task(most + 1))).expect("room");
    let depend = |on| Command::Depend(Depend { task: id(most + 1), on: id(on) });
    assert!(matches!(group.execute(owner(), &depend(most)), Err(Refusal::Full(_))));
    run_to_the_end(&mut group, 0);
    assert_eq!(group.execute(owner(), &depend(most)), Ok(None));
}

/// P-113
#[test]
fn a_task_has_as_many_dependencies_as_one_that_is_submitted() {
    let mut group = group(1);
    for which in 0..=65 {
        group.execute(owner(), &submit(task(which))).expect("room");
    }
    for on in 1..=64 {
        group.execute(owner(), &Command::Depend(Depend { task: id(0), on: id(on) })).expect("room");
    }
    let more = Command::Depend(Depend { task: id(0), on: id(65) });
    assert!(matches!(group.execute(owner(), &more), Err(Refusal::Full(_))));
}
