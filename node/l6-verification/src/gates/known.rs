//! What is kept from one turn to the next: compiled schemas, the last answers, and turns with few calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use althing_execution::{CallNorm, FindingCounts};
use althing_protocol::contract::AnswerSchema;
use althing_protocol::{AgentRef, Digest};
use serde_json::Value;

use crate::machine::silent::{FewCalls, Finding, LastAnswers};

/// Versions of agents, and tasks, of which something is kept.
const KEPT_MAX: usize = 1_024;

/// A schema that was read, or why it is none.
pub(super) type SchemaRead = Arc<Result<AnswerSchema, String>>;

/// By agent and place in the contract: the schema as it is written, and as it was read.
type Schemas = BTreeMap<(AgentRef, &'static str), (Value, SchemaRead)>;

/// A version that runs, and where what is found of it is counted.
pub(super) type Version<'a> = (&'a AgentRef, &'a Arc<FindingCounts>);

/// What the turns of one version have in common, for as long as it runs: who is added again begins anew.
struct Habits {
    counts: Weak<FindingCounts>,
    answers: LastAnswers,
    few: FewCalls,
}

/// What is kept of all agents of a node.
#[derive(Default)]
pub(super) struct AnswerBook {
    schemas: Mutex<Schemas>,
    habits: Mutex<BTreeMap<AgentRef, Habits>>,
    /// What the turns of a task called.
    called: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl AnswerBook {
    /// The schema of an agent's contract; compiled once, and again when it is another one.
    pub fn schema(&self, agent: &AgentRef, place: &'static str, written: &Value) -> SchemaRead {
        let mut schemas = lock(&self.schemas);
        let key = (agent.clone(), place);
        if let Some((_, read)) = schemas.get(&key).filter(|(known, _)| known == written) {
            return read.clone();
        }
        let read = Arc::new(AnswerSchema::new(written).map_err(|fault| fault.to_string()));
        make_room(&mut schemas);
        schemas.insert(key, (written.clone(), read.clone()));
        read
    }

    /// Remembers an answer of that many bytes.
    pub fn add_answer(&self, of: Version<'_>, question: Digest, answer: Digest, bytes: usize) -> Option<Finding> {
        self.with_habits(of, |habits| habits.answers.add(question, answer, bytes))
    }

    /// Remembers what a turn of a task called, of tools that its contract names; gives what its earlier turns called, if that is
    /// known.
    pub fn add_called(&self, task: &str, tools: impl Iterator<Item = String>) -> Option<BTreeSet<String>> {
        let mut called = lock(&self.called);
        let earlier = called.get(task).cloned();
        if earlier.is_none() {
            make_room(&mut called);
        }
        called.entry(task.to_owned()).or_default().extend(tools);
        earlier
    }

    /// Counts a turn with so many calls, of a version of which that is known.
    pub fn add_calls(&self, of: Version<'_>, calls: u64, norm: CallNorm) -> Option<Finding> {
        self.with_habits(of, |habits| habits.few.add(calls, norm))
    }

    fn with_habits<T>(&self, (agent, counts): Version<'_>, add: impl FnOnce(&mut Habits) -> T) -> T {
        let mut all = lock(&self.habits);
        if !all.contains_key(agent) {
            make_room(&mut all);
        }
        let new =
            || Habits { counts: Arc::downgrade(counts), answers: LastAnswers::default(), few: FewCalls::default() };
        let habits = all.entry(agent.clone()).or_insert_with(new);
        if !std::ptr::eq(habits.counts.as_ptr(), Arc::as_ptr(counts)) {
            *habits = new();
        }
        add(habits)
    }
}

/// Forgets one entry where there are as many as there may be.
fn make_room<K: Ord, V>(entries: &mut BTreeMap<K, V>) {
    if entries.len() >= KEPT_MAX {
        entries.pop_first();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of what is known panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_added_again_begins_anew() {
        let (book, agent) =
            (AnswerBook::default(), "urn:althing:zQmY8AwLhikXv1eG4pSSeFts6oZGeDvasQgedDH3gvhJ2Pz:clerk");
        let agent = AgentRef { id: agent.parse().expect("an id"), version: "1.0.0".into() };
        let asked =
            |counts: &Arc<FindingCounts>, question: u8| book.add_answer((&agent, counts), [question; 32], [9; 32], 100);
        let (first, again) = (Arc::default(), Arc::default());
        assert_eq!([1, 2, 3].map(|question| asked(&first, question)), [None, None, Some(Finding::SameAnswer)]);
        assert_eq!([3, 2, 2].map(|question| asked(&again, question)), [None; 3]);
    }

    #[test]
    fn what_a_task_called_is_known_to_its_later_turns_for_a_while() {
        let book = AnswerBook::default();
        let called = |task: &str, tools: &[&str]| {
            let earlier = book.add_called(task, tools.iter().map(ToString::to_string));
            earlier.map(|tools| tools.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(called("a", &["shop/order"]), None);
        assert_eq!(called("b", &[]), None);
        assert_eq!(called("a", &["mail/send", "shop/order"]), Some(vec!["shop/order".to_owned()]));
        assert_eq!(called("a", &[]).map(|tools| tools.len()), Some(2));
        for number in 0..KEPT_MAX {
            called(&format!("c{number}"), &[]);
        }
        assert_eq!(called("a", &[]), None, "it is forgotten");
        assert_eq!(lock(&book.called).len(), KEPT_MAX);
    }
}
