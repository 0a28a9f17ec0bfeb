//! What clients of a group of real processes ask and are answered, judged as the simulations judge theirs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use althing_simulations::groups::evidence::{Deed, Operation};
use althing_simulations::groups::invariant::register;
use serde_json::Value;

use super::support::{Machine, text};

/// Values that are written and read. Few operations on each, so that all orders can be searched.
const KEYS: u8 = 4;

/// What all clients did. An operation that failed, or that was not answered, may have happened or not.
#[derive(Default)]
pub struct History {
    events: AtomicI64,
    values: AtomicU64,
    done: Mutex<Vec<Operation>>,
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

    /// Whether all that was seen has an order; says how much it was.
    pub fn judge(self) {
        let done = self.done.into_inner().expect("no panic");
        let known = done.iter().filter(|one| one.returned.is_some()).count();
        println!("{known} operations were answered, {} were not", done.len() - known);
        (0..KEYS).for_each(|key| register::judge(&done, key).expect("the values have an order"));
        assert!(known > 60, "the clients did something");
    }
}
