use super::*;
use crate::{Family, Store as _, lock::StoreLock, rocks::RocksStore, rocks::damage::Damage};
use std::collections::BTreeSet;

const FAMILY: Family = Family("rows");

/// The database of a store, which takes no writes.
fn read_only(dir: &Path) -> Database {
    drop(RocksStore::open(dir, &[FAMILY], StoreConfig::default()).expect("a new store opens"));
    let options = rocksdb::Options::default();
    let names = [rocksdb::DEFAULT_COLUMN_FAMILY_NAME, FAMILY.0];
    let db = rocksdb::DB::open_cf_for_read_only(&options, dir.join("db"), names, false).expect("it can be read");
    Database {
        db: crate::rocks::DatabaseSlot::of(db, &StoreConfig::default()),
        families: BTreeSet::from([FAMILY]),
        damage: Damage::default(),
        dir: dir.to_owned(),
        torn_bytes: 0,
        _lock: StoreLock::acquire(dir).expect("nobody else has it"),
    }
}

#[test]
fn every_writer_of_a_group_hears_that_its_commit_failed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = read_only(dir.path());
    let queue = Queue::new(dir.path(), &StoreConfig::default());
    let (mut group, mut answers) = (Vec::new(), Vec::new());
    for number in 0..5u8 {
        let mut batch = Batch::new();
        batch.put(FAMILY, vec![number], vec![number]);
        let (done, answer) = oneshot::channel();
        let room = queue.room.clone().try_acquire_many_owned(1).expect("there is room");
        group.push(Job { batch, durability: Durability::Synced, done, _room: room });
        answers.push(answer);
    }
    commit(queue.pen().expect("nobody is before it"), &database, Group { jobs: group, is_sync_due: false });
    for (number, mut answer) in answers.into_iter().enumerate() {
        let outcome = answer.try_recv().expect("answered");
        assert!(matches!(outcome, Err(WriteError::Stopped { .. })), "writer {number}: {outcome:?}");
    }
    assert_eq!(queue.stats(), StoreStats::default(), "nothing was committed");
    drop(database);
    let store = RocksStore::open(dir.path(), &[FAMILY], StoreConfig::default()).expect("a sound store opens");
    assert_eq!(store.scan(FAMILY, crate::Range::all(9)).expect("readable"), []);
}

/// A write of one row, and where its answer comes.
fn job(queue: &Queue, row: u8, durability: Durability) -> (Job, oneshot::Receiver<Result<(), WriteError>>) {
    let mut batch = Batch::new();
    batch.put(FAMILY, vec![row], vec![row]);
    let (done, answer) = oneshot::channel();
    let room = queue.room.clone().try_acquire_many_owned(1).expect("there is room");
    (Job { batch, durability, done, _room: room }, answer)
}

#[test]
fn a_group_is_synced_when_any_of_its_writers_asked_for_it_wherever_that_one_stands() {
    use Durability::{Buffered, Synced};
    for group in [&[Synced, Buffered][..], &[Buffered, Synced], &[Buffered, Synced, Buffered], &[Buffered; 3]] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = StoreConfig::default();
        let database = crate::rocks::open::open(dir.path(), &[FAMILY], &config).expect("a new store opens");
        let queue = Queue::new(dir.path(), &config);
        let jobs = (0u8..).zip(group).map(|(row, durability)| job(&queue, row, *durability));
        let (jobs, answers): (Vec<Job>, Vec<_>) = jobs.unzip();
        commit(queue.pen().expect("nobody is before it"), &database, Group { jobs, is_sync_due: false });
        for mut answer in answers {
            assert_eq!(answer.try_recv().expect("answered"), Ok(()));
        }
        let expected = StoreStats {
            batches: group.len() as u64,
            rows: group.len() as u64,
            commits: 1,
            syncs: u64::from(group.contains(&Synced)),
            torn_bytes: 0,
        };
        assert_eq!(queue.stats(), expected, "{group:?}");
    }
}

/// A database without its thread, and its queue.
fn parts(dir: &Path) -> (Queue, Arc<Database>) {
    let config = StoreConfig::default();
    let database = crate::rocks::open::open(dir, &[FAMILY], &config).expect("a new store opens");
    (Queue::new(dir, &config), Arc::new(database))
}

fn of(row: u8, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(FAMILY, vec![row], vec![row; bytes]);
    batch
}

