//! What people were asked and agreed to, with its rows. It is changed as a copy: the rows of the copy are written, and then it
//! takes the place of what was there, so that nothing counts that is not on disk.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::audit::{Ask, CallTerms};
use althing_protocol::{Digest, Label, cbor, digest, hex};
use althing_store::{Batch, Family, Range, ReadError, Rows, Store};
use minicbor::{Decode, Encode};
use serde_json::Value;

use crate::config::{ASKS, STANDING};
use crate::error::OpenError;
use crate::machine::consent::{
    AskId, Asks, MessageSettlements, Need, Question, QuestionState, StandingYeses, settlement_name,
};

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
const SETTLEMENT: u8 = b's';

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
    /// The digest of the id of the message for which the yes was used, hexadecimal.
    #[n(6)]
    pub(crate) used_by: Option<String>,
}

/// What was last agreed to of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierCall {
    /// On whose behalf it was made; nothing of one from before that was kept.
    person: Option<String>,
    /// Of its arguments; nothing of one from before that was kept.
    label: Option<Label>,
    arguments: Value,
}

/// What the store has of it.
#[derive(Encode, Decode)]
#[cbor(map)]
struct EarlierRow {
    #[n(0)]
    person: String,
    /// As canonical JSON.
    #[n(1)]
    arguments: String,
    #[n(2)]
    label: Option<Label>,
}

/// All that people were asked and agreed to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consents {
    pub(crate) asks: Asks,
    pub(crate) details: BTreeMap<AskId, AskDetails>,
    pub(crate) standing: StandingYeses,
    /// What was last agreed to, by the digest of agent, tool and person.
    pub(crate) earlier: BTreeMap<Digest, EarlierCall>,
    /// Which messages got what they needed without a question.
    pub(crate) settlements: MessageSettlements,
}

impl Consents {
    /// The questions about calls of a task that wait for people, or whose yes was not used yet.
    pub(crate) fn asked_in(&self, task: &str) -> Vec<AskId> {
        let of_task = self.details.iter().filter(|(_, details)| details.tasks.contains(task)).map(|(id, _)| *id);
        of_task.filter(|id| self.asks.get(id).is_some_and(Question::is_pending)).collect()
    }

