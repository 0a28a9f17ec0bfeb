//! The newest decisions: what was decided, by which rule, and what another set of policies would decide. They are a ring, and no
//! log: the audit log is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_policy::{Answer, Decision, Demand, EntityName, Gate, Verdict, differences};
use althing_protocol::{Digest, Label, cbor};
use althing_store::{Batch, Range, Store};
use minicbor::{Decode, Encode};
use serde_json::{Map, Value};

use crate::config::DECISIONS;
use crate::error::OpenError;
use crate::machine::arguments::canonical_members;
use crate::machine::rules::Rule;
use crate::policies::{PolicyRequest, SetDraft, deciding};

/// Decisions that are remembered.
pub const DECISIONS_MAX: u64 = 4_096;
/// Bytes of the arguments of one, as canonical JSON; of one with more it is not known what another set would decide.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;
/// Bytes of most rows.
const ROW_BYTES: usize = 512;
/// Bytes of a row; what has more is not written.
const ROW_BYTES_MAX: usize = 64 << 10;
/// Decisions that another set is tried on.
const TRIED_MAX: usize = 4_096;
/// Decisions that wait for the next write; of more of them the oldest are forgotten.
const WAITING_MAX: usize = 1_024;
/// Decisions that make room at the next write: more than it adds, so that those become fewer that others left.
const OVER_MAX: usize = 2 * WAITING_MAX;

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DecisionRecord {
    /// When, Unix milliseconds.
    #[n(0)]
    pub at_ms: u64,
    /// Who acts, as policies write it.
    #[n(1)]
    pub principal: String,
    /// What is done, as policies write it.
    #[n(2)]
    pub gate: String,
    /// With what, as policies write it.
    #[n(3)]
    pub resource: String,
    /// The arguments, as canonical JSON; nothing where they were too long.
    #[n(4)]
    pub arguments: Option<String>,
    /// The label of the data.
    #[n(5)]
    pub label: Label,
    /// On whose behalf.
    #[n(6)]
    pub person: Option<String>,
    /// `permit`, `ask` or `deny`.
    #[n(7)]
    pub answer: String,
    /// The rule that decided: `stop`, `contract`, `definition`, `labels`, `policy` or `people`; nothing of a permit.
    #[n(8)]
    pub rule: Option<String>,
    /// Why.
    #[n(9)]
    pub reason: String,
    /// What the policies alone said; nothing where none was loaded.
    #[n(10)]
    pub policy_answer: Option<String>,
    /// What they asked for, each as `consent:WHY` or `COUNT:ROLE`.
    #[n(11)]
    pub demands: Vec<String>,
    /// The policies that decided.
    #[n(12)]
    pub policies: Vec<String>,
    /// The digest of the set in force.
    #[cbor(n(13), with = "minicbor::bytes")]
    pub set: Option<Digest>,
    /// The task, if it was in one.
    #[n(14)]
    pub task: String,
    /// What labels would have decided, where they decided nothing.
    #[n(15)]
    pub labels: Option<String>,
}

impl DecisionRecord {
    /// What was decided of a request, outside of tasks; `policy` is what the policies said.
    pub(crate) fn of(
        request: &PolicyRequest,
        policy: Option<&Verdict>,
        (answer, rule, reason): (&str, Option<Rule>, &str),
        (set, at_ms): (Option<Digest>, u64),
    ) -> DecisionRecord {
        let demands = policy.map(|verdict| match &verdict.answer {
            Answer::Ask(demands) => demands.iter().map(demand_text).collect(),
            Answer::Permit | Answer::Deny => Vec::new(),
        });
        DecisionRecord {
            at_ms,
            principal: request.principal.to_string(),
            gate: request.gate.word().to_owned(),
            resource: request.resource.to_string(),
            arguments: arguments(&request.arguments),
            label: request.label,
            person: request.person.clone(),
            answer: answer.to_owned(),
            rule: rule.map(|rule| rule.word().to_owned()),
            reason: reason.to_owned(),
            policy_answer: policy.map(|verdict| verdict.answer.word().to_owned()),
            demands: demands.unwrap_or_default(),
            policies: deciding(policy),
            set,
            task: String::new(),
            labels: None,
        }
    }
}

