//! What the commands of a batch cost (P-89): one signature must not buy seconds of every member.

use althing_protocol::group::{Abandon, ConflictRule, Define, Depend, Fail};

use super::super::dependencies::SEARCH_TASKS_MAX;
use super::super::{INPUT_BYTES_MAX, Steps, TASKS_CONTENDING_MAX};
use super::*;

/// Executes a command; what it costs, and whether it is executed.
fn spend(group: &mut Group, author: Author, command: &Command) -> (usize, bool) {
    let steps = Steps::default();
    let all = steps.left();
    let done = group.execute_within(&steps, author, command);
    (all - steps.left(), done.is_ok())
}

/// What a command costs, and whether it is executed.
fn cost(group: &Group, author: Author, command: &Command) -> (usize, bool) {
    spend(&mut group.clone(), author, command)
}

fn run_to_the_end(group: &mut Group, which: u32) {
    let claim = assign(group, which, 1).expect("it is ready");
    group.execute(member(1), &complete(claim)).expect("it has it");
}

/// The number of the first task of [`fan`] that depends on others.
const LATER: u32 = 1_000;

/// So many tasks, from 0 on, which the member 1 has; and from [`LATER`] on so many of which each depends on all of these.
fn fan(earlier: u32, later: u32) -> (Group, Vec<Claim>) {
    let (mut group, on) = (group(1), (0..earlier).collect::<Vec<_>>());
    for which in 0..earlier {
        group.execute(owner(), &submit(task(which))).expect("room");
    }
    for which in LATER..LATER + later {
        group.execute(owner(), &submit(after(which, &on))).expect("room");
    }
    let claims = on.iter().map(|which| assign(&mut group, *which, 1).expect("it is ready")).collect();
    (group, claims)
}

/// P-89, SG-5
#[test]
fn what_the_end_of_a_task_costs_follows_from_those_that_depend_on_it() {
    let (mut group, claims) = fan(2, 3);
    let fail = |retry| Command::Fail(Fail { claim: claims[0], reason: "no".to_owned(), retry });
    assert_eq!(cost(&group, member(1), &complete(claims[0])), (1 + 3, true));
    assert_eq!(cost(&group, member(1), &fail(false)), (1 + 3 * 3, true), "it, and three that depend on two each");
    assert_eq!(cost(&group, member(1), &fail(true)), (0, true), "it is only ready again");
    assert_eq!(cost(&group, owner(), &Command::Cancel(id(0))), (1 + 3 * 3, true));
    assert_eq!(cost(&group, owner(), &Command::Cancel(id(LATER))), (3, true));
    assert_eq!(cost(&group, owner(), &submit(after(9, &[0, 1]))), (3, true));
    assert_eq!(cost(&group, owner(), &submit(task(0))), (0, false), "it is there");
    for task in [task(10), after(11, &[10]), task(12), Submit { deadline_ms: Some(5_000), ..task(13) }] {
        group.execute(owner(), &submit(task)).expect("room");
    }
    let abandon = Command::Abandon(Abandon { task: id(10), reason: "no".to_owned() });
    assert_eq!(spend(&mut group, member(1), &abandon), (1 + 2, true));
    let depend = Command::Depend(Depend { task: id(12), on: id(10) });
    assert_eq!(cost(&group, owner(), &depend), (1 + 2, true), "it looks at the one, and ends the other");
    // Of what time ends, no batch pays.
    group.advance(12_000);
    assert_eq!(state(&group, 13), State::TimedOut);
    assert_eq!(cost(&group, owner(), &Command::Tick), (0, true));
    assert_eq!(restored(&group), group);
}

/// P-89, P-113, SG-5: the ends of 64 tasks, of which each lets thousands wait for one less.
#[test]
fn a_batch_ends_no_more_tasks_than_the_others_that_depend_on_them_permit() {
    const LATERS: u32 = 2_000;
    let (mut group, claims) = fan(64, LATERS);
    let steps = Steps::default();
    let outcomes: Vec<_> =
        claims.iter().map(|claim| group.execute_within(&steps, member(1), &complete(*claim))).collect();
    let done = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
    assert_eq!(done, 50, "2,001 steps each");
    assert!(outcomes[done..].iter().all(|outcome| matches!(outcome, Err(Refusal::Costly))), "{:?}", outcomes[done]);
    // What costs nothing goes on.
    assert_eq!(group.execute_within(&steps, member(1), &Command::Renew(claims[63])), Ok(None));
    // Who had a snapshot meanwhile counts as the others do.
    let mut fresh = restored(&group);
    assert_eq!(fresh, group);
    for group in [&mut group, &mut fresh] {
        for (at, claim) in claims.iter().enumerate().skip(done) {
            assert_eq!(state(group, LATER), State::Blocked, "{at}");
            assert_eq!(spend(group, member(1), &complete(*claim)), (1 + LATERS as usize, true));
        }
        assert!((LATER..LATER + LATERS).all(|which| state(group, which) == State::Ready));
    }
    assert_eq!(fresh, group);
    assert_eq!(restored(&group), group);
}

