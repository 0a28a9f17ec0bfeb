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

/// A version of an agent, and what is found of it since it was started: another start has another one.
pub(super) type VersionRun<'a> = (&'a AgentRef, &'a Arc<FindingCounts>);

/// By version, what is kept of its turns since the start that has these counts: it begins anew with them.
type Histories<T> = BTreeMap<AgentRef, (Weak<FindingCounts>, T)>;

/// What is kept of all agents of a node.
#[derive(Default)]
pub(super) struct AnswerBook {
    schemas: Mutex<Schemas>,
    answers: Mutex<Histories<LastAnswers>>,
    few: Mutex<Histories<FewCalls>>,
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
    pub fn add_answer(&self, of: VersionRun<'_>, question: Digest, answer: Digest, bytes: usize) -> Option<Finding> {
        history(&mut lock(&self.answers), of).add(question, answer, bytes)
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
    pub fn add_calls(&self, of: VersionRun<'_>, calls: u64, norm: CallNorm) -> Option<Finding> {
        history(&mut lock(&self.few), of).add(calls, norm)
    }
}

/// What is kept of a version since it was started. With one of which nothing is kept yet, all is forgotten of those that were
/// removed, or started again.
fn history<'a, T: Default>(histories: &'a mut Histories<T>, (agent, counts): VersionRun<'_>) -> &'a mut T {
    let is_same = |of: &Weak<FindingCounts>| std::ptr::eq(of.as_ptr(), Arc::as_ptr(counts));
    if !histories.get(agent).is_some_and(|(of, _)| is_same(of)) {
        histories.retain(|known, (of, _)| known != agent && of.strong_count() > 0);
        make_room(histories);
    }
    let begin = || (Arc::downgrade(counts), T::default());
    let (_, kept) = histories.entry(agent.clone()).or_insert_with(begin);
    kept
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
    use althing_protocol::{PublisherId, digest};

    use super::*;

    fn agent(name: &str) -> AgentRef {
        AgentRef::new(PublisherId::from_digest([1; 32]), name, "1.0.0").expect("a name")
    }

    #[test]
    fn what_is_kept_of_a_version_ends_with_its_run() {
        let (book, shop, norm) = (AnswerBook::default(), agent("shop"), CallNorm { few_below: 1, row: 3 });
        let refusal = digest(b"I cannot help you with that");
        let one = Arc::<FindingCounts>::default();
        for question in [b"1", b"2"] {
            assert_eq!(book.add_answer((&shop, &one), digest(question), refusal, 85), None);
            assert_eq!(book.add_calls((&shop, &one), 0, norm), None);
        }
        // It is removed, and added again in the same version.
        drop(one);
        let again = Arc::<FindingCounts>::default();
        for question in [b"3", b"4"] {
            assert_eq!(book.add_answer((&shop, &again), digest(question), refusal, 85), None, "it begins anew");
            assert_eq!(book.add_calls((&shop, &again), 0, norm), None, "it begins anew");
        }
        assert_eq!(book.add_answer((&shop, &again), digest(b"5"), refusal, 85), Some(Finding::SameAnswer));
        assert_eq!(book.add_calls((&shop, &again), 0, norm), Some(Finding::FewTools));
        drop(again);
        let other = Arc::<FindingCounts>::default();
        book.add_answer((&agent("desk"), &other), digest(b"1"), refusal, 85);
        assert_eq!(lock(&book.answers).keys().cloned().collect::<Vec<_>>(), [agent("desk")]);
    }

    #[test]
    fn of_as_many_versions_as_there_may_be_histories_are_kept() {
        let (book, counts) = (AnswerBook::default(), Arc::<FindingCounts>::default());
        for number in 0..=KEPT_MAX {
            book.add_answer((&agent(&format!("a{number}")), &counts), digest(b"1"), digest(b"2"), 85);
        }
        assert_eq!(lock(&book.answers).len(), KEPT_MAX);
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
