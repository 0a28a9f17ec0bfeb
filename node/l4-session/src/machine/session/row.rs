//! The rows of a journal, as bytes: the same on disk and, later, on the wire. Each holds its number and the digest of the row
//! before it.

use althing_execution::journal::Effect;
use althing_execution::notes::NoteKind;
use althing_execution::tools::CallKind;
use althing_protocol::{Digest, Label, PublicKey, cbor, digest};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::replay_row::{CheckpointRow, ReadsRow};

/// Bytes of one row: the first holds the metadata of a request, which have up to 1 MiB.
const ROW_BYTES_MAX: usize = 2 << 20;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Row {
    /// Its number in the turn, from 0.
    #[n(0)]
    pub seq: u32,
    /// The digest of the row before it; of the first one, what stands for the turn.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub previous: Digest,
    /// When it was made, Unix milliseconds.
    #[n(2)]
    pub at_ms: u64,
    /// What it says.
    #[n(3)]
    pub body: RowBody,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RowBody {
    /// The turn began: always the first row, and no other one.
    #[n(0)]
    Begin(#[n(0)] Box<Begin>),
    /// A call is about to be made.
    #[n(1)]
    Intent(#[n(0)] IntentRow),
    /// What came of a step, or a part of it.
    #[n(2)]
    Result(#[n(0)] ResultRow),
    /// Somebody said what came of a call that was in doubt.
    #[n(3)]
    Resolved(#[n(0)] ResolvedRow),
    /// From where the turn goes on, or a part of it: its first part follows the beginning, and what was between is deleted.
    #[n(4)]
    Checkpoint(#[n(0)] CheckpointRow),
    /// What clocks said since the row before it.
    #[n(5)]
    Reads(#[n(0)] ReadsRow),
    /// A note of the session: a row of none of its turns.
    #[n(6)]
    Note(#[n(0)] NoteRow),
    /// The owner of the node has a turn that stopped go on anew from a step: what rows before say of that one and of later ones
    /// counts no more.
    #[n(7)]
    Restart(#[n(0)] RestartRow),
}

/// With what a turn began: what it needs to begin again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Begin {
    /// The task's id.
    #[n(0)]
    pub task: String,
    /// The id of the message.
    #[n(1)]
    pub message: String,
    /// The id of the agent that was given it.
    #[n(2)]
    pub agent: String,
    /// In which version that one is.
    #[n(3)]
    pub version: String,
    /// The hash of the manifest that it was bound to.
    #[n(4)]
    pub binding: String,
    /// How often the task had moved.
    #[n(5)]
    pub epoch: u64,
    /// On whose behalf the turn runs, the origin first.
    #[n(6)]
    pub principals: Vec<String>,
    /// URIs of the A2A extensions that the client asked for.
    #[n(7)]
    pub extensions: Vec<String>,
    /// The label of what came with the call.
    #[n(8)]
    pub label: Option<Label>,
    /// The session that the caller named.
    #[n(9)]
    pub session: Option<ByteVec>,
    /// The delegation that the caller sent.
    #[n(10)]
    pub delegation: Option<ByteVec>,
    /// `metadata` of the request, as JSON.
    #[n(11)]
    pub metadata: Option<ByteVec>,
    /// `acceptedOutputModes` of its configuration.
    #[n(12)]
    pub modes: Option<Vec<String>>,
    /// `historyLength` of its configuration.
    #[n(13)]
    pub history_length: Option<i32>,
    /// How long the turn may take, milliseconds, if it has a limit.
    #[n(14)]
    pub within_ms: Option<u64>,
    /// When it began, Unix milliseconds.
    #[n(15)]
    pub began_ms: u64,
    /// What randomness of the turn is made of.
    #[cbor(n(16), with = "minicbor::bytes")]
    pub seed: [u8; 32],
    /// The node that sent the message; none for this one.
    #[n(17)]
    pub caller: Option<PublicKey>,
    /// For which attempt at a task of a group it is, if it is for one.
    #[n(18)]
    pub attempt: Option<GroupAttempt>,
}

/// An attempt at a task of a group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GroupAttempt {
    /// The group's id, as text.
    #[n(0)]
    pub group: String,
    /// The task's id, as text.
    #[n(1)]
    pub task: String,
    /// The fencing token.
    #[n(2)]
    pub token: u64,
}

/// A call that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct IntentRow {
    /// The number of the step in its turn, from 0.
    #[n(0)]
    pub step: u32,
    /// What it is.
    #[n(1)]
    pub kind: StepKind,
    /// `server/tool`, or what the node calls it.
    #[n(2)]
    pub name: String,
    /// The digest of its name and arguments.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub call: Digest,
    /// What it does if it is made twice.
    #[n(4)]
    pub effect: StepEffect,
    /// The key with which it is made.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub key: Digest,
    /// Whom its name stood for: of a called agent its id, and after a blank the node that was chosen; rows from before name no node.
    #[n(6)]
    pub callee: Option<String>,
}

/// What came of a step, or a part of it: the parts follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ResultRow {
    /// The number of the step.
    #[n(0)]
    pub step: u32,
    /// What it was.
    #[n(1)]
    pub kind: StepKind,
    /// `server/tool`, or what the node calls it.
    #[n(2)]
    pub name: String,
    /// The digest of its name and arguments.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub call: Digest,
    /// What it does if it is made twice.
    #[n(4)]
    pub effect: StepEffect,
    /// How many parts follow this one.
    #[n(5)]
    pub more: u32,
    /// Whether there is a result; else the bytes are the reason, as text.
    #[n(6)]
    pub is_result: bool,
    /// The bytes of this part.
    #[n(7)]
    pub bytes: ByteVec,
    /// Tokens that it took.
    #[n(8)]
    pub tokens: u64,
    /// The label of all that the turn was given by then.
    #[n(9)]
    pub label: Option<Label>,
}

/// Somebody said what came of a call. A result follows, if it had one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ResolvedRow {
    /// The number of the step.
    #[n(0)]
    pub step: u32,
    /// What was said.
    #[n(1)]
    pub choice: Choice,
    /// Who said it.
    #[n(2)]
    pub by: String,
}

/// A turn that stopped goes on anew from a step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RestartRow {
    /// The number of that step.
    #[n(0)]
    pub step: u32,
    /// In which version its agent is from now on.
    #[n(1)]
    pub version: String,
    /// The hash of the manifest that it is bound to from now on.
    #[n(2)]
    pub binding: String,
    /// Who said so.
    #[n(3)]
    pub by: String,
    /// When that was, Unix milliseconds: a checkpoint is followed by the row once more.
    #[n(4)]
    pub said_ms: u64,
}

/// A note of the session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NoteRow {
    /// What it says.
    #[n(0)]
    pub kind: NoteWord,
    /// In words.
    #[n(1)]
    pub text: String,
    /// The key of the call that added it, if its turn has a journal.
    #[n(2)]
    pub key: Option<ByteVec>,
    /// The label of all that the turn had been given that added it.
    #[n(3)]
    pub label: Option<Label>,
}

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum NoteWord {
    /// This is done.
    #[n(0)]
    Done,
    /// This remains to be done.
    #[n(1)]
    Remaining,
    /// This was decided.
    #[n(2)]
    Decision,
    /// This is assumed.
    #[n(3)]
    Assumption,
    /// This went wrong, or would.
    #[n(4)]
    Pitfall,
}

impl From<NoteKind> for NoteWord {
    fn from(kind: NoteKind) -> NoteWord {
        match kind {
            NoteKind::Done => NoteWord::Done,
            NoteKind::Remaining => NoteWord::Remaining,
            NoteKind::Decision => NoteWord::Decision,
            NoteKind::Assumption => NoteWord::Assumption,
            NoteKind::Pitfall => NoteWord::Pitfall,
        }
    }
}

impl From<NoteWord> for NoteKind {
    fn from(word: NoteWord) -> NoteKind {
        match word {
            NoteWord::Done => NoteKind::Done,
            NoteWord::Remaining => NoteKind::Remaining,
            NoteWord::Decision => NoteKind::Decision,
            NoteWord::Assumption => NoteKind::Assumption,
            NoteWord::Pitfall => NoteKind::Pitfall,
        }
    }
}

/// What is said of a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Choice {
    /// It took place, and its result is known.
    #[n(0)]
    Done,
    /// It is to be made again.
    #[n(1)]
    Again,
    /// It failed, or is to be given up.
    #[n(2)]
    Failed,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StepKind {
    /// A system call.
    #[n(0)]
    Tool,
    /// A search of the memory.
    #[n(1)]
    Recall,
    /// A request to a model.
    #[n(2)]
    Model,
}

impl From<CallKind> for StepKind {
    fn from(kind: CallKind) -> StepKind {
        match kind {
            CallKind::Tool => StepKind::Tool,
            CallKind::Recall => StepKind::Recall,
            CallKind::Model => StepKind::Model,
        }
    }
}

/// What a step does if it is made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StepEffect {
    /// Nothing, and it changes nothing at all.
    #[n(0)]
    None,
    /// Nothing that matters.
    #[n(1)]
    Repeatable,
    /// Nothing, where its key is known.
    #[n(2)]
    Keyed,
    /// What must not be done twice.
    #[n(3)]
    Final,
}

impl StepEffect {
    /// Whether the world must not hear of it before its intent is on disk.
    #[must_use]
    pub fn has_intent(self) -> bool {
        matches!(self, StepEffect::Keyed | StepEffect::Final)
    }
}

impl From<Effect> for StepEffect {
    fn from(effect: Effect) -> StepEffect {
        match effect {
            Effect::None => StepEffect::None,
            Effect::Repeatable => StepEffect::Repeatable,
            Effect::Keyed => StepEffect::Keyed,
            Effect::Final => StepEffect::Final,
        }
    }
}

/// The row that says that a turn has a journal: at most one small row of each turn is read when the node starts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Head {
    /// The task's id.
    #[n(0)]
    pub task: String,
    /// If the turn is over and its journal stays.
    #[n(1)]
    pub end: Option<HeadEnd>,
}

