//! What clients of a group of real processes ask and are answered, judged as the simulations judge theirs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use althing_simulations::groups::evidence::{Deed, Operation, Phase};
use althing_simulations::groups::invariant::{queue, register};
use serde_json::Value;

use crate::{Machine, text};

/// Values that are written and read. Few operations on each, so that all orders can be searched.
const KEYS: u8 = 4;
/// Tasks that each client submits at most: all orders of them are searched.
const TASKS_MAX: usize = 40;
/// Between two operations of a client with tasks, so that they go on through all faults.
const PACE: Duration = Duration::from_millis(200);

/// What all clients did. An operation that failed, or that was not answered, may have happened or not.
#[derive(Default)]
pub struct History {
    events: AtomicI64,
    values: AtomicU64,
    done: Mutex<Vec<Operation>>,
    tasks: AtomicU32,
    looks: Mutex<Vec<Look>>,
    /// The tasks whose submission was acknowledged, by their ids.
    submitted: Mutex<BTreeMap<String, u32>>,
    is_over: AtomicBool,
}

/// All tasks as a client saw them: the lines of `task list`.
struct Look {
    client: u32,
    called: i64,
    returned: i64,
    tasks: Vec<Value>,
}

fn key_name(key: u8) -> String {
    format!("register-{key}")
}

fn json(machine: &Machine, words: &[&str]) -> Option<Value> {
    let said = machine.run(&[&["--json"], words].concat());
    (said.code == 0).then(|| serde_json::from_str(&said.stdout).expect("it says JSON"))
}

impl History {
    /// Its place among all calls and returns: what returned before another was called has a lower number than that.
    fn event(&self) -> i64 {
        self.events.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, client: u32, called: i64, is_known: bool, deed: Deed) {
        let returned = is_known.then(|| self.event());
        self.done.lock().expect("no panic").push(Operation { client, called, returned, deed });
    }

    /// The clients end.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Writes each value once, so that later none is missing.
    pub fn begin(&self, machine: &Machine) {
        (0..KEYS).for_each(|key| self.write(0, machine, key));
    }

