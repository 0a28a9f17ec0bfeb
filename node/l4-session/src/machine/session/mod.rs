//! A session: one agent, one scope and one context; and the journal of each of its turns that has not ended.
//!
//! A session costs no row until something of it is journalled, and nothing of a node is in its name: it is the same wherever
//! its agent is. A turn is one message of it. Bounds are in bytes of rows with their keys.

mod call_digest;
mod notes;
mod recorded;
mod replay_row;
mod row;
mod rows;
mod steps;
mod tape;
mod turn_tapes;
mod usage;

use althing_protocol::{AgentId, Digest, digest, hex};

pub use call_digest::call_digest;
pub use notes::{NOTES_BYTES_MAX, NOTES_MS_MAX, NoteRows};
pub use recorded::{RecordedStep, RecordedTurn, beginning, recorded};
pub use row::{Begin, Choice, GroupAttempt, Head, HeadEnd, NotesHead};
pub use rows::{Call, Damage, Doubt, Next, RestartError, TurnRows};
pub use steps::{RowKind, RowSummary, summaries};
pub use tape::Tape;
pub use turn_tapes::{TurnTape, TurnTapes};
pub use usage::{Payer, Usage};

/// Rows of one turn.
pub const ROWS_MAX: u32 = 4_096;
/// Bytes of one turn, of one session, and of all sessions of a node.
pub const TURN_BYTES_MAX: u64 = 16 << 20;
pub const SESSION_BYTES_MAX: u64 = 64 << 20;
pub const NODE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of all sessions of one caller that is not the owner of the node, and of all such callers: the rest is the owner's.
pub const CALLER_BYTES_MAX: u64 = NODE_BYTES_MAX / 8;
pub const OTHERS_BYTES_MAX: u64 = NODE_BYTES_MAX / 4 * 3;
/// Bytes of a result in one row; a longer one takes several.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// Bytes of a checkpoint in one row: what an agent gives fits with what its runtime notes, but where the answer is long.
pub const CHECKPOINT_PART_BYTES_MAX: usize = 3 << 19;
/// How long a call stays in doubt until its task fails, milliseconds: a day. Who is called by a key remembers it for longer.
pub const DOUBT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How long a turn may go on anew from one of its steps that stopped where its agent did something else, milliseconds: a day.
pub const RESTART_MS_MAX: u64 = DOUBT_MS_MAX;

/// What digests of sessions, of turns and of calls begin with, so that none is ever that of another thing.
const OF_SESSION: &[u8] = b"althing session\0";
const OF_TURN: &[u8] = b"althing session turn\0";
const OF_CALL: &[u8] = b"althing session call\0";
const OF_NOTES: &[u8] = b"althing session notes\0";
const OF_CONTEXT: &[u8] = b"althing session context\0";
/// What stands for a turn in the keys of a session's notes; no turn is called so.
const NOTES_TURN: u32 = u32::MAX;

/// What people are told of a checkpoint that came where the turn did something else.
const CHECKPOINT: &str = "a checkpoint";

/// A session's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// The session of an agent in which the caller with that scope, as it is stored, speaks in that context.
    #[must_use]
    pub fn of(agent: &AgentId, scope: &str, context: &str) -> SessionId {
        let whole = digest_of(OF_SESSION, &[&agent.to_string(), scope, context]);
        SessionId(std::array::from_fn(|at| whole[at]))
    }

    /// What the keys of its notes begin with.
    #[must_use]
    pub fn notes_prefix(&self) -> Vec<u8> {
        [&self.0[..], &NOTES_TURN.to_be_bytes()].concat()
    }

    /// The session whose notes have that head; none if it is the head of a turn.
    #[must_use]
    pub fn of_notes(key: &[u8]) -> Option<SessionId> {
        let (session, turn) = key.split_at_checked(16)?;
        (turn == NOTES_TURN.to_be_bytes()).then(|| session.try_into().ok().map(SessionId))?
    }

    /// As people read it: 32 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        hex(&self.0)
    }
}

/// The name of a turn, which its rows have before their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnId {
    /// Where it belongs.
    pub session: SessionId,
    /// The beginning of [`TurnId::whole`], by which its rows are found.
    pub turn: u32,
    /// The digest of its task and of the message that began it: of no other turn, so that no key of a call comes twice.
    pub whole: Digest,
}

impl TurnId {
    /// The turn of a task that a message began.
    #[must_use]
    pub fn of(session: SessionId, task: &str, message: &str) -> TurnId {
        let whole = digest_of(OF_TURN, &[task, message]);
        let turn = u32::from_be_bytes([whole[0], whole[1], whole[2], whole[3]]);
        TurnId { session, turn: turn.min(NOTES_TURN - 1), whole }
    }

    /// What the keys of its rows begin with.
    #[must_use]
    pub fn prefix(&self) -> Vec<u8> {
        [&self.session.0[..], &self.turn.to_be_bytes()].concat()
    }

    /// The key of a row.
    #[must_use]
    pub fn row_key(&self, seq: u32) -> Vec<u8> {
        [&self.prefix()[..], &seq.to_be_bytes()].concat()
    }

    /// What stands for the row before the first one: rows of another turn do not follow it.
    #[must_use]
    fn origin(&self) -> Digest {
        digest(&[OF_TURN, &self.session.0, &self.whole].concat())
    }

    /// The key of a call: the same whenever its turn is resumed, and of no other call. `occurrence` counts the earlier calls
    /// of the turn with that name and those arguments, since the checkpoint after which step `since` was the first one; 0 where
    /// there is none.
    #[must_use]
    pub fn call_key(&self, call: &Digest, occurrence: u32, since: u32) -> [u8; 32] {
        let mut bytes = [OF_CALL, &self.session.0, &self.whole, call, &occurrence.to_be_bytes()].concat();
        if since > 0 {
            bytes.extend(since.to_be_bytes());
        }
        digest(&bytes)
    }
}

/// What all tasks have in common that belong to one context of a caller, of that scope as it is stored, with the agent of that
/// name.
#[must_use]
pub fn context_of(agent: &str, scope: &str, context: &str) -> Digest {
    digest_of(OF_CONTEXT, &[agent, scope, context])
}

/// The digest of texts. Each is preceded by its length, so that no two lists of texts have the same.
pub(crate) fn digest_of(domain: &[u8], texts: &[&str]) -> Digest {
    let mut bytes = domain.to_vec();
    for text in texts {
        bytes.extend((text.len() as u64).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    digest(&bytes)
}

#[cfg(test)]
mod tests;
