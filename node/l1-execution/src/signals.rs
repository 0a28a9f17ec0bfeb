//! The signals of a node, by name: which agents read and write them. What a job does with them is in [`crate::hrt`].

mod seat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::hrt::Signal;

use seat::Seats;

pub use seat::Seat;

/// Signals of one node.
const SIGNALS_MAX: usize = 4_096;

/// The signals that an agent reads, and those that it writes.
pub type Joined = (Vec<Arc<Signal>>, Vec<Arc<Signal>>);

/// Why an agent cannot use signals.
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
    /// How many versions of the writer are here.
    writers: usize,
    users: usize,
}

/// The signals of a node, by name.
#[derive(Debug, Default)]
pub struct Signals {
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Of each control loop, by its name. Locked before the entries where both are.
    seats: Mutex<BTreeMap<String, Seats>>,
}

impl Signals {
    /// The signals that an agent reads and writes, in order; it is the only writer of its outputs until [`Signals::leave`].
    ///
    /// # Errors
    /// See [`SignalError`]; nothing changes then.
    pub fn join(&self, agent: &str, inputs: &[String], outputs: &[String]) -> Result<Joined, SignalError> {
        self.join_unless(agent, (inputs, outputs), |_| true)
    }

    /// The same of a version of a control loop, beside others of that name, until [`Signals::leave_version`]. The first one shows
    /// what it puts out; the others do when they take the seat.
    ///
    /// # Errors
    /// As [`Signals::join`].
    pub fn join_version(
        &self,
        agent: &str,
        inputs: &[String],
        outputs: &[String],
    ) -> Result<(Joined, Seat), SignalError> {
        let mut seats = self.lock_seats();
        let joined = self.join_unless(agent, (inputs, outputs), |writer| writer != agent)?;
        Ok((joined, seats.entry(agent.to_owned()).or_default().add()))
    }

    /// Undoes [`Signals::join_version`]. If it was the one that shows, none does until one takes the seat.
    pub fn leave_version(&self, agent: &str, seat: &Seat, inputs: &[String], outputs: &[String]) {
        let mut seats = self.lock_seats();
        if seats.get_mut(agent).is_some_and(|of_agent| of_agent.remove(seat)) {
            seats.remove(agent);
        }
        self.leave(agent, inputs, outputs);
    }

    fn join_unless(
        &self,
        agent: &str,
        (inputs, outputs): (&[String], &[String]),
        is_other: impl Fn(&str) -> bool,
    ) -> Result<Joined, SignalError> {
        let mut all = self.lock();
        for name in outputs {
            let writer = all.get(name).and_then(|entry| entry.writer.clone());
            if let Some(writer) = writer.filter(|writer| is_other(writer)) {
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
            entry.writers += usize::from(writer.is_some());
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
                entry.writers = entry.writers.saturating_sub(1);
                if entry.writers == 0 {
                    entry.writer = None;
                }
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
        self.entries.lock().expect("no holder of the signals panics")
    }

    fn lock_seats(&self) -> MutexGuard<'_, BTreeMap<String, Seats>> {
        self.seats.lock().expect("no holder of the seats panics")
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::Signals as Names;

    use super::*;
    use crate::hrt::{OutputSignal, SIGNALS_MAX, show};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn of_two_versions_one_shows_and_the_other_takes_over_as_a_whole() {
        let signals = Signals::default();
        let limits = serde_json::from_value(serde_json::json!({ "torque": { "step": 2 } })).expect("limits");
        let names = Names { outputs: names(&["torque", "free"]), limits, ..Names::default() };
        let join = || {
            let ((_, shared), seat) = signals.join_version("arm", &[], &names.outputs).expect("versions of one agent");
            (OutputSignal::of_version(&names, shared.clone(), &seat), shared, seat)
        };
        let (old, shared, old_seat) = join();
        let put = |outputs: &[OutputSignal], value: f64| {
            let mut values = [value; SIGNALS_MAX];
            let broken = show(outputs, &mut values, 1);
            ([shared[0].get(), shared[1].get()], broken)
        };
        assert_eq!(put(&old, 5.0), ([5.0, 5.0], 0));
        let (new, _, new_seat) = join();
        assert!(old_seat.is_held() && !new_seat.is_held());
        assert_eq!(put(&new, 6.0), ([5.0, 5.0], 0), "it is not shown");
        assert_eq!(put(&new, 9.0), ([5.0, 5.0], 1), "what would break its limits is counted");
        new_seat.take();
        assert_eq!(put(&old, 4.0), ([5.0, 5.0], 0));
        assert_eq!(put(&new, 9.0), ([5.0, 9.0], 1), "a step is one from what the other version showed");
        assert_eq!(put(&new, 7.0), ([7.0, 7.0], 0));
        let taken = signals.join("thief", &[], &names.outputs).expect_err("it has a writer");
        assert!(matches!(taken, SignalError::Taken { writer, .. } if writer == "arm"));
        signals.leave_version("arm", &old_seat, &[], &names.outputs);
        assert!(new_seat.is_held() && signals.join("thief", &[], &names.outputs).is_err());
        signals.leave_version("arm", &new_seat, &[], &names.outputs);
        assert!(signals.join("next", &[], &names.outputs).is_ok());
    }

    /// Both begin together where a node starts again while one is tried: neither has shown anything then.
    #[test]
    fn a_version_that_was_here_before_anything_was_shown_takes_no_larger_step_either() {
        let signals = Signals::default();
        let limits = serde_json::from_value(serde_json::json!({ "torque": { "step": 2 } })).expect("limits");
        let names = Names { outputs: names(&["torque"]), limits, ..Names::default() };
        let join = || {
            let ((_, shared), seat) = signals.join_version("arm", &[], &names.outputs).expect("versions of one agent");
            (OutputSignal::of_version(&names, shared.clone(), &seat), shared, seat)
        };
        let ((old, shared, _seat), (new, _, new_seat)) = (join(), join());
        let put = |outputs: &[OutputSignal], value: f64| {
            let broken = show(outputs, &mut [value; SIGNALS_MAX], 1);
            (shared[0].get(), broken)
        };
        assert_eq!(put(&new, 100.0), (0.0, 0), "nothing was shown, so that any value is a step from nothing");
        assert_eq!(put(&old, 5.0), (5.0, 0));
        assert_eq!(put(&new, 100.0), (5.0, 1));
        new_seat.take();
        assert_eq!(put(&new, 100.0), (5.0, 1), "it would leap where it takes over");
        assert_eq!(put(&new, 7.0), (7.0, 0));
    }

    #[test]
    fn what_one_writes_another_reads_and_none_else_writes() {
        let signals = Signals::default();
        let (_, outputs) = signals.join("arm", &names(&["angle"]), &names(&["torque"])).expect("free");
        let (inputs, _) = signals.join("plant", &names(&["torque"]), &names(&["angle"])).expect("free");
        outputs[0].set(0.5, 1);
        assert_eq!(inputs[0].get(), 0.5);
        let taken = signals.join("thief", &[], &names(&["new", "torque"])).expect_err("taken");
        assert_eq!(taken, SignalError::Taken { signal: "torque".to_owned(), writer: "arm".to_owned() });
        assert_eq!(signals.writer("new"), None);
        signals.leave("arm", &names(&["angle"]), &names(&["torque"]));
        assert!(signals.join("next", &[], &names(&["torque"])).is_ok());
    }
}
