//! What may be told of the rows of a turn without what is in them: names, digests, sizes and times.

use althing_protocol::{Digest, Label};

use super::row::{Row, RowBody};
use super::rows::KEY_BYTES;
use super::{Damage, SessionId, TurnId, TurnRows};

/// What a row says, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSummary {
    /// Its number in the turn.
    pub row: u32,
    /// When it was written, Unix milliseconds.
    pub at_ms: u64,
    /// What it is.
    pub kind: RowKind,
    /// The number of the step that it belongs to, if it belongs to one.
    pub step: Option<u32>,
    /// What was called, where that is said: `server/tool`, or what the node calls it.
    pub name: Option<String>,
    /// The digest of the step's name and arguments.
    pub call: Option<Digest>,
    /// Its bytes with its key.
    pub bytes: u64,
    /// The label of all that the turn had been given by then.
    pub label: Option<Label>,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// The turn began.
    Begin,
    /// A call was about to be made.
    Intent,
    /// This came of a step.
    Result,
    /// A step gave no result, but the reason.
    Failure,
    /// Somebody said what came of a call in doubt.
    Resolved,
    /// The turn goes on from there.
    Checkpoint,
    /// What clocks said.
    Reads,
    /// The turn went on anew from that step.
    Restart,
}

/// What the rows of a turn of a session say, with the number in each key; and the id of the message that began it.
///
/// # Errors
/// [`Damage`]: they are not the rows of a turn as it was written.
pub fn summaries(session: SessionId, rows: &[(u32, Vec<u8>)]) -> Result<(String, Vec<RowSummary>), Damage> {
    let wrong = |row: u32, what: &str| Damage { step: 0, what: format!("row {row}: {what}") };
    let (_, first) = rows.first().ok_or_else(|| wrong(0, "there is none"))?;
    let Some(Row { body: RowBody::Begin(begin), .. }) = Row::peek(first) else {
        return Err(wrong(0, "it is not the beginning of a turn"));
    };
    let message = begin.message.clone();
    // Whether they are those of that turn, and all of them follow one another.
    TurnRows::read(TurnId::of(session, &begin.task, &message), *begin, rows)?;
    let of_row = |(key, bytes): &(u32, Vec<u8>)| -> Result<RowSummary, Damage> {
        let row = Row::peek(bytes).ok_or_else(|| wrong(*key, "it cannot be read"))?;
        Ok(summary(row, bytes.len() as u64 + KEY_BYTES))
    };
    Ok((message, rows.iter().map(of_row).collect::<Result<Vec<RowSummary>, Damage>>()?))
}

fn summary(row: Row, bytes: u64) -> RowSummary {
    let (kind, step, name, call, label) = match row.body {
        RowBody::Begin(begin) => (RowKind::Begin, None, None, None, begin.label),
        RowBody::Intent(intent) => (RowKind::Intent, Some(intent.step), Some(intent.name), Some(intent.call), None),
        RowBody::Result(result) => {
            let kind = if result.is_result { RowKind::Result } else { RowKind::Failure };
            (kind, Some(result.step), Some(result.name), Some(result.call), result.label)
        }
        RowBody::Resolved(resolved) => (RowKind::Resolved, Some(resolved.step), None, None, None),
        RowBody::Checkpoint(checkpoint) => (RowKind::Checkpoint, Some(checkpoint.step), None, None, checkpoint.label),
        RowBody::Restart(restart) => (RowKind::Restart, Some(restart.step), None, None, None),
        // A note is a row of no turn.
        RowBody::Reads(_) | RowBody::Note(_) => (RowKind::Reads, None, None, None, None),
    };
    RowSummary { row: row.seq, at_ms: row.at_ms, kind, step, name, call, bytes, label }
}
