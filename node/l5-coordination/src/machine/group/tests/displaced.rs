//! An owner recovers from a stolen next key in its groups too (P-48, SG-4).

use super::*;

fn events(log: &KeyLog) -> Vec<ByteVec> {
    log.to_bytes().into_iter().map(ByteVec::from).collect()
}

/// The first owner's log as a thief of its next key goes on with it, and as the owner does.
fn logs(world: &World) -> (KeyLog, KeyLog) {
    let log = &world.owners[0].1;
    let stolen = log.rotate(&key(11), key(77).public(), NOW_MS, 0).expect("the next key");
    let first = log.rotate(&key(11), key(13).public(), NOW_MS, 0).expect("the next key");
    (stolen, first.rotate(&key(12), key(14).public(), NOW_MS, 0).expect("the key after it"))
}

#[test]
fn a_key_log_that_displaces_the_one_here_takes_its_place_and_what_was_signed_stays_signed() {
    let mut world = World::new();
    let (founder, node) = (world.founder.clone(), key(2));
    let (stolen, recovered) = logs(&world);
    assert_eq!(world.one(&founder, Command::Keys(events(&stolen))), Ok(None));
    world.group.now_ms += 1;
    let invitation = world.invitation(&node, 1);
    let by_thief = object::sign(invitation.clone(), NETWORK, &world.scope(), &key(11)).expect("signed").bytes;
    let by_other = object::sign(invitation, NETWORK, &world.scope(), &world.owners[2].0).expect("signed").bytes;
    assert_eq!(world.join(&node, Endorsed::new([by_thief, by_other])), Ok(None), "the key counts then");
    let before = world.group.clone();
    assert_eq!(world.one(&founder, Command::Keys(events(&recovered))), Ok(None));
    world.group.now_ms += 1;
    let (owner, epoch) = (recovered.publisher(), world.group.epoch());
    let refused = world.batch(Author::Publisher(owner), &key(11), epoch, vec![set("a")]);
    assert!(matches!(refused, Reply::Refused(Refusal::Author(_))), "{refused:?}");
    let done = world.batch(Author::Publisher(owner), &key(12), epoch, vec![set("a")]);
    assert!(matches!(done, Reply::Executed(_)), "{done:?}");
    let refused = world.one(&founder, Command::Keys(events(&stolen)));
    assert!(matches!(refused, Err(Refusal::KeyLog(_))), "nothing displaces it again: {refused:?}");
    // The key of the fork is in the log that displaced it: a snapshot shows by what the member was admitted.
    let restored = Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows");
    assert_eq!(restored, world.group);
    assert!(restored.members().get(&node.public()).is_some());
    assert_eq!(crate::machine::successor::check(&restored, &before, node.public()), Ok(()));
    let back = crate::machine::successor::check(&before, &restored, node.public());
    assert!(back.is_err_and(|why| why.contains("older")), "the thief's log does not come back: {back:?}");
    let forged = Group { logs: before.logs.clone(), ..restored.clone() };
    let back = crate::machine::successor::check(&forged, &restored, node.public());
    assert!(back.is_err_and(|why| why.contains("keys")), "{back:?}");
}
