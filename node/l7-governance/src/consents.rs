//! What people were asked and agreed to, with its rows. It is changed as a copy: the rows of the copy are written, and then it
//! takes the place of what was there, so that nothing counts that is not on disk.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::audit::Ask;
use althing_protocol::{Digest, cbor, digest, hex};
use althing_store::{Batch, Family, Range, ReadError, Rows, Store};
use minicbor::{Decode, Encode};
use serde_json::Value;

use crate::config::{ASKS, STANDING};
use crate::error::OpenError;
use crate::machine::consent::{AskId, Asks, Need, Question, QuestionState, StandingYeses};

/// Bytes of the arguments of a call that are remembered to show what differs from them, as canonical JSON.
const EARLIER_BYTES_MAX: usize = 64 << 10;
/// Tools of which they are.
const EARLIER_MAX: usize = 1_024;
/// Bytes of a row of details: the largest arguments of a call, and what belongs to them.
const DETAILS_BYTES_MAX: usize = 2 << 20;
/// Rows that are read at once.
const ROWS: usize = 256;

/// Kinds of rows in one family: the first byte of their keys.
const QUESTION: u8 = b'q';
const DETAILS: u8 = b'd';
const EARLIER: u8 = b'e';

/// What is known of a question besides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct AskDetails {
    /// The tasks whose turns wait for it.
    #[n(0)]
    pub(crate) tasks: BTreeSet<String>,
    /// The arguments, as canonical JSON.
    #[n(1)]
    pub(crate) arguments: String,
    /// Why it is asked.
    #[n(2)]
    pub(crate) reasons: Vec<String>,
    /// The version of the agent.
    #[n(3)]
    pub(crate) version: String,
    /// On whose behalf, the origin first.
    #[n(4)]
    pub(crate) principals: Vec<String>,
    /// What somebody wrote who said no.
    #[n(5)]
    pub(crate) denial: Option<String>,
}

/// All that people were asked and agreed to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consents {
    pub(crate) asks: Asks,
    pub(crate) details: BTreeMap<AskId, AskDetails>,
    pub(crate) standing: StandingYeses,
    /// The arguments that were last agreed to, by the digest of agent and tool.
    pub(crate) earlier: BTreeMap<Digest, Value>,
}

impl Consents {
    /// Reads all rows.
    pub(crate) fn read(store: &dyn Store) -> Result<Consents, OpenError> {
        let mut read = Consents::default();
        let questions = rows(store, ASKS, &[QUESTION])?;
        let keyed = questions.iter().map(|(key, row)| (id_of(&key[1..]), row.as_slice()));
        read.asks = Asks::read(known(keyed, ASKS)?).map_err(|(id, _)| bad_row(ASKS, &id))?;
        for (key, row) in rows(store, ASKS, &[DETAILS])? {
            let details = id_of(&key[1..]).zip(decode_details(&row)).ok_or_else(|| bad_row(ASKS, &key))?;
            read.details.insert(details.0, details.1);
        }
        for (key, row) in rows(store, ASKS, &[EARLIER])? {
            // It only shows what differs: one that cannot be read is as one that was never there.
            if let (Ok(key), Ok(value)) = (Digest::try_from(&key[1..]), serde_json::from_slice(&row)) {
                read.earlier.insert(key, value);
            }
        }
        let standing = rows(store, STANDING, &[])?;
        let keyed = standing.iter().map(|(key, row)| (id_of(key), row.as_slice()));
        read.standing = StandingYeses::read(known(keyed, STANDING)?).map_err(|(id, _)| bad_row(STANDING, &id))?;
        Ok(read)
    }

    /// Whether nothing was asked, and nothing agreed to.
    pub(crate) fn is_empty(&self) -> bool {
        self.details.is_empty() && self.standing.iter().next().is_none()
    }

    /// The row of a question as it is on disk.
    pub(crate) fn stored_row(store: &dyn Store, id: &AskId) -> Result<Option<Vec<u8>>, ReadError> {
        store.read(ASKS, &keyed(QUESTION, id))
    }

    /// The newest question of a task about a call, as far as its yes was not used.
    pub(crate) fn of_task(&self, task: &str, ask: &Ask, need: &Need) -> Option<&Question> {
        let of_task = self.details.iter().filter(|(_, details)| details.tasks.contains(task));
        let questions = of_task.filter_map(|(id, _)| self.asks.get(id)).filter(|question| {
            question.ask().terms == ask.terms && question.need() == need && question.state() != QuestionState::Used
        });
        // What was denied for good before is not what counts outside of tasks.
        let counts = |question: &&Question| !task.is_empty() || question.ask().not_after_ms >= ask.asked_at_ms;
        questions.filter(counts).max_by_key(|question| question.ask().asked_at_ms)
    }

