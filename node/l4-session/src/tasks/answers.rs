//! What is remembered of messages whose ids are keys, where no task of theirs is kept, on disk.

use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::{Digest, cbor};
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};

use crate::machine::answers::{Ages, AnswerRow, Limits, Surplus, payer_of};
use crate::machine::record::Scope;
use crate::machine::shares::ShareOwner;

/// Messages that were answered under keys, and of which no task is kept.
pub const ANSWERS: Family = Family("calls.answers");

/// How many are remembered, and bytes of all of them: beyond that, the oldest ones of whoever has more than its share are
/// forgotten, or of their answers only that there was one, so that nothing is done twice.
const LIMITS: Limits = Limits { rows: 100_000, bytes: 16 << 20 };
/// Bytes of one row: it holds an answer of 64 KiB at most, which JSON in CBOR does not make longer.
const ROW_BYTES_MAX: usize = 128 << 10;
/// Rows, and their bytes, that are read at once.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 1 << 20;
/// Rows that one batch deletes or shortens; the next one does the rest.
const SURPLUS_AT_ONCE: usize = 64;

/// What is remembered of messages.
pub(crate) struct Answers {
    store: Arc<dyn Store>,
    ages: Mutex<Ages>,
}

impl Answers {
    /// Those in a store. What cannot be read is forgotten when another message has its name. `own` is this node's owner.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>, own: Scope) -> Result<Answers, ReadError> {
        Answers::limited(store, own, LIMITS)
    }

    fn limited(store: Arc<dyn Store>, own: Scope, limits: Limits) -> Result<Answers, ReadError> {
        let ages = Ages::new(payer_of(&ShareOwner::Scope(own)), limits);
        let answers = Answers { store, ages: Mutex::new(ages) };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE).within(PAGE_BYTES);
            let range = after.take().map_or(range.clone(), |after| range.after(after));
            let rows = answers.store.scan(ANSWERS, range)?;
            for (key, value) in &rows {
                if let (Ok(name), Some(row)) = (Digest::try_from(&key[..]), read(value)) {
                    answers.ages().add(name, &row, value.len());
                }
            }
            match rows.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => return Ok(answers),
            }
        }
    }

    /// What is remembered of the message of that name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, name: &Digest, now_ms: u64) -> Result<Option<AnswerRow>, ReadError> {
        let row = self.store.read(ANSWERS, name)?;
        Ok(row.and_then(|row| read(&row)).filter(|row| !row.is_old(now_ms)))
    }

    /// Adds what is remembered of messages to a batch, and takes away what is too old or too much by then. Gives the names of all
    /// rows that the batch changes, for [`Answers::recount`].
    #[must_use = "if the batch is not written, these rows are counted again"]
    pub fn put(&self, rows: impl Iterator<Item = (Digest, AnswerRow)>, now_ms: u64, batch: &mut Batch) -> Vec<Digest> {
        let (mut ages, mut changed) = (self.ages(), Vec::new());
        for (name, row) in rows {
            let bytes = row.encode();
            ages.add(name, &row, bytes.len());
            batch.put(ANSWERS, name.to_vec(), bytes);
            changed.push(name);
        }
        for _ in 0..SURPLUS_AT_ONCE {
            match ages.take_surplus(now_ms) {
                Some(Surplus::Row(name)) => {
                    batch.delete(ANSWERS, name.to_vec());
                    changed.push(name);
                }
                Some(Surplus::Answer(name, short)) => {
                    batch.put(ANSWERS, name.to_vec(), short.encode());
                    changed.push(name);
                }
                None => break,
            }
        }
        changed
    }

    /// Counts these rows as they are on disk, since the batch that changed them was not written: a row that is counted and not there
    /// would take the room of others, and one that is there and not counted would never go. One that cannot be read does not count
    /// until the node starts again.
    pub fn recount(&self, changed: &[Digest]) {
        for name in changed {
            // Before the lock: nobody who puts a row waits for the disk.
            let stored = self.store.read(ANSWERS, name).ok().flatten();
            let row = stored.and_then(|stored| Some((read(&stored)?, stored.len())));
            match row {
                Some((row, bytes)) => self.ages().add(*name, &row, bytes),
                None => self.ages().remove(name),
            }
        }
    }

    /// Writes what is remembered of messages whose tasks are about to be deleted: before that, since a later write does not
    /// reach the disk earlier.
    pub async fn write(&self, rows: Vec<(Digest, AnswerRow)>, now_ms: u64) {
        if rows.is_empty() {
            return;
        }
        let mut batch = Batch::new();
        let changed = self.put(rows.into_iter(), now_ms, &mut batch);
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::warn!(%error, "it cannot be remembered that messages were answered");
            self.recount(&changed);
        }
    }

    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.ages.lock().expect("no holder of the ages panics")
    }
}

