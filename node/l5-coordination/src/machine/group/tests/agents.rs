//! Deployments as values: what was replaced or ended is not brought back (P-196, SG-9).

use althing_protocol::group::Deployment;
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;

use super::*;
use crate::machine::agents::Last;
use crate::machine::successor::check;

/// Three owners, of whom the first has the founder, and the third the node 2.
fn world() -> World {
    let mut world = World::new();
    world.admit(&key(2), 1);
    world
}

fn made(world: &World, owner: usize, made_ms: u64) -> Deployment {
    Deployment::new(world.group.id(), world.owners[owner].id(), "one", b"{}".to_vec(), made_ms)
}

fn signed(world: &World, body: Deployment, signer: &SecretKey) -> Command {
    let value = object::sign(body, NETWORK, &world.scope(), signer).expect("a deployment").bytes.into();
    Command::Set(Set { key: "agent/one".to_owned(), value, if_version: None })
}

/// A deployment of the first owner.
fn deploy(world: &World, made_ms: u64) -> Command {
    signed(world, made(world, 0, made_ms), &world.owners[0].0)
}

fn end() -> Command {
    Command::Remove(Remove { key: "agent/one".to_owned(), if_version: None })
}

fn is_old(done: Result<Option<u64>, Refusal>) -> bool {
    matches!(done, Err(Refusal::Invalid(why)) if why.contains("deploy it anew"))
}

/// The state as it is after a restart.
fn restart(world: &mut World) {
    let read = Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows");
    assert_eq!(read, world.group);
    world.group = read;
}

/// P-196
#[test]
fn whoever_writes_ends_what_an_owner_deployed_and_brings_nothing_back() {
    let mut world = world();
    let (writer, founder) = (key(2), world.founder.clone());
    let [first, second, third] = [1, 2, 3].map(|at| deploy(&world, NOW_MS + at));
    assert!(world.one(&founder, first.clone()).is_ok());
    assert!(world.one(&writer, first.clone()).is_ok(), "it is the present one");
    assert!(world.one(&founder, second.clone()).is_ok());
    assert!(is_old(world.one(&writer, first.clone())), "it was replaced");
    assert!(world.one(&writer, end()).is_ok(), "a writer may end it");
    restart(&mut world);
    for old in [&first, &second] {
        assert!(is_old(world.one(&writer, old.clone())), "it was ended");
        assert!(is_old(world.one(&founder, old.clone())), "whoever brings it");
    }
    assert!(world.one(&writer, third.clone()).is_ok(), "what the owner signs later it may bring");
    assert!(world.one(&writer, end()).is_ok() && is_old(world.one(&writer, third)));
    assert!(world.group.values().get("agent/one").is_none());
}

/// P-196
#[test]
fn the_value_of_an_agent_is_a_deployment_that_its_owner_signed_for_it_here() {
    let mut world = world();
    let writer = key(2);
    let (owner, other) = (world.owners[0].0.clone(), Owner::new(60));
    let good = made(&world, 0, NOW_MS);
    let but = |change: &dyn Fn(&mut Deployment)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed
    };
    let elsewhere = but(&|it| it.group = GroupId::from_digest([3; 32]));
    let named = but(&|it| it.agent = "two".to_owned());
    let early = but(&|it| it.made_ms = NOW_MS + CLOCK_SKEW_MAX_MS + 1);
    for wrong in [signed(&world, elsewhere, &owner), signed(&world, named, &owner), signed(&world, early, &owner)] {
        assert!(matches!(world.one(&writer, wrong), Err(Refusal::Invalid(_))));
    }
    let nonsense = Command::Set(Set { key: "agent/one".to_owned(), value: b"{}".to_vec().into(), if_version: None });
    assert!(matches!(world.one(&writer, nonsense), Err(Refusal::Invalid(_))));
    let forged = signed(&world, good.clone(), &world.owners[2].0);
    assert!(matches!(world.one(&writer, forged), Err(Refusal::Author(_))), "another owner signed it");
    let stranger = but(&|it| it.owner = other.id());
    let stranger = signed(&world, stranger, &other.0);
    assert!(matches!(world.one(&writer, stranger), Err(Refusal::Author(_))), "it has no part in the group");
    assert!(world.group.values().is_empty() && world.group.agents().iter().count() == 0);
    let good = signed(&world, good, &owner);
    assert!(world.one(&writer, good).is_ok());
}