    /// Nobody waits for a question in a turn of that task any more: it is over, unless another task waits for it. Says whether that
    /// ended it.
    pub(crate) fn end(&mut self, (task, id): &(String, AskId)) -> bool {
        let is_pending = self.asks.get(id).is_some_and(Question::is_pending);
        let Some(details) = self.details.get_mut(id).filter(|_| is_pending) else { return false };
        details.tasks.remove(task) && details.tasks.is_empty() && self.asks.withdraw(id)
    }

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
            if let (Ok(key), Some(call)) = (Digest::try_from(&key[1..]), decode_earlier(&row)) {
                read.earlier.insert(key, call);
            }
        }
        read.restore_earlier();
        for (key, row) in rows(store, ASKS, &[SETTLEMENT])? {
            // Without one its message is counted, or asked about, once more.
            if let (Ok(name), Ok(at_ms)) = (Digest::try_from(&key[1..]), minicbor::decode(&row)) {
                read.settlements.add(name, at_ms);
            }
        }
        let standing = rows(store, STANDING, &[])?;
        let keyed = standing.iter().map(|(key, row)| (id_of(key), row.as_slice()));
        read.standing = StandingYeses::read(known(keyed, STANDING)?).map_err(|(id, _)| bad_row(STANDING, &id))?;
        Ok(read)
    }

    /// Whether nothing was asked, and nothing agreed to.
    pub(crate) fn is_empty(&self) -> bool {
        self.details.is_empty() && self.standing.iter().next().is_none() && self.settlements.is_empty()
    }

    /// The row of a question as it is on disk.
    pub(crate) fn stored_row(store: &dyn Store, id: &AskId) -> Result<Option<Vec<u8>>, ReadError> {
        store.read(ASKS, &keyed(QUESTION, id))
    }

    /// The newest question of a task about a call, as far as its yes was not used, or promised to another call that is the same.
    pub(crate) fn of_task(
        &self,
        task: &str,
        ask: &Ask,
        need: &Need,
        is_promised: impl Fn(&AskId) -> bool,
    ) -> Option<&Question> {
        let of_task = self.details.iter().filter(|(_, details)| details.tasks.contains(task));
        let questions = of_task.filter_map(|(id, _)| self.asks.get(id)).filter(|question| {
            question.ask().terms == ask.terms && question.need() == need && question.state() != QuestionState::Used
        });
        // What was denied for good before is not what counts outside of tasks.
        let counts = |question: &&Question| !task.is_empty() || question.ask().not_after_ms >= ask.asked_at_ms;
        let is_free =
            |question: &&Question| question.state() != QuestionState::Approved || !is_promised(&question.ask().id);
        questions.filter(counts).filter(is_free).max_by_key(|question| question.ask().asked_at_ms)
    }

    /// Whether a yes to these terms was used for the message with an id of that digest, or it got what it needed without a question.
    pub(crate) fn was_used_by(&self, key: &str, terms: &CallTerms, need: &Need) -> bool {
        if self.settlements.has(&settlement_name(key, terms, need)) {
            return true;
        }
        let of_it = self.details.iter().filter(|(_, details)| details.used_by.as_deref() == Some(key));
        of_it.filter_map(|(id, _)| self.asks.get(id)).any(|question| {
            question.state() == QuestionState::Used && question.ask().terms == *terms && question.need() == need
        })
    }

    /// The message with an id of that digest gets this without a question. Puts the row into the batch.
    pub(crate) fn note_settlement(
        &mut self,
        (key, terms): (&str, &CallTerms),
        need: &Need,
        now_ms: u64,
        batch: &mut Batch,
    ) {
        let name = settlement_name(key, terms, need);
        for gone in self.settlements.add(name, now_ms) {
            batch.delete(ASKS, keyed(SETTLEMENT, &gone));
        }
        batch.put(ASKS, keyed(SETTLEMENT, &name), minicbor::to_vec(now_ms).expect("writing to a vector cannot fail"));
    }

    /// The arguments of the last call of this tool, of this agent, that was agreed to on behalf of the same person: whoever may be shown
    /// what is asked about may be shown these too. What was more confidential, or less trusted, is not, nor what nobody kept that of.
    pub(crate) fn earlier(&self, question: &Question) -> Option<&Value> {
        let (call, label) = (self.earlier.get(&earlier_key(question))?, question.ask().terms.label);
        let is_theirs = call.person.as_deref() == Some(question.need().person());
        let may_be_shown = is_theirs && call.label.is_some_and(|of_call| label.join(of_call) == label);
        may_be_shown.then_some(&call.arguments)
    }

    /// Of tools of which nothing is known that was agreed to, takes what was used last: the node ended before that was noted.
    fn restore_earlier(&mut self) {
        let known: BTreeSet<Digest> = self.earlier.keys().copied().collect();
        for id in self.asks.used() {
            let is_known = self.asks.get(&id).is_none_or(|question| known.contains(&earlier_key(question)));
            if !is_known {
                self.note_earlier(&id, &mut Batch::new());
            }
        }
    }

    /// Somebody agreed to a call with these arguments. Puts the row into the batch.
    pub(crate) fn note_earlier(&mut self, id: &AskId, batch: &mut Batch) {
        let Some((question, details)) = self.asks.get(id).zip(self.details.get(id)) else { return };
        let (key, of_tool) = (earlier_key(question), tool_digest(question.ask()));
        let has_room = self.earlier.len() < EARLIER_MAX || self.earlier.contains_key(&key);
        let Ok(value) = serde_json::from_str::<Value>(&details.arguments) else { return };
        if has_room && details.arguments.len() <= EARLIER_BYTES_MAX {
            let (person, label) = (question.need().person().to_owned(), Some(question.ask().terms.label));
            let row = EarlierRow { person: person.clone(), arguments: details.arguments.clone(), label };
            let row = minicbor::to_vec(row).expect("writing to a vector cannot fail");
            batch.put(ASKS, keyed(EARLIER, &key), row);
            self.earlier.insert(key, EarlierCall { person: Some(person), label, arguments: value });
        }
        // One from before there was one for each person is shown to nobody. It stays in the list, so that whoever erases finds it.
        if self.earlier.contains_key(&of_tool) {
            batch.delete(ASKS, keyed(EARLIER, &of_tool));
        }
    }

    /// Puts the row of a question into a batch, without what is known of it besides, which did not change.
    pub(crate) fn put_question(&self, id: &AskId, batch: &mut Batch) {
        match self.asks.row(id) {
            Some(row) => batch.put(ASKS, keyed(QUESTION, id), row),
            None => batch.delete(ASKS, keyed(QUESTION, id)),
        };
    }

    /// Puts the rows of a question into a batch.
    pub(crate) fn put(&self, id: &AskId, batch: &mut Batch) {
        self.put_question(id, batch);
        self.put_details(id, batch);
    }

    fn put_details(&self, id: &AskId, batch: &mut Batch) {
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

    /// Erases what people were asked on behalf of somebody, and what they answered in words: of questions what belongs to them, what was
    /// agreed to last, and each standing yes of theirs. What waits ends. Puts the rows into the batch, and gives what was found.
    pub(crate) fn erase(&mut self, person: &str, batch: &mut Batch) -> ConsentErasure {
        let mut erasure = ConsentErasure { over: self.asks.erase(person), ..ConsentErasure::default() };
        for id in self.asks.about(person) {
            let Some(details) = self.details.get_mut(&id) else { continue };
            erasure.is_found |= !details.arguments.is_empty() || details.denial.is_some();
            (details.arguments, details.denial) = (String::new(), None);
            self.put_details(&id, batch);
        }
        // Of those from before it is not known about whom they are.
        let is_theirs = |call: &EarlierCall| call.person.as_deref().is_none_or(|of| of == person);
        let theirs = self.earlier.iter().filter(|(_, call)| is_theirs(call)).map(|(key, _)| *key);
        for key in theirs.collect::<Vec<_>>() {
            erasure.is_found |= self.earlier.remove(&key).is_some_and(|call| call.person.is_some());
            batch.delete(ASKS, keyed(EARLIER, &key));
        }
        let standing = self.standing.iter().filter(|yes| yes.person == person).map(|yes| yes.id);
        erasure.standing = standing.collect();
        for id in &erasure.standing {
            self.standing.withdraw(id);
            self.put_standing(id, batch);
        }
        erasure
    }

    /// What is over for long is forgotten. Says whether anything was.
    pub(crate) fn forget(&mut self, now_ms: u64, batch: &mut Batch) -> bool {
        let before = batch.len();
        for id in self.asks.forget(now_ms) {
            self.details.remove(&id);
            self.put(&id, batch);
        }
        for id in self.standing.sweep(now_ms) {
            batch.delete(STANDING, id);
        }
        for name in self.settlements.forget(now_ms) {
            batch.delete(ASKS, keyed(SETTLEMENT, &name));
        }
        batch.len() > before
    }
}

