//! The rows of one turn, one after another: each has the number that follows that of the one before, and its digest. What they say
//! is of no account here, but where they go on from a checkpoint.

use althing_execution::journal::JournalError;
use althing_protocol::{Digest, digest};

use crate::machine::session::row::{Row, RowBody};
use crate::machine::session::{ROWS_MAX, TURN_BYTES_MAX, TurnId};

/// Bytes of a row's key.
pub const KEY_BYTES: u64 = 24;

/// The rows of a turn, and which of them are not known to be on disk.
#[derive(Debug, Clone)]
pub(super) struct RowChain {
    turn: TurnId,
    /// The number of the next row, and the digest of the last one.
    seq: u32,
    last: Digest,
    bytes: u64,
    /// The digest and the bytes of the first row, and the number of the second one: rows between are deleted.
    begun: Option<(Digest, u64)>,
    second: u32,
    /// Rows that are not known to be written.
    pending: Vec<(u32, Vec<u8>)>,
    /// The numbers of rows that are not known to be deleted.
    dropped: Vec<u32>,
}

impl RowChain {
    /// No rows yet.
    pub(super) fn new(turn: TurnId) -> RowChain {
        RowChain {
            last: turn.origin(),
            turn,
            seq: 0,
            bytes: 0,
            begun: None,
            second: 1,
            pending: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Whose rows they are.
    pub(super) fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// The number of the next row.
    pub(super) fn next_row(&self) -> u32 {
        self.seq
    }

    /// Whether it has no rows yet, not even the beginning.
    pub(super) fn is_empty(&self) -> bool {
        self.seq == 0
    }

    /// Whether the next row is the one that follows the beginning.
    pub(super) fn is_at_second(&self) -> bool {
        self.seq == self.second
    }

    /// How many rows it has, and their bytes, also of those that are not written yet.
    pub(super) fn size(&self) -> (u32, u64) {
        let after_the_first = self.seq.saturating_sub(self.second);
        (after_the_first + u32::from(self.seq > 0), self.bytes)
    }

    /// The keys of all its rows, also of those that are not written or not deleted yet.
    pub(super) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let first = if self.seq > 0 { 0..1 } else { 0..0 };
        let all = first.chain(self.second..self.seq.max(self.second)).chain(self.dropped.iter().copied());
        all.map(|seq| self.turn.row_key(seq))
    }

    /// The rows that are not known to be written, with their keys.
    pub(super) fn pending(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        self.pending.iter().map(|(seq, bytes)| (self.turn.row_key(*seq), &bytes[..]))
    }

    /// The keys of rows that are not known to be deleted.
    pub(super) fn dropped(&self) -> impl Iterator<Item = Vec<u8>> {
        self.dropped.iter().map(|seq| self.turn.row_key(*seq))
    }

    /// Whether none of its rows is known to be written.
    pub(super) fn is_unwritten(&self) -> bool {
        self.pending.first().is_some_and(|(seq, _)| *seq == 0)
    }

    /// The pending rows are written, and those that were dropped are deleted.
    pub(super) fn settle(&mut self) {
        self.pending.clear();
        self.dropped.clear();
    }

    /// Goes on to the number of a row that is a checkpoint and follows the beginning.
    pub(super) fn skip_to(&mut self, key: u32, bytes: &[u8]) {
        if self.seq != 1 || key <= self.seq {
            return;
        }
        let row = Row::decode(bytes, key, key, &self.last);
        if row.is_ok_and(|(row, _)| matches!(row.body, RowBody::Checkpoint(_))) {
            (self.seq, self.second) = (key, key);
        }
    }

    /// Reads the next row, which has that number in its key. Gives its digest too.
    ///
    /// # Errors
    /// In words: it is not the row that was written, or there are more rows than a turn has.
    pub(super) fn decode(&self, key: u32, bytes: &[u8]) -> Result<(Row, Digest), String> {
        let decoded = Row::decode(bytes, key, self.seq, &self.last).map_err(|error| error.to_string())?;
        if self.size().0 >= ROWS_MAX || self.bytes + bytes.len() as u64 + KEY_BYTES > TURN_BYTES_MAX {
            return Err("the turn has more rows than a turn has".to_owned());
        }
        Ok(decoded)
    }

    /// Takes the next row, which was read, and has that digest and so many bytes.
    pub(super) fn take(&mut self, digest: Digest, bytes: usize) {
        (self.last, self.seq) = (digest, self.seq.saturating_add(1));
        self.bytes += bytes as u64 + KEY_BYTES;
        self.begun.get_or_insert((digest, self.bytes));
    }

    /// Refuses a new step that has no room for its intent and a result.
    pub(super) fn check_room(&self) -> Result<(), JournalError> {
        let (rows, _) = self.size();
        // With the beginning, where there is none yet, and with what clocks say before each of both.
        if rows + 5 > ROWS_MAX {
            return Err(JournalError::TooLong { what: format!("{rows} rows"), most: u64::from(ROWS_MAX) });
        }
        if self.bytes >= TURN_BYTES_MAX {
            return Err(JournalError::TooLong { what: format!("{} bytes", self.bytes), most: TURN_BYTES_MAX });
        }
        Ok(())
    }

    /// Adds rows, all or none.
    ///
    /// # Errors
    /// [`JournalError::TooLong`].
    pub(super) fn append(&mut self, bodies: impl Iterator<Item = RowBody>, at_ms: u64) -> Result<(), JournalError> {
        let new = RowsAfter { seq: self.seq, last: self.last, bytes: self.bytes }.make(bodies, at_ms);
        check_size(self.size().0 + new.count(), new.end.bytes)?;
        if self.begun.is_none() {
            self.begun = new.begun;
        }
        (self.seq, self.last, self.bytes) = (new.end.seq, new.end.last, new.end.bytes);
        self.pending.extend(new.rows);
        Ok(())
    }

    /// Has rows follow the beginning, all or none, in place of those that did: these are dropped.
    ///
    /// # Errors
    /// [`JournalError::TooLong`], [`JournalError::Damaged`] if there is no beginning.
    pub(super) fn replace(&mut self, bodies: impl Iterator<Item = RowBody>, at_ms: u64) -> Result<(), JournalError> {
        let no_beginning = || JournalError::Damaged { what: "the turn has no beginning".to_owned() };
        let (last, bytes) = self.begun.ok_or_else(no_beginning)?;
        let new = RowsAfter { seq: self.seq, last, bytes }.make(bodies, at_ms);
        check_size(new.count().saturating_add(1), new.end.bytes)?;
        self.dropped.extend(self.second..self.seq);
        self.second = self.seq;
        (self.seq, self.last, self.bytes) = (new.end.seq, new.end.last, new.end.bytes);
        self.pending.retain(|(seq, _)| *seq == 0);
        self.pending.extend(new.rows);
        Ok(())
    }
}

/// Refuses what would be more rows, or more bytes, than a turn has.
fn check_size(rows: u32, bytes: u64) -> Result<(), JournalError> {
    if rows > ROWS_MAX {
        return Err(JournalError::TooLong { what: format!("{rows} rows"), most: u64::from(ROWS_MAX) });
    }
    if bytes > TURN_BYTES_MAX {
        return Err(JournalError::TooLong { what: format!("{bytes} bytes"), most: TURN_BYTES_MAX });
    }
    Ok(())
}

/// A place in the rows of a turn: the number of the next row, the digest of the one before it, and the bytes until there.
#[derive(Debug, Clone, Copy)]
struct RowsAfter {
    seq: u32,
    last: Digest,
    bytes: u64,
}

/// Rows that follow one another.
struct NewRows {
    rows: Vec<(u32, Vec<u8>)>,
    /// The digest of the first of them, and the bytes until after it.
    begun: Option<(Digest, u64)>,
    /// The place after them.
    end: RowsAfter,
}

impl NewRows {
    fn count(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }
}

impl RowsAfter {
    /// The rows that say that, here.
    fn make(mut self, bodies: impl Iterator<Item = RowBody>, at_ms: u64) -> NewRows {
        let (mut rows, mut begun) = (Vec::new(), None);
        for body in bodies {
            let row = Row { seq: self.seq, previous: self.last, at_ms, body }.encode();
            self.last = digest(&row);
            self.bytes += row.len() as u64 + KEY_BYTES;
            begun.get_or_insert((self.last, self.bytes));
            rows.push((self.seq, row));
            self.seq = self.seq.saturating_add(1);
        }
        NewRows { rows, begun, end: self }
    }
}
