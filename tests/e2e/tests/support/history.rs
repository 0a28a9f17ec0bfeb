//! What clients of a group of real processes ask and are answered, judged as the simulations judge theirs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use althing_protocol::SecretKey;
use althing_protocol::group::WorkId;
use althing_simulations::groups::evidence::{Begun, Deed, Operation, Phase};
use althing_simulations::groups::invariant::{queue, register};
use serde_json::Value;

use super::support::{Machine, text};

/// Values that are written and read. Few operations on each, so that all orders can be searched.
const KEYS: u8 = 4;
/// Tasks, at most, for the same reason.
const TASKS_MAX: u32 = 20;
/// Between two looks at all tasks, so many operations of another kind.
const LOOK_EVERY: u32 = 3;

/// What a client saw when it looked at all tasks: their ids, states and tokens, in order.
struct Look {
    client: u32,
    called: i64,
    returned: i64,
    tasks: Vec<(String, String, u64)>,
}

/// What all clients did. An operation that failed, or that was not answered, may have happened or not.
#[derive(Default)]
pub struct History {
    events: AtomicI64,
    values: AtomicU64,
    tasks: AtomicU32,
    done: Mutex<Vec<Operation>>,
    looks: Mutex<Vec<Look>>,
    /// The numbers of the tasks whose submission was answered, by their ids.
    named: Mutex<BTreeMap<String, u32>>,
    is_over: AtomicBool,
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

    /// Submits tasks, looks at all, and cancels some, through one member after the other, until it is over.
    pub fn use_tasks(&self, client: u32, machines: &[Machine]) {
        let mut open = Vec::new();
        for number in client.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let machine = &machines[number as usize % machines.len()];
            match number % LOOK_EVERY {
                0 => open.extend(self.submit(client, machine)),
                // Of the last but one: it may run, or have ended.
                1 if open.len() > 1 => self.cancel(client, machine, open.remove(open.len() - 2)),
                _ => self.look(client, machine),
            }
        }
    }

    fn submit(&self, client: u32, machine: &Machine) -> Option<(u32, String)> {
        let task = self.tasks.fetch_add(1, Ordering::SeqCst) + 1;
        if task > TASKS_MAX {
            return None;
        }
        let (called, input) = (self.event(), format!("task-{task}"));
        let mut words = vec!["task", "submit", "team", "--agent", "echo", "--lease", "2", "--attempts", "16", &input];
        if task % 3 == 0 {
            // Nobody can do it: it stays until it is canceled.
            words.extend(["--label", "nowhere"]);
        }
        let done = json(machine, &words);
        let number = done.as_ref().and_then(|done| done["number"].as_u64());
        self.note(client, called, number.is_some(), Deed::Submit { task, number });
        let id = text(&done?["task"]);
        self.named.lock().expect("no panic").insert(id.clone(), task);
        Some((task, id))
    }

    fn cancel(&self, client: u32, machine: &Machine, (task, id): (u32, String)) {
        let called = self.event();
        let said = machine.run(&["task", "cancel", "team", &id]);
        let done = match said.code {
            0 => Some(true),
            5 if said.stderr.contains("does not permit") => Some(false),
            _ => None,
        };
        self.note(client, called, done.is_some(), Deed::Cancel { task, done });
    }

    fn look(&self, client: u32, machine: &Machine) {
        let called = self.event();
        let Some(list) = json(machine, &["task", "list", "team", "--all"]) else { return };
        let returned = self.event();
        let row =
            |task: &Value| (text(&task["task"]), text(&task["state"]), task["fencingToken"].as_u64().expect("a token"));
        let tasks = list["tasks"].as_array().expect("a list").iter().map(row).collect();
        self.looks.lock().expect("no panic").push(Look { client, called, returned, tasks });
    }

    /// Whether all that was seen has an order; says how much it was. `machine` is asked for tasks whose submission was not
    /// answered.
    pub fn judge(self, machine: &Machine) {
        self.look(0, machine);
        let (mut done, looks) = (self.done.into_inner().expect("no panic"), self.looks.into_inner().expect("no panic"));
        let mut named = self.named.into_inner().expect("no panic");
        for (id, ..) in looks.iter().flat_map(|look| &look.tasks) {
            named.entry(id.clone()).or_insert_with(|| {
                let input = text(&machine.json(&["task", "show", "team", id])["input"]);
                input.strip_prefix("task-").and_then(|number| number.parse().ok()).expect("a task of a client")
            });
        }
        let begun = begun(&done, &looks, &named);
        done.extend(looks.into_iter().map(|look| {
            let phase = |(id, state, token): &(String, String, u64)| (named[id], phase(state, *token));
            let tasks = look.tasks.iter().map(phase).collect();
            Operation {
                client: look.client,
                called: look.called,
                returned: Some(look.returned),
                deed: Deed::Look { tasks },
            }
        }));
        let known = done.iter().filter(|one| one.returned.is_some()).count();
        let ended = begun.len();
        println!("{known} operations were answered, {} were not; {ended} tasks were completed", done.len() - known);
        (0..KEYS).for_each(|key| register::judge(&done, key).expect("the values have an order"));
        queue::judge(&done, &begun).expect("the tasks have an order");
        assert!(known > 60 && ended > 3, "the clients did something");
    }
}

fn phase(state: &str, token: u64) -> Phase {
    match state {
        "completed" => Phase::Completed(token),
        "canceled" => Phase::Canceled,
        "failed" | "timed-out" => Phase::Failed,
        _ => Phase::Open,
    }
}

/// When each completed task was begun by whoever completed it: between its submission and the first look that shows the end.
fn begun(done: &[Operation], looks: &[Look], named: &BTreeMap<String, u32>) -> Vec<Begun> {
    let mut all = BTreeMap::new();
    for look in looks {
        for (id, _, token) in look.tasks.iter().filter(|(_, state, _)| state == "completed") {
            let until = all.entry((named[id], *token)).or_insert(look.returned);
            *until = look.returned.min(*until);
        }
    }
    let submitted = |number: u32| {
        let of = |one: &&Operation| matches!(one.deed, Deed::Submit { task, .. } if task == number);
        done.iter().find(of).expect("it was submitted").called
    };
    let begun = all.into_iter().map(|((task, token), until)| Begun {
        node: SecretKey::from_seed(&[1; 32]).public(),
        task: WorkId::from_bytes(u128::from(task).to_be_bytes()),
        token,
        between: (submitted(task), until),
        ended: Some(submitted(task)),
    });
    begun.collect()
}
