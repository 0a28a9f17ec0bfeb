//! Which of the agents that were added are still to be started, and which do not run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use althing_failure::Kind;
use tokio::sync::watch;

use crate::error::NodeError;

/// What became of the starts of a node's agents.
pub struct AgentStarts {
    /// Agents that were added and do not run, and why.
    failed: Mutex<BTreeMap<String, String>>,
    /// Those among them that policies do not permit: they are not tried again before these change.
    forbidden: Mutex<BTreeSet<String>>,
    /// Those that were not started yet since the node was, and their latency classes.
    starting: Mutex<BTreeMap<String, &'static str>>,
    /// Whether each of those was tried.
    known: watch::Sender<bool>,
}

impl AgentStarts {
    pub(crate) fn new() -> AgentStarts {
        let (failed, forbidden, starting) = (Mutex::default(), Mutex::default(), Mutex::default());
        AgentStarts { failed, forbidden, starting, known: watch::Sender::new(false) }
    }

    /// Agents that were added and do not run, and why.
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().expect("no holder of the failed agents panics")
    }

    /// Those among them that the owner's policies do not permit: control loops.
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn forbidden(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.forbidden.lock().expect("no holder of the forbidden agents panics")
    }

    /// Those that do not run and are to be tried again.
    pub(crate) fn to_retry(&self) -> Vec<String> {
        let (failed, forbidden) = (self.failed(), self.forbidden());
        failed.keys().filter(|name| !forbidden.contains(*name)).cloned().collect()
    }

    /// Agents that were added and are still to be started since the node was, with their latency classes.
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn starting(&self) -> MutexGuard<'_, BTreeMap<String, &'static str>> {
        self.starting.lock().expect("no holder of the starting agents panics")
    }

    /// Says that each agent that was added before has been tried, once none is left.
    pub(crate) fn tell_known(&self) {
        if self.starting().is_empty() {
            self.known.send_replace(true);
        }
    }

    /// Whether each agent that was added before the node started has been started by now, or does not start.
    #[must_use]
    pub fn are_known(&self) -> bool {
        *self.known.borrow()
    }

    /// Waits until each agent that was added before the node started has been started, or does not start.
    pub async fn known(&self) {
        // It cannot end while this borrows it.
        let mut known = self.known.subscribe();
        let _ = known.wait_for(|now| *now).await;
    }

    /// Notes what became of an agent that was to be started: it runs or is gone, or why it does not run.
    pub(crate) fn note(&self, name: &str, failure: Option<&NodeError>) {
        match failure {
            // It is still to be started.
            Some(failure) if failure.kind() == Kind::NotYet && self.starting().contains_key(name) => {}
            Some(failure) => {
                self.failed().insert(name.to_owned(), failure.to_string());
                self.starting().remove(name);
                match failure {
                    NodeError::Forbidden(_) => self.forbidden().insert(name.to_owned()),
                    _ => self.forbidden().remove(name),
                };
            }
            None => {
                self.failed().remove(name);
                self.forbidden().remove(name);
                self.starting().remove(name);
            }
        }
    }
}
