//! The notes of a session, as rows: they stay when its turns are over.

use althing_execution::notes::{NOTES_MAX, Note, NoteError};
use althing_protocol::{Digest, digest};

use super::row::{NoteRow, Row, RowBody};
use super::rows::KEY_BYTES;
use super::{OF_NOTES, SessionId};

/// How long the notes of a session stay after the last one was added, milliseconds: 30 days.
pub const NOTES_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Bytes of the notes of all sessions of a node, with their keys.
pub const NOTES_BYTES_MAX: u64 = 256 << 20;

/// The notes of one session.
#[derive(Debug)]
pub struct NoteRows {
    session: SessionId,
    /// The digest of the last row.
    last: Digest,
    bytes: u64,
    /// Each with the key of the call that added it.
    notes: Vec<(Option<Vec<u8>>, Note)>,
}

/// A row to be written, with its key.
type KeyedRow = (Vec<u8>, Vec<u8>);

impl NoteRows {
    /// Reads the notes of a session in the order of their keys, with the number in each key.
    ///
    /// # Errors
    /// [`NoteError::Damaged`].
    pub fn read(session: SessionId, rows: &[(u32, Vec<u8>)]) -> Result<NoteRows, NoteError> {
        let origin = digest(&[OF_NOTES, &session.0].concat());
        let mut read = NoteRows { session, last: origin, bytes: 0, notes: Vec::new() };
        for ((key, bytes), seq) in rows.iter().zip(0..) {
            let damaged = |why: String| NoteError::Damaged { what: format!("note {seq}: {why}") };
            let (row, digest) =
                Row::decode(bytes, *key, seq, &read.last).map_err(|error| damaged(error.to_string()))?;
            let RowBody::Note(NoteRow { kind, text, key, label }) = row.body else {
                return Err(damaged("it is no note".to_owned()));
            };
            read.last = digest;
            read.bytes += bytes.len() as u64 + KEY_BYTES;
            read.notes.push((key.map(Vec::from), Note { kind: kind.into(), text, label }));
        }
        Ok(read)
    }

    /// All of them, the oldest first.
    #[must_use]
    pub fn into_notes(self) -> Vec<Note> {
        self.notes.into_iter().map(|(_, note)| note).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.notes.len()).unwrap_or(u32::MAX)
    }

    /// Bytes of their rows, with their keys.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a note; gives its row, or none if one was added under that key.
    ///
    /// # Errors
    /// [`NoteError::TooMany`].
    pub fn add(&mut self, note: Note, key: Option<[u8; 32]>, now_ms: u64) -> Result<Option<KeyedRow>, NoteError> {
        let key = key.map(|key| key.to_vec());
        if key.is_some() && self.notes.iter().any(|(known, _)| *known == key) {
            return Ok(None);
        }
        if self.notes.len() >= NOTES_MAX {
            return Err(NoteError::TooMany);
        }
        let seq = self.count();
        let body = RowBody::Note(NoteRow {
            kind: note.kind.into(),
            text: note.text.clone(),
            key: key.clone().map(Into::into),
            label: note.label,
        });
        let row = Row { seq, previous: self.last, at_ms: now_ms, body }.encode();
        self.last = digest(&row);
        self.bytes += row.len() as u64 + KEY_BYTES;
        self.notes.push((key, note));
        let place = [&self.session.notes_prefix()[..], &seq.to_be_bytes()].concat();
        Ok(Some((place, row)))
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::notes::NoteKind;
    use althing_protocol::Label;
    use althing_protocol::contract::DataLabel;

    use super::*;
    use crate::machine::session::{TurnId, context_of};

    const SESSION: SessionId = SessionId([7; 16]);

    fn note(text: &str) -> Note {
        let label = Some(Label { level: DataLabel::Confidential, trusted: false });
        Note { kind: NoteKind::Remaining, text: text.to_owned(), label }
    }

    fn read(rows: &[(u32, Vec<u8>)]) -> Result<NoteRows, NoteError> {
        NoteRows::read(SESSION, rows)
    }

    /// The rows of so many notes.
    fn rows(count: u32) -> Vec<(u32, Vec<u8>)> {
        let mut notes = read(&[]).expect("none");
        let add = |number: u32| {
            let (key, row) = notes.add(note(&number.to_string()), None, 5).expect("there is room").expect("it is new");
            assert!(key.starts_with(&SESSION.notes_prefix()));
            (u32::from_be_bytes(*key.last_chunk().expect("a key")), row)
        };
        (0..count).map(add).collect()
    }

    #[test]
    fn notes_are_read_as_they_were_added() {
        let rows = rows(3);
        let read = read(&rows).expect("as they were written");
        assert_eq!(read.bytes(), rows.iter().map(|(_, row)| row.len() as u64 + 24).sum::<u64>());
        assert_eq!(read.into_notes(), ["0", "1", "2"].map(note));
    }

    #[test]
    fn a_note_that_comes_again_under_its_key_is_not_added_again() {
        let mut notes = read(&[]).expect("none");
        let [one, two] = [[1; 32], [2; 32]].map(Some);
        let (_, row) = notes.add(note("a"), one, 5).expect("there is room").expect("it is new");
        let mut notes = read(&[(0, row)]).expect("as it was written");
        assert_eq!(notes.add(note("a"), one, 6), Ok(None));
        for key in [two, None, None] {
            assert!(notes.add(note("a"), key, 6).expect("there is room").is_some(), "{key:?}");
        }
        assert_eq!(notes.into_notes().len(), 4);
    }

    #[test]
    fn a_session_has_so_many_notes_and_no_more() {
        let rows = rows(256);
        let mut notes = read(&rows).expect("as they were written");
        assert_eq!(notes.add(note("more"), None, 5), Err(NoteError::TooMany));
        assert_eq!(notes.into_notes().len(), NOTES_MAX);
    }

    #[test]
    fn rows_that_are_not_those_that_were_written_are_refused() {
        let whole = rows(3);
        let what = |rows: &[(u32, Vec<u8>)]| match read(rows) {
            Err(NoteError::Damaged { what }) => what,
            other => panic!("{other:?}"),
        };
        for length in 0..whole[1].1.len() {
            let mut cut = whole.clone();
            cut[1].1.truncate(length);
            what(&cut);
        }
        assert!(what(&[whole[0].clone(), whole[2].clone()]).contains("missing"));
        assert!(what(&[whole[1].clone()]).contains("missing"));
        let mut swapped = whole.clone();
        swapped.swap(0, 1);
        what(&swapped);
        let other = NoteRows::read(SessionId([8; 16]), &whole).expect_err("they are of another session");
        assert!(matches!(other, NoteError::Damaged { .. }), "{other:?}");
    }

    #[test]
    fn the_head_of_notes_is_that_of_no_turn() {
        assert_eq!(SessionId::of_notes(&SESSION.notes_prefix()), Some(SESSION));
        let turn = TurnId::of(SESSION, "task", "message");
        assert_eq!(SessionId::of_notes(&turn.prefix()), None);
        for key in [&[][..], &[7; 16], &[7; 19], &[0xff; 24]] {
            assert_eq!(SessionId::of_notes(key), None, "{key:?}");
        }
        assert_ne!(context_of("a", "b", "c"), context_of("a", "bc", ""));
    }
}
