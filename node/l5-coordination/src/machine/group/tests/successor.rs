//! What a snapshot may not take back (P-105, SG-1). Each forged state is one that its rows give, so it is signed as it must be.

use althing_protocol::limits::GROUP_MEMBERS_MAX;

use super::*;
use crate::machine::successor::{check, check_log, leavers};

/// Four members, of whom three vote; another one was expelled, and an invitation used by one that left.
fn world() -> World {
    let mut world = World::new();
    let founder = world.founder.clone();
    for seed in [2, 3, 4, 5, 6] {
        world.admit(&key(seed), seed);
    }
    let expulsion = world.expulsion(&key(5), &[0, 1]);
    assert!(world.one(&founder, expulsion).is_ok());
    assert!(world.one(&key(6), Command::Leave).is_ok());
    assert_eq!(world.group.members().voters().len(), 3);
    world
}

fn nodes(seeds: &[u8]) -> BTreeSet<PublicKey> {
    seeds.iter().map(|seed| key(*seed).public()).collect()
}

/// Another charter with this policy, which these owners sign.
fn amend(world: &mut World, policy: Policy, signers: &[usize]) {
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS);
    charter.policy = policy;
    let charter = world.endorsed(charter, &world.scope(), signers);
    let founder = world.founder.clone();
    assert!(world.one(&founder, Command::Amend(Box::new(Amendment { charter, logs: Vec::new() }))).is_ok());
}

/// The end of the group, which these owners sign.
fn dissolve(world: &mut World, signers: &[usize]) {
    let body = Dissolution::new(world.group.id(), world.group.charter().expect("it is founded").digest());
    let (founder, signed) = (world.founder.clone(), world.endorsed(body, &world.scope(), signers));
    assert!(world.one(&founder, Command::Dissolve(signed)).is_ok());
}

/// The same group after its first owner rotated its key, which everybody knows.
fn rotated() -> World {
    let mut world = world();
    let (log, founder) = (world.owners[0].1.clone(), world.founder.clone());
    let log = log.rotate(&key(11), key(50).public(), NOW_MS, 0).expect("the next key");
    world.owners[0] = Owner(key(11), log);
    let events = world.owners[0].events();
    assert!(world.one(&founder, Command::Keys(events)).is_ok());
    world.group.now_ms += 1;
    world
}

/// What whoever has the key before makes of the state that others know: rows that are signed as they must be.
fn stolen(known: &World, deed: impl FnOnce(&mut World)) -> Group {
    let mut thief = world();
    thief.group.now_ms = known.group.now_ms;
    deed(&mut thief);
    Group { logs: known.group.logs.clone(), ..thief.group }
}

fn here() -> PublicKey {
    key(2).public()
}

/// Whether the state may follow that of `world`, as it is read from its rows.
fn judged(later: &Group, world: &World) -> Result<(), &'static str> {
    let read = Group::restore(later.id(), NETWORK, &later.rows()).expect("rows that are signed as they must be");
    check(&read, &world.group, here())
}

/// The group with other members, voters and number of joins.
fn with(group: &Group, members: &[u8], voters: &[u8], joined: u64) -> Group {
    let all = group.members().iter().filter(|(node, _)| members.iter().any(|seed| key(*seed).public() == **node));
    let all: Vec<_> = all.map(|(node, member)| (*node, member.clone())).collect();
    let recent = group.members().recent().cloned().collect();
    let members = Members::restore(all, nodes(voters), recent, joined, BTreeMap::new());
    Group { members, epoch: group.epoch + 1, ..group.clone() }
}

/// The group with one member more, and these voters.
fn plus(group: &Group, seed: u8, member: Member, voters: &[u8]) -> Group {
    let joined = group.members().joined().max(member.order + 1);
    let all = group.members().iter().map(|(node, member)| (*node, member.clone()));
    let all = all.chain([(key(seed).public(), member)]);
    let members = Members::restore(all, nodes(voters), Default::default(), joined, BTreeMap::new());
    Group { members, epoch: group.epoch + 1, ..group.clone() }
}

