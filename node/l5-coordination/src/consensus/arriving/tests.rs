use althing_protocol::{GroupId, SecretKey};

use super::super::wire::{Ballot, MembersRecord};
use super::*;

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

fn part(offset: u64, rows: &[&[u8]], index: u64, is_last: bool) -> SnapshotPart {
    SnapshotPart {
        group: GroupId::from_digest([3; 32]),
        leader: Ballot { term: 1, node: node(1), elected: true },
        last: Some(Position { term: 1, index }),
        members: MembersRecord { at: None, voters: Vec::new(), learners: Vec::new() },
        offset,
        rows: rows.iter().map(|row| row.to_vec().into()).collect(),
        is_last,
    }
}

/// The rows, where the part was the last one.
fn taken(arriving: &Arriving, from: u8, part: SnapshotPart) -> Result<Option<Vec<Vec<u8>>>, PartError> {
    Ok(arriving.take(node(from), part)?.map(|arrived| arrived.rows))
}

fn is_kept(arriving: &Arriving) -> bool {
    arriving.parts().is_some()
}

/// P-104
#[test]
fn parts_of_a_snapshot_come_in_order_from_one_member() {
    let arriving = Arriving::new(Room::new());
    assert_eq!(taken(&arriving, 1, part(0, &[b"a", b"b"], 9, false)), Ok(None));
    assert_eq!(taken(&arriving, 1, part(3, &[b"d"], 9, true)), Err(PartError::Order), "one is missing");
    assert_eq!(taken(&arriving, 2, part(2, &[b"c"], 9, true)), Err(PartError::Order), "of another member");
    assert_eq!(taken(&arriving, 1, part(2, &[b"c"], 8, true)), Err(PartError::Order), "of another snapshot");
    let rows = vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    assert_eq!(taken(&arriving, 1, part(2, &[b"c"], 9, true)), Ok(Some(rows)));
    assert_eq!(taken(&arriving, 1, part(3, &[], 9, true)), Err(PartError::Order), "it was taken");
}

#[tokio::test(start_paused = true)]
async fn parts_that_nothing_follows_are_given_up() {
    let full = vec![0u8; PART_BYTES_MAX];
    let begun = || {
        let arriving = Arriving::new(Room::new());
        assert_eq!(taken(&arriving, 1, part(0, &[b"a"], 9, false)), Ok(None));
        arriving
    };
    let arriving = begun();
    tokio::time::advance(PATIENCE).await;
    arriving.give_up(1);
    assert!(is_kept(&arriving), "the next part may come");
    assert_eq!(taken(&arriving, 1, part(1, &[&full], 9, false)), Ok(None));
    tokio::time::advance(PATIENCE).await;
    arriving.give_up(1);
    assert!(is_kept(&arriving), "each full part begins to wait anew");
    tokio::time::advance(Duration::from_millis(1)).await;
    arriving.give_up(1);
    assert!(!is_kept(&arriving), "nothing came");
    let arriving = begun();
    arriving.give_up(2);
    assert!(!is_kept(&arriving), "another one leads");
    let (arriving, mut later) = (begun(), part(1, &[b"b"], 9, false));
    later.leader.term = 2;
    assert!(taken(&arriving, 1, later).is_err() && !is_kept(&arriving), "of another term");
}

/// SG-6
#[tokio::test(start_paused = true)]
async fn parts_that_bring_nothing_keep_nothing() {
    let arriving = Arriving::new(Room::new());
    assert_eq!(taken(&arriving, 1, part(0, &[b"a"], 9, false)), Ok(None));
    for _ in 0..3 {
        tokio::time::advance(PATIENCE / 3).await;
        assert_eq!(taken(&arriving, 1, part(1, &[], 9, false)), Ok(None));
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(taken(&arriving, 1, part(1, &[], 9, false)), Err(PartError::Order), "it was given up");
    assert!(!is_kept(&arriving));
}

/// P-104
#[test]
fn a_snapshot_has_a_largest_size() {
    let room = Room::of(2 * SNAPSHOT_BYTES_MAX);
    let arriving = Arriving::new(room.clone());
    assert_eq!(taken(&arriving, 1, part(0, &[b"a"], 9, false)), Ok(None));
    // As if the rest had come.
    let rest = SNAPSHOT_BYTES_MAX - (1 + ROW_OVERHEAD);
    arriving.parts().as_mut().expect("it has begun").share.grow(rest).expect("there is room");
    assert_eq!(taken(&arriving, 1, part(1, &[], 9, false)), Ok(None), "it is as large as one may be");
    assert_eq!(taken(&arriving, 1, part(1, &[b""], 9, true)), Err(PartError::Size));
    assert!(!is_kept(&arriving), "what was taken of it is given up");
    assert_eq!(*room.left(), 2 * SNAPSHOT_BYTES_MAX);
}

/// P-104, SG-6
#[test]
fn all_groups_of_a_node_share_the_room_and_who_comes_too_late_comes_again() {
    let row = vec![0u8; (1 << 10) - ROW_OVERHEAD];
    let rows = |count: usize| (0..count).map(|_| row.as_slice()).collect::<Vec<_>>();
    let room = Room::of(10 << 10);
    let [first, second, third] = [(); 3].map(|()| Arriving::new(room.clone()));
    assert_eq!(taken(&first, 1, part(0, &rows(6), 9, false)), Ok(None));
    assert_eq!(taken(&second, 2, part(0, &rows(3), 9, false)), Ok(None));
    assert_eq!(taken(&third, 3, part(0, &rows(2), 9, false)), Err(PartError::Room), "the newcomer");
    assert!(!is_kept(&third));
    assert_eq!(taken(&second, 2, part(3, &rows(2), 9, false)), Err(PartError::Room), "who does not fit any more");
    assert_eq!(*room.left(), 4 << 10, "what came of it is given up");
    // One that begins again takes its own place.
    assert_eq!(taken(&first, 1, part(0, &rows(7), 9, false)), Ok(None));
    let arrived = first.take(node(1), part(7, &rows(3), 9, true)).expect("it fits").expect("all of it");
    assert_eq!(arrived.rows.len(), 10);
    assert_eq!(taken(&third, 3, part(0, &rows(1), 9, false)), Err(PartError::Room), "while it is checked");
    drop(arrived);
    assert_eq!(taken(&third, 3, part(0, &rows(10), 9, true)).map(|rows| rows.map(|rows| rows.len())), Ok(Some(10)));
    assert_eq!(*room.left(), 10 << 10);
}