/// P-89, P-120, SG-5
#[test]
fn what_is_forgotten_costs_as_much_as_depends_on_it() {
    let (mut group, open) = (group(1), 20_000);
    group.execute(owner(), &submit(task(open))).expect("room");
    for which in 0..number(INPUT_BYTES_MAX >> 16) {
        group.execute(owner(), &submit(Submit { input: large((64 << 10) - 4), ..task(which) })).expect("room");
        group.execute(owner(), &submit(after(10_000 + which, &[which, open]))).expect("room");
    }
    let costs: Vec<usize> = (0..140)
        .map(|which| {
            let claim = assign(&mut group, which, 1).expect("it is ready");
            let result = Command::Complete(Complete { claim, result: large(64 << 10), label: None, verified: None });
            spend(&mut group, member(1), &result).0
        })
        .collect();
    let forgotten = (0..140).filter(|which| group.work.tasks().get(&id(*which)).is_none()).count();
    assert!(forgotten > 0 && costs[..100].iter().all(|cost| *cost == 2), "{costs:?}");
    assert_eq!(costs.iter().sum::<usize>(), 2 * costs.len() + 2 * forgotten, "one depends on each");
}

/// SG-5: 256 commands that each look at thousands of tasks would keep each member for seconds.
#[test]
fn a_batch_costs_no_more_than_a_few_of_its_dearest_commands() {
    let mut group = group(1);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for which in 0..number(TASKS_CONTENDING_MAX) {
        group.execute(owner(), &submit(wanting(which, &names))).expect("room");
    }
    let steps = Steps::default();
    let second = Command::Assign(Assign { task: id(1), attempt: 1, member: node(1) });
    let outcomes: Vec<_> = (0..256).map(|_| group.execute_within(&steps, member(1), &second)).collect();
    let looked = outcomes.iter().filter(|outcome| matches!(outcome, Err(Refusal::Resource(_)))).count();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Refusal::Costly))).count();
    assert!((1..=3).contains(&looked) && looked + refused == 256, "{looked} looked, {refused} did not");
    // What costs little goes on, and the next batch has its own.
    let depend = Command::Depend(Depend { task: id(2), on: id(3) });
    assert!(matches!(group.execute_within(&steps, owner(), &depend), Err(Refusal::Costly)));
    assert!(matches!(group.execute_within(&steps, owner(), &Command::Cancel(id(4))), Err(Refusal::Costly)));
    let define = Command::Define(Define { resource: "a".to_owned(), rule: ConflictRule::Priority });
    assert!(group.execute_within(&steps, owner(), &define).is_ok());
    assert!(group.execute(owner(), &depend).is_ok());
}

/// P-89, P-114
#[test]
fn what_an_assignment_costs_follows_from_the_tasks_that_want_its_resources() {
    let assign = |which| Command::Assign(Assign { task: id(which), attempt: 1, member: node(1) });
    let with = |tasks: &[Submit]| {
        let mut group = group(1);
        for task in tasks {
            group.execute(owner(), &submit(task.clone())).expect("room");
        }
        group
    };
    // All three tasks that want `b` matter, and `a`, which one of them must win before.
    let tasks = [wanting(1, &["b", "c"]), wanting(2, &["c", "b"]), wanting(3, &["a", "b"]), wanting(4, &["d"])];
    let group = with(&tasks);
    let all = 2 * 3 + 3 * 3 + 3;
    assert_eq!(cost(&group, member(1), &assign(1)), (all, true), "c: 1, 2; b: 1, 2, 3; a: 3");
    assert_eq!(cost(&group, member(1), &assign(2)), (all, false), "the same, though it is refused");
    assert_eq!(cost(&group, member(1), &assign(3)), (3 * 3 + 3, false), "b: 1, 2, 3; a: 3");
    assert_eq!(cost(&group, member(1), &assign(4)), (2, true));
    let turned: Vec<Submit> = tasks.iter().rev().cloned().collect();
    assert_eq!(cost(&with(&turned), member(1), &assign(1)).0, all, "in whatever order they came");
    // What is in use is not looked at, and who waits for it leads to no other resource.
    let mut group = with(&[wanting(1, &["a"]), wanting(2, &["a", "b"]), wanting(3, &["b"])]);
    group.execute(member(1), &assign(1)).expect("it is first");
    assert_eq!(cost(&group, member(1), &assign(2)), (0, false));
    assert_eq!(cost(&group, member(1), &assign(3)), (3 + 2, true));
}

/// P-89, P-113
#[test]
fn what_a_dependency_costs_follows_from_what_is_before_it() {
    let mut group = group(1);
    for task in [task(0), after(1, &[0]), after(2, &[1, 0]), task(3)] {
        group.execute(owner(), &submit(task)).expect("room");
    }
    let depend = |task, on| Command::Depend(Depend { task: id(task), on: id(on) });
    assert_eq!(cost(&group, owner(), &depend(3, 2)), (3 + 2 + 1, true));
    assert_eq!(cost(&group, owner(), &depend(2, 1)), (0, true), "it is one already");
    assert_eq!(cost(&group, owner(), &depend(0, 2)), (SEARCH_TASKS_MAX * 65, false), "however soon it was found");
    run_to_the_end(&mut group, 0);
    assert_eq!(cost(&group, owner(), &depend(3, 0)), (0, true), "what completed depends on nothing");
    assert_eq!(cost(&group, owner(), &depend(3, 1)), (2, true));
}