/// The group with these voters before those that it has.
fn after(group: &Group, voters: &[u8]) -> Group {
    let before = group.members();
    let all = before.iter().map(|(node, member)| (*node, member.clone()));
    let recent = before.recent().cloned().chain([nodes(voters)]).collect();
    let members = Members::restore(all, before.voters().clone(), recent, before.joined(), BTreeMap::new());
    Group { members, epoch: group.epoch + 1, ..group.clone() }
}

#[test]
fn what_goes_on_from_the_state_here_takes_its_place() {
    let world = world();
    assert_eq!(judged(&world.group, &world), Ok(()));
    assert_eq!(check(&world.group, &Group::new(world.group.id(), NETWORK), key(9).public()), Ok(()), "a new member's");
    let mut later = self::world();
    later.group = world.group.clone();
    let founder = later.founder.clone();
    later.admit(&key(7), 17);
    assert!(later.one(&key(3), Command::Leave).is_ok());
    later.admit(&key(5), 18);
    let expulsion = later.expulsion(&key(7), &[1, 2]);
    assert!(later.one(&founder, expulsion).is_ok());
    let Owner(_, log) = &later.owners[2];
    let rotated = log.rotate(&key(31), key(60).public(), NOW_MS, 0).expect("the next key");
    assert!(later.one(&founder, Command::Keys(rotated.to_bytes().into_iter().map(ByteVec::from).collect())).is_ok());
    later.group.now_ms += 100_000;
    assert_eq!(judged(&later.group, &world), Ok(()));
    assert!(judged(&world.group, &later).is_err_and(|why| why.contains("older")), "nobody goes back");
}

#[test]
fn no_snapshot_removes_its_receiver() {
    let world = world();
    let joined = world.group.members().joined();
    let forged = with(&world.group, &[1, 3, 4], &[1, 3, 4], joined);
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("this node is no member")));
}

#[test]
fn no_snapshot_brings_back_a_key_that_was_rotated_out() {
    let mut world = world();
    let stolen = world.group.clone();
    let Owner(_, log) = &world.owners[0];
    let rotated = log.rotate(&key(11), key(50).public(), NOW_MS, 0).expect("the next key");
    let founder = world.founder.clone();
    assert!(world.one(&founder, Command::Keys(rotated.to_bytes().into_iter().map(ByteVec::from).collect())).is_ok());
    let forged = Group { epoch: world.group.epoch + 1, ..stolen };
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("keys")));
}

#[test]
fn no_snapshot_gives_the_group_to_one_voter_or_takes_a_vote() {
    let world = world();
    let joined = world.group.members().joined();
    for voters in [&[4][..], &[1, 4], &[1, 2, 3, 4]] {
        let forged = with(&world.group, &[1, 2, 3, 4], voters, joined);
        assert!(judged(&forged, &world).is_err_and(|why| why.contains("number of voters")), "{voters:?}");
    }
    assert_eq!(judged(&with(&world.group, &[1, 2, 3, 4], &[1, 2, 4], joined), &world), Ok(()), "one was replaced");
    let exchanged = |said: Result<(), &str>| said.is_err_and(|why| why.contains("a majority of the voters here"));
    // As if the third of three had left.
    let mut three = World::new();
    three.admit(&key(2), 2);
    three.admit(&key(3), 3);
    assert_eq!(three.group.members().voters(), &nodes(&[1, 2, 3]));
    assert!(exchanged(judged(&with(&three.group, &[2, 3], &[3], 3), &three)));
    // As if others had voted meanwhile: the log may name those too (P-103).
    assert!(exchanged(judged(&after(&world.group, &[4]), &world)));
    assert_eq!(judged(&after(&world.group, &[1, 2, 4]), &world), Ok(()));
}

/// P-105, P-148
#[test]
fn no_snapshot_replaces_a_voter_where_the_charter_replaces_none() {
    let mut world = world();
    amend(&mut world, Policy { replace_after_ms: Some(0), ..Policy::default() }, &[0, 1]);
    let joined = world.group.members().joined();
    let forged = with(&world.group, &[1, 2, 3, 4], &[1, 2, 4], joined);
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("lost its vote")));
    assert_eq!(judged(&with(&world.group, &[1, 2, 3, 4], &[1, 2, 3], joined), &world), Ok(()));
}

