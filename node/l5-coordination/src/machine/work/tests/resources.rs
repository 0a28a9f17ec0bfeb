//! Which task gets a resource, by each rule, and what is recorded.

use althing_protocol::group::{Choice, ConflictRule, Define};

use super::super::{CONFLICTS_MAX, RESOURCES_MAX};
use super::*;

/// A group whose resource `r` has that rule, and which has tasks that want it.
fn contested(rule: ConflictRule, tasks: &[Submit]) -> Group {
    let mut group = group(4);
    define(&mut group, "r", rule).expect("room");
    for task in tasks {
        group.execute(owner(), &submit(task.clone())).expect("room");
    }
    group
}

fn define(group: &mut Group, resource: &str, rule: ConflictRule) -> Result<Option<u64>, Refusal> {
    group.execute(owner(), &Command::Define(Define { resource: resource.to_owned(), rule }))
}

fn choice(number: u32) -> Choice {
    Choice { resource: "r".to_owned(), task: id(number) }
}

fn waits(group: &mut Group, number: u32) -> bool {
    matches!(assign(group, number, 1), Err(Refusal::Resource(_)))
}

fn finish(group: &mut Group, claim: Claim) {
    group.execute(member(1), &complete(claim)).expect("it has it");
}

/// P-118, P-119
#[test]
fn the_first_one_gets_it_the_others_keep_their_place_and_the_decision_is_recorded() {
    let urgent = Submit { priority: Priority::Critical, ..wanting(2, &["r"]) };
    let mut group = contested(ConflictRule::First, &[wanting(1, &["r"]), urgent, wanting(3, &["r"])]);
    assert!(waits(&mut group, 2));
    let claim = assign(&mut group, 1, 1).expect("it was first");
    assert!(waits(&mut group, 2), "it is in use");
    finish(&mut group, claim);
    let claim = assign(&mut group, 2, 1).expect("it is next");
    finish(&mut group, claim);
    assign(&mut group, 3, 1).expect("it is last");
    let decisions: Vec<_> =
        group.work.resources().conflicts().map(|one| (one.number, one.winner, one.losers.clone())).collect();
    assert_eq!(decisions, [(0, id(1), vec![id(2), id(3)]), (1, id(2), vec![id(3)])], "the last one had no rival");
}

/// P-118
#[test]
fn the_most_urgent_one_gets_it_and_of_these_the_first() {
    let of = |number, priority| Submit { priority, ..wanting(number, &["r"]) };
    let tasks = [of(1, Priority::Low), of(2, Priority::High), of(3, Priority::High)];
    let mut group = contested(ConflictRule::Priority, &tasks);
    assert!(waits(&mut group, 1) && waits(&mut group, 3));
    assert!(assign(&mut group, 2, 1).is_ok());
}

/// P-118, P-119
#[test]
fn a_vote_ends_with_a_majority_of_the_members_and_dissent_is_recorded() {
    let mut group = contested(ConflictRule::Vote, &[wanting(1, &["r"]), wanting(2, &["r"])]);
    let vote = |group: &mut Group, by, number| group.execute(member(by), &Command::Vote(choice(number)));
    vote(&mut group, 1, 1).expect("a member");
    vote(&mut group, 2, 2).expect("a member");
    assert!(waits(&mut group, 1) && waits(&mut group, 2), "two of four are no majority");
    vote(&mut group, 3, 1).expect("a member");
    vote(&mut group, 3, 2).expect("it changes its mind");
    assert!(waits(&mut group, 1));
    assign(&mut group, 2, 1).expect("two of three votes");
    let decision = group.work.resources().conflicts().last().expect("a record");
    assert_eq!((decision.rule, decision.winner, decision.at_ms), (ConflictRule::Vote, id(2), 1_000));
    assert_eq!((decision.dissent.as_slice(), decision.dissent_count), (&[(node(1), id(1))][..], 1));
    let votes = |group: &Group| group.work.resources().iter().map(|(_, resource)| resource.votes.len()).sum::<usize>();
    assert_eq!(votes(&group), 0, "the next decision has votes of its own");
    assert_eq!(vote(&mut group, 1, 2), Err(Refusal::TaskState { task: id(2), state: State::Assigned }));
    assert!(matches!(group.execute(owner(), &Command::Decide(choice(1))), Err(Refusal::Resource(_))));
    vote(&mut group, 3, 1).expect("a member");
    group.execute(member(3), &Command::Leave).expect("others stay");
    assert_eq!(votes(&group), 0, "who left has no vote");
}

/// P-118, P-119
#[test]
fn an_owner_decides_and_one_that_has_no_rival_needs_no_decision() {
    let mut group = contested(ConflictRule::Human, &[wanting(1, &["r"])]);
    let claim = assign(&mut group, 1, 1).expect("nobody else wants it");
    finish(&mut group, claim);
    for number in [2, 3] {
        group.execute(owner(), &submit(wanting(number, &["r"]))).expect("room");
    }
    assert!(waits(&mut group, 2) && waits(&mut group, 3));
    assert!(matches!(group.execute(member(1), &Command::Decide(choice(3))), Err(Refusal::NotPermitted(_))));
    assert!(matches!(group.execute(member(1), &Command::Vote(choice(3))), Err(Refusal::Resource(_))));
    group.execute(owner(), &Command::Decide(choice(3))).expect("an owner");
    assert!(waits(&mut group, 2));
    assert!(assign(&mut group, 3, 1).is_ok());
}

/// P-118
#[test]
fn one_can_go_on_though_the_rules_of_two_resources_prefer_different_tasks() {
    let urgent = Submit { priority: Priority::High, ..wanting(2, &["q", "r"]) };
    let mut group = contested(ConflictRule::Priority, &[wanting(1, &["q", "r"]), urgent]);
    // `q` is the first by name, and has the rule of who was first.
    assert!(waits(&mut group, 2));
    assert!(assign(&mut group, 1, 1).is_ok());
}

/// P-119
#[test]
fn a_task_without_the_resource_is_not_chosen_and_rules_and_records_are_bounded() {
    let mut group = contested(ConflictRule::Vote, &[task(1)]);
    assert!(matches!(group.execute(member(1), &Command::Vote(choice(1))), Err(Refusal::Resource(_))));
    assert_eq!(group.execute(member(1), &Command::Vote(choice(9))), Err(Refusal::UnknownTask(id(9))));
    for number in 1..RESOURCES_MAX {
        define(&mut group, &number.to_string(), ConflictRule::Human).expect("room");
    }
    assert!(matches!(define(&mut group, "more", ConflictRule::Human), Err(Refusal::Full(_))));
    define(&mut group, "r", ConflictRule::First).expect("the usual rule takes no room");
    define(&mut group, "more", ConflictRule::Human).expect("room");
    let most = u32::try_from(CONFLICTS_MAX).expect("small");
    for number in 100..100 + most + 3 {
        group.execute(owner(), &submit(wanting(number, &["log"]))).expect("room");
    }
    for number in 100..100 + most + 2 {
        let claim = assign(&mut group, number, 1).expect("it is next");
        finish(&mut group, claim);
    }
    assert_eq!(group.work.resources().conflicts().count(), CONFLICTS_MAX);
    assert_eq!(
        group.work.resources().conflicts().next().map(|first| (first.number, first.losers_count)),
        Some((2, most))
    );
    assert_eq!(restored(&group), group);
}