/// The end of a turn whose journal stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HeadEnd {
    /// When it ended, Unix milliseconds.
    #[n(0)]
    pub at_ms: u64,
    /// Bytes of its rows, with their keys.
    #[n(1)]
    pub bytes: u64,
    /// Until when it may go on anew from one of its steps, Unix milliseconds, if it stopped where its agent did something else.
    #[n(2)]
    pub restart_ms: Option<u64>,
    /// When its rows go though its task is there, Unix milliseconds; none if they stay with that.
    #[n(3)]
    pub gone_ms: Option<u64>,
}

/// The row that says that a session has notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NotesHead {
    /// What all tasks of its context have in common.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub context: Digest,
    /// When the last one was added, Unix milliseconds.
    #[n(1)]
    pub last_ms: u64,
    /// Bytes of their rows, with their keys.
    #[n(2)]
    pub bytes: u64,
}

/// Why bytes are not the next row of a turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// It is longer than rows are.
    #[error("it has {bytes} bytes, and {ROW_BYTES_MAX} is the most")]
    Size {
        /// How many it has.
        bytes: usize,
    },
    /// It is cut, or no row.
    #[error("it is cut, or it is no row")]
    Form,
    /// It stood at another place.
    #[error("it is row {found} of the turn")]
    Order {
        /// Its own number.
        found: u32,
    },
    /// Rows before it are missing.
    #[error("the rows before row {found} are missing")]
    Gap {
        /// The number of the row that is there.
        found: u32,
    },
    /// It is of another turn.
    #[error("it is a row of another turn")]
    Foreign,
    /// The row before it is not the one that it was written after.
    #[error("it does not follow the row before it: one of them was changed")]
    Chain,
}

