//! The notes of a session, which an agent makes for its later turns there: what is done and what remains, what was decided,
//! assumed, and found to be a trap. The port to where they are kept; the tools of it are in `note_server`.

use std::fmt;
use std::sync::Arc;

use althing_protocol::Label;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Notes of one session.
pub const NOTES_MAX: usize = 256;
/// Bytes of the text of a note.
pub const NOTE_BYTES_MAX: usize = 1 << 10;

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// This is done.
    Done,
    /// This remains to be done.
    Remaining,
    /// This was decided.
    Decision,
    /// This is assumed.
    Assumption,
    /// This went wrong, or would.
    Pitfall,
}

impl NoteKind {
    /// As journals and files write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NoteKind::Done => "done",
            NoteKind::Remaining => "remaining",
            NoteKind::Decision => "decision",
            NoteKind::Assumption => "assumption",
            NoteKind::Pitfall => "pitfall",
        }
    }
}

/// What an agent says of its work to a later turn of the same session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it says.
    pub kind: NoteKind,
    /// In words, [`NOTE_BYTES_MAX`] bytes at most.
    pub text: String,
    /// The label of all that the turn had been given that made it.
    #[serde(skip)]
    pub label: Option<Label>,
}

impl Note {
    /// As a model reads it.
    pub(crate) fn line(&self) -> String {
        format!("- {}: {}", self.kind.word(), self.text)
    }
}

/// Why a note was not added, or the notes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It says nothing.
    #[error("the note has no text; write one")]
    Empty,
    /// It is too long.
    #[error("the note has {bytes} bytes, and {NOTE_BYTES_MAX} is the most; say it shorter, or in several notes")]
    TooLong {
        /// The bytes of its text.
        bytes: usize,
    },
    /// It holds what people do not see.
    #[error("the note holds the invisible character U+{code:04X}; leave it out")]
    Invisible {
        /// Which one.
        code: u32,
    },
    /// The session has as many as it may have.
    #[error("this session has {NOTES_MAX} notes, and that is the most; go on in another context")]
    TooMany,
    /// The turn is of no session.
    #[error("this turn belongs to no session: notes are made while a message is answered")]
    NoSession,
    /// They are not those that were written.
    #[error("the notes of this session cannot be read ({what}); go on in another context")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// It could not be written.
    #[error("the note cannot be written; the log of its node says why")]
    Write,
}

/// The notes of one session, where they are kept.
pub trait Notes: Send + Sync + 'static {
    /// Adds a note, which a crash of the node does not lose. One that was added under the same key is there already.
    ///
    /// # Errors
    /// [`NoteError::TooMany`], [`NoteError::Damaged`], [`NoteError::Write`].
    fn add(&self, note: Note, key: Option<[u8; 32]>) -> BoxFuture<'_, Result<(), NoteError>>;

    /// All of them, the oldest first.
    ///
    /// # Errors
    /// [`NoteError::Damaged`].
    fn all(&self) -> Result<Vec<Note>, NoteError>;
}

/// The notes of the session of a turn.
#[derive(Clone)]
pub struct SessionNotes(pub Arc<dyn Notes>);

impl fmt::Debug for SessionNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionNotes").finish_non_exhaustive()
    }
}

impl PartialEq for SessionNotes {
    fn eq(&self, other: &SessionNotes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SessionNotes {}

/// The last notes that are not longer than that together, and how many earlier ones there are.
pub(crate) fn last(all: Vec<Note>, bytes_max: usize) -> (Vec<Note>, usize) {
    let mut left = bytes_max;
    let mut first = all.len();
    for note in all.iter().rev() {
        // With the end of its line.
        let Some(rest) = left.checked_sub(note.line().len() + 1) else { break };
        (left, first) = (rest, first - 1);
    }
    (all.into_iter().skip(first).collect(), first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_notes_are_given_as_far_as_they_fit() {
        let note = |number: usize| Note { kind: NoteKind::Decision, text: number.to_string(), label: None };
        let all: Vec<Note> = (0..5).map(note).collect();
        let line = all[0].line().len() + 1;
        for (bytes, kept) in [(0, 0), (line - 1, 0), (line, 1), (line * 3 + 1, 3), (line * 5, 5), (line * 9, 5)] {
            let (last, more) = last(all.clone(), bytes);
            assert_eq!((last.as_slice(), more), (&all[5 - kept..], 5 - kept), "{bytes}");
        }
    }
}
