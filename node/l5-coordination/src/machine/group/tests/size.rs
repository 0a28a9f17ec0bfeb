//! As many members as a group can have (P-91, P-105).

use althing_protocol::limits::GROUP_MEMBERS_MAX;

use super::*;
use crate::machine::rows::Row;

/// The node of a number.
fn node(number: usize) -> SecretKey {
    let mut seed = [88; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_seed(&seed)
}

/// A group of as many.
fn full() -> World {
    let mut world = World::new();
    for number in 1..GROUP_MEMBERS_MAX {
        world.admit(&node(number), u8::try_from(number - 1).expect("there are fewer"));
    }
    assert_eq!(world.group.members().len(), GROUP_MEMBERS_MAX);
    world
}

/// The row of a member.
fn row(world: &World, node: &SecretKey) -> Vec<u8> {
    let member = world.group.members().get(&node.public()).expect("it is a member").clone();
    minicbor::to_vec(Row::Member(node.public(), member)).expect("a row")
}

#[test]
fn a_full_group_admits_nobody_before_somebody_leaves_and_a_snapshot_has_no_member_more() {
    let mut world = full();
    let (id, late, leaver) = (world.group.id(), node(GROUP_MEMBERS_MAX), node(1));
    let read = |rows: &[Vec<u8>]| Group::restore(id, NETWORK, rows);
    let invitation = world.endorsed(world.invitation(&late, u8::MAX), &world.scope(), &[0, 2]);
    let before = world.group.members().clone();
    let refused = world.join(&late, invitation.clone());
    assert!(matches!(&refused, Err(Refusal::Full(why)) if why.contains("256 members")), "{refused:?}");
    assert_eq!(world.group.members(), &before);
    assert_eq!(read(&world.group.rows()), Ok(world.group.clone()));
    // The invitation was not used, and is still good when there is room.
    let left = row(&world, &leaver);
    assert_eq!(world.one(&leaver, Command::Leave), Ok(Some(2)));
    assert_eq!(world.join(&late, invitation), Ok(None));
    // Each of both was admitted, so that only their number is wrong.
    let mut rows = world.group.rows();
    rows.push(left);
    let refused = read(&rows).expect_err("there is one more");
    assert!(refused.why.contains("one charter or member too many"), "{refused}");
    let last = row(&world, &late);
    rows.retain(|row| *row != last);
    assert_eq!(read(&rows).map(|group| group.members().len()), Ok(GROUP_MEMBERS_MAX));
}
