//! A task as it is kept, and what it may take.

use std::io;

use a2a::Task;
use althing_protocol::CallerId;
use althing_store::BATCH_BYTES_MAX;
use serde::{Deserialize, Serialize};

use super::task;

/// Bytes of a stored task: what a batch holds beside the summary (2 KiB at most) and the keys of the tasks that are
/// forgotten with it (1,024 of 36 bytes, twice).
pub(crate) const RECORD_BYTES_MAX: usize = BATCH_BYTES_MAX - (256 << 10);
/// Bytes of a stored task when a turn begins, or makes an artifact: the turn's last word, or why it failed, its words
/// before that, the metadata that it gives the task, and what the runtime has kept must always fit beside it.
pub(crate) const WORKING_BYTES_MAX: usize = RECORD_BYTES_MAX
    - task::WORD_STORED_BYTES_MAX
    - task::WORDS_STORED_BYTES_MAX
    - task::METADATA_STORED_BYTES_MAX
    - task::REMEMBERED_BYTES_MAX
    - (4 << 10);

/// A task with what is not shown of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub task: Task,
    /// The agent's name.
    pub agent: String,
    /// Whose task it is: the caller's owner, or the calling node where that has none.
    pub scope: Scope,
    /// What the runtime asked to have kept.
    pub remembered: Option<String>,
}

/// Whose a task is, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Scope(pub CallerId);

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.0.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = althing_protocol::IdentityError;
    fn try_from(id: String) -> Result<Self, Self::Error> {
        id.parse().map(Scope)
    }
}

/// Bytes that a value takes in a stored task.
pub(crate) fn stored_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be encoded fits nowhere.
    ciborium::into_writer(value, &mut count).map_or(usize::MAX, |()| count.0)
}
