//! The notes of sessions, on disk. They survive the process, and go with the last task of their context, or 30 days after the
//! last one was added.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::notes::{NOTE_BYTES_MAX, NOTES_MAX, Note, NoteError};
use althing_protocol::{Digest, cbor};
use althing_store::{Batch, Durability, Range, ReadError, Store};

use super::row_seal::{SEALED_MORE, SealError};
use super::{HEAD_BYTES_MAX, PAGE, RowSeal, SESSION_HEADS, SESSION_ROWS};
use crate::machine::session::{NOTES_BYTES_MAX, NOTES_MS_MAX, NoteRows, NotesHead, SessionId};

/// Bytes of the rows of one session: each has its text, and some hundred beside it.
const ROWS_BYTES_MAX: usize = NOTES_MAX * (2 * NOTE_BYTES_MAX + SEALED_MORE);

/// The notes of a node's sessions.
pub(crate) struct NoteStore {
    store: Arc<dyn Store>,
    /// Held while notes are written or deleted.
    writing: tokio::sync::Mutex<()>,
    /// The sessions that have some.
    heads: Mutex<BTreeMap<SessionId, NotesHead>>,
}

impl NoteStore {
    /// Those in a store; what is too old is deleted. A full disk does not keep the node from starting.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(store: Arc<dyn Store>, now_ms: u64) -> Result<NoteStore, ReadError> {
        let notes = NoteStore { store, writing: tokio::sync::Mutex::default(), heads: Mutex::default() };
        let (mut after, mut old): (Option<Vec<u8>>, Vec<SessionId>) = (None, Vec::new());
        loop {
            let range = Range::all(PAGE);
            let range = after.take().map_or(range.clone(), |after| range.after(after));
            let heads = notes.store.scan(SESSION_HEADS, range)?;
            for (key, value) in &heads {
                let Some(session) = SessionId::of_notes(key) else { continue };
                match head(value) {
                    Some(head) if !is_old(&head, now_ms) => {
                        notes.heads().insert(session, head);
                    }
                    _ => old.push(session),
                }
            }
            match heads.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
        for session in old {
            notes.delete(session).await;
        }
        Ok(notes)
    }

    /// Adds a note to a session, of that context, whose rows are stored so; one that was added under the same key is there
    /// already.
    ///
    /// # Errors
    /// [`NoteError::TooMany`], [`NoteError::Damaged`], [`NoteError::Write`].
    pub async fn add(
        &self,
        (session, context): (SessionId, Digest),
        seal: &RowSeal,
        note: Note,
        key: Option<[u8; 32]>,
        now_ms: u64,
    ) -> Result<(), NoteError> {
        let _writing = self.writing.lock().await;
        if self.head(session).is_some_and(|head| is_old(&head, now_ms)) {
            self.delete(session).await;
        }
        let mut rows = self.read(session, seal)?;
        let Some((place, row)) = rows.add(note, key, now_ms)? else { return Ok(()) };
        let bytes = rows.bytes() + seal.more(rows.count());
        self.make_room(session, bytes).await;
        let head = NotesHead { context, last_ms: now_ms, bytes };
        let row = seal.close(&place, &row);
        let mut batch = Batch::new();
        batch.put(SESSION_ROWS, place, row).put(SESSION_HEADS, session.notes_prefix(), encode(&head));
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::error!(session = session.text(), %error, "a note cannot be written");
            return Err(NoteError::Write);
        }
        self.heads().insert(session, head);
        Ok(())
    }

    /// The notes of a session whose rows are stored so, the oldest first.
    ///
    /// # Errors
    /// [`NoteError::Damaged`].
    pub fn all(&self, session: SessionId, seal: &RowSeal, now_ms: u64) -> Result<Vec<Note>, NoteError> {
        match self.head(session) {
            Some(head) if !is_old(&head, now_ms) => self.read(session, seal).map(NoteRows::into_notes),
            _ => Ok(Vec::new()),
        }
    }

    /// Those of the contexts that have notes.
    pub fn among(&self, contexts: impl Iterator<Item = Digest>) -> Vec<Digest> {
        let heads = self.heads();
        if heads.is_empty() {
            return Vec::new();
        }
        let contexts: BTreeSet<Digest> = contexts.collect();
        heads.values().map(|head| head.context).filter(|context| contexts.contains(context)).collect()
    }

    /// Deletes the notes of contexts that have no task any more.
    pub async fn forget(&self, contexts: &[Digest]) {
        if contexts.is_empty() {
            return;
        }
        let _writing = self.writing.lock().await;
        let gone = |(_, head): &(&SessionId, &NotesHead)| contexts.contains(&head.context);
        let gone: Vec<SessionId> = self.heads().iter().filter(gone).map(|(session, _)| *session).collect();
        for session in gone {
            self.delete(session).await;
        }
    }

    /// Deletes the notes to which none was added for longest, until those of all sessions fit, with so many bytes of this one.
    async fn make_room(&self, session: SessionId, bytes: u64) {
        loop {
            let oldest = {
                let heads = self.heads();
                let others = heads.iter().filter(|(other, _)| **other != session);
                let all = others.clone().fold(bytes, |sum, (_, head)| sum.saturating_add(head.bytes));
                let oldest = others.min_by_key(|(_, head)| head.last_ms).map(|(other, _)| *other);
                oldest.filter(|_| all > NOTES_BYTES_MAX)
            };
            let Some(oldest) = oldest else { return };
            tracing::warn!(
                session = oldest.text(),
                "the oldest notes of a session are deleted: there is no room for all"
            );
            self.delete(oldest).await;
        }
    }

    /// Deletes the notes of a session. What cannot be deleted is deleted when the node starts after it is too old.
    async fn delete(&self, session: SessionId) {
        self.heads().remove(&session);
        let mut batch = Batch::new();
        match self.store.keys(SESSION_ROWS, Range::prefix(session.notes_prefix(), NOTES_MAX)) {
            Ok(keys) => keys.into_iter().for_each(|key| {
                batch.delete(SESSION_ROWS, key);
            }),
            Err(error) => {
                tracing::warn!(session = session.text(), %error, "notes cannot be deleted: they cannot be read");
                return;
            }
        }
        batch.delete(SESSION_HEADS, session.notes_prefix());
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::warn!(session = session.text(), %error, "notes cannot be deleted");
        }
    }

    fn read(&self, session: SessionId, seal: &RowSeal) -> Result<NoteRows, NoteError> {
        let range = Range::prefix(session.notes_prefix(), NOTES_MAX).within(ROWS_BYTES_MAX);
        let rows = self.store.scan(SESSION_ROWS, range);
        let rows = rows.map_err(|error| {
            tracing::error!(session = session.text(), %error, "the notes of a session cannot be read");
            NoteError::Damaged { what: "the disk does not give them; the log of the node says why".to_owned() }
        })?;
        let number = |key: &[u8]| key.last_chunk().map_or(u32::MAX, |seq| u32::from_be_bytes(*seq));
        let opened = |(key, row): (Vec<u8>, Vec<u8>)| {
            let (number, row) = (number(&key), seal.open(&key, row));
            let damaged = |error: SealError| NoteError::Damaged { what: format!("note {number}: {error}") };
            row.map(|row| (number, row)).map_err(damaged)
        };
        let rows = rows.into_iter().map(opened).collect::<Result<Vec<(u32, Vec<u8>)>, NoteError>>()?;
        NoteRows::read(session, &rows)
    }

    fn head(&self, session: SessionId) -> Option<NotesHead> {
        self.heads().get(&session).copied()
    }

    fn heads(&self) -> MutexGuard<'_, BTreeMap<SessionId, NotesHead>> {
        self.heads.lock().expect("no holder of the heads panics")
    }
}

