//! Answers that gates refused, as they are stored: a row beside that of their task.

use std::sync::Mutex;

use althing_execution::verdicts::{RefusedAnswer, Verdicts};
use althing_protocol::{Digest, digest};
use althing_store::{ReadError, Store};
use serde::{Deserialize, Serialize};

use crate::journal::{RowSeal, SESSION_ROWS};

/// What the key of a task's row is made of, beside its id.
const OF_TASK: &[u8] = b"althing verdict of task\0";
/// Answers of one task that are kept: the last ones.
const REFUSALS_MAX: usize = 32;
/// Bytes of the row of one task.
pub(crate) const ROW_BYTES_MAX: usize = 256 << 10;
const UNREADABLE: &str = "the disk does not give it; the log of the node says why";

/// What gates refused so far in a turn that runs.
#[derive(Debug, Default)]
pub(crate) struct TurnRefusals(Mutex<Vec<RefusedAnswer>>);

impl TurnRefusals {
    /// Takes them; also where the turn goes on from its beginning, and its gates refuse them again.
    pub fn take(&self) -> Vec<RefusedAnswer> {
        std::mem::take(&mut *self.0.lock().expect("no holder of the refusals panics"))
    }
}

impl Verdicts for TurnRefusals {
    fn add(&self, refused: RefusedAnswer) {
        let mut all = self.0.lock().expect("no holder of the refusals panics");
        if all.len() == REFUSALS_MAX {
            all.remove(0);
        }
        all.push(refused.cut());
    }
}

/// An answer of a task that a gate refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRefusal {
    /// The id of the message that was answered.
    pub message: String,
    /// When its turn ended, Unix milliseconds.
    pub ended_ms: u64,
    /// The answer, which gate refused it, where and why.
    pub refused: RefusedAnswer,
}

/// The key of a task's row, among those of journals: theirs are shorter.
pub(crate) fn key(task: &str) -> Digest {
    digest(&[OF_TASK, task.as_bytes()].concat())
}

/// The row of a task that is stored so; an error says what is wrong with it.
pub(crate) fn read(store: &dyn Store, task: &str, seal: &RowSeal) -> Result<Vec<TaskRefusal>, String> {
    let unreadable = |error: ReadError| {
        tracing::error!(task, %error, "what gates refused of a task cannot be read");
        UNREADABLE.to_owned()
    };
    let key = key(task);
    let Some(stored) = store.read(SESSION_ROWS, &key).map_err(unreadable)? else { return Ok(Vec::new()) };
    let row = seal.open(&key, stored).map_err(|error| error.to_string())?;
    let damaged = || "it is no list of refused answers".to_owned();
    if row.len() > ROW_BYTES_MAX {
        return Err(damaged());
    }
    ciborium::from_reader(&row[..]).map_err(|_| damaged())
}

/// The row of these answers: of the last ones, as many as it holds.
pub(crate) fn row(mut all: Vec<TaskRefusal>) -> Vec<u8> {
    all.drain(..all.len().saturating_sub(REFUSALS_MAX));
    loop {
        let mut bytes = Vec::new();
        ciborium::into_writer(&all, &mut bytes).expect("texts and numbers have CBOR, and memory takes any");
        if bytes.len() <= ROW_BYTES_MAX || all.is_empty() {
            return bytes;
        }
        all.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::verdicts::REFUSED_BYTES_MAX;
    use althing_store::{Batch, Durability, MemoryStore};

    use super::*;
    use crate::journal::sealed;

    fn refused(attempt: u64, answer: &str) -> RefusedAnswer {
        RefusedAnswer {
            attempt,
            gate: "schema".to_owned(),
            place: "/total".to_owned(),
            rule: "/properties/total/type".to_owned(),
            reason: "it breaks `type`".to_owned(),
            answer: answer.to_owned(),
            bytes: 0,
        }
    }

    fn of_turn(message: &str, refused: RefusedAnswer) -> TaskRefusal {
        TaskRefusal { message: message.to_owned(), ended_ms: 7, refused }
    }

    async fn stored(seal: &RowSeal, all: Vec<TaskRefusal>) -> MemoryStore {
        let store = MemoryStore::new(&[SESSION_ROWS]);
        let mut batch = Batch::new();
        let key = key("t-1");
        batch.put(SESSION_ROWS, key, seal.close(&key, &row(all)));
        store.write(batch, Durability::Synced).await.expect("written");
        store
    }

    #[test]
    fn of_a_turn_the_last_refusals_are_kept() {
        let turn = TurnRefusals::default();
        for attempt in 1..=REFUSALS_MAX as u64 + 2 {
            turn.add(refused(attempt, "three"));
        }
        let all = turn.0.lock().expect("nobody panics");
        assert_eq!((all.len(), all[0].attempt, all[0].bytes), (REFUSALS_MAX, 3, 5));
    }

    #[tokio::test]
    async fn a_row_holds_the_last_answers_that_fit() {
        let plain = RowSeal::default();
        let long = "x".repeat(REFUSED_BYTES_MAX);
        let all: Vec<TaskRefusal> = (1..=6).map(|attempt| of_turn("m-1", refused(attempt, &long))).collect();
        let store = stored(&plain, all).await;
        let read = read(&store, "t-1", &plain).expect("it is sound");
        let attempts: Vec<u64> = read.iter().map(|one| one.refused.attempt).collect();
        assert_eq!(attempts, [4, 5, 6]);
        assert_eq!(super::read(&store, "t-2", &plain), Ok(Vec::new()), "another task has none");
    }

    #[tokio::test]
    async fn a_sealed_row_opens_with_its_key_alone() {
        let seal = sealed("one");
        let all = vec![of_turn("m-1", refused(1, "a hidden answer"))];
        let store = stored(&seal, all.clone()).await;
        let on_disk = store.read(SESSION_ROWS, &key("t-1")).expect("readable").expect("a row");
        assert!(!on_disk.windows(6).any(|window| window == b"hidden"));
        assert_eq!(read(&store, "t-1", &seal), Ok(all));
        for other in [sealed("two"), RowSeal::default()] {
            assert!(read(&store, "t-1", &other).is_err());
        }
    }

    #[tokio::test]
    async fn a_damaged_row_is_told() {
        let store = MemoryStore::new(&[SESSION_ROWS]);
        let mut batch = Batch::new();
        batch.put(SESSION_ROWS, key("t-1"), b"no row".to_vec());
        store.write(batch, Durability::Synced).await.expect("written");
        assert!(read(&store, "t-1", &RowSeal::default()).is_err_and(|what| what.contains("refused answers")));
    }
}
