//! What owners sign together: proposals, their signatures, and what becomes of them.

use althing_protocol::group::{Endorse, Motion, Propose};
use althing_protocol::limits::{PROPOSAL_LIFE_MAX_MS, PROPOSALS_OF_OWNER_MAX};
use proptest::prelude::*;

use super::*;
use crate::machine::proposals::Proposal;

const LATER_MS: u64 = NOW_MS + 3_600_000;

/// A group of three owners, two of whom must sign, each with a member: the keys 1, 3 and 2.
fn world() -> World {
    let mut world = World::new();
    for (at, seed) in [(2, 2), (1, 3)] {
        let node = key(seed);
        let invitation = world.endorsed(world.invitation(&node, seed), &world.scope(), &[0, 1]);
        let owner = &world.owners[at];
        let (owner, log, addresses) = (owner.proof(&node), owner.events(), Vec::new());
        let join = Join { invitation, owner, log, addresses, rules: Some(1) };
        assert_eq!(world.one(&node, Command::Join(Box::new(join))), Ok(None));
    }
    world
}

/// The member of each owner.
fn member_of(owner: usize) -> SecretKey {
    key([1, 3, 2][owner])
}

fn propose(motion: Motion) -> Command {
    Command::Propose(Box::new(Propose { motion, expires_ms: LATER_MS }))
}

/// The next charter, of which one owner signs less than before.
fn next_charter(world: &World, threshold: u8) -> Charter {
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS);
    charter.threshold = threshold;
    charter
}

fn amendment(world: &World, charter: &Charter, signers: &[usize]) -> Motion {
    Motion::Amend(Amendment { charter: world.endorsed(charter.clone(), &world.scope(), signers), logs: Vec::new() })
}

/// The endorsement of a statement by an owner.
fn endorse<T: Statement + Clone>(world: &World, body: &T, owner: usize) -> Command {
    let signed = object::sign(body.clone(), NETWORK, &world.scope(), &world.owners[owner].0).expect("signed").bytes;
    let proposal = crate::machine::group::owners::name_of(body);
    Command::Endorse(Endorse { proposal, signed: signed.into() })
}

fn restores(world: &World) {
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
}

/// P-145, P-146
#[test]
fn a_charter_takes_effect_when_as_many_owners_as_must_have_signed_it_in_the_log() {
    let mut world = world();
    let charter = next_charter(&world, 3);
    let motion = amendment(&world, &charter, &[0]);
    assert_eq!(world.one(&member_of(0), propose(motion)), Ok(None));
    assert_eq!((world.group.epoch(), world.group.proposals().len()), (1, 1));
    restores(&world);
    let own = endorse(&world, &charter, 0);
    assert_eq!(world.one(&member_of(0), own), Ok(None), "one owner's two signatures are one");
    let second = endorse(&world, &charter, 2);
    assert_eq!(world.one(&member_of(2), second), Ok(Some(2)));
    assert_eq!(world.group.charter(), Some(&charter));
    assert!(world.group.proposals().is_empty());
    restores(&world);
    // The group goes on, and now all three must sign.
    assert!(world.one(&member_of(1), set("a")).is_ok());
    let third = next_charter(&world, 1);
    let motion = amendment(&world, &third, &[0]);
    assert_eq!(world.one(&member_of(0), propose(motion)), Ok(None));
    // Who proposes the same endorses it.
    let motion = amendment(&world, &third, &[1]);
    assert_eq!(world.one(&member_of(1), propose(motion)), Ok(None));
    let last = endorse(&world, &third, 2);
    assert_eq!(world.one(&member_of(2), last), Ok(Some(3)));
    // Where one signature is enough, nothing waits.
    let fourth = next_charter(&world, 2);
    let motion = amendment(&world, &fourth, &[1]);
    assert_eq!(world.one(&member_of(1), propose(motion)), Ok(Some(4)));
}

/// P-82, P-93, P-145
#[test]
fn what_would_be_refused_with_all_signatures_is_not_proposed() {
    let mut world = world();
    let node = member_of(0);
    let mut skipped = next_charter(&world, 1);
    skipped.sequence += 1;
    let motion = amendment(&world, &skipped, &[0]);
    assert_eq!(world.one(&node, propose(motion)), Err(Refusal::Charter));
    let mut strange = next_charter(&world, 1);
    strange.owners.push(Owner::new(70).id());
    strange.owners.sort_unstable();
    let motion = amendment(&world, &strange, &[0]);
    assert!(matches!(world.one(&node, propose(motion)), Err(Refusal::KeyLog(_))));
    let early = Expulsion::new(world.group.id(), key(2).public(), 0);
    let early = Motion::Expel(world.endorsed(early, &world.scope(), &[0]));
    assert_eq!(world.one(&node, propose(early)), Err(Refusal::Epoch { signed: 0, current: 1 }));
    let nobody = Expulsion::new(world.group.id(), key(9).public(), 1);
    let nobody = Motion::Expel(world.endorsed(nobody, &world.scope(), &[0]));
    assert_eq!(world.one(&node, propose(nobody)), Err(Refusal::NotAMember(key(9).public())));
    let ending = Motion::Dissolve(world.endorsed(Dissolution::new(world.group.id(), [0; 32]), &world.scope(), &[0]));
    assert_eq!(world.one(&node, propose(ending)), Err(Refusal::Charter));
    let here = Motion::Invite(world.endorsed(world.invitation(&key(2), 8), &world.scope(), &[0]));
    assert_eq!(world.one(&node, propose(here)), Err(Refusal::AlreadyMember(key(2).public())));
    let good = amendment(&world, &next_charter(&world, 1), &[0]);
    for expires_ms in [NOW_MS, NOW_MS + PROPOSAL_LIFE_MAX_MS + 1] {
        let command = Command::Propose(Box::new(Propose { motion: good.clone(), expires_ms }));
        assert!(matches!(world.one(&node, command), Err(Refusal::Invalid(_))), "until {expires_ms}");
    }
    assert!(world.group.proposals().is_empty());
}