#[test]
fn who_waits_for_no_sync_and_finds_nobody_before_it_writes_by_itself() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (queue, database) = parts(dir.path());
    let of_it = Arc::downgrade(&database);
    let there = |row: u8| crate::rocks::LiveView(&database).read(FAMILY, &[row]).expect("readable").is_some();
    assert!(write_at_once(&queue, &of_it, (&of(1, 1), Durability::Buffered)) && there(1), "nobody else is there");
    assert_eq!(queue.stats(), StoreStats { batches: 1, rows: 1, commits: 1, ..StoreStats::default() });
    assert!(write_at_once(&queue, &of_it, (&of(2, AT_ONCE_BYTES_MAX - 1), Durability::Buffered)) && there(2));
    assert!(
        !write_at_once(&queue, &of_it, (&of(3, AT_ONCE_BYTES_MAX), Durability::Buffered)) && !there(3),
        "it is large"
    );

    let pen = queue.pen().expect("nobody is before it");
    assert!(!write_at_once(&queue, &of_it, (&of(4, 1), Durability::Buffered)) && !there(4), "another one writes");
    drop(pen);
    queue.lock().jobs.push_back(job(&queue, 5, Durability::Synced).0);
    assert!(
        !write_at_once(&queue, &of_it, (&of(4, 1), Durability::Buffered)) && !there(4),
        "another one came before it"
    );
    queue.lock().jobs.clear();
    database.db.stop("IO error: Input/output error");
    assert!(!write_at_once(&queue, &of_it, (&of(4, 1), Durability::Buffered)) && !there(4), "it is to be opened again");
    *database.db.stopped() = None;
    assert!(write_at_once(&queue, &of_it, (&of(4, 1), Durability::Buffered)) && there(4));
    queue.close();
    assert!(!write_at_once(&queue, &of_it, (&of(6, 1), Durability::Buffered)) && !there(6), "it is closed");
    assert_eq!(queue.stats().commits, 3);
}

#[test]
fn the_thread_waits_for_whoever_writes_by_itself_also_where_it_is_to_end() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (queue, _database) = parts(dir.path());
    let waits = Duration::from_millis(20);
    for is_closed in [false, true] {
        let pen = queue.pen().expect("nobody is before it");
        if is_closed {
            queue.close();
        } else {
            queue.lock().jobs.push_back(job(&queue, 1, Durability::Synced).0);
        }
        thread::scope(|scope| {
            let (taken, told) = std::sync::mpsc::sync_channel(1);
            let queue = &queue;
            scope.spawn(move || {
                let group = queue.take(None).map(|(group, _pen)| group.jobs.len());
                taken.send(group).expect("it is heard");
            });
            assert!(told.recv_timeout(waits).is_err(), "another one writes");
            drop(pen);
            assert_eq!(told.recv().expect("it goes on"), (!is_closed).then_some(1));
        });
    }
}

#[test]
fn a_sync_for_which_nobody_waits_is_made_by_the_thread_and_joins_what_is_written_meanwhile() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (queue, database) = parts(dir.path());
    assert!(write_at_once(&queue, &Arc::downgrade(&database), (&of(1, 1), Durability::Syncing)));
    let (group, pen) = queue.take(None).expect("a sync is due");
    assert!(group.jobs.is_empty() && group.is_sync_due);
    commit(pen, &database, group);
    assert_eq!(queue.stats(), StoreStats { batches: 1, rows: 1, commits: 2, syncs: 1, torn_bytes: 0 });

    // One that finds somebody before it is synced by the group that follows.
    let (of_thread, mut answer) = job(&queue, 2, Durability::Syncing);
    queue.lock().jobs.push_back(of_thread);
    let (group, pen) = queue.take(None).expect("a write");
    commit(pen, &database, group);
    assert_eq!((answer.try_recv(), queue.stats().syncs), (Ok(Ok(())), 1), "it did not wait for that");
    let (next, mut answer) = job(&queue, 3, Durability::Buffered);
    queue.lock().jobs.push_back(next);
    let (group, pen) = queue.take(None).expect("a write, and a sync");
    assert_eq!((group.jobs.len(), group.is_sync_due), (1, true));
    commit(pen, &database, group);
    assert_eq!((answer.try_recv(), queue.stats().syncs), (Ok(Ok(())), 2));
    queue.close();
    assert!(queue.take(None).is_none(), "nothing is due");
}
