//! Turns that go on from a checkpoint, and what clocks said to them.

use althing_execution::journal::{Checkpoint, Clock, READINGS_MAX, Reading};

use super::*;

type Disk = BTreeMap<u32, Vec<u8>>;

/// Writes what is pending, and deletes what was dropped.
fn write(rows: &mut TurnRows, disk: &mut Disk) {
    let number = |key: Vec<u8>| u32::from_be_bytes(*key.last_chunk().expect("a key"));
    for dropped in rows.dropped().map(number) {
        disk.remove(&dropped);
    }
    disk.extend(written(rows));
}

fn read(disk: &Disk) -> Result<TurnRows, Damage> {
    let rows: Vec<(u32, Vec<u8>)> = disk.iter().map(|(number, row)| (*number, row.clone())).collect();
    TurnRows::read(turn("one"), begin(), &rows)
}

fn checkpoint(state: &[u8], progress: &[u8]) -> Checkpoint {
    let label = Some(Label { level: DataLabel::Restricted, trusted: false });
    Checkpoint { state: state.to_vec(), progress: progress.to_vec(), label }
}

/// A turn that made two calls, a checkpoint and another call; and the key of its first call.
fn saved() -> (Disk, [u8; 32]) {
    let (mut rows, mut disk) = (TurnRows::new(turn("one"), begin()), Disk::new());
    let first = make(&mut rows, "mail/send", Effect::Final, &heard(json!(1)));
    make(&mut rows, "mail/list", Effect::Repeatable, &heard(json!(2)));
    write(&mut rows, &mut disk);
    assert_eq!(disk.len(), 4, "the beginning, an intent and two results");
    rows.save(&checkpoint(b"two", b"said"), 30).expect("there is room");
    write(&mut rows, &mut disk);
    assert_eq!(disk.keys().copied().collect::<Vec<_>>(), [0, 4], "the beginning, and the checkpoint");
    assert_eq!(rows.size().0, 2);
    make(&mut rows, "mail/list", Effect::Repeatable, &heard(json!(3)));
    write(&mut rows, &mut disk);
    (disk, first.key)
}

#[test]
fn a_turn_goes_on_from_its_checkpoint_without_the_rows_before_it() {
    let (disk, first) = saved();
    let mut rows = read(&disk).expect("as they were written");
    let bytes: usize = disk.values().map(|row| row.len() + 24).sum();
    assert_eq!(rows.size(), (3, bytes as u64));
    assert_eq!(rows.take_checkpoint(), Some(checkpoint(b"two", b"said")));
    assert_eq!(rows.take_checkpoint(), None);
    assert_eq!(rows.reach(call("mail/list", Effect::Repeatable)), Ok(Next::Replayed(heard(json!(3)))));
    // The same call as before the checkpoint is another one.
    let again = go(&mut rows, "mail/send", Effect::Final).expect("it may be made");
    assert_eq!(again.seq, 3);
    assert_ne!(again.key, first);
    let mut disk = disk;
    write(&mut rows, &mut disk);
    let doubts = read(&disk).expect("as they were written").doubts();
    assert_eq!(doubts.iter().map(|doubt| doubt.seq).collect::<Vec<_>>(), [3]);
    let numbers: Vec<Vec<u8>> = disk.keys().map(|number| turn("one").row_key(*number)).collect();
    assert_eq!(rows.keys().collect::<Vec<_>>(), numbers);
}

#[test]
fn a_second_checkpoint_takes_the_place_of_the_first() {
    let (mut disk, _) = saved();
    let mut rows = read(&disk).expect("as they were written");
    // Rows have a call there: it is not lost.
    let refused = rows.save(&checkpoint(b"other", b""), 40).expect_err("it did something else");
    let (was, came) = ("mail/list".to_owned(), "a checkpoint".to_owned());
    assert_eq!(refused, JournalError::Diverged { seq: 2, was, came });
    rows.reach(call("mail/list", Effect::Repeatable)).expect("it is told again");
    rows.save(&checkpoint(b"three", b""), 40).expect("there is room");
    write(&mut rows, &mut disk);
    assert_eq!(disk.len(), 2);
    let mut rows = read(&disk).expect("as they were written");
    assert_eq!(rows.take_checkpoint(), Some(checkpoint(b"three", b"")));
    assert_eq!(rows.next_step(), 3);
}