/// P-145, P-146
#[test]
fn only_owners_propose_and_endorse_each_in_its_own_name() {
    let mut world = world();
    let charter = next_charter(&world, 1);
    let of_another = amendment(&world, &charter, &[1]);
    assert!(matches!(world.one(&member_of(0), propose(of_another)), Err(Refusal::Author(_))));
    let of_two = amendment(&world, &charter, &[0, 1]);
    assert!(matches!(world.one(&member_of(0), propose(of_two)), Err(Refusal::Endorsement(_))));
    let unknown = endorse(&world, &charter, 0);
    assert!(matches!(world.one(&member_of(0), unknown), Err(Refusal::UnknownProposal(_))));
    let good = amendment(&world, &charter, &[0]);
    assert_eq!(world.one(&member_of(0), propose(good)), Ok(None));
    let of_another = endorse(&world, &charter, 1);
    assert!(matches!(world.one(&member_of(0), of_another), Err(Refusal::Author(_))));
    // A signature of a stranger, of something else, and of another kind.
    let name = crate::machine::group::owners::name_of(&charter);
    let stranger = object::sign(charter.clone(), NETWORK, &world.scope(), &key(2)).expect("signed").bytes;
    let other = object::sign(next_charter(&world, 3), NETWORK, &world.scope(), &world.owners[1].0).expect("signed");
    let expulsion = Expulsion::new(world.group.id(), key(2).public(), 1);
    let kind = object::sign(expulsion, NETWORK, &world.scope(), &world.owners[1].0).expect("signed").bytes;
    for signed in [stranger, other.bytes, kind] {
        let command = Command::Endorse(Endorse { proposal: name, signed: signed.into() });
        assert!(matches!(world.one(&member_of(1), command), Err(Refusal::Endorsement(_))));
    }
    assert_eq!(world.group.epoch(), 1);
    // An owner itself may bring it.
    let (author, signer) = (Author::Publisher(world.owners[1].id()), world.owners[1].0.clone());
    let command = endorse(&world, &charter, 1);
    assert_eq!(world.batch(author, &signer, 1, vec![command]), Reply::Executed(vec![Outcome::Done(Some(2))]));
}

/// P-146, P-147
#[test]
fn an_expulsion_and_the_end_of_the_group_are_gathered_too() {
    let mut world = world();
    let (gone, waits) = (key(2), next_charter(&world, 1));
    let motion = amendment(&world, &waits, &[1]);
    assert_eq!(world.one(&member_of(1), propose(motion)), Ok(None));
    let expulsion = Expulsion::new(world.group.id(), gone.public(), 1);
    let other = Expulsion::new(world.group.id(), key(1).public(), 1);
    for body in [&expulsion, &other] {
        let motion = Motion::Expel(world.endorsed(body.clone(), &world.scope(), &[1]));
        assert_eq!(world.one(&member_of(1), propose(motion)), Ok(None));
    }
    let command = endorse(&world, &expulsion, 0);
    assert_eq!(world.one(&member_of(0), command), Ok(Some(2)));
    assert!(world.group.members().get(&gone.public()).is_none());
    let names: Vec<_> = world.group.proposals().iter().map(|(id, _)| *id).collect();
    assert_eq!(names, [crate::machine::group::owners::name_of(&waits)], "the other expulsion is of the epoch before");
    let body = Dissolution::new(world.group.id(), world.group.charter().expect("it is founded").digest());
    let motion = Motion::Dissolve(world.endorsed(body.clone(), &world.scope(), &[0]));
    assert_eq!(world.one(&member_of(0), propose(motion)), Ok(None));
    let command = endorse(&world, &body, 1);
    assert_eq!(world.one(&member_of(1), command), Ok(Some(3)));
    assert!(world.group.dissolution().is_some() && world.group.proposals().is_empty());
    restores(&world);
}

