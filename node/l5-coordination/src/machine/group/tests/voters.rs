//! A learner in the place of a voter that is silent.

use althing_protocol::group::{REPLACE_AFTER_MS, Replace};
use proptest::prelude::*;

use super::*;

/// A group of five members, of whom the nodes 1, 2 and 3 vote, and 4 and 5 learn.
fn world() -> World {
    let mut world = World::new();
    for seed in 2..=5 {
        world.admit(&key(seed), seed);
    }
    lower(&mut world, None);
    world
}

/// Three voters, and this time.
fn lower(world: &mut World, replace_after_ms: Option<u64>) {
    let founder = world.founder.clone();
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS);
    charter.policy = Policy { voters_max: 3, replace_after_ms, ..Policy::default() };
    let charter = world.endorsed(charter, &world.scope(), &[0, 1]);
    let amend = Command::Amend(Box::new(Amendment { charter, logs: Vec::new() }));
    assert!(world.one(&founder, amend).is_ok());
}

fn silent(seed: u8) -> Command {
    Command::Silent(key(seed).public())
}

fn replace(voter: u8, learner: u8) -> Command {
    Command::Replace(Replace { voter: key(voter).public(), learner: key(learner).public() })
}

fn votes(world: &World) -> Vec<u8> {
    (1..=5).filter(|seed| world.group.members().voters().contains(&key(*seed).public())).collect()
}

fn wait(world: &mut World, ms: u64) {
    let at_ms = world.group.now_ms + ms;
    world.group.advance(at_ms);
}

/// P-98, P-148, P-149
#[test]
fn a_learner_votes_in_the_place_of_a_voter_that_was_silent_for_ten_minutes() {
    let mut world = world();
    let leader = world.founder.clone();
    assert_eq!(votes(&world), [1, 2, 3]);
    let epoch = world.group.epoch();
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    wait(&mut world, REPLACE_AFTER_MS - 1);
    assert_eq!(world.one(&leader, silent(3)), Ok(None), "it is silent since the first time");
    assert!(matches!(world.one(&leader, replace(3, 4)), Err(Refusal::Voter(_))), "a millisecond too early");
    wait(&mut world, 1);
    assert_eq!(world.one(&leader, replace(3, 4)), Ok(None));
    assert_eq!((votes(&world), world.group.epoch()), (vec![1, 2, 4], epoch));
    assert!(world.group.members().get(&key(3).public()).is_some(), "it still belongs to the group");
    let before = [1, 2, 3].map(|seed| key(seed).public()).into();
    let known: Vec<_> = world.group.members().recent().cloned().collect();
    assert_eq!(known.last(), Some(&before), "the log may still name those before");
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
    // While it is silent, another learner takes a place that becomes free; afterwards it is as good as any.
    assert!(world.one(&key(2), Command::Leave).is_ok());
    assert_eq!(votes(&world), [1, 4, 5]);
    assert!(world.one(&key(3), Command::Tick).is_ok());
    assert!(world.one(&key(5), Command::Leave).is_ok());
    assert_eq!(votes(&world), [1, 3, 4]);
}

/// P-148
#[test]
fn a_voter_that_says_anything_is_not_silent() {
    let mut world = world();
    let leader = world.founder.clone();
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    wait(&mut world, REPLACE_AFTER_MS);
    assert!(world.one(&key(3), Command::Tick).is_ok());
    assert!(matches!(world.one(&leader, replace(3, 4)), Err(Refusal::Voter(_))));
    // A batch that was executed before says nothing.
    let (id, epoch) = (world.scope(), world.group.epoch());
    let batch = Batch::new(epoch, Author::Node(key(3).public()), 1, world.sequence - 1, vec![Command::Tick]);
    let again = Ok(object::sign(batch, NETWORK, &id, &key(3)).expect("a batch"));
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    assert_eq!(world.group.apply(NOW_MS, &again), Reply::Duplicate);
    assert!(world.group.members().silent_since(&key(3).public()).is_some());
    wait(&mut world, REPLACE_AFTER_MS);
    assert_eq!(world.one(&leader, replace(3, 4)), Ok(None));
}

