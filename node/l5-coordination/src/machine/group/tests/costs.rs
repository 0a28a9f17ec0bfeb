//! What the commands of a batch cost that have signatures, and how little is verified of what nobody needs (P-89, SG-5).

use althing_protocol::group::{Motion, Propose};

use super::*;
use crate::machine::work::SIGNATURE_STEPS;

/// What a command of the founder's costs, and what becomes of it.
fn cost(world: &mut World, command: &Command) -> (usize, Result<Option<u64>, Refusal>) {
    let steps = Steps::default();
    let (all, author) = (steps.left(), Author::Node(world.founder.public()));
    let done = world.group.execute_within(&steps, author, command);
    (all - steps.left(), done)
}

/// The events of a key log that nobody made.
fn made_up() -> Vec<ByteVec> {
    vec![b"made up, and not signed".to_vec().into()]
}

fn next_charter(world: &World) -> Charter {
    world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS)
}

fn amendment(world: &World, charter: Charter, signers: &[usize], logs: Vec<Vec<ByteVec>>) -> Amendment {
    Amendment { charter: world.endorsed(charter, &world.scope(), signers), logs }
}

#[test]
fn a_command_with_signatures_costs_the_same_whatever_becomes_of_it() {
    let mut world = World::new();
    let expulsion = world.expulsion(&key(9), &[0, 1]);
    let (steps, done) = cost(&mut world, &expulsion);
    assert!((steps, done.is_err()) == (2 * SIGNATURE_STEPS, true), "{steps}");
    let (steps, done) = cost(&mut world, &Command::Withdraw(b"no object".to_vec().into()));
    assert!((steps, done.is_err()) == (SIGNATURE_STEPS, true), "{steps}");
    let (steps, done) = cost(&mut world, &set("agent/one"));
    assert!((steps, done.is_err()) == (2 * SIGNATURE_STEPS, true), "{steps}");
    assert_eq!(cost(&mut world, &set("a")).0, 0);
    // Of key logs what is new of those that are known.
    let (stranger, same) = (Command::Keys(Owner::new(60).events()), Command::Keys(world.owners[0].events()));
    assert!(matches!(cost(&mut world, &stranger), (0, Err(Refusal::KeyLog(_)))));
    assert_eq!(cost(&mut world, &same), (0, Ok(None)));
    let later = world.owners[0].1.rotate(&key(11), key(13).public(), NOW_MS, 0).expect("it may");
    let later = Command::Keys(later.to_bytes().into_iter().map(ByteVec::from).collect());
    assert_eq!(cost(&mut world, &later), (SIGNATURE_STEPS, Ok(None)));
    // Of a proposal three times as many signatures as there are owners.
    let charter = next_charter(&world);
    let motion = Motion::Amend(amendment(&world, charter, &[1], vec![made_up(), world.owners[1].events()]));
    let propose = Command::Propose(Box::new(Propose { motion, expires_ms: NOW_MS + 1_000 }));
    assert_eq!(cost(&mut world, &propose).0, (3 * 3 + 1) * SIGNATURE_STEPS);
}

/// P-145
#[test]
fn one_proposal_is_not_signed_hundreds_of_times_in_one_batch() {
    let mut world = World::new();
    let invitation = world.endorsed(world.invitation(&key(5), 1), &world.scope(), &[0]);
    let propose = Propose { motion: Motion::Invite(invitation), expires_ms: NOW_MS + 1_000 };
    let (steps, propose) = (Steps::default(), Command::Propose(Box::new(propose)));
    let author = Author::Node(world.founder.public());
    let outcomes: Vec<_> = (0..256).map(|_| world.group.execute_within(&steps, author, &propose)).collect();
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| outcome.is_ok());
    assert_eq!(done.len(), 56, "1,800 steps each");
    assert!(refused.iter().all(|outcome| matches!(outcome, Err(Refusal::Costly))), "{:?}", refused[0]);
    // What has no signatures goes on, and the next batch has its own.
    assert!(world.group.execute_within(&steps, author, &set("a")).is_ok());
    assert_eq!(cost(&mut world, &propose).1, Ok(None));
}

/// P-93
#[test]
fn the_key_logs_of_an_amendment_are_verified_where_it_adds_their_owners() {
    let mut world = World::new();
    let mut charter = next_charter(&world);
    charter.owners.push(PublisherId::from_digest(althing_protocol::digest(&made_up()[0])));
    charter.owners.sort_unstable();
    let wanted = Command::Amend(Box::new(amendment(&world, charter, &[0, 1], vec![made_up()])));
    assert!(matches!(world.group.execute(Author::Node(key(1).public()), &wanted), Err(Refusal::KeyLog(_))));
    let charter = next_charter(&world);
    let unwanted = Command::Amend(Box::new(amendment(&world, charter, &[0, 1], vec![made_up(); 16])));
    assert_eq!(cost(&mut world, &unwanted), ((2 + 16) * SIGNATURE_STEPS, Ok(Some(2))));
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
}

/// P-93, SG-5: the signatures of earlier charters are not verified again whenever an epoch ends. They could not be here.
#[test]
fn the_end_of_an_epoch_reads_no_charter_again() {
    let mut world = World::new();
    let (node, former) = (key(2), world.owners[1].id());
    world.admit(&node, 1);
    let mut charter = next_charter(&world);
    charter.owners.retain(|owner| *owner != former);
    let amend = Command::Amend(Box::new(amendment(&world, charter, &[0, 1], Vec::new())));
    let founder = world.founder.clone();
    assert_eq!(world.one(&founder, amend), Ok(Some(2)));
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
    for (charter, _) in &mut world.group.charters {
        *charter = Endorsed::new([b"no object".to_vec()]);
    }
    assert_eq!(world.one(&node, Command::Leave), Ok(Some(3)));
    let owners: BTreeSet<PublisherId> = world.owners.iter().map(Owner::id).collect();
    assert_eq!(world.group.needed_publishers(), owners);
    assert!(world.group.logs.keys().eq(&owners), "a former owner's log proves the charters of its time");
}