fn read(bytes: &[u8]) -> Option<AnswerRow> {
    cbor::check(bytes, ROW_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Part, Role};
    use althing_protocol::{CallerId, PublisherId};
    use althing_store::MemoryStore;
    use althing_testing_store::FaultStore;

    use super::*;
    use crate::machine::answers::ANSWER_MS_MAX;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn scope(seed: u8) -> Scope {
        Scope::of(CallerId::Publisher(PublisherId::from_digest([seed; 32])))
    }

    fn row(text: &str, at_ms: u64) -> AnswerRow {
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        AnswerRow::of(&message, &Message::new(Role::Agent, vec![Part::text(text)]), None, at_ms)
    }

    #[tokio::test]
    async fn what_was_answered_is_known_after_a_restart_and_for_25_hours() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let answers = Answers::open(disk.clone(), scope(1)).expect("readable");
        let (first, second) = (row("a", NOW_MS), row("b", NOW_MS + 1));
        answers.write(vec![([1; 32], first.clone()), ([2; 32], second.clone())], NOW_MS + 1).await;
        let answers = Answers::open(disk.clone(), scope(1)).expect("readable");
        assert_eq!(answers.get(&[1; 32], NOW_MS + ANSWER_MS_MAX).expect("readable"), Some(first));
        assert_eq!(answers.get(&[3; 32], NOW_MS).expect("readable"), None);
        let late = NOW_MS + ANSWER_MS_MAX + 1;
        assert_eq!(answers.get(&[1; 32], late).expect("readable"), None);
        answers.write(vec![([3; 32], row("c", late))], late).await;
        let keys = disk.keys(ANSWERS, Range::all(10)).expect("readable");
        assert_eq!(keys, [[2; 32], [3; 32]], "the first one is forgotten");
        assert_eq!(answers.get(&[2; 32], late).expect("readable"), Some(second));
    }

    #[tokio::test]
    async fn where_not_all_fit_the_oldest_answers_are_forgotten_and_never_that_there_was_one() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let answers = Answers::open(disk.clone(), scope(1)).expect("readable");
        let long = "x".repeat(60 << 10);
        for number in 0..=255_u8 {
            let mut rows = Vec::new();
            for half in 0..2_u8 {
                let at_ms = NOW_MS + u64::from(number) * 2 + u64::from(half);
                rows.push((std::array::from_fn(|at| if at == 0 { number } else { half }), row(&long, at_ms)));
            }
            answers.write(rows, NOW_MS).await;
        }
        let rows = disk.scan(ANSWERS, Range::all(1_000)).expect("readable");
        let bytes: usize = rows.iter().map(|(_, row)| row.len()).sum();
        let whole = rows.iter().filter(|(_, row)| read(row).is_some_and(|row| row.answer.is_some())).count();
        assert_eq!(rows.len(), 512, "whoever sends one of them again is told that it was done");
        assert!((200..300).contains(&whole) && bytes as u64 <= LIMITS.bytes, "{whole} with {bytes} bytes");
        let newest = std::array::from_fn(|at| if at == 0 { 255 } else { 1 });
        assert!(answers.get(&newest, NOW_MS + 600).expect("readable").is_some_and(|row| row.answer.is_some()));
        let oldest = answers.get(&[0; 32], NOW_MS + 600).expect("readable").expect("it was answered");
        let asked = |text: &str| Message::new(Role::User, vec![Part::text(text)]);
        assert!(oldest.answer.is_none() && !oldest.is_of(&asked("other")), "by its content");
        // After a restart the same is too much.
        let answers = Answers::open(disk.clone(), scope(1)).expect("readable");
        answers.write(vec![([7; 32], row(&long, NOW_MS + 700))], NOW_MS + 700).await;
        assert_eq!(disk.keys(ANSWERS, Range::all(1_000)).expect("readable").len(), 513);
    }

    #[tokio::test]
    async fn what_could_not_be_written_takes_no_room_and_what_could_not_be_deleted_still_does() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let store = Arc::new(FaultStore::over(disk.as_ref().clone()));
        let limits = Limits { rows: 4, bytes: LIMITS.bytes };
        let answers = Answers::limited(store.clone(), scope(1), limits).expect("readable");
        let write = |seed: u8| {
            let at_ms = NOW_MS + u64::from(seed);
            answers.write(vec![([seed; 32], row("a", at_ms))], at_ms)
        };
        for seed in 1..=4 {
            write(seed).await;
        }
        store.set_full(true);
        for seed in 5..=8 {
            write(seed).await;
        }
        store.set_full(false);
        write(9).await;
        let keys = disk.keys(ANSWERS, Range::all(10)).expect("readable");
        assert_eq!(keys, [[2; 32], [3; 32], [4; 32], [9; 32]], "the oldest on disk goes, for the one that is there");
    }

    #[tokio::test]
    async fn an_answer_that_is_not_on_disk_yet_does_not_keep_others_from_being_shortened() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let long = "x".repeat(1 << 10);
        let limits = Limits { rows: 100, bytes: 4 << 10 };
        let answers = Answers::limited(disk.clone(), scope(1), limits).expect("readable");
        let (mut first, mut second) = (Batch::new(), Batch::new());
        let rows = |seeds: std::ops::Range<u8>| {
            let long = long.clone();
            seeds.map(move |seed| ([seed; 32], row(&long, NOW_MS + u64::from(seed))))
        };
        assert_eq!(answers.put(rows(0..3), NOW_MS, &mut first).len(), 3, "they fit");
        assert!(answers.put(rows(3..8), NOW_MS, &mut second).len() > 5, "some of before are shortened");
        for batch in [first, second] {
            disk.write(batch, Durability::Buffered).await.expect("written");
        }
        let bytes: usize = disk.scan(ANSWERS, Range::all(10)).expect("readable").iter().map(|(_, row)| row.len()).sum();
        assert!(bytes <= 4 << 10, "{bytes}");
        let oldest = answers.get(&[0; 32], NOW_MS).expect("readable").expect("it was answered");
        assert!(oldest.answer.is_none());
    }

    #[tokio::test]
    async fn one_caller_s_many_keys_leave_another_s_also_after_a_restart() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let limits = Limits { rows: 16, bytes: LIMITS.bytes };
        let open = || Answers::limited(disk.clone(), scope(1), limits).expect("readable");
        let of = |seed: u8, at_ms: u64| row("a", at_ms).paid_by(payer_of(&ShareOwner::Scope(scope(seed))));
        let mut answers = open();
        answers.write(vec![([2; 32], of(2, NOW_MS)), ([1; 32], of(1, NOW_MS))], NOW_MS).await;
        for number in 0..100_u8 {
            let at_ms = NOW_MS + 1 + u64::from(number);
            let name = std::array::from_fn(|at| if at == 0 { number } else { 255 });
            answers.write(vec![(name, of(3, at_ms))], at_ms).await;
            if number == 50 {
                answers = open();
            }
        }
        assert_eq!(disk.keys(ANSWERS, Range::all(1_000)).expect("readable").len(), 16);
        for name in [[1; 32], [2; 32]] {
            assert!(answers.get(&name, NOW_MS + 200).expect("readable").is_some(), "it was answered first of all");
        }
    }
}
