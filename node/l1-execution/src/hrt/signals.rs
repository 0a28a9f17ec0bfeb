//! Numbers that the agents of a node share: what sensors show, what actuators are told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Signals of one node.
const SIGNALS_MAX: usize = 4_096;

/// One signal; reading and writing never wait.
#[derive(Debug, Default)]
pub struct Signal(AtomicU64);

impl Signal {
    /// What it shows.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Shows `value` from now on.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Release);
    }
}

/// The signals that an agent reads, and those that it writes.
pub type Joined = (Vec<Arc<Signal>>, Vec<Arc<Signal>>);

/// Why signals cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// Another agent writes it.
    #[error("signal {signal:?} is written by agent {writer:?}, and a signal has one writer")]
    Taken {
        /// Which.
        signal: String,
        /// By whom.
        writer: String,
    },
    /// There are too many.
    #[error("this node has {SIGNALS_MAX} signals, and no room for more")]
    Full,
}

#[derive(Debug, Default)]
struct Entry {
    signal: Arc<Signal>,
    writer: Option<String>,
    users: usize,
}

/// The signals of a node, by name.
#[derive(Debug, Default)]
pub struct Signals(Mutex<BTreeMap<String, Entry>>);

impl Signals {
    /// The signals that an agent reads and writes, in their order; those that it writes nobody else may, until
    /// [`Signals::leave`].
    ///
    /// # Errors
    /// See [`SignalError`]; then nothing has changed.
    pub fn join(&self, agent: &str, inputs: &[String], outputs: &[String]) -> Result<Joined, SignalError> {
        let mut all = self.lock();
        for name in outputs {
            if let Some(writer) = all.get(name).and_then(|entry| entry.writer.clone()) {
                return Err(SignalError::Taken { signal: name.clone(), writer });
            }
        }
        let new = inputs.iter().chain(outputs).filter(|name| !all.contains_key(*name)).count();
        if all.len() + new > SIGNALS_MAX {
            return Err(SignalError::Full);
        }
        let mut one = |name: &String, writer: Option<&str>| {
            let entry = all.entry(name.clone()).or_default();
            entry.users += 1;
            entry.writer = entry.writer.take().or(writer.map(str::to_owned));
            entry.signal.clone()
        };
        let inputs = inputs.iter().map(|name| one(name, None)).collect();
        let outputs = outputs.iter().map(|name| one(name, Some(agent))).collect();
        Ok((inputs, outputs))
    }

    /// Undoes [`Signals::join`].
    pub fn leave(&self, agent: &str, inputs: &[String], outputs: &[String]) {
        let mut all = self.lock();
        for name in inputs.iter().chain(outputs) {
            let Some(entry) = all.get_mut(name) else { continue };
            entry.users = entry.users.saturating_sub(1);
            if outputs.contains(name) && entry.writer.as_deref() == Some(agent) {
                entry.writer = None;
            }
            if entry.users == 0 {
                all.remove(name);
            }
        }
    }

    /// The agent that writes a signal.
    #[must_use]
    pub fn writer(&self, name: &str) -> Option<String> {
        self.lock().get(name).and_then(|entry| entry.writer.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().expect("no holder of the signals panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_one_writes_another_reads_and_none_else_writes() {
        let signals = Signals::default();
        let (_, outputs) = signals.join("arm", &names(&["angle"]), &names(&["torque"])).expect("free");
        let (inputs, _) = signals.join("plant", &names(&["torque"]), &names(&["angle"])).expect("free");
        outputs[0].set(0.5);
        assert_eq!(inputs[0].get(), 0.5);
        let taken = signals.join("thief", &[], &names(&["new", "torque"])).expect_err("taken");
        assert_eq!(taken, SignalError::Taken { signal: "torque".to_owned(), writer: "arm".to_owned() });
        assert_eq!(signals.writer("new"), None);
        signals.leave("arm", &names(&["angle"]), &names(&["torque"]));
        assert!(signals.join("next", &[], &names(&["torque"])).is_ok());
    }
}
