//! Which rules members know, and whether they have one state (SG-13).

use althing_protocol::group::{Declaration, RULES, StateMark};

use super::*;
use crate::machine::group::comparison::{self, Agreement, MARK_MS};
use crate::machine::members::MARKS_KEPT;

fn declare(rules: u32, mark: Option<StateMark>) -> Command {
    Command::Declare(Declaration { rules, mark })
}

/// Two members of different owners.
fn world() -> World {
    let mut world = World::new();
    world.admit(&key(2), 1);
    world
}

/// An entry of the leader's, at that time.
fn at(group: &mut Group, at_ms: u64) {
    if let Some(mark) = comparison::mark_before(group, at_ms) {
        comparison::keep_mark(group, mark);
    }
    group.apply(at_ms, &Err(ObjectError::Shape("cut off".to_owned())));
}

fn reads(group: &Group) -> Group {
    Group::restore(group.id(), NETWORK, &group.rows()).expect("its own rows")
}

/// P-198
#[test]
fn the_group_goes_over_to_later_rules_with_the_last_member_that_says_that_it_knows_them() {
    let mut world = world();
    let (node, founder) = (key(2), world.founder.clone());
    assert_eq!((comparison::rules(&world.group), RULES), (1, 2), "the founding says nothing of it");
    assert!(matches!(world.one(&node, declare(0, None)), Err(Refusal::Invalid(_))), "nobody knows less");
    assert_eq!(world.one(&node, declare(3, None)), Ok(Some(1)), "the founder does not say so");
    assert_eq!(world.group.members().get(&node.public()).map(|member| member.rules), Some(3));
    assert_eq!(world.one(&founder, declare(2, None)), Ok(Some(2)), "what both know");
    assert!(matches!(world.one(&node, declare(1, None)), Err(Refusal::Invalid(_))), "nobody goes back");
    let (owner, signer) = (Author::Publisher(world.owners[0].id()), world.owners[0].0.clone());
    let said = world.batch(owner, &signer, 1, vec![declare(2, None)]);
    let Reply::Executed(outcomes) = said else { panic!("an owner is heard: {said:?}") };
    assert!(matches!(outcomes.as_slice(), [Outcome::Refused(Refusal::Author(_))]), "only a member has a state");
    // Who leaves is not waited for.
    assert_eq!(world.one(&founder, Command::Leave), Ok(Some(2)));
    assert_eq!(comparison::rules(&world.group), 3);
}

/// P-90, P-198: where nobody else was told to know less, the group has the rules of its founder from the beginning.
#[test]
fn a_founding_says_which_rules_its_node_knows() {
    let rules = |says: Option<u32>| {
        let world = World::founded(says);
        assert_eq!(reads(&world.group), world.group);
        comparison::rules(&world.group)
    };
    assert_eq!([None, Some(0), Some(1), Some(RULES)].map(rules), [1, 1, 1, RULES]);
}

/// P-87, P-198: a member that knows only earlier rules finds no batch there, and takes no number.
#[test]
fn a_task_has_a_channel_only_where_all_members_say_that_they_know_what_one_is() {
    let mut world = world();
    let (node, founder) = (key(2), world.founder.clone());
    let Command::Submit(mut task) = super::policy::submit(1) else { panic!("a task") };
    task.channel = Some("web".to_owned());
    let both = vec![super::policy::submit(2), Command::Submit(task)];
    let (author, epoch, before) = (Author::Node(node.public()), world.group.epoch(), world.group.clone());
    let refused = world.batch(author, &node, epoch, both.clone());
    let says = |why: &str| why.contains("version 2") && why.contains("update");
    assert!(matches!(&refused, Reply::Refused(Refusal::Invalid(why)) if says(why)), "{refused:?}");
    assert_eq!(world.group, before, "nothing was executed, and no number was taken");
    assert_eq!(world.one(&founder, declare(2, None)), Ok(Some(1)), "the other one does not say so");
    assert!(admission::check_known(&world.group, &both).is_err());
    assert_eq!(world.one(&node, declare(2, None)), Ok(Some(2)));
    assert_eq!(admission::check_known(&world.group, &both), Ok(()));
    let executed = world.batch(author, &node, epoch, both);
    let Reply::Executed(outcomes) = executed else { panic!("all know it: {executed:?}") };
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
    let task = world.group.work().tasks().iter().find(|task| task.submit.channel.is_some()).expect("it was submitted");
    // P-120
    assert_eq!((task.submit.channel.as_deref(), task.bytes()), (Some("web"), "in".len() + "web".len()));
    assert_eq!(reads(&world.group), world.group, "a snapshot has it");
}

