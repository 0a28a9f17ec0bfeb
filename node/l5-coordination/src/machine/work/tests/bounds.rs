//! The bounds of number and of bytes.

use althing_protocol::group::{ConflictRule, Define, Depend};

use super::super::dependencies::SEARCH_TASKS_MAX;
use super::super::{
    INPUT_BYTES_MAX, RESOURCES_MAX, TASKS_CONTENDING_MAX, TASKS_FINISHED_MAX, TASKS_UNFINISHED_MAX, WORK_BYTES_MAX,
};
use super::*;

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
    let fit = number(INPUT_BYTES_MAX >> 16);
    for which in 0..fit {
        group.execute(owner(), &with(which)).expect("room");
    }
    let before = group.clone();
    assert!(matches!(group.execute(owner(), &with(fit)), Err(Refusal::Full(_))));
    assert_eq!(group, before, "what is refused changes nothing");
    let claim = assign(&mut group, 0, 1).expect("it is ready");
    let result = Command::Complete(Complete { claim, result: large(64 << 10), label: None, verified: None });
    group.execute(member(1), &result).expect("room for results is reserved");
    group.execute(owner(), &with(fit)).expect("the finished task is forgotten for it");
    assert!(group.work.tasks().get(&id(0)).is_none());
    assert_eq!(group.work.tasks().bytes(), INPUT_BYTES_MAX);
}

/// P-113, P-115, P-120
#[test]
fn a_result_always_has_room_and_takes_it_from_what_ended_first_even_where_it_is_needed() {
    let mut group = group(1);
    let fit = number(INPUT_BYTES_MAX >> 16);
    let other = 20_000;
    group.execute(owner(), &submit(task(other))).expect("room");
    for which in 0..fit {
        group.execute(owner(), &submit(Submit { input: large((64 << 10) - 4), ..task(which) })).expect("room");
        group.execute(owner(), &submit(after(10_000 + which, &[which, other]))).expect("room");
    }
    for which in 0..fit {
        let claim = assign(&mut group, which, 1).expect("it is ready");
        let result = Command::Complete(Complete { claim, result: large(64 << 10), label: None, verified: None });
        assert_eq!(group.execute(member(1), &result), Ok(None), "{which}");
        assert!(group.work.tasks().bytes() <= WORK_BYTES_MAX);
    }
    assert!(group.work.tasks().get(&id(0)).is_none() && group.work.tasks().get(&id(fit - 1)).is_some());
    assert_eq!(restored(&group), group);
    // Who waits for it and another one waits for that one, and not for what has its id by now.
    let waiting = group.work.tasks().get(&id(10_000)).expect("it is not finished");
    assert_eq!((waiting.state, waiting.submit.dependencies.as_slice()), (State::Blocked, &[id(other)][..]));
    group.execute(member(1), &submit(task(0))).expect("the id is free");
    group.execute(member(1), &Command::Cancel(id(0))).expect("its own");
    assert_eq!(state(&group, 10_000), State::Blocked);
    run_to_the_end(&mut group, other);
    assert_eq!(state(&group, 10_000), State::Ready);
    assert_eq!(restored(&group), group);
}

/// A group of the owner 1 with a member of it, and one of another owner.
fn shared() -> Group {
    let mut group = group(1);
    group.members.join(node(2), PublisherId::from_digest([2; 32]), Vec::new(), None, 5).expect("another member");
    group
}

/// Submits such tasks until the group is full; how many.
fn fill(group: &mut Group, author: Author, first: u32, make: impl Fn(u32) -> Submit) -> usize {
    let mut count = 0;
    loop {
        match group.execute(author, &submit(make(first + number(count)))) {
            Ok(_) => count += 1,
            Err(Refusal::Full(_)) => return count,
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

/// P-120, P-197
#[test]
fn one_owners_members_leave_the_others_their_share_of_the_tasks() {
    let kinds: [(&dyn Fn(u32) -> Submit, usize); 3] = [
        (&task, TASKS_UNFINISHED_MAX),
        (&|which| wanting(which, &["printer"]), TASKS_CONTENDING_MAX),
        (&|which| Submit { input: large(64 << 10), ..task(which) }, INPUT_BYTES_MAX >> 16),
    ];
    for (make, room) in kinds {
        let mut group = shared();
        assert_eq!(fill(&mut group, member(2), 0, make), room / 4 * 3, "the half for all, and its share");
        assert_eq!(fill(&mut group, owner(), 100_000, make), room / 4, "its share");
        assert_eq!(fill(&mut group, member(1), 200_000, make), 0, "the same owner's");
        assert_eq!(restored(&group), group);
        group.execute(member(2), &Command::Cancel(id(0))).expect("its own");
        assert_eq!(fill(&mut group, owner(), 300_000, make), 1, "the half for all has room");
        group.execute(owner(), &Command::Cancel(id(1))).expect("an owner of the group");
        group.execute(owner(), &Command::Cancel(id(100_000))).expect("its own");
        assert_eq!(fill(&mut group, member(2), 400_000, make), 2);
    }
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

/// P-120, SG-11: who submits and cancels without end forgets its own tasks, and no other owner's results.
#[test]
fn one_owners_finished_tasks_do_not_end_the_memory_of_anothers() {
    let mut group = shared();
    group.execute(owner(), &submit(task(0))).expect("room");
    run_to_the_end(&mut group, 0);
    let flood = |group: &mut Group, first: u32, count: usize, input: &Content| {
        for which in first..first + number(count) {
            group.execute(member(2), &submit(Submit { input: input.clone(), ..task(which) })).expect("room");
            group.execute(member(2), &Command::Cancel(id(which))).expect("its own");
        }
    };
    flood(&mut group, 1, TASKS_FINISHED_MAX + 100, &large(1));
    let known = |group: &Group, which| group.work.tasks().get(&id(which)).is_some();
    assert_eq!(group.work.tasks().len(), TASKS_FINISHED_MAX);
    assert!(known(&group, 0), "the result of another owner's task");
    assert!(!known(&group, 101) && known(&group, 102), "of its own the first that ended");
    flood(&mut group, 10_000, (WORK_BYTES_MAX >> 16) + 10, &large(64 << 10));
    assert!(known(&group, 0) && !known(&group, 10_000) && group.work.tasks().bytes() <= WORK_BYTES_MAX);
    assert_eq!(restored(&group), group);
}

/// P-119, P-197
#[test]
fn one_owners_members_leave_the_others_their_share_of_the_rules_of_resources() {
    let mut group = shared();
    let define = |group: &mut Group, author: Author, which: usize, rule: ConflictRule| {
        group.execute(author, &Command::Define(Define { resource: which.to_string(), rule }))
    };
    let define_all = |group: &mut Group, author: Author, first: usize| {
        let done = (first..).take_while(|which| define(group, author, *which, ConflictRule::Vote).is_ok());
        done.count()
    };
    assert_eq!(define_all(&mut group, member(2), 0), RESOURCES_MAX / 4 * 3, "the half for all, and its share");
    assert_eq!(define_all(&mut group, owner(), 10_000), RESOURCES_MAX / 4, "its share");
    assert_eq!(restored(&group), group);
    // Another rule of the same owner needs no room; one in the place of another owner's does.
    assert!(define(&mut group, member(2), 0, ConflictRule::Priority).is_ok());
    assert!(matches!(define(&mut group, member(2), 10_000, ConflictRule::Priority), Err(Refusal::Full(_))));
    assert!(define(&mut group, owner(), 10_000, ConflictRule::First).is_ok());
    assert_eq!(define_all(&mut group, owner(), 20_000), 1);
}
