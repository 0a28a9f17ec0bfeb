//! Labelled sentences: CSV with a header, and the columns `instruction`, `agent` and, if wanted, `intent` and `split`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Rows that are read, and that a node keeps.
pub const ROWS_MAX: usize = 50_000;
/// Bytes of a file of rows.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a sentence, and of a name.
const SENTENCE_BYTES_MAX: usize = 4 << 10;
const NAME_BYTES_MAX: usize = 256;
/// Where a file does not say it, one row in so many is kept from learning.
const HELD_OUT: u64 = 5;

/// A sentence, and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The sentence.
    pub instruction: String,
    /// The name or the identifier of the agent; empty for a sentence that is for none.
    pub agent: String,
    /// What is asked of the agent.
    #[serde(default)]
    pub intent: String,
    /// What the row is for, where the file says so.
    #[serde(default, rename = "split", skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// What a row is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It is learned.
    Learn,
    /// It is kept from learning, and tested.
    Test,
}

/// What is wrong with a file of rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// It is too large.
    #[error("a file of rows has at most {} MiB", FILE_BYTES_MAX >> 20)]
    Large,
    /// It has too many rows.
    #[error("a file has at most {ROWS_MAX} rows: split it")]
    Many,
    /// It has none.
    #[error("it has no rows: a header `instruction,agent,intent`, then one sentence for each line")]
    Empty,
    /// A row cannot be read.
    #[error("{0}; its first line names the columns `instruction,agent,intent` (and `split`: learn or test)")]
    Malformed(String),
    /// A row is empty or too long.
    #[error("row {row}: {why}")]
    Row {
        /// Its number, from 1, without the header.
        row: usize,
        /// What is wrong.
        why: String,
    },
}

/// Reads a file of rows.
///
/// # Errors
/// See [`RowsError`].
pub fn parse(bytes: &[u8]) -> Result<Vec<Row>, RowsError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(RowsError::Large);
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let mut rows = Vec::new();
    for row in reader.deserialize::<Row>() {
        let mut row = row.map_err(|error| RowsError::Malformed(error.to_string()))?;
        let number = rows.len() + 1;
        if number > ROWS_MAX {
            return Err(RowsError::Many);
        }
        if matches!(row.agent.to_lowercase().as_str(), "none" | "oos" | "out_of_scope" | "out-of-scope") {
            row.agent.clear();
        }
        if let Some(why) = row.fault() {
            return Err(RowsError::Row { row: number, why });
        }
        rows.push(row);
    }
    if rows.is_empty() { Err(RowsError::Empty) } else { Ok(rows) }
}

impl Row {
    /// What is wrong with it, if something is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.instruction.is_empty() {
            return Some("the instruction is empty".to_owned());
        }
        if self.instruction.len() > SENTENCE_BYTES_MAX {
            return Some(format!("an instruction has at most {SENTENCE_BYTES_MAX} bytes"));
        }
        let long = self.agent.len() > NAME_BYTES_MAX || self.intent.len() > NAME_BYTES_MAX;
        long.then(|| format!("`agent` and `intent` have at most {NAME_BYTES_MAX} bytes each"))
    }

    /// Whether it is kept from learning, where nothing says so: decided by its words alone.
    fn is_held_out(&self) -> bool {
        let hash = self
            .instruction
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (hash ^ (hash >> 32)).is_multiple_of(HELD_OUT)
    }
}

/// The rows that are learned, and those that are tested: as the column `split` says; else all are tested where `known` (the
/// agents are learned already), and else one in five.
#[must_use]
pub fn split(rows: Vec<Row>, known: bool) -> (Vec<Row>, Vec<Row>) {
    let says = rows.iter().any(|row| row.part.is_some());
    rows.into_iter().partition(|row| match row.part {
        Some(part) => part == Part::Learn,
        None => !says && !known && !row.is_held_out(),
    })
}

/// Rows in order, each once: a classifier must not depend on the order in which they were learned.
pub(crate) fn ordered(rows: &[Row]) -> Vec<&Row> {
    let rows: BTreeSet<(&str, &str, &Row)> =
        rows.iter().map(|row| (row.instruction.as_str(), row.agent.as_str(), row)).collect();
    rows.into_iter().map(|(.., row)| row).take(ROWS_MAX).collect()
}