/// A decision that another set turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turnabout {
    /// The decision's number.
    pub id: u64,
    /// What was decided then, and about what.
    pub decision: DecisionRecord,
    /// What the other set says: `permit`, `ask` or `deny`.
    pub becomes: &'static str,
    /// The policies of the other set that decide.
    pub policies: Vec<String>,
}

/// Decisions as the store has them, and how many it lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestDecisions {
    /// Each with its number, the newest first.
    pub records: Vec<(u64, DecisionRecord)>,
    /// How many rows cannot be read: what was decided there is not known any more.
    pub damaged: usize,
}

/// What another set of policies would turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDiff {
    /// The decisions that it turns, the oldest first.
    pub turned: Vec<Turnabout>,
    /// How many decisions could not be looked at, as their arguments were too long to be remembered.
    pub unread: usize,
    /// How many rows cannot be read.
    pub damaged: usize,
}

/// The ring.
pub(crate) struct Decisions {
    ring: Mutex<Ring>,
}

struct Ring {
    next: u64,
    waiting: BTreeMap<u64, DecisionRecord>,
}

impl Decisions {
    /// Goes on after the newest row.
    pub(crate) fn open(store: &dyn Store) -> Result<Decisions, OpenError> {
        let newest = store.keys(DECISIONS, Range::all(1).reversed())?;
        let newest = newest.first().and_then(|key| <[u8; 8]>::try_from(key.as_slice()).ok());
        let next = newest.map_or(1, |key| u64::from_be_bytes(key).saturating_add(1));
        Ok(Decisions { ring: Mutex::new(Ring { next, waiting: BTreeMap::new() }) })
    }

    /// Notes a decision; gives its number.
    pub(crate) fn note(&self, record: DecisionRecord) -> u64 {
        let mut ring = self.ring();
        let number = ring.next;
        ring.next += 1;
        ring.waiting.insert(number, record);
        while ring.waiting.len() > WAITING_MAX {
            ring.waiting.pop_first();
        }
        number
    }

    /// The rows of what was noted and is not in the store, and the deletion of what they leave no room for.
    pub(crate) fn rows(&self, store: &dyn Store) -> Batch {
        let mut batch = Batch::new();
        // Whoever notes a decision does not wait until these are encoded.
        let (waiting, next) = {
            let mut ring = self.ring();
            (std::mem::take(&mut ring.waiting), ring.next)
        };
        for (number, record) in waiting {
            let mut row = Vec::with_capacity(ROW_BYTES);
            minicbor::encode(&record, &mut row).expect("writing to a vector cannot fail");
            if row.len() <= ROW_BYTES_MAX {
                batch.put(DECISIONS, number.to_be_bytes(), row);
            }
        }
        for key in over(store, next.saturating_sub(DECISIONS_MAX)) {
            batch.delete(DECISIONS, key);
        }
        batch
    }

    /// Changes those that are not in the store yet; says whether one was changed.
    pub(crate) fn change_waiting(&self, change: impl Fn(&mut DecisionRecord) -> bool) -> bool {
        let mut ring = self.ring();
        let changed = ring.waiting.values_mut().filter_map(|record| change(record).then_some(()));
        changed.count() > 0
    }

    /// One decision; nothing where it is forgotten.
    pub(crate) fn get(&self, store: &dyn Store, number: u64) -> Result<Option<DecisionRecord>, OpenError> {
        if let Some(record) = self.ring().waiting.get(&number) {
            return Ok(Some(record.clone()));
        }
        let key = number.to_be_bytes();
        let Some(row) = store.read(DECISIONS, &key)? else { return Ok(None) };
        let record = decode(&row).ok_or_else(|| OpenError::Decision { number: number.to_string() })?;
        Ok(Some(record))
    }

    /// All of them, the newest first, at most so many; and how many rows cannot be read.
    pub(crate) fn newest(&self, store: &dyn Store, most: usize) -> Result<NewestDecisions, OpenError> {
        let waiting: Vec<_> =
            self.ring().waiting.iter().rev().map(|(number, record)| (*number, record.clone())).take(most).collect();
        let mut newest = NewestDecisions { records: waiting, damaged: 0 };
        for (key, row) in store.scan(DECISIONS, Range::all(most).reversed())? {
            if newest.records.len() + newest.damaged >= most {
                break;
            }
            let number = <[u8; 8]>::try_from(key.as_slice()).ok().map(u64::from_be_bytes);
            match number.zip(decode(&row)) {
                Some(known) => newest.records.push(known),
                None => newest.damaged += 1,
            }
        }
        Ok(newest)
    }