/// What was erased of somebody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConsentErasure {
    /// The questions that waited, and wait no more.
    pub(crate) over: Vec<AskId>,
    /// Each standing yes that ended.
    pub(crate) standing: Vec<[u8; 16]>,
    /// Whether anything besides was there.
    pub(crate) is_found: bool,
}

/// One from before it was kept on whose behalf a call was made has the arguments alone, as JSON.
fn decode_earlier(row: &[u8]) -> Option<EarlierCall> {
    if let Ok(arguments) = serde_json::from_slice(row) {
        return Some(EarlierCall { person: None, label: None, arguments });
    }
    cbor::check(row, DETAILS_BYTES_MAX).ok()?;
    let EarlierRow { person, arguments, label } = minicbor::decode(row).ok()?;
    Some(EarlierCall { person: Some(person), label, arguments: serde_json::from_str(&arguments).ok()? })
}

/// The details of one question whose arguments are these.
fn encode_details(details: &AskDetails) -> Vec<u8> {
    minicbor::to_vec(details).expect("writing to a vector cannot fail")
}

fn decode_details(bytes: &[u8]) -> Option<AskDetails> {
    cbor::check(bytes, DETAILS_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}

/// By what is remembered what was last agreed to: each person is shown what was done on their behalf alone.
fn earlier_key(question: &Question) -> Digest {
    let terms = &question.ask().terms;
    digest(format!("{}\n{}\n{}", terms.agent, terms.action, question.need().person()).as_bytes())
}

/// By what it was remembered before.
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
    use althing_protocol::contract::DataLabel;

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
            used_by: Some("ab".repeat(32)),
        };
        let bytes = encode_details(&details);
        assert_eq!(decode_details(&bytes), Some(details));
        assert_eq!(decode_details(&bytes[1..]), None);
    }

    #[test]
    fn what_was_agreed_to_before_it_was_kept_for_whom_is_read() {
        let arguments = serde_json::json!({ "to": "shop" });
        let label = Some(Label { level: DataLabel::Internal, trusted: true });
        let of = |label| EarlierRow { person: "ada".to_owned(), arguments: arguments.to_string(), label };
        let [row, unlabelled] = [label, None].map(|label| minicbor::to_vec(of(label)).expect("it is written"));
        let text = arguments.to_string();
        let call = EarlierCall { person: Some("ada".to_owned()), label, arguments: arguments.clone() };
        assert_eq!(decode_earlier(&row).as_ref(), Some(&call));
        assert_eq!(decode_earlier(&unlabelled), Some(EarlierCall { label: None, ..call.clone() }));
        assert_eq!(decode_earlier(text.as_bytes()), Some(EarlierCall { person: None, label: None, ..call }));
        assert_eq!(decode_earlier(&row[1..]), None);
    }
}