/// P-91, P-198
#[test]
fn nobody_joins_who_does_not_say_that_it_knows_the_rules() {
    let mut world = world();
    let node = key(3);
    let invitation = world.endorsed(world.invitation(&node, 2), &world.scope(), &[0, 1]);
    let join = |world: &mut World, rules| {
        let (owner, log, addresses) = (world.owners[2].proof(&node), world.owners[2].events(), Vec::new());
        let join = Join { invitation: invitation.clone(), owner, log, addresses, rules };
        world.one(&node, Command::Join(Box::new(join)))
    };
    assert!(matches!(join(&mut world, None), Err(Refusal::Invalid(_))), "a build from before");
    assert!(matches!(join(&mut world, Some(0)), Err(Refusal::Invalid(_))));
    assert_eq!(join(&mut world, Some(2)), Ok(None));
    assert_eq!(world.group.members().get(&node.public()).map(|member| member.rules), Some(2));
}

/// P-105, P-198
#[test]
fn a_state_by_rules_that_this_build_does_not_know_is_not_installed() {
    let world = world();
    let later = Group { rules: RULES + 1, ..world.group.clone() };
    let refused = Group::restore(later.id(), NETWORK, &later.rows()).expect_err("it would be executed otherwise");
    assert!(refused.why.contains("update it"), "{refused}");
    let none = Group { rules: 0, ..world.group.clone() };
    assert!(Group::restore(none.id(), NETWORK, &none.rows()).is_err());
    let check = |later: &Group, earlier: &Group| crate::machine::successor::check(later, earlier, key(2).public());
    assert!(check(&world.group, &later).is_err_and(|why| why.contains("earlier rules")));
}

/// P-199
#[test]
fn members_with_another_state_are_known_by_their_marks() {
    let mut world = world();
    let begin = (NOW_MS / MARK_MS + 1) * MARK_MS;
    at(&mut world.group, begin - 1);
    assert_eq!(comparison::last_mark(&world.group), None, "the time of the founding has no mark");
    // The other one executed the same but for one value.
    let (node, founder) = (key(2), world.founder.clone());
    let mut other = world.group.clone();
    assert!(other.execute(Author::Node(node.public()), &set("a")).is_ok());
    for group in [&mut world.group, &mut other] {
        at(group, begin);
    }
    let (ours, theirs) =
        (comparison::last_mark(&world.group).expect("a mark"), comparison::last_mark(&other).expect("a mark"));
    assert_eq!((ours.at, theirs.at), (begin / MARK_MS, begin / MARK_MS), "whatever they made of the entries");
    assert_ne!(ours.digest, theirs.digest);
    assert_eq!(comparison::agreement(&world.group, &node.public()), Agreement::Unknown, "it said nothing yet");
    for (signer, mark) in [(&founder, ours), (&node, theirs)] {
        assert_eq!(world.one(signer, declare(1, Some(mark))), Ok(Some(1)));
    }
    assert_eq!(comparison::agreement(&world.group, &founder.public()), Agreement::Same);
    assert_eq!(comparison::differing(&world.group), [node.public()]);
    assert_eq!(reads(&world.group), world.group);
    // What was declared of the mark before counts until there are others; what is older says nothing.
    at(&mut world.group, begin + MARK_MS);
    assert_eq!(comparison::differing(&world.group), [node.public()]);
    at(&mut world.group, begin + 2 * MARK_MS);
    assert_eq!((comparison::differing(&world.group), world.group.marks.len()), (Vec::new(), MARKS_KEPT));
}

/// P-199
#[test]
fn members_with_one_state_have_one_mark_however_they_came_by_it() {
    let mut world = world();
    let founder = world.founder.clone();
    assert!(world.one(&founder, set("a")).is_ok());
    let mut other = reads(&world.group);
    let begin = (NOW_MS / MARK_MS + 1) * MARK_MS;
    for group in [&mut world.group, &mut other] {
        at(group, begin);
        at(group, begin);
        at(group, NOW_MS);
    }
    assert_eq!((comparison::last_mark(&world.group), world.group.marks.len()), (comparison::last_mark(&other), 1));
    // A state that was sent is told from the group's by what is in it, not by what it says of itself.
    let mut forged = reads(&world.group);
    assert!(forged.values.remove(&Remove { key: "a".to_owned(), if_version: None }).is_ok());
    assert_eq!(comparison::last_mark(&forged), comparison::last_mark(&world.group));
    for group in [&mut world.group, &mut forged] {
        at(group, begin + MARK_MS);
    }
    assert_ne!(comparison::last_mark(&forged), comparison::last_mark(&world.group));
    // The marks themselves, and why a step failed, are not in it: once equal, states stay equal.
    let before = comparison::digest(&world.group);
    world.group.marks.clear();
    assert_eq!(comparison::digest(&world.group), before);
}
