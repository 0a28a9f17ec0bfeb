//! What a snapshot may show, and how little of it is verified before it is refused (P-105, SG-6).

use althing_protocol::limits::{CLOCK_SKEW_MAX_MS, INVITATION_LIFE_MAX_MS};

use super::*;
use crate::machine::rows::RowError;

/// How the row of a charter begins.
const CHARTER: [u8; 2] = [0x82, 8];

/// A key log that nobody made: verifying it fails.
fn made_up(number: usize) -> Vec<ByteVec> {
    vec![ByteVec::from(format!("made up, and not signed: {number}").into_bytes())]
}

fn publisher(events: &[ByteVec]) -> PublisherId {
    PublisherId::from_digest(althing_protocol::digest(&events[0]))
}

fn log_row(events: Vec<ByteVec>) -> Vec<u8> {
    minicbor::to_vec((2_u8, (events,))).expect("a row")
}

/// The rows of a group with others at a place.
fn with(group: &Group, at: usize, rows: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut all = group.rows();
    drop(all.splice(at..at, rows));
    all
}

fn first_charter(group: &Group) -> usize {
    group.rows().iter().position(|row| row.starts_with(&CHARTER)).expect("it is founded")
}

fn refused(group: &Group, rows: &[Vec<u8>]) -> RowError {
    Group::restore(group.id(), NETWORK, rows).expect_err("it is no state of the group")
}

fn node(number: usize) -> PublicKey {
    let mut seed = [77; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_seed(&seed).public()
}

fn nonce(number: usize) -> [u8; 16] {
    (number as u128).to_be_bytes()
}

#[test]
fn of_a_thousand_key_logs_that_nobody_needs_the_first_is_refused_and_none_verified() {
    let world = World::new();
    let rows = with(&world.group, 1, (0..1_000).map(|number| log_row(made_up(number))));
    let error = refused(&world.group, &rows);
    assert!(error.at == 1 && error.why.contains("owns neither the group nor one of its members"), "{error}");
    // Those that are needed come once, and before the charters.
    let again = refused(&world.group, &with(&world.group, 1, [log_row(world.owners[0].events())]));
    assert!(again.why.contains("is a second key log"), "{again}");
    let behind = first_charter(&world.group) + 1;
    let late = refused(&world.group, &with(&world.group, behind, [log_row(world.owners[0].events())]));
    assert!(late.at == behind && late.why.contains("behind a charter"), "{late}");
}

#[test]
fn a_charter_that_owners_did_not_sign_makes_nobodys_key_log_worth_verifying() {
    let world = World::new();
    let logs: Vec<_> = (0..16).map(made_up).collect();
    let mut charter = world.group.charter().expect("it is founded").next(world.group.id(), NOW_MS);
    charter.owners = logs.iter().map(|events| publisher(events)).collect();
    charter.owners.sort_unstable();
    let signed = object::sign(charter, NETWORK, &world.scope(), &key(99)).expect("a charter").bytes;
    let row = minicbor::to_vec((8_u8, (Endorsed::new([signed]), NOW_MS))).expect("a row");
    let mut rows = with(&world.group, first_charter(&world.group) + 1, [row]);
    drop(rows.splice(1..1, logs.into_iter().map(log_row)));
    let error = refused(&world.group, &rows);
    assert!(error.why.contains("is a charter that is not signed as it must be"), "{error}");
}

#[test]
fn the_key_log_of_an_owner_is_verified_all_the_same() {
    let world = World::new();
    let mut rows = world.group.rows();
    let events = world.owners[0].events();
    // The first event is that of the owner, and what follows is not.
    let forged = log_row(vec![events[0].clone(), ByteVec::from(b"no event".to_vec())]);
    let at = rows.iter().position(|row| *row == log_row(events.clone())).expect("it is there");
    rows[at] = forged;
    let error = refused(&world.group, &rows);
    assert!(error.why.contains("needs the key log of") && error.why.contains("invalid"), "{error}");
    // Nor does a founding bring logs that nobody needs into the state.
    let needed = world.group.needed_publishers();
    assert!(world.group.logs.keys().all(|publisher| needed.contains(publisher)));
}

#[test]
fn what_is_remembered_of_nodes_is_bounded() {
    let world = World::new();
    let mut crowded = world.group.clone();
    crowded.expelled = (0..EXPELLED_MAX).map(|number| (node(number), 0)).collect();
    crowded.used = (0..USED_MAX).map(|number| (nonce(number), NOW_MS + 60_000)).collect();
    assert_eq!(Group::restore(crowded.id(), NETWORK, &crowded.rows()), Ok(crowded.clone()));
    let mut forged = crowded.clone();
    forged.expelled.insert(node(EXPELLED_MAX), 0);
    assert!(refused(&forged, &forged.rows()).why.contains("one expelled node too many"));
    let mut forged = world.group.clone();
    forged.expelled.insert(node(1), world.group.epoch());
    assert!(refused(&forged, &forged.rows()).why.contains("an epoch that has not ended"));
    let mut forged = crowded.clone();
    forged.used.insert(nonce(USED_MAX), NOW_MS + 60_000);
    assert!(refused(&forged, &forged.rows()).why.contains("a used invitation too many"));
    let mut forged = world.group.clone();
    let latest_ms = NOW_MS + INVITATION_LIFE_MAX_MS + CLOCK_SKEW_MAX_MS;
    forged.used.insert(nonce(1), latest_ms);
    assert!(Group::restore(forged.id(), NETWORK, &forged.rows()).is_ok());
    forged.used.insert(nonce(2), latest_ms + 1);
    assert!(refused(&forged, &forged.rows()).why.contains("valid for too long"));
    let mut forged = world.group.clone();
    forged.sessions.take(Author::Publisher(publisher(&made_up(1))), 1, 1);
    assert!(refused(&forged, &forged.rows()).why.contains("an author too many"));
}

/// P-91
#[test]
fn nobody_joins_while_as_many_invitations_are_used_as_are_remembered() {
    let mut world = World::new();
    world.group.used = (1..USED_MAX).map(|number| (nonce(number), NOW_MS + 60_000)).collect();
    world.admit(&key(2), 0);
    let invitation = world.endorsed(world.invitation(&key(3), 3), &world.scope(), &[0, 2]);
    let refused = world.join(&key(3), invitation.clone());
    assert!(matches!(refused, Err(Refusal::Full(_))), "{refused:?}");
    world.group.used.remove(&nonce(1));
    assert_eq!(world.join(&key(3), invitation), Ok(None));
}

/// P-96
#[test]
fn the_values_of_a_snapshot_have_room() {
    use crate::machine::values::{VALUES_BYTES_MAX, Value};

    const LARGE: usize = 60 << 10;
    let world = World::new();
    let owner = world.owners[0].id();
    let value = |at: u64| (format!("{at:08}"), Value { bytes: vec![7; LARGE], version: at, owner });
    let count = (VALUES_BYTES_MAX / LARGE) as u64;
    let mut forged = world.group.clone();
    forged.values = Values::restore((0..=count).map(value), count);
    assert!(refused(&forged, &forged.rows()).why.contains("a value for which there is no room"));
    forged.values = Values::restore((0..count / 2).map(value), count);
    assert!(Group::restore(forged.id(), NETWORK, &forged.rows()).is_ok());
}