impl fmt::Debug for NoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoteStore").finish_non_exhaustive()
    }
}

fn is_old(head: &NotesHead, now_ms: u64) -> bool {
    now_ms.saturating_sub(head.last_ms) > NOTES_MS_MAX
}

fn head(bytes: &[u8]) -> Option<NotesHead> {
    cbor::check(bytes, HEAD_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}

fn encode(head: &NotesHead) -> Vec<u8> {
    minicbor::to_vec(head).expect("writing to a vector cannot fail")
}

#[cfg(test)]
mod tests {
    use althing_execution::notes::NoteKind;
    use althing_store::MemoryStore;

    use super::*;
    use crate::journal::row_seal::tests::sealed;

    const NOW_MS: u64 = 1_700_000_000_000;
    /// How the rows of an agent are stored whose memory is not encrypted.
    static PLAIN: RowSeal = RowSeal::of(None);

    fn disk() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::new(&[SESSION_HEADS, SESSION_ROWS]))
    }

    async fn open(disk: &Arc<MemoryStore>, now_ms: u64) -> NoteStore {
        NoteStore::open(disk.clone(), now_ms).await.expect("readable")
    }

    /// A session of its own context.
    fn session(number: u8) -> (SessionId, Digest) {
        (SessionId([number; 16]), [number; 32])
    }

    fn note(text: &str) -> Note {
        Note { kind: NoteKind::Pitfall, text: text.to_owned(), label: None }
    }

    fn rows(disk: &MemoryStore) -> [usize; 2] {
        [SESSION_HEADS, SESSION_ROWS].map(|family| disk.keys(family, Range::all(10_000)).expect("readable").len())
    }

    #[tokio::test]
    async fn notes_are_there_when_the_node_starts_again_and_each_session_has_its_own() {
        let disk = disk();
        let notes = open(&disk, NOW_MS).await;
        for (number, text) in [(1, "a"), (2, "b"), (1, "c")] {
            notes.add(session(number), &PLAIN, note(text), None, NOW_MS).await.expect("written");
        }
        // The same call, which was made again.
        for _ in 0..2 {
            notes.add(session(2), &PLAIN, note("d"), Some([9; 32]), NOW_MS).await.expect("written");
        }
        let notes = open(&disk, NOW_MS + 1).await;
        let all = |number: u8| notes.all(session(number).0, &PLAIN, NOW_MS + 1);
        assert_eq!(all(1), Ok(["a", "c"].map(note).to_vec()));
        assert_eq!(all(2), Ok(["b", "d"].map(note).to_vec()));
        assert_eq!(all(3), Ok(Vec::new()));
    }

    #[tokio::test]
    async fn notes_go_with_their_context_or_after_30_days() {
        let disk = disk();
        let notes = open(&disk, NOW_MS).await;
        for number in 1..=3 {
            notes.add(session(number), &PLAIN, note("a"), None, NOW_MS).await.expect("written");
        }
        assert_eq!(notes.among([[1; 32], [7; 32]].into_iter()), [[1; 32]]);
        notes.forget(&[[1; 32], [7; 32]]).await;
        assert_eq!((rows(&disk), notes.all(session(1).0, &PLAIN, NOW_MS)), ([2, 2], Ok(Vec::new())));

        let later = NOW_MS + NOTES_MS_MAX;
        notes.add(session(2), &PLAIN, note("b"), None, later).await.expect("written");
        assert_eq!(notes.all(session(3).0, &PLAIN, later), Ok(vec![note("a")]), "it is their last day");
        assert_eq!(notes.all(session(3).0, &PLAIN, later + 1), Ok(Vec::new()));
        let notes = open(&disk, later + 1).await;
        assert_eq!(rows(&disk), [1, 2], "those of the second session");
        // Those that are too old do not come back with a new one.
        let much_later = later + 1 + NOTES_MS_MAX;
        notes.add(session(2), &PLAIN, note("c"), None, much_later).await.expect("written");
        assert_eq!(notes.all(session(2).0, &PLAIN, much_later), Ok(vec![note("c")]));
    }

    #[tokio::test]
    async fn where_not_all_fit_the_notes_go_to_which_none_was_added_for_longest() {
        let notes = open(&disk(), NOW_MS).await;
        for (number, at) in [(1, 3), (2, 1), (3, 2)] {
            notes.add(session(number), &PLAIN, note("a"), None, NOW_MS + at).await.expect("written");
        }
        for head in notes.heads().values_mut() {
            head.bytes = NOTES_BYTES_MAX / 3;
        }
        notes.add(session(4), &PLAIN, note("a"), None, NOW_MS + 4).await.expect("written");
        let has = |number: u8| notes.all(session(number).0, &PLAIN, NOW_MS + 5).is_ok_and(|all| !all.is_empty());
        assert_eq!([1, 2, 3, 4].map(has), [true, false, true, true]);
    }

    #[tokio::test]
    async fn sealed_notes_are_read_with_their_key_and_are_damaged_without_it() {
        let disk = disk();
        let notes = open(&disk, NOW_MS).await;
        let seal = sealed("one");
        for text in ["hidden a", "hidden b"] {
            notes.add(session(1), &seal, note(text), None, NOW_MS).await.expect("written");
        }
        notes.add(session(2), &PLAIN, note("a"), None, NOW_MS).await.expect("written");
        let own = |(key, row): &(Vec<u8>, Vec<u8>)| key[0] == 1 && row.windows(6).any(|window| window == b"hidden");
        assert!(!disk.scan(SESSION_ROWS, Range::all(10)).expect("readable").iter().any(own), "none is readable");
        let notes = open(&disk, NOW_MS).await;
        assert_eq!(notes.all(session(1).0, &seal, NOW_MS), Ok(["hidden a", "hidden b"].map(note).to_vec()));
        for other in [&sealed("two"), &PLAIN] {
            let refused = notes.all(session(1).0, other, NOW_MS);
            assert!(matches!(refused, Err(NoteError::Damaged { .. })), "{refused:?}");
        }
        // What is not sealed was not added by an agent whose notes are.
        let refused = notes.all(session(2).0, &seal, NOW_MS);
        assert!(matches!(refused, Err(NoteError::Damaged { .. })), "{refused:?}");
        assert_eq!(notes.all(session(2).0, &PLAIN, NOW_MS), Ok(vec![note("a")]));
    }

    #[tokio::test]
    async fn damaged_notes_are_told_and_others_are_there() {
        let disk = disk();
        let notes = open(&disk, NOW_MS).await;
        for number in 1..=2 {
            notes.add(session(number), &PLAIN, note("a"), None, NOW_MS).await.expect("written");
        }
        let mut batch = Batch::new();
        let first = [&session(1).0.notes_prefix()[..], &[0; 4]].concat();
        batch.put(SESSION_ROWS, first, b"no row".to_vec());
        disk.write(batch, Durability::Synced).await.expect("written");
        assert!(matches!(notes.all(session(1).0, &PLAIN, NOW_MS), Err(NoteError::Damaged { .. })));
        let refused = notes.add(session(1), &PLAIN, note("b"), None, NOW_MS).await;
        assert!(matches!(refused, Err(NoteError::Damaged { .. })), "{refused:?}");
        assert_eq!(notes.all(session(2).0, &PLAIN, NOW_MS), Ok(vec![note("a")]));
    }
}