impl Begin {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// That of the turn whose first row this is; none if it is not the first row of a turn.
    #[must_use]
    pub fn of_row(bytes: &[u8]) -> Option<Begin> {
        match Row::peek(bytes)?.body {
            RowBody::Begin(begin) => Some(*begin),
            _ => None,
        }
    }

    /// Reads what [`Begin::encode`] wrote.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Begin> {
        cbor::check(bytes, ROW_BYTES_MAX).ok()?;
        minicbor::decode(bytes).ok()
    }
}

impl Row {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a row without asking where it stands; none if it is cut, or no row.
    #[must_use]
    pub fn peek(bytes: &[u8]) -> Option<Row> {
        cbor::check(bytes, ROW_BYTES_MAX).ok()?;
        minicbor::decode(bytes).ok()
    }

    /// Reads the row that has the number `key` on disk, where row `seq` is expected, after the one with that digest. Gives
    /// its own digest too.
    ///
    /// # Errors
    /// [`RowError`].
    pub fn decode(bytes: &[u8], key: u32, seq: u32, previous: &Digest) -> Result<(Row, Digest), RowError> {
        if bytes.len() > ROW_BYTES_MAX {
            return Err(RowError::Size { bytes: bytes.len() });
        }
        if key > seq {
            return Err(RowError::Gap { found: key });
        }
        let row = Row::peek(bytes).ok_or(RowError::Form)?;
        if row.seq != seq || key != seq {
            return Err(RowError::Order { found: row.seq });
        }
        match row.previous == *previous {
            true => Ok((row, digest(bytes))),
            false if seq == 0 => Err(RowError::Foreign),
            false => Err(RowError::Chain),
        }
    }
}