#[test]
fn a_checkpoint_may_be_the_first_that_a_turn_writes() {
    let (mut rows, mut disk) = (TurnRows::new(turn("one"), begin()), Disk::new());
    rows.save(&checkpoint(b"", b""), 30).expect("there is room");
    assert!(rows.is_unwritten());
    write(&mut rows, &mut disk);
    assert_eq!(disk.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(read(&disk).expect("as they were written").take_checkpoint(), Some(checkpoint(b"", b"")));
}

#[test]
fn a_checkpoint_that_is_not_the_one_that_was_written_is_refused() {
    let (disk, _) = saved();
    for missing in [0, 4] {
        let mut cut = disk.clone();
        cut.remove(&missing);
        assert!(read(&cut).is_err(), "without row {missing}");
    }
    for at in 0..disk[&4].len() {
        let mut changed = disk.clone();
        changed.get_mut(&4).expect("it is there")[at] ^= 1;
        assert!(read(&changed).is_err(), "byte {at}");
    }
    // A row that was deleted, and is there again.
    let (mut rows, mut more) = (TurnRows::new(turn("one"), begin()), Disk::new());
    make(&mut rows, "mail/list", Effect::Repeatable, &heard(json!(1)));
    write(&mut rows, &mut more);
    more.extend(disk.clone());
    assert!(read(&more).is_err());
    let moved: Disk = disk.into_iter().map(|(number, row)| (if number > 0 { number + 1 } else { 0 }, row)).collect();
    assert!(read(&moved).is_err(), "another number");
}

#[test]
fn a_long_checkpoint_takes_several_rows_and_is_whole_again() {
    let (mut rows, mut disk) = (TurnRows::new(turn("one"), begin()), Disk::new());
    let long = checkpoint(&vec![7; 1 << 20], &vec![8; 2 * CHECKPOINT_PART_BYTES_MAX]);
    rows.save(&long, 30).expect("there is room");
    write(&mut rows, &mut disk);
    assert_eq!(disk.len(), 1 + 3);
    assert_eq!(read(&disk).expect("as they were written").take_checkpoint(), Some(long));
    for missing in 1..4 {
        let mut cut = disk.clone();
        cut.remove(&missing);
        assert!(read(&cut).is_err(), "without row {missing}");
    }
}

#[test]
fn a_turn_with_checkpoints_may_be_longer_than_its_journal_and_a_checkpoint_may_not() {
    let (mut rows, mut disk) = (TurnRows::new(turn("one"), begin()), Disk::new());
    let large = heard(Value::from("x".repeat(3 << 20)));
    for number in 0..8 {
        make(&mut rows, "a/b", Effect::Repeatable, &large);
        make(&mut rows, "a/b", Effect::Repeatable, &large);
        rows.save(&checkpoint(&[number], b""), 30).expect("there is room");
        write(&mut rows, &mut disk);
    }
    assert_eq!((rows.next_step(), disk.len()), (16, 2));
    let before = rows.size();
    let refused = rows.save(&checkpoint(b"", &vec![0; 17 << 20]), 30).expect_err("too large");
    assert!(matches!(&refused, JournalError::TooLong { most: TURN_BYTES_MAX, .. }), "{refused:?}");
    assert_eq!((rows.size(), rows.pending().count(), rows.dropped().count()), (before, 0, 0), "nothing changed");
}

#[test]
fn what_clocks_said_is_in_a_row_before_what_the_turn_made_of_it() {
    let reading = |clock: Clock, ns: u64| Reading { clock, ns };
    let said = vec![reading(Clock::Wall, u64::MAX >> 1), reading(Clock::Monotonic, 7), reading(Clock::Wall, 0)];
    let (mut rows, mut disk) = (TurnRows::new(turn("one"), begin()), Disk::new());
    rows.note_readings(said.clone());
    assert_eq!(rows.pending().count(), 0, "it is written with another row");
    make(&mut rows, "a/b", Effect::Repeatable, &heard(json!(1)));
    write(&mut rows, &mut disk);
    assert_eq!(disk.len(), 3);
    let mut again = read(&disk).expect("as they were written");
    assert_eq!(again.take_tape(), said);
    // What was read before a checkpoint is not told again.
    rows.note_readings(said);
    rows.save(&checkpoint(b"", b""), 30).expect("there is room");
    write(&mut rows, &mut disk);
    assert!(read(&disk).expect("as they were written").take_tape().is_empty());
    rows.note_readings(vec![reading(Clock::Wall, 1); READINGS_MAX + 1]);
    make(&mut rows, "a/b", Effect::Repeatable, &heard(json!(1)));
    write(&mut rows, &mut disk);
    assert!(read(&disk).expect_err("more than a turn has").what.contains("readings of clocks"));
}
