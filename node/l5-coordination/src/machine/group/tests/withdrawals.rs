//! Members that their owners withdrew.

use althing_protocol::keyring::Withdrawal;
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;

use super::*;

/// The withdrawal of `node` by an owner of the world, signed by `signer`.
fn withdrawn(owner: PublisherId, signer: &SecretKey, node: &SecretKey, until_ms: u64) -> Command {
    let body = Withdrawal::new(owner, node.public(), until_ms);
    Command::Withdraw(object::sign(body, "", "", signer).expect("a withdrawal").bytes.into())
}

/// A group with the member 2, of the third owner.
fn world() -> (World, SecretKey, PublisherId, SecretKey) {
    let mut world = World::new();
    let node = key(2);
    world.admit(&node, 1);
    let (owner, signer) = (world.owners[2].id(), world.owners[2].0.clone());
    (world, node, owner, signer)
}

/// P-159, P-92, P-97
#[test]
fn a_member_that_its_owner_withdrew_is_expelled_by_that_owner_alone() {
    let (mut world, node, owner, signer) = world();
    let founder = world.founder.clone();
    assert!(world.one(&node, set("a")).is_ok());
    let held = world.endorsed(world.invitation(&node, 7), &world.scope(), &[0, 1]);
    let command = withdrawn(owner, &signer, &node, NOW_MS);
    assert_eq!(world.one(&founder, command.clone()), Ok(Some(2)), "no other owner signed");
    assert!(world.group.members().get(&node.public()).is_none());
    assert_eq!(world.one(&node, set("b")), Err(Refusal::NotAMember(node.public())));
    let stale = world.batch(Author::Node(founder.public()), &founder, 1, vec![set("c")]);
    assert_eq!(stale, Reply::Refused(Refusal::Epoch { signed: 1, current: 2 }));
    assert!(matches!(world.join(&node, held), Err(Refusal::Invitation(_))), "it was made before");
    assert_eq!(world.one(&founder, command), Err(Refusal::NotAMember(node.public())));
    // The same after a restart, and in a snapshot.
    let mut again = Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows");
    assert_eq!(again, world.group);
    let batch = Batch::new(2, Author::Node(node.public()), 9, 1, vec![set("d")]);
    let signed = object::sign(batch, NETWORK, &world.scope(), &node).expect("a batch");
    assert_eq!(again.apply(NOW_MS, &Ok(signed)), Reply::Refused(Refusal::NotAMember(node.public())));
}

/// P-159
#[test]
fn a_withdrawal_counts_only_of_the_members_owner_and_of_a_time_since_it_joined() {
    let (mut world, node, owner, signer) = world();
    let founder = world.founder.clone();
    let (other, others) = (world.owners[1].id(), world.owners[1].0.clone());
    let author = |result| matches!(result, Err(Refusal::Author(_)));
    assert!(author(world.one(&founder, withdrawn(other, &others, &node, NOW_MS))), "of another owner");
    assert!(author(world.one(&founder, withdrawn(owner, &others, &node, NOW_MS))), "signed by another owner");
    assert!(author(world.one(&founder, withdrawn(owner, &key(99), &node, NOW_MS))), "signed by a stranger");
    let Command::Withdraw(bytes) = withdrawn(owner, &signer, &node, NOW_MS) else { unreachable!() };
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().expect("it has bytes") ^= 1;
    assert!(author(world.one(&founder, Command::Withdraw(bytes.into()))), "a damaged one");
    let invalid = |result| matches!(result, Err(Refusal::Invalid(_)));
    assert!(invalid(world.one(&founder, withdrawn(owner, &signer, &node, NOW_MS - 1))), "it joined later");
    let far_ms = NOW_MS + CLOCK_SKEW_MAX_MS + 1;
    assert!(invalid(world.one(&founder, withdrawn(owner, &signer, &node, far_ms))), "of the future");
    let nobody = key(8);
    let refused = world.one(&founder, withdrawn(owner, &signer, &nobody, NOW_MS));
    assert_eq!(refused, Err(Refusal::NotAMember(nobody.public())));
    assert_eq!(world.group.epoch(), 1, "none of these changed anything");
    let at_most_ms = NOW_MS + CLOCK_SKEW_MAX_MS;
    assert_eq!(world.one(&founder, withdrawn(owner, &signer, &node, at_most_ms)), Ok(Some(2)));
}

/// P-159
#[test]
fn a_withdrawal_by_a_later_key_counts_once_the_group_knows_that_key() {
    let (mut world, node, owner, signer) = world();
    let founder = world.founder.clone();
    let log = world.owners[2].1.rotate(&key(31), key(33).public(), NOW_MS, 0).expect("the next key");
    let command = withdrawn(owner, &key(31), &node, NOW_MS);
    assert!(matches!(world.one(&founder, command.clone()), Err(Refusal::Author(_))));
    let events = log.to_bytes().into_iter().map(ByteVec::from).collect();
    assert_eq!(world.one(&founder, Command::Keys(events)), Ok(None));
    world.group.advance(NOW_MS + 1);
    let former = withdrawn(owner, &signer, &node, NOW_MS);
    assert!(matches!(world.one(&founder, former), Err(Refusal::Author(_))), "a key that was rotated out");
    assert_eq!(world.one(&founder, command), Ok(Some(2)));
}

/// P-159
#[test]
fn the_last_member_stays() {
    let mut world = World::new();
    let (founder, owner, signer) = (world.founder.clone(), world.owners[0].id(), world.owners[0].0.clone());
    let command = withdrawn(owner, &signer, &founder, NOW_MS);
    assert_eq!(world.one(&founder, command.clone()), Err(Refusal::LastMember));
    world.admit(&key(2), 1);
    assert_eq!(world.one(&founder, command), Ok(Some(2)), "the founder joined when the group was founded");
}