/// P-196: the members of an owner sign again with its next key what the former one signed, and nothing that was not the last.
#[test]
fn after_a_rotation_the_present_deployment_is_signed_again_and_no_other() {
    let mut world = world();
    let (founder, writer) = (world.founder.clone(), key(2));
    let [first, second] = [1, 2].map(|at| deploy(&world, NOW_MS + at));
    assert!(world.one(&founder, first).is_ok() && world.one(&founder, second.clone()).is_ok());
    let rotated = world.owners[0].1.rotate(&key(11), key(50).public(), NOW_MS, 3_600_000).expect("the next key");
    let by_next = |world: &World, at: u64| signed(world, made(world, 0, NOW_MS + at), &key(11));
    let again = by_next(&world, 2);
    assert!(matches!(world.one(&founder, again.clone()), Err(Refusal::Author(_))), "the group does not know the key");
    let events = rotated.to_bytes().into_iter().map(ByteVec::from).collect();
    assert_eq!(world.one(&founder, Command::Keys(events)), Ok(None));
    let by_former = deploy(&world, NOW_MS + 3);
    assert!(matches!(world.one(&writer, by_former), Err(Refusal::Author(_))), "whoever stole the former key");
    let replaced = by_next(&world, 1);
    assert!(is_old(world.one(&founder, replaced)), "an earlier one");
    assert!(world.one(&founder, again.clone()).is_ok());
    assert!(world.group.agents().is_last(&made(&world, 0, NOW_MS + 2)), "it is the same deployment");
    let mut changed = made(&world, 0, NOW_MS + 2);
    changed.instances = 2;
    let changed = signed(&world, changed, &key(11));
    assert!(is_old(world.one(&founder, changed)), "another one of that time");
    assert!(world.one(&writer, end()).is_ok() && is_old(world.one(&founder, again)), "it was ended");
    restart(&mut world);
}

/// P-196
#[test]
fn another_owners_deployment_ends_the_one_of_its_name_for_good() {
    let mut world = world();
    let (founder, writer) = (world.founder.clone(), key(2));
    let first = deploy(&world, NOW_MS + 5);
    assert!(world.one(&founder, first.clone()).is_ok());
    let other = signed(&world, made(&world, 2, NOW_MS + 1), &world.owners[2].0);
    assert!(world.one(&writer, other.clone()).is_ok(), "whoever may write ends it so too");
    assert!(is_old(world.one(&writer, first)));
    let later = deploy(&world, NOW_MS + 6);
    assert!(world.one(&founder, later).is_ok() && is_old(world.one(&writer, other)));
    restart(&mut world);
}

/// P-105, P-196
#[test]
fn no_snapshot_brings_back_what_was_replaced_or_ended() {
    let mut world = world();
    let founder = world.founder.clone();
    let [first, second] = [1, 2].map(|at| deploy(&world, NOW_MS + at));
    assert!(world.one(&founder, first).is_ok());
    let replaced = world.group.clone();
    assert!(world.one(&founder, second).is_ok());
    let ended = world.group.clone();
    assert!(world.one(&founder, end()).is_ok());
    let here = key(2).public();
    let judged = |later: &Group, earlier: &Group| {
        let read = Group::restore(later.id(), NETWORK, &later.rows()).expect("rows that are signed as they must be");
        check(&read, earlier, here)
    };
    assert_eq!(judged(&world.group, &replaced), Ok(()));
    for old in [&replaced, &ended] {
        assert!(judged(old, &world.group).is_err_and(|why| why.contains("its end")));
        // The old value beside what is known now.
        let forged = Group { agents: world.group.agents.clone(), ..old.clone() };
        assert_eq!(judged(&forged, &world.group), Ok(()));
        let last = made(&world, 0, NOW_MS + 2);
        let earlier = made(&world, 0, NOW_MS + 1);
        assert!(!forged.agents().is_last(&last) && !forged.agents().is_last(&earlier), "it is not hosted");
    }
    let mut ahead = world.group.clone();
    let far = Last { made_ms: NOW_MS + CLOCK_SKEW_MAX_MS + 1, is_over: true };
    assert_eq!(ahead.agents.take("two".to_owned(), world.owners[0].id(), far), Ok(()));
    let refused = Group::restore(ahead.id(), NETWORK, &ahead.rows()).expect_err("nobody could deploy it any more");
    assert!(refused.why.contains("has not come"), "{refused}");
    // With the group all of them end.
    let body = Dissolution::new(world.group.id(), world.group.charter().expect("it is founded").digest());
    let dissolve = Command::Dissolve(world.endorsed(body, &world.scope(), &[1, 2]));
    let before = world.group.clone();
    assert!(world.one(&founder, dissolve).is_ok());
    assert_eq!(judged(&world.group, &before), Ok(()));
}
