//! What is around a simulated node: the tool that counts, whoever writes down what is seen, and the plan.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use althing_execution::journal::Effect;
use althing_protocol::Digest;
use serde_json::{Value, json};

use super::evidence::{Event, Evidence};
use super::flaw::Flaw;
use super::plan::{Plan, StepPlan};

/// The worlds of this process by their numbers: an agent's configuration names its own.
static SURROUNDINGS: Mutex<BTreeMap<u64, Weak<Surroundings>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

pub struct Surroundings {
    /// By which an agent's configuration names it.
    pub number: u64,
    /// What is to happen.
    pub plan: Plan,
    /// What is planted.
    pub flaw: Arc<dyn Flaw>,
    evidence: Mutex<Evidence>,
    counter: Mutex<Counter>,
}

/// The tool that counts: whoever calls it by a key that it knows is answered as before, and nothing is done.
#[derive(Default)]
struct Counter {
    count: u64,
    keys: BTreeMap<Digest, u64>,
}

impl Surroundings {
    /// A world in which that is to happen.
    #[must_use]
    pub fn new(plan: Plan, flaw: Arc<dyn Flaw>) -> Arc<Surroundings> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (evidence, counter) = (Mutex::new(Evidence::of(plan.clone())), Mutex::default());
        let world = Arc::new(Surroundings { number, plan, flaw, evidence, counter });
        SURROUNDINGS.lock().expect("nobody panics with it").insert(number, Arc::downgrade(&world));
        world
    }

    /// The world of that number, while it is there.
    #[must_use]
    pub fn find(number: u64) -> Option<Arc<Surroundings>> {
        SURROUNDINGS.lock().expect("nobody panics with it").get(&number)?.upgrade()
    }

    /// What was seen by now.
    pub fn evidence(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().expect("nobody panics with it")
    }

    /// Writes down what is seen.
    pub fn note(&self, event: Event) {
        self.evidence().events.push(event);
    }

    /// A call comes to the tool; gives what it answers.
    pub fn call(&self, (turn, number): (usize, usize), step: &StepPlan, key: Digest) -> Value {
        let (value, is_new) = {
            let mut counter = self.counter.lock().expect("nobody panics with it");
            let known = counter.keys.get(&key).copied().filter(|_| step.effect == Effect::Keyed);
            counter.count += 1;
            let value = known.unwrap_or(counter.count);
            counter.keys.insert(key, value);
            (value, known.is_none())
        };
        self.note(Event::Call { turn, step: number, effect: step.effect, key, value, is_new });
        answer(value, step.bytes)
    }

    /// What a call was answered, if it took place.
    #[must_use]
    pub fn answered(&self, turn: usize, step: usize) -> Option<Value> {
        let bytes = self.plan.turns.get(turn)?.steps.get(step)?.bytes;
        self.evidence().events.iter().rev().find_map(|event| match event {
            Event::Call { turn: of, step: at, value, .. } if (*of, *at) == (turn, step) => Some(answer(*value, bytes)),
            _ => None,
        })
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        SURROUNDINGS.lock().expect("nobody panics with it").remove(&self.number);
    }
}

fn answer(value: u64, bytes: usize) -> Value {
    match bytes {
        0 => json!({ "n": value }),
        bytes => json!({ "n": value, "more": "x".repeat(bytes) }),
    }
}