/// P-103, P-105
#[test]
fn the_log_of_a_snapshot_has_the_voters_here_or_those_that_it_had() {
    let world = world();
    let sets = |sets: &[&[u8]]| sets.iter().map(|seeds| nodes(seeds)).collect::<Vec<_>>();
    let judge = |log: &[&[u8]], present: &[&[u8]]| check_log(&sets(log), &world.group, &sets(present)).is_ok();
    assert!(judge(&[&[1, 2, 3]], &[&[1, 2, 3]]) && judge(&[&[1, 2, 3], &[1, 2, 4]], &[&[1, 2, 3]]));
    assert!(!judge(&[&[4]], &[&[1, 2, 3]]) && !judge(&[&[1, 2, 3], &[4]], &[&[1, 2, 3]]));
    // The founder voted alone once.
    assert!(!judge(&[&[1]], &[&[1, 2, 3]]) && !judge(&[&[1]], &[&[1, 2, 3, 4, 5]]));
    assert!(judge(&[&[1]], &[&[1]]) && judge(&[&[1], &[1, 2, 3]], &[&[1]]), "the log here is as far behind");
}

#[test]
fn a_key_that_was_rotated_out_signs_nothing_that_is_new() {
    let known = rotated();
    let refused = |forged: &Group, why: &str| {
        let said = judged(forged, &known);
        assert!(said.is_err_and(|said| said.contains(why)), "{why}: {said:?}");
    };
    refused(&stolen(&known, |thief| amend(thief, Policy::default(), &[0, 1])), "it has a charter");
    refused(&stolen(&known, |thief| thief.admit(&key(7), 17)), "by keys");
    refused(&stolen(&known, |thief| dissolve(thief, &[0, 1])), "an end of the group");
    // The others' keys count.
    assert_eq!(judged(&stolen(&known, |thief| amend(thief, Policy::default(), &[1, 2])), &known), Ok(()));
    assert_eq!(judged(&stolen(&known, |thief| dissolve(thief, &[1, 2])), &known), Ok(()));
}

#[test]
fn who_has_not_heard_of_a_rotation_takes_what_either_key_signed() {
    let (world, mut later) = (world(), rotated());
    later.admit(&key(7), 17);
    amend(&mut later, Policy::default(), &[0, 1]);
    assert_eq!(judged(&later.group, &world), Ok(()), "by the new key");
    let mut later = self::world();
    later.admit(&key(7), 17);
    amend(&mut later, Policy::default(), &[0, 1]);
    later.group.logs = rotated().group.logs;
    assert_eq!(judged(&later.group, &world), Ok(()), "by the one before, and then it was rotated");
}

#[test]
fn an_invitation_under_an_earlier_charter_admits_nobody_that_is_new() {
    let mut world = world();
    let held = world.endorsed(world.invitation(&key(7), 17), &world.scope(), &[0, 2]);
    amend(&mut world, Policy::default(), &[0, 1]);
    let member = world.group.members().get(&key(4).public()).expect("a member").clone();
    let with = |invitation: Endorsed| {
        let admission = Some(Admission { invitation, at_ms: NOW_MS });
        judged(&plus(&world.group, 7, Member { order: 9, admission, ..member.clone() }, &[1, 2, 3, 4, 7]), &world)
    };
    assert!(with(held).is_err_and(|why| why.contains("invited under a charter")));
    assert_eq!(with(world.endorsed(world.invitation(&key(7), 18), &world.scope(), &[0, 2])), Ok(()));
}

#[test]
fn no_snapshot_takes_back_the_end_of_the_group() {
    let mut world = world();
    dissolve(&mut world, &[1, 2]);
    let forged = Group { dissolution: None, epoch: world.group.epoch + 1, ..world.group.clone() };
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("end of the group that is known here")));
}

