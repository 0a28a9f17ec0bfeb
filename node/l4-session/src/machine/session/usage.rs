//! How many bytes the journals of a node have: in all, of each session, and of each caller. Keys are free and sessions too, so that
//! a bound of these alone would let one caller take the room of all.

use std::collections::BTreeMap;

use althing_execution::journal::{JournalError, JournalShare};
use althing_protocol::Digest;

use super::{CALLER_BYTES_MAX, NODE_BYTES_MAX, OTHERS_BYTES_MAX, SESSION_BYTES_MAX, SessionId};

/// Whose room the rows of a turn take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payer {
    /// The owner of the node, who may take all of it.
    #[default]
    Owner,
    /// Another caller, or all strangers of one origin, by their digest.
    Other(Digest),
}

/// Bytes of the journals of a node.
#[derive(Debug, Default)]
pub struct Usage {
    sessions: BTreeMap<SessionId, u64>,
    /// Of callers that are not the owner, by their digests.
    callers: BTreeMap<Digest, u64>,
    /// Of all of these.
    others: u64,
    all: u64,
}

impl Usage {
    /// Counts more bytes of a session, if they fit.
    ///
    /// # Errors
    /// [`JournalError::Full`] with the limit that they would pass.
    pub fn add(&mut self, session: SessionId, payer: Payer, bytes: u64) -> Result<(), JournalError> {
        let check = |whose: JournalShare, sum: u64, most: u64| match sum.saturating_add(bytes) > most {
            true => Err(JournalError::Full { whose, most }),
            false => Ok(()),
        };
        check(JournalShare::Session, sum_of(&self.sessions, &session), SESSION_BYTES_MAX)?;
        if let Payer::Other(caller) = payer {
            check(JournalShare::Caller, sum_of(&self.callers, &caller), CALLER_BYTES_MAX)?;
            check(JournalShare::Others, self.others, OTHERS_BYTES_MAX)?;
        }
        check(JournalShare::Node, self.all, NODE_BYTES_MAX)?;
        self.count(session, payer, bytes);
        Ok(())
    }

    /// Counts bytes that are on disk already, whatever the limits.
    pub fn count(&mut self, session: SessionId, payer: Payer, bytes: u64) {
        if bytes == 0 {
            return;
        }
        plus(&mut self.sessions, session, bytes);
        if let Payer::Other(caller) = payer {
            plus(&mut self.callers, caller, bytes);
            self.others = self.others.saturating_add(bytes);
        }
        self.all = self.all.saturating_add(bytes);
    }

    /// Counts bytes no more.
    pub fn remove(&mut self, session: SessionId, payer: Payer, bytes: u64) {
        minus(&mut self.sessions, &session, bytes);
        if let Payer::Other(caller) = payer {
            minus(&mut self.callers, &caller, bytes);
            self.others = self.others.saturating_sub(bytes);
        }
        self.all = self.all.saturating_sub(bytes);
    }
}

fn sum_of<Key: Ord>(sums: &BTreeMap<Key, u64>, key: &Key) -> u64 {
    sums.get(key).copied().unwrap_or_default()
}

fn plus<Key: Ord>(sums: &mut BTreeMap<Key, u64>, key: Key, bytes: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(bytes);
}

fn minus<Key: Ord>(sums: &mut BTreeMap<Key, u64>, key: &Key, bytes: u64) {
    if let Some(sum) = sums.get_mut(key) {
        *sum = sum.saturating_sub(bytes);
        if *sum == 0 {
            sums.remove(key);
        }
    }
}
