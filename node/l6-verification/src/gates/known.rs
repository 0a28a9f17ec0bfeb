//! What is kept from one turn to the next: compiled schemas, the last answers, and turns with few calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::CallNorm;
use althing_protocol::contract::AnswerSchema;
use althing_protocol::{AgentRef, Digest};
use serde_json::Value;

use crate::machine::silent::{FewCalls, Finding, LastAnswers};

/// Versions of agents of which something is kept.
const AGENTS_MAX: usize = 1_024;

/// A schema that was read, or why it is none.
pub(super) type SchemaRead = Arc<Result<AnswerSchema, String>>;

/// By agent and place in the contract: the schema as it is written, and as it was read.
type Schemas = BTreeMap<(AgentRef, &'static str), (Value, SchemaRead)>;

/// What is kept of all agents of a node.
#[derive(Default)]
pub(super) struct AnswerBook {
    schemas: Mutex<Schemas>,
    answers: Mutex<BTreeMap<AgentRef, LastAnswers>>,
    few: Mutex<BTreeMap<AgentRef, FewCalls>>,
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
    pub fn add_answer(&self, agent: &AgentRef, question: Digest, answer: Digest, bytes: usize) -> Option<Finding> {
        let mut answers = lock(&self.answers);
        if !answers.contains_key(agent) {
            make_room(&mut answers);
        }
        answers.entry(agent.clone()).or_default().add(question, answer, bytes)
    }

    /// Counts a turn with so many calls, of a version of which that is known.
    pub fn add_calls(&self, agent: &AgentRef, calls: u64, norm: CallNorm) -> Option<Finding> {
        let mut few = lock(&self.few);
        if !few.contains_key(agent) {
            make_room(&mut few);
        }
        few.entry(agent.clone()).or_default().add(calls, norm)
    }
}

/// Forgets one entry where there are as many as there may be.
fn make_room<K: Ord, V>(entries: &mut BTreeMap<K, V>) {
    if entries.len() >= AGENTS_MAX {
        entries.pop_first();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of what is known panics")
}