/// One of as many nodes as one likes, of which none is a member.
fn numbered(number: usize) -> PublicKey {
    let mut seed = [77; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_seed(&seed).public()
}

/// P-105, P-109: one of five can have the others take a snapshot without a fourth, since no row shows who signed that.
#[test]
fn whom_a_snapshot_lacks_nobody_knows_to_have_left() {
    let mut world = World::new();
    for seed in [2, 3, 4, 5] {
        world.admit(&key(seed), seed);
    }
    assert_eq!(world.group.members().voters(), &nodes(&[1, 2, 3, 4, 5]));
    let (lost, joined) = (key(3).public(), world.group.members().joined());
    let forged = with(&world.group, &[1, 2, 4, 5], &[1, 2, 4], joined);
    let expelled = BTreeMap::from([(lost, world.group.epoch)]);
    for forged in [forged.clone(), Group { expelled, ..forged.clone() }] {
        assert_eq!(judged(&forged, &world), Ok(()), "it may be the group's");
        assert!(leavers(&[], &[], &forged).is_empty(), "though it says that it was expelled");
    }
    assert_eq!(leavers(&[], &nodes(&[1, 3]).into_iter().collect::<Vec<_>>(), &forged), [lost], "an entry removed it");
    assert_eq!(leavers(&[lost], &[], &forged), [lost], "also after the next one");
    assert!(leavers(&[lost], &[], &world.group).is_empty(), "it is a member again");
    // The last ones of many.
    let many: Vec<PublicKey> = (0..GROUP_MEMBERS_MAX).map(numbered).collect();
    let last = leavers(&many, &[lost], &forged);
    assert_eq!((last.len(), last.first(), last.last()), (GROUP_MEMBERS_MAX, many.get(1), Some(&lost)));
}

#[test]
fn made_up_expulsions_push_out_none_that_is_known() {
    let node = numbered;
    let mut world = world();
    let forged = Group {
        epoch: world.group.epoch + 9,
        expelled: (0..EXPELLED_MAX).map(|number| (node(number), world.group.epoch + 8)).collect(),
        ..world.group.clone()
    };
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("expulsion")));
    // Where as many are known as are remembered, the first one makes room for the next.
    world.group.expelled = (0..EXPELLED_MAX).map(|number| (node(number), u64::from(number > 0))).collect();
    let mut later = Group { epoch: world.group.epoch + 1, ..world.group.clone() };
    assert!(later.expelled.remove(&node(0)).is_some());
    later.expelled.insert(node(EXPELLED_MAX), world.group.epoch);
    assert_eq!(judged(&later, &world), Ok(()));
}

#[test]
fn no_snapshot_forgets_who_was_expelled_or_which_invitation_was_used() {
    let world = world();
    let (expelled, nonce) = (key(5).public(), [6; 16]);
    let mut forged = world.group.clone();
    assert!(forged.expelled.remove(&expelled).is_some());
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("expulsion")));
    let mut forged = world.group.clone();
    *forged.expelled.get_mut(&expelled).expect("it was expelled") -= 1;
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("expulsion")));
    let mut forged = world.group.clone();
    let until = forged.used.remove(&nonce).expect("it was used");
    assert!(judged(&forged, &world).is_err_and(|why| why.contains("invitation")));
    forged.now_ms = until + 1;
    assert_eq!(judged(&forged, &world), Ok(()), "it cannot be used again");
}

#[test]
fn no_snapshot_puts_back_who_was_expelled_or_has_left() {
    let mut earlier = World::new();
    let held = earlier.endorsed(earlier.invitation(&key(5), 9), &earlier.scope(), &[0, 2]);
    earlier.admit(&key(2), 2);
    earlier.admit(&key(5), 5);
    let member = earlier.group.members().get(&key(5).public()).expect("a member").clone();
    let founder = earlier.founder.clone();
    let expulsion = earlier.expulsion(&key(5), &[0, 1]);
    assert!(earlier.one(&founder, expulsion).is_ok());
    let back = |member: Member| plus(&earlier.group, 5, member, &[1, 2, 5]);
    let refused = |member: Member, why: &str| {
        let said = judged(&back(member), &earlier);
        assert!(said.is_err_and(|said| said.contains(why)), "{why}: {said:?}");
    };
    refused(member.clone(), "had left");
    refused(Member { order: 9, ..member.clone() }, "had left");
    // By an invitation that it had before, and did not use.
    let admission = Some(Admission { invitation: held, at_ms: NOW_MS });
    refused(Member { order: 9, admission, ..member.clone() }, "after it was invited");
    let early = member.admission.clone().map(|admission| Admission { at_ms: NOW_MS - 1, ..admission });
    refused(Member { order: 9, admission: early, ..member }, "had left");
}
