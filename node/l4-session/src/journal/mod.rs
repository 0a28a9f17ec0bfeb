//! The journals of turns that have not ended, on disk: what an agent hears is a row here before the agent hears it. Beside them
//! are the notes of their sessions.
//!
//! Rows are written with [`Buffered`](althing_store::Durability::Buffered) where the call may be made again: they survive the
//! process. The intent of a call that must not be made twice, or that is made by a key, is on disk for good before it is made.
//! The batch that ends a task deletes its rows, or notes that they stay with it, if its agent is recorded. Where the memory of an
//! agent is encrypted, its rows are sealed with the key of that memory.

mod final_calls;
mod journals;
mod notes;
mod row_seal;
mod turn;

use althing_store::Family;

pub(crate) use journals::{Attempt, Journals};
pub(crate) use notes::NoteStore;
pub(crate) use row_seal::RowSeal;
#[cfg(test)]
pub(crate) use row_seal::tests::sealed;
pub(crate) use turn::TurnJournal;

/// The turns that have a journal.
pub const SESSION_HEADS: Family = Family("session.heads");
/// The rows of their journals; and of each task of which gates refused something, that.
pub const SESSION_ROWS: Family = Family("session.rows");

const HEAD_BYTES_MAX: usize = 1 << 10;
/// Heads, and keys of rows, that are read at once.
const PAGE: usize = 1_024;
