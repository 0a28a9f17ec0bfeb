//! What is refused before anything is verified (SG-14).

use althing_protocol::group::Outline;

use super::*;
use crate::machine::group::admission;

const JOIN: Option<u32> = Some(1);
const SET: Option<u32> = Some(7);

fn outline(author: Author, signer: &SecretKey, epoch: u64, alone: Option<u32>) -> Outline {
    Outline { epoch, author, signer: signer.public(), alone }
}

/// P-87, P-107
#[test]
fn a_stranger_brings_nothing_but_a_join() {
    let mut world = World::new();
    world.admit(&key(2), 1);
    let (member, stranger) = (key(2), key(9));
    let of = |node: &SecretKey| Author::Node(node.public());
    let sift = |outline: Outline| admission::sift(&world.group, &outline);
    assert_eq!(sift(outline(of(&member), &member, 1, SET)), Ok(()));
    assert_eq!(sift(outline(of(&member), &member, 1, None)), Ok(()), "several commands");
    assert_eq!(sift(outline(of(&stranger), &stranger, 1, JOIN)), Ok(()));
    for alone in [SET, None, Some(2)] {
        let refused = sift(outline(of(&stranger), &stranger, 1, alone));
        assert_eq!(refused, Err(Refusal::NotAMember(stranger.public())), "{alone:?}");
    }
    assert!(matches!(sift(outline(of(&member), &stranger, 1, SET)), Err(Refusal::Author(_))));
    assert_eq!(
        sift(outline(of(&member), &member, 0, SET)),
        Err(Refusal::Epoch { signed: 0, current: 1 }),
        "of another epoch"
    );
    let owner = |id: PublisherId| sift(outline(Author::Publisher(id), &stranger, 1, SET));
    assert_eq!(owner(world.owners[0].id()), Ok(()), "whether the key is the owner's is looked up later");
    assert!(matches!(owner(Owner::new(60).id()), Err(Refusal::NotPermitted(_))));
    let unfounded = Group::new(world.group.id(), NETWORK);
    assert_eq!(
        admission::sift(&unfounded, &outline(of(&stranger), &stranger, 0, Some(0))),
        Ok(()),
        "a group is founded"
    );
}