/// P-91, P-146, P-147
#[test]
fn an_invitation_is_gathered_and_waits_for_its_node() {
    let mut world = world();
    let (node, invitation) = (key(4), world.invitation(&key(4), 8));
    let motion = Motion::Invite(world.endorsed(invitation.clone(), &world.scope(), &[0]));
    assert_eq!(world.one(&member_of(0), propose(motion)), Ok(None));
    let name = crate::machine::group::owners::name_of(&invitation);
    let signed = |world: &World| world.group.proposals().get(&name).expect("it waits").motion.signed().clone();
    let early = signed(&world);
    assert!(matches!(world.join(&node, early), Err(Refusal::Endorsement(_))));
    let command = endorse(&world, &invitation, 1);
    assert_eq!(world.one(&member_of(1), command), Ok(Some(1)), "no epoch ends by it");
    let ready = signed(&world);
    assert_eq!(world.join(&node, ready), Ok(None));
    assert!(world.group.proposals().is_empty());
}

/// P-145, P-147
#[test]
fn proposals_end_with_their_time_and_each_owner_has_room_of_its_own() {
    let mut world = world();
    let invite = |world: &mut World, owner: usize, nonce: usize| {
        let nonce = u8::try_from(nonce).expect("small");
        let body = world.invitation(&key(4), 100 + nonce);
        let motion = Motion::Invite(world.endorsed(body, &world.scope(), &[owner]));
        world.one(&member_of(owner), propose(motion))
    };
    for number in 0..PROPOSALS_OF_OWNER_MAX {
        assert_eq!(invite(&mut world, 0, number), Ok(None));
    }
    assert!(matches!(invite(&mut world, 0, 50), Err(Refusal::Full(_))));
    assert_eq!(invite(&mut world, 1, 60), Ok(None), "the others have theirs");
    // A charter with key logs beyond what one owner may fill.
    let (charter, mut log) = (next_charter(&world, 1), Owner::new(80).1);
    for number in 0..100_u8 {
        let (next, after) = (key(81 + number), key(83 + number));
        log = log.rotate(&next, after.public(), NOW_MS, 0).expect("it may");
    }
    let events: Vec<ByteVec> = log.to_bytes().into_iter().map(ByteVec::from).collect();
    let signed = world.endorsed(charter, &world.scope(), &[2]);
    let motion = Motion::Amend(Amendment { charter: signed, logs: vec![events; 12] });
    assert!(matches!(world.one(&member_of(2), propose(motion)), Err(Refusal::Full(_))));
    restores(&world);
    world.group.apply(LATER_MS, &Err(ObjectError::Shape("only time".to_owned())));
    assert!(world.group.proposals().is_empty());
}

/// P-81, P-146
#[test]
fn a_signature_by_a_key_that_was_rotated_does_not_count_any_more() {
    let mut world = world();
    let charter = next_charter(&world, 1);
    let motion = amendment(&world, &charter, &[0]);
    assert_eq!(world.one(&member_of(0), propose(motion)), Ok(None));
    let Owner(_, log) = &world.owners[0];
    let rotated = log.rotate(&key(11), key(50).public(), NOW_MS, 0).expect("the next key");
    let events = rotated.to_bytes().into_iter().map(ByteVec::from).collect();
    assert_eq!(world.one(&member_of(0), Command::Keys(events)), Ok(None));
    world.group.now_ms += 1;
    let command = endorse(&world, &charter, 1);
    assert_eq!(world.one(&member_of(1), command), Ok(None), "one signature of two is left");
    let command = endorse(&world, &charter, 2);
    assert_eq!(world.one(&member_of(2), command), Ok(Some(2)));
    restores(&world);
}

/// P-105
#[test]
fn a_snapshot_holds_no_proposal_of_a_stranger() {
    let mut world = world();
    let motion = amendment(&world, &next_charter(&world, 1), &[0]);
    assert_eq!(world.one(&member_of(0), propose(motion.clone())), Ok(None));
    let proposal = Proposal { motion, proposer: Owner::new(70).id(), expires_ms: LATER_MS };
    let mut forged = world.group.clone();
    forged.proposals.put([9; 32], proposal).expect("room");
    let refused = Group::restore(world.group.id(), NETWORK, &forged.rows()).expect_err("nobody proposed it");
    assert!(refused.why.contains("of nobody who owns"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// P-146: whoever signs how often and in which order, a charter takes effect exactly when enough different owners did.
    #[test]
    fn a_charter_takes_effect_exactly_when_enough_different_owners_signed(
        signers in prop::collection::vec(0..3usize, 1..7),
    ) {
        let mut world = world();
        let charter = next_charter(&world, 1);
        let mut different = BTreeSet::new();
        for owner in signers {
            let is_known = !world.group.proposals().is_empty();
            let command =
                if is_known { endorse(&world, &charter, owner) } else { propose(amendment(&world, &charter, &[owner])) };
            different.insert(owner);
            let done = world.one(&member_of(owner), command);
            if different.len() == 2 {
                prop_assert_eq!(done, Ok(Some(2)));
                prop_assert_eq!(world.group.charter(), Some(&charter));
                break;
            }
            prop_assert_eq!(done, Ok(None));
            prop_assert_eq!(world.group.charter().expect("it is founded").sequence, 0);
        }
    }
}