    /// Writes, reads and replaces values through one member after the other, until it is over.
    pub fn use_values(&self, client: u32, machines: &[Machine]) {
        let mut read: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
        for number in client.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let machine = &machines[number as usize % machines.len()];
            let key = u8::try_from(number / 3 % u32::from(KEYS)).expect("a few");
            match (number % 3, read.get(&key).copied()) {
                (0, _) => self.write(client, machine, key),
                (1, Some(known)) => self.replace(client, machine, key, known),
                _ => read.extend(self.read(client, machine, key).map(|found| (key, found))),
            }
        }
    }

    fn next_value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn write(&self, client: u32, machine: &Machine, key: u8) {
        let (value, called) = (self.next_value(), self.event());
        let done = json(machine, &["group", "set", "team", &key_name(key), &value.to_string()]);
        let version = done.and_then(|done| done["version"].as_u64());
        self.note(client, called, version.is_some(), Deed::Write { key, value, version });
    }

    /// The value and its version.
    fn read(&self, client: u32, machine: &Machine, key: u8) -> Option<(u64, u64)> {
        let called = self.event();
        let said = machine.run(&["--json", "group", "get", "team", &key_name(key)]);
        let is_missing = said.code == 4 && said.stderr.contains("has no value");
        if is_missing {
            self.note(client, called, true, Deed::Read { key, value: None });
        }
        let found: Value = serde_json::from_str(&said.stdout).ok().filter(|_| said.code == 0)?;
        let value = text(&found["value"]).parse().expect("a number that a client wrote");
        self.note(client, called, true, Deed::Read { key, value: Some(value) });
        Some((value, found["version"].as_u64().expect("a version")))
    }

    fn replace(&self, client: u32, machine: &Machine, key: u8, (expected, version): (u64, u64)) {
        let (value, called) = (self.next_value(), self.event());
        let (name, written, version) = (key_name(key), value.to_string(), version.to_string());
        let said = machine.run(&["--json", "group", "set", "team", &name, &written, "--if-version", &version]);
        let done = match said.code {
            0 => Some(serde_json::from_str::<Value>(&said.stdout).expect("it says JSON")["version"].as_u64()),
            5 if said.stderr.contains("version") => Some(None),
            _ => None,
        };
        self.note(client, called, done.is_some(), Deed::Replace { key, expected: Some(expected), value, done });
    }

    /// Submits tasks, cancels some of them, and looks at all, through one member after the other, until it is over.
    pub fn use_tasks(&self, client: u32, machines: &[Machine]) {
        let mut own = Vec::new();
        for number in client as usize.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let machine = &machines[number % machines.len()];
            match number % 4 {
                0 | 2 if own.len() < TASKS_MAX => {
                    let submitted = self.submit(client, machine, number % 8 == 0);
                    own.extend(submitted.map(|(id, task)| (machine, id, task)));
                }
                1 => self.look(client, machine),
                // The charter lets members cancel what they submitted.
                _ => own.last().into_iter().for_each(|(at, id, task)| self.cancel(client, at, id, *task)),
            }
            std::thread::sleep(PACE);
        }
    }

    /// Submits a task, which nobody can do if it is to wait.
    fn submit(&self, client: u32, machine: &Machine, waits: bool) -> Option<(String, u32)> {
        let (task, called) = (self.tasks.fetch_add(1, Ordering::SeqCst) + 1, self.event());
        let text_of_it = task.to_string();
        let label: &[&str] = if waits { &["--label", "nobody-has-it"] } else { &[] };
        let words = [&["task", "submit", "team", "--agent", "echo", "--lease", "2", &text_of_it], label].concat();
        let done = json(machine, &words);
        let number = done.as_ref().and_then(|done| done["number"].as_u64());
        self.note(client, called, number.is_some(), Deed::Submit { task, number });
        let id = text(&done.filter(|_| number.is_some())?["task"]);
        self.submitted.lock().expect("no panic").insert(id.clone(), task);
        Some((id, task))
    }

    fn cancel(&self, client: u32, machine: &Machine, id: &str, task: u32) {
        let called = self.event();
        let said = machine.run(&["task", "cancel", "team", id]);
        let done = match said.code {
            0 => Some(true),
            5 if said.stderr.contains(", which does not permit this") => Some(false),
            _ => None,
        };
        self.note(client, called, done.is_some(), Deed::Cancel { task, done });
    }

    fn look(&self, client: u32, machine: &Machine) {
        let called = self.event();
        let Some(list) = json(machine, &["task", "list", "team", "--all"]) else { return };
        let tasks = list["tasks"].as_array().expect("a list").clone();
        self.looks.lock().expect("no panic").push(Look { client, called, returned: self.event(), tasks });
    }

    /// What clients did to tasks. A task whose submission was not acknowledged is known by its text.
    fn of_tasks(&self, machine: &Machine) -> Vec<Operation> {
        self.look(0, machine);
        let mut known = self.submitted.lock().expect("no panic");
        let looks = self.looks.lock().expect("no panic");
        let mut number_of = |task: &Value| {
            let id = text(&task["task"]);
            *known.entry(id.clone()).or_insert_with(|| {
                text(&machine.json(&["task", "show", "team", &id])["input"]).parse().expect("the number of a task")
            })
        };
        let phase = |task: &Value| match task["state"].as_str() {
            Some("completed") => Phase::Completed(task["fencingToken"].as_u64().expect("a number")),
            Some("canceled") => Phase::Canceled,
            Some("failed") => Phase::Failed,
            _ => Phase::Open,
        };
        let look = |look: &Look| {
            let tasks = look.tasks.iter().map(|task| (number_of(task), phase(task))).collect();
            let (client, called, returned) = (look.client, look.called, Some(look.returned));
            Operation { client, called, returned, deed: Deed::Look { tasks } }
        };
        looks.iter().map(look).collect()
    }

    /// Whether all that was seen has an order; says how much it was.
    pub fn judge(self, machine: &Machine) {
        let looks = self.of_tasks(machine);
        let completed = looks.last().map_or(0, |last| match &last.deed {
            Deed::Look { tasks } => tasks.iter().filter(|(_, phase)| matches!(phase, Phase::Completed(_))).count(),
            _ => 0,
        });
        println!("{} looks at tasks, of which {completed} are completed", looks.len());
        // How many they manage depends on the machine.
        assert!(looks.len() > 5 && completed > 10, "the clients did something with tasks");
        let mut done = self.done.into_inner().expect("no panic");
        done.extend(looks);
        queue::judge(&done).expect("the tasks have an order");
        let known = done.iter().filter(|one| one.returned.is_some()).count();
        println!("{known} operations were answered, {} were not", done.len() - known);
        (0..KEYS).for_each(|key| register::judge(&done, key).expect("the values have an order"));
        assert!(known > 60, "the clients did something");
    }
}
