//! An agent whose calls are divided between versions, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::{Digest, digest};
use althing_verification::machine::rollout::{Call, Phase, Route, Ticket, Versions};

/// Calls that are under way and will be counted; of more, those are not counted that began first.
const TICKETS_MAX: usize = 8_192;

/// By what a call is known at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallKey(Digest);

impl CallKey {
    pub fn of(caller: &str, context: &str, message: &str) -> CallKey {
        // With their lengths, or two calls could have one name.
        CallKey(digest(format!("{} {caller} {} {context} {message}", caller.len(), context.len()).as_bytes()))
    }
}

/// By what the end of a call is counted, and that of its shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tickets {
    pub call: Ticket,
    pub shadow: Option<Ticket>,
}

/// An agent whose calls are divided between versions.
pub(super) struct AgentRollout {
    pub name: String,
    /// Held while something is decided, until it is on disk; no call is routed meanwhile.
    pub deciding: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    versions: Versions,
    /// What the files of the versions say that they are.
    names: BTreeMap<Digest, Arc<str>>,
    tickets: BTreeMap<CallKey, (Tickets, Arc<str>)>,
    /// Those in the order in which they were given out.
    given: VecDeque<CallKey>,
    /// Why versions do not run that should.
    failures: BTreeMap<Digest, String>,
}

impl AgentRollout {
    pub fn new(name: &str, versions: Versions, names: BTreeMap<Digest, Arc<str>>) -> AgentRollout {
        let (tickets, given, failures) = Default::default();
        let state = State { versions, names, tickets, given, failures };
        AgentRollout { name: name.to_owned(), deciding: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the versions panics")
    }

    /// A copy of them as they are now.
    pub fn versions(&self) -> Versions {
        self.state().versions.clone()
    }

    /// What was decided holds.
    pub fn set(&self, versions: Versions) {
        self.state().versions = versions;
    }

    pub fn is_running(&self) -> bool {
        self.state().versions.rollout().is_some_and(|rollout| rollout.phase() == Phase::Running)
    }

    /// The version that answers a call, and how that was decided; what comes of it is counted under `key`.
    pub fn route(&self, call: &Call<'_>, key: CallKey) -> (Option<Arc<str>>, Route) {
        let mut state = self.state();
        let route = state.versions.route(call);
        let version = state.names.get(&route.version).cloned();
        if let (Some(call), Some(version)) = (route.ticket, &version) {
            let shadow = route.shadow.map(|(_, shadow)| shadow);
            state.give(key, Tickets { call, shadow }, version.clone());
        }
        (version, route)
    }

    /// By what the end of a call is counted that this version answered.
    pub fn take_tickets(&self, key: CallKey, version: &str) -> Option<Tickets> {
        let (tickets, given_to) = self.state().tickets.remove(&key)?;
        // Another one answered where that one did not run.
        (*given_to == *version).then_some(tickets)
    }

    /// What the file of the version says that it is that is or was tried.
    pub fn tried(&self) -> Option<Arc<str>> {
        let state = self.state();
        state.names.get(&state.versions.rollout()?.plan().to).cloned()
    }

    /// Whether each call is given to the new version too now.
    pub fn has_shadows(&self) -> bool {
        let state = self.state();
        let rollout = state.versions.rollout().filter(|rollout| rollout.phase() == Phase::Running);
        rollout.is_some_and(|rollout| rollout.plan().is_shadow(rollout.stage()))
    }

    /// Whether a version may answer; of those that are not known here nothing is said.
    pub fn may_answer(&self, version: &str) -> bool {
        let state = self.state();
        let known = state.names.iter().find(|(_, name)| ***name == *version);
        known.is_none_or(|(digest, _)| state.versions.may_answer(*digest))
    }

    /// What the file of a version says that it is.
    pub fn name_of(&self, version: Digest) -> Option<Arc<str>> {
        self.state().names.get(&version).cloned()
    }

    /// The versions beside the stable one.
    pub fn others(&self) -> Vec<(Digest, Arc<str>)> {
        let state = self.state();
        let stable = state.versions.stable();
        let others = state.names.iter().filter(|(digest, _)| **digest != stable);
        others.map(|(digest, name)| (*digest, name.clone())).collect()
    }

    /// A version is here no more.
    pub fn drop_version(&self, version: Digest) {
        let mut state = self.state();
        state.names.remove(&version);
        state.failures.remove(&version);
    }

    /// Why a version does not run, or that it does.
    pub fn note_failure(&self, version: Digest, failure: Option<String>) {
        let mut state = self.state();
        match failure {
            Some(why) => drop(state.failures.insert(version, why)),
            None => drop(state.failures.remove(&version)),
        }
    }

    pub fn failure(&self, version: Digest) -> Option<String> {
        self.state().failures.get(&version).cloned()
    }
}

impl State {
    fn give(&mut self, key: CallKey, tickets: Tickets, version: Arc<str>) {
        if self.tickets.insert(key, (tickets, version)).is_none() {
            self.given.push_back(key);
        }
        while self.given.len() > TICKETS_MAX {
            if let Some(oldest) = self.given.pop_front() {
                self.tickets.remove(&oldest);
            }
        }
    }
}