    /// Those of the newest that another set would turn.
    pub(crate) fn diff(&self, store: &dyn Store, draft: &SetDraft) -> Result<PolicyDiff, OpenError> {
        let NewestDecisions { mut records, damaged } = self.newest(store, TRIED_MAX)?;
        records.reverse();
        let (turned, unread) = turned(draft, records);
        Ok(PolicyDiff { turned, unread, damaged })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of the oldest rows that come before that number, as many as are deleted at once.
fn over(store: &dyn Store, first: u64) -> Vec<Vec<u8>> {
    let is_over = |key: &Vec<u8>| key.as_slice() < first.to_be_bytes().as_slice();
    let oldest = |most: usize| store.keys(DECISIONS, Range::all(most));
    // Mostly there is none.
    let found = oldest(1).and_then(|first| if first.iter().any(is_over) { oldest(OVER_MAX) } else { Ok(first) });
    match found {
        Ok(keys) => keys.into_iter().filter(is_over).collect(),
        Err(error) => {
            tracing::warn!(%error, "the oldest decisions cannot be read, and stay until they can");
            Vec::new()
        }
    }
}

pub(crate) fn decode(row: &[u8]) -> Option<DecisionRecord> {
    cbor::check(row, ROW_BYTES_MAX).ok()?;
    minicbor::decode(row).ok()
}

/// The arguments of a request, as far as they are remembered.
fn arguments(arguments: &Map<String, Value>) -> Option<String> {
    let text = canonical_members(arguments);
    (text.len() <= ARGUMENTS_BYTES_MAX).then_some(text)
}

/// How a demand is remembered.
fn demand_text(demand: &Demand) -> String {
    match demand {
        Demand::Consent { why } => format!("consent:{why}"),
        Demand::SignOff { count, role } => format!("{count}:{role}"),
    }
}

fn demand_of(text: &str) -> Option<Demand> {
    let (start, rest) = text.split_once(':')?;
    if start == "consent" {
        return Some(Demand::Consent { why: rest.to_owned() });
    }
    Some(Demand::SignOff { count: start.parse().ok()?, role: rest.to_owned() })
}

/// The request that was decided, and what the policies said; without policies everything that the contract permits was permitted.
pub(crate) fn replayed(record: &DecisionRecord) -> Option<(PolicyRequest, Answer)> {
    let answer = match record.policy_answer.as_deref() {
        Some("ask") => Answer::Ask(record.demands.iter().map(|text| demand_of(text)).collect::<Option<_>>()?),
        Some("deny") => Answer::Deny,
        Some(_) | None => Answer::Permit,
    };
    let request = PolicyRequest {
        principal: EntityName::parse(&record.principal)?,
        gate: Gate::of_word(&record.gate)?,
        resource: EntityName::parse(&record.resource)?,
        arguments: serde_json::from_str(record.arguments.as_deref()?).ok()?,
        label: record.label,
        person: record.person.clone(),
        facts: Vec::new(),
    };
    Some((request, answer))
}

/// The decisions that a set turns, and how many could not be looked at.
fn turned(draft: &SetDraft, records: Vec<(u64, DecisionRecord)>) -> (Vec<Turnabout>, usize) {
    let (mut turned, mut unread) = (Vec::new(), 0);
    for (id, decision) in records {
        let Some((request, answer)) = replayed(&decision) else {
            unread += 1;
            continue;
        };
        let number = id.to_string();
        let asked = Decision { id: &number, request: request.as_request(), answer };
        let found = differences(&draft.set, &draft.world, &[asked]);
        turned.extend(found.into_iter().map(|difference| Turnabout {
            id,
            decision: decision.clone(),
            becomes: difference.becomes.answer.word(),
            policies: difference.becomes.policies.iter().cloned().collect(),
        }));
    }
    (turned, unread)
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::DataLabel;
    use althing_store::{Durability, MemoryStore};

    use super::*;

    fn record(at_ms: u64) -> DecisionRecord {
        DecisionRecord {
            at_ms,
            principal: "Agent::\"a\"".to_owned(),
            gate: "useTool".to_owned(),
            resource: "Tool::\"shop/pay\"".to_owned(),
            arguments: Some("{}".to_owned()),
            label: Label { level: DataLabel::Internal, trusted: true },
            person: None,
            answer: "permit".to_owned(),
            rule: None,
            reason: String::new(),
            policy_answer: Some("ask".to_owned()),
            demands: vec!["consent:it costs: money".to_owned(), "2:auditor".to_owned()],
            policies: vec!["p".to_owned()],
            set: Some([1; 32]),
            task: String::new(),
            labels: None,
        }
    }

    #[tokio::test]
    async fn the_ring_goes_on_where_it_was_and_forgets_the_oldest() {
        let store = MemoryStore::new(&[DECISIONS]);
        let decisions = Decisions::open(&store).expect("it opens");
        let first = decisions.note(record(1));
        let get = |of: &Decisions| of.get(&store, first).expect("it is read");
        assert_eq!(get(&decisions), Some(record(1)), "before it is written");
        store.write(decisions.rows(&store), Durability::Buffered).await.expect("it is written");
        assert_eq!(get(&decisions), Some(record(1)));
        let again = Decisions::open(&store).expect("it opens");
        assert_eq!(again.note(record(2)), first + 1);
        again.ring().next = first + DECISIONS_MAX;
        again.note(record(3));
        store.write(again.rows(&store), Durability::Buffered).await.expect("it is written");
        assert_eq!(get(&again), None, "the oldest made room");
        let newest = again.newest(&store, 8).expect("they are read");
        assert_eq!(newest.records.iter().map(|(_, record)| record.at_ms).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(newest.damaged, 0);
    }

    #[tokio::test]
    async fn the_ring_keeps_its_size_however_many_decisions_come_between_two_writes() {
        let store = MemoryStore::new(&[DECISIONS]);
        let decisions = Decisions::open(&store).expect("it opens");
        let count = || store.keys(DECISIONS, Range::all(usize::from(u16::MAX))).expect("they are read").len() as u64;
        let note = |times: usize| {
            for _ in 0..times {
                decisions.note(record(1));
            }
        };
        for _ in 0..6 {
            note(WAITING_MAX);
            store.write(decisions.rows(&store), Durability::Buffered).await.expect("it is written");
        }
        assert_eq!(count(), DECISIONS_MAX);
        // Those that are forgotten before they are written make room too.
        note(2 * WAITING_MAX);
        store.write(decisions.rows(&store), Durability::Buffered).await.expect("it is written");
        assert_eq!(count(), DECISIONS_MAX - WAITING_MAX as u64);
        // What was left over before goes when the node starts.
        let again = Decisions::open(&store).expect("it opens");
        again.ring().next += 2 * DECISIONS_MAX;
        for left in [1, 0] {
            store.write(again.rows(&store), Durability::Buffered).await.expect("it is written");
            assert_eq!(count(), left * (DECISIONS_MAX - WAITING_MAX as u64 - OVER_MAX as u64));
        }
    }

    #[tokio::test]
    async fn a_row_that_cannot_be_read_is_said_and_hides_no_other() {
        let store = MemoryStore::new(&[DECISIONS]);
        let decisions = Decisions::open(&store).expect("it opens");
        let (first, second) = (decisions.note(record(1)), decisions.note(record(2)));
        store.write(decisions.rows(&store), Durability::Buffered).await.expect("it is written");
        let mut damage = Batch::new();
        damage.put(DECISIONS, second.to_be_bytes(), b"noise".as_slice());
        store.write(damage, Durability::Buffered).await.expect("it is written");
        let newest = decisions.newest(&store, 8).expect("they are read");
        assert_eq!((newest.records, newest.damaged), (vec![(first, record(1))], 1));
        let refused = decisions.get(&store, second).expect_err("it is damaged");
        assert!(refused.to_string().contains(&format!("decision {second}")), "{refused}");
    }

    #[test]
    fn what_was_decided_is_asked_again_as_it_was() {
        let (request, answer) = replayed(&record(1)).expect("it is whole");
        assert_eq!((request.gate, request.resource.id.as_str()), (Gate::UseTool, "shop/pay"));
        let Answer::Ask(demands) = answer else { panic!("it asked") };
        assert!(demands.contains(&Demand::Consent { why: "it costs: money".to_owned() }));
        assert!(demands.contains(&Demand::SignOff { count: 2, role: "auditor".to_owned() }));
        assert!(replayed(&DecisionRecord { arguments: None, ..record(1) }).is_none(), "they were too long");
    }
}
