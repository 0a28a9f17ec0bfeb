//! A session: one agent, one scope and one context; and the journal of each of its turns that has not ended.
//!
//! A session costs no row until something of it is journalled, and nothing of a node is in its name: it is the same wherever
//! its agent is. A turn is one message of it. Bounds are in bytes of rows with their keys.

mod row;
mod rows;

use althing_protocol::{AgentId, Digest, digest, hex};

pub use row::{Begin, Choice, Head};
pub use rows::{Call, Damage, Doubt, Next, TurnRows};

/// Rows of one turn.
pub const ROWS_MAX: u32 = 4_096;
/// Bytes of one turn, of one session, and of all sessions of a node.
pub const TURN_BYTES_MAX: u64 = 16 << 20;
pub const SESSION_BYTES_MAX: u64 = 64 << 20;
pub const NODE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a result in one row; a longer one takes several.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// How long a call stays in doubt until its task fails, milliseconds: a day. Who is called by a key remembers it for longer.
pub const DOUBT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// What digests of sessions, of turns and of calls begin with, so that none is ever that of another thing.
const OF_SESSION: &[u8] = b"althing session\0";
const OF_TURN: &[u8] = b"althing session turn\0";
const OF_CALL: &[u8] = b"althing session call\0";

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
        TurnId { session, turn: u32::from_be_bytes([whole[0], whole[1], whole[2], whole[3]]), whole }
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
    /// of the turn with that name and those arguments.
    #[must_use]
    pub fn call_key(&self, call: &Digest, occurrence: u32) -> [u8; 32] {
        digest(&[OF_CALL, &self.session.0, &self.whole, call, &occurrence.to_be_bytes()].concat())
    }
}

/// The digest of texts. Each is preceded by its length, so that no two lists of texts have the same.
fn digest_of(domain: &[u8], texts: &[&str]) -> Digest {
    let mut bytes = domain.to_vec();
    for text in texts {
        bytes.extend((text.len() as u64).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    digest(&bytes)
}

/// Bytes of the journals of a node, by their sessions.
#[derive(Debug, Default)]
pub struct Usage {
    sessions: std::collections::BTreeMap<SessionId, u64>,
    all: u64,
}

impl Usage {
    /// Counts more bytes of a session, if they fit; else says which limit they would pass.
    ///
    /// # Errors
    /// The limit, in bytes.
    pub fn add(&mut self, session: SessionId, bytes: u64) -> Result<(), u64> {
        let own = self.sessions.get(&session).copied().unwrap_or_default();
        for (sum, most) in [(own, SESSION_BYTES_MAX), (self.all, NODE_BYTES_MAX)] {
            if sum.saturating_add(bytes) > most {
                return Err(most);
            }
        }
        self.count(session, bytes);
        Ok(())
    }

    /// Counts bytes that are on disk already, whatever the limits.
    pub fn count(&mut self, session: SessionId, bytes: u64) {
        if bytes > 0 {
            let own = self.sessions.entry(session).or_default();
            *own = own.saturating_add(bytes);
            self.all = self.all.saturating_add(bytes);
        }
    }

    /// Counts bytes no more.
    pub fn remove(&mut self, session: SessionId, bytes: u64) {
        self.all = self.all.saturating_sub(bytes);
        if let Some(own) = self.sessions.get_mut(&session) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.sessions.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests;