/// P-148, P-149
#[test]
fn only_a_voter_replaces_only_another_one_and_only_by_a_member_that_learns() {
    let mut world = world();
    let leader = world.founder.clone();
    let not_permitted = |result| matches!(result, Err(Refusal::NotPermitted(_)));
    assert!(not_permitted(world.one(&key(4), silent(3))), "a learner");
    assert!(matches!(world.one(&leader, silent(1)), Err(Refusal::Voter(_))), "itself");
    assert!(matches!(world.one(&leader, silent(4)), Err(Refusal::Voter(_))), "it does not vote");
    let (owner, signer, epoch) = (world.owners[0].id(), world.owners[0].0.clone(), world.group.epoch());
    let reply = world.batch(Author::Publisher(owner), &signer, epoch, vec![silent(3), replace(3, 4)]);
    let Reply::Executed(outcomes) = reply else { panic!("{reply:?}") };
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Refused(Refusal::Author(_)))), "{outcomes:?}");
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    assert_eq!(world.one(&leader, silent(2)), Ok(None));
    wait(&mut world, REPLACE_AFTER_MS);
    assert!(not_permitted(world.one(&key(5), replace(3, 4))), "a learner");
    assert!(matches!(world.one(&leader, replace(3, 2)), Err(Refusal::Voter(_))), "it votes already");
    assert_eq!(world.one(&leader, replace(3, 9)), Err(Refusal::NotAMember(key(9).public())));
    assert_eq!(world.one(&leader, replace(3, 4)), Ok(None));
    assert!(matches!(world.one(&leader, replace(2, 3)), Err(Refusal::Voter(_))), "that one is silent itself");
    assert!(matches!(world.one(&leader, replace(3, 5)), Err(Refusal::Voter(_))), "it does not vote any more");
    // What owners forbid, nobody does.
    lower(&mut world, Some(0));
    assert!(matches!(world.one(&leader, replace(2, 5)), Err(Refusal::Voter(_))));
    lower(&mut world, Some(20_000));
    assert_eq!(world.one(&leader, replace(2, 5)), Ok(None));
    assert_eq!(votes(&world), [1, 4, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// P-149: whatever members say, as many vote as before, all of them members, and who was heard within the time stays.
    #[test]
    fn a_replacement_changes_neither_how_many_vote_nor_who_was_heard(
        steps in prop::collection::vec((0..4u8, 1..6u8, 1..6u8, 0..6u64), 1..60),
    ) {
        let mut world = world();
        let mut heard = [world.group.now_ms; 6];
        for (what, by, of, minutes) in steps {
            wait(&mut world, minutes * 60_000);
            let (before, now_ms) = (votes(&world), world.group.now_ms);
            let _ = match what {
                0 => world.one(&key(by), Command::Tick),
                1 => world.one(&key(by), silent(of)),
                _ => world.one(&key(by), replace(of, 1 + (of + what) % 5)),
            };
            heard[usize::from(by)] = now_ms;
            let after = votes(&world);
            prop_assert_eq!(after.len(), 3);
            let gone: Vec<u8> = before.iter().filter(|seed| !after.contains(seed)).copied().collect();
            prop_assert!(gone.len() <= 1 && (gone.is_empty() || what >= 2 && before.contains(&by)));
            prop_assert!(gone.iter().all(|seed| heard[usize::from(*seed)] + REPLACE_AFTER_MS <= now_ms));
        }
    }
}

fn seen(silence_ms: [u64; 5]) -> std::collections::BTreeMap<PublicKey, crate::machine::replacement::Seen> {
    let of =
        |(seed, silence_ms)| (key(seed).public(), crate::machine::replacement::Seen { silence_ms, is_current: true });
    (1..).zip(silence_ms).map(of).collect()
}

/// P-149
#[test]
fn the_leader_replaces_who_it_does_not_hear_by_a_learner_that_is_ready() {
    use crate::machine::replacement::{SILENT_MS, next};
    let mut world = world();
    let leader = world.founder.clone();
    let decide = |world: &World, seen: &_, now_ms| next(&world.group, key(1).public(), seen, now_ms);
    let (alive, gone) = (seen([0; 5]), seen([0, 0, SILENT_MS, 0, 0]));
    assert_eq!(decide(&world, &alive, NOW_MS), None);
    assert_eq!(decide(&world, &gone, NOW_MS), Some(silent(3)));
    assert_eq!(decide(&world, &seen([0, 0, SILENT_MS, 9_000, 9_000]), NOW_MS), None, "no learner is there");
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    let due_ms = world.group.now_ms + REPLACE_AFTER_MS;
    assert_eq!(decide(&world, &gone, due_ms - 1), None);
    assert_eq!(decide(&world, &gone, due_ms), Some(replace(3, 4)), "who joined first");
    assert_eq!(decide(&world, &alive, due_ms), None, "it is heard again");
    let mut behind = gone.clone();
    behind.get_mut(&key(4).public()).expect("a member").is_current = false;
    assert_eq!(decide(&world, &behind, due_ms), Some(replace(3, 5)));
    lower(&mut world, Some(0));
    assert_eq!(decide(&world, &gone, due_ms), None, "the owners forbid it");
}

/// P-149
#[test]
fn a_learner_of_the_same_owner_goes_before() {
    let mut world = World::new();
    let join = |world: &mut World, seed: u8, owner: usize| {
        let node = key(seed);
        let invitation = world.endorsed(world.invitation(&node, seed), &world.scope(), &[0, 1]);
        let owner = &world.owners[owner];
        let (owner, log, addresses) = (owner.proof(&node), owner.events(), Vec::new());
        let join = Join { invitation, owner, log, addresses, rules: Some(1) };
        assert_eq!(world.one(&node, Command::Join(Box::new(join))), Ok(None));
    };
    for (seed, owner) in [(2, 1), (3, 2), (4, 1), (5, 2)] {
        join(&mut world, seed, owner);
    }
    lower(&mut world, None);
    let leader = world.founder.clone();
    assert_eq!(world.one(&leader, silent(3)), Ok(None));
    let now_ms = world.group.now_ms + REPLACE_AFTER_MS;
    let decided = crate::machine::replacement::next(&world.group, leader.public(), &seen([0, 0, 60_000, 0, 0]), now_ms);
    assert_eq!(decided, Some(replace(3, 5)));
    // A vote does not pass from one owner to another where several must sign, whoever leads.
    world.group.advance(now_ms);
    assert!(matches!(world.one(&leader, replace(3, 4)), Err(Refusal::Voter(_))));
    assert!(world.one(&key(5), Command::Leave).is_ok());
    let decided = crate::machine::replacement::next(&world.group, leader.public(), &seen([0, 0, 60_000, 0, 0]), now_ms);
    assert_eq!(decided, None, "no learner of that owner is left");
}
