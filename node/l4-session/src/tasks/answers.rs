//! What is remembered of messages whose ids are keys, where no task of theirs is kept, on disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::{Digest, cbor};
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};

use crate::machine::answers::{ANSWER_MS_MAX, AnswerRow};

/// Messages that were answered under keys, and of which no task is kept.
pub const ANSWERS: Family = Family("calls.answers");

/// How many are remembered, and bytes of all of them, beyond which the oldest are forgotten.
const ANSWERS_MAX: usize = 100_000;
const BYTES_MAX: u64 = 16 << 20;
/// Bytes of one row: it holds an answer of 64 KiB at most, which JSON in CBOR does not make longer.
const ROW_BYTES_MAX: usize = 128 << 10;
/// Rows, and their bytes, that are read at once.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 1 << 20;
/// Rows that one batch deletes; the next one deletes the rest.
const DELETED_AT_ONCE: usize = 64;

/// What is remembered of messages.
pub(crate) struct Answers {
    store: Arc<dyn Store>,
    ages: Mutex<Ages>,
}

/// Their names by their age, with their bytes.
#[derive(Default)]
struct Ages {
    by_age: BTreeMap<(u64, Digest), u64>,
    bytes: u64,
}

impl Ages {
    fn add(&mut self, at_ms: u64, name: Digest, bytes: usize) {
        let before = self.by_age.insert((at_ms, name), bytes as u64).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes as u64);
    }

    /// Takes the oldest one, if it is too old or too much.
    fn take_surplus(&mut self, now_ms: u64) -> Option<Digest> {
        let (at_ms, _) = *self.by_age.first_key_value()?.0;
        let is_old = now_ms.saturating_sub(at_ms) > ANSWER_MS_MAX;
        if !is_old && self.by_age.len() <= ANSWERS_MAX && self.bytes <= BYTES_MAX {
            return None;
        }
        let ((_, name), bytes) = self.by_age.pop_first()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(name)
    }
}

impl Answers {
    /// Those in a store. What cannot be read is forgotten when another message has its name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<Answers, ReadError> {
        let answers = Answers { store, ages: Mutex::default() };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE).within(PAGE_BYTES);
            let range = after.take().map_or(range.clone(), |after| range.after(after));
            let rows = answers.store.scan(ANSWERS, range)?;
            for (key, value) in &rows {
                if let (Ok(name), Some(row)) = (Digest::try_from(&key[..]), read(value)) {
                    answers.ages().add(row.at_ms, name, value.len());
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

    /// Adds what is remembered of messages to a batch, and the deletion of what is too old or too much by then.
    pub fn put(&self, rows: impl Iterator<Item = (Digest, AnswerRow)>, now_ms: u64, batch: &mut Batch) {
        let mut ages = self.ages();
        for (name, row) in rows {
            let bytes = row.encode();
            ages.add(row.at_ms, name, bytes.len());
            batch.put(ANSWERS, name.to_vec(), bytes);
        }
        for name in std::iter::from_fn(|| ages.take_surplus(now_ms)).take(DELETED_AT_ONCE) {
            batch.delete(ANSWERS, name.to_vec());
        }
    }

    /// Writes what is remembered of messages whose tasks are about to be deleted: before that, since a later write does not
    /// reach the disk earlier.
    pub async fn write(&self, rows: Vec<(Digest, AnswerRow)>, now_ms: u64) {
        if rows.is_empty() {
            return;
        }
        let mut batch = Batch::new();
        self.put(rows.into_iter(), now_ms, &mut batch);
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::warn!(%error, "it cannot be remembered that messages were answered");
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
    use althing_store::MemoryStore;

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn row(text: &str, at_ms: u64) -> AnswerRow {
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        AnswerRow::of(&message, &Message::new(Role::Agent, vec![Part::text(text)]), None, at_ms)
    }

    #[tokio::test]
    async fn what_was_answered_is_known_after_a_restart_and_for_25_hours() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let answers = Answers::open(disk.clone()).expect("readable");
        let (first, second) = (row("a", NOW_MS), row("b", NOW_MS + 1));
        answers.write(vec![([1; 32], first.clone()), ([2; 32], second.clone())], NOW_MS + 1).await;
        let answers = Answers::open(disk.clone()).expect("readable");
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
    async fn the_oldest_are_forgotten_where_not_all_fit() {
        let disk = Arc::new(MemoryStore::new(&[ANSWERS]));
        let answers = Answers::open(disk.clone()).expect("readable");
        let long = "x".repeat(60 << 10);
        for number in 0..=255_u8 {
            let mut rows = Vec::new();
            for half in 0..2_u8 {
                let at_ms = NOW_MS + u64::from(number) * 2 + u64::from(half);
                rows.push((std::array::from_fn(|at| if at == 0 { number } else { half }), row(&long, at_ms)));
            }
            answers.write(rows, NOW_MS).await;
        }
        let kept = disk.keys(ANSWERS, Range::all(1_000)).expect("readable").len();
        assert!((200..300).contains(&kept), "{kept}");
        let newest = std::array::from_fn(|at| if at == 0 { 255 } else { 1 });
        assert!(answers.get(&newest, NOW_MS + 600).expect("readable").is_some());
        assert!(answers.get(&[0; 32], NOW_MS + 600).expect("readable").is_none());
    }
}