    /// The arguments of the last call of this tool, of this agent, that somebody agreed to.
    pub(crate) fn earlier(&self, ask: &Ask) -> Option<&Value> {
        self.earlier.get(&tool_digest(ask))
    }

    /// Somebody agreed to a call with these arguments. Puts the row into the batch.
    pub(crate) fn note_earlier(&mut self, id: &AskId, batch: &mut Batch) {
        let Some((question, details)) = self.asks.get(id).zip(self.details.get(id)) else { return };
        let key = tool_digest(question.ask());
        let has_room = self.earlier.len() < EARLIER_MAX || self.earlier.contains_key(&key);
        let Ok(value) = serde_json::from_str::<Value>(&details.arguments) else { return };
        if has_room && details.arguments.len() <= EARLIER_BYTES_MAX {
            batch.put(ASKS, keyed(EARLIER, &key), details.arguments.as_bytes());
            self.earlier.insert(key, value);
        }
    }

    /// Puts the rows of a question into a batch.
    pub(crate) fn put(&self, id: &AskId, batch: &mut Batch) {
        match self.asks.row(id) {
            Some(row) => batch.put(ASKS, keyed(QUESTION, id), row),
            None => batch.delete(ASKS, keyed(QUESTION, id)),
        };
        match self.details.get(id) {
            Some(details) => batch.put(ASKS, keyed(DETAILS, id), encode_details(details)),
            None => batch.delete(ASKS, keyed(DETAILS, id)),
        };
    }

    /// Puts the row of a standing yes into a batch.
    pub(crate) fn put_standing(&self, id: &[u8; 16], batch: &mut Batch) {
        match self.standing.row(id) {
            Some(row) => batch.put(STANDING, *id, row),
            None => batch.delete(STANDING, *id),
        };
    }

    /// What is over for long is forgotten.
    pub(crate) fn forget(&mut self, now_ms: u64, batch: &mut Batch) {
        for id in self.asks.forget(now_ms) {
            self.details.remove(&id);
            self.put(&id, batch);
        }
        for id in self.standing.sweep(now_ms, None) {
            batch.delete(STANDING, id);
        }
    }
}

/// The details of one question whose arguments are these.
fn encode_details(details: &AskDetails) -> Vec<u8> {
    minicbor::to_vec(details).expect("writing to a vector cannot fail")
}

fn decode_details(bytes: &[u8]) -> Option<AskDetails> {
    cbor::check(bytes, DETAILS_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}

fn tool_digest(ask: &Ask) -> Digest {
    digest(format!("{}\n{}", ask.terms.agent, ask.terms.action).as_bytes())
}

fn keyed(kind: u8, id: &[u8]) -> Vec<u8> {
    [&[kind], id].concat()
}

fn id_of(key: &[u8]) -> Option<AskId> {
    AskId::try_from(key).ok()
}

/// Rows whose keys are ids.
fn known<'a>(
    rows: impl Iterator<Item = (Option<AskId>, &'a [u8])>,
    family: Family,
) -> Result<Vec<(AskId, &'a [u8])>, OpenError> {
    rows.map(|(id, row)| Some((id?, row))).map(|row| row.ok_or_else(|| bad_row(family, &[]))).collect()
}

pub(crate) fn bad_row(family: Family, key: &[u8]) -> OpenError {
    OpenError::Row { family: family.0, key: hex(key) }
}

/// All rows of a family whose keys begin so.
pub(crate) fn rows(store: &dyn Store, family: Family, prefix: &[u8]) -> Result<Rows, OpenError> {
    let mut all = Rows::new();
    loop {
        let mut range = Range::prefix(prefix, ROWS);
        if let Some((last, _)) = all.last() {
            range = range.after(last.clone());
        }
        let more = store.scan(family, range)?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_read_as_they_were_written() {
        let details = AskDetails {
            tasks: BTreeSet::from(["one".to_owned()]),
            arguments: "{\"to\":\"shop\"}".to_owned(),
            reasons: vec!["it costs money".to_owned()],
            version: "1.0.0".to_owned(),
            principals: vec!["local".to_owned()],
            denial: Some("not today".to_owned()),
        };
        let bytes = encode_details(&details);
        assert_eq!(decode_details(&bytes), Some(details));
        assert_eq!(decode_details(&bytes[1..]), None);
    }
}
