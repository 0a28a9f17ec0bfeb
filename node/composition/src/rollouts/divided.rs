//! An agent whose calls are divided between versions, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::{Digest, digest};
use althing_verification::machine::rollout::{Call, Outcome, Phase, Route, Ticket, Versions};

use super::jobs::{self, Jobs};
use super::open_decision::OpenDecision;
use super::origin::Origin;

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

/// A conversation of which it is being written how it began: another call in it begins no other one meanwhile.
pub(super) struct FreshConversation {
    divided: Arc<AgentRollout>,
    conversation: Vec<u8>,
}

impl FreshConversation {
    /// The name of its agent.
    pub fn agent(&self) -> &str {
        &self.divided.name
    }
}

impl Drop for FreshConversation {
    fn drop(&mut self) {
        self.divided.state().fresh.remove(&self.conversation);
    }
}

/// A call that is under way.
struct OpenCall {
    tickets: Tickets,
    version: Arc<str>,
    /// Its number in the order in which they were given out.
    number: u64,
}

struct State {
    versions: Versions,
    /// What the files of the versions say that they are.
    names: BTreeMap<Digest, Arc<str>>,
    tickets: BTreeMap<CallKey, OpenCall>,
    /// Those in the order in which they were given out, by their numbers.
    given: BTreeMap<u64, CallKey>,
    /// The number of the next one.
    next: u64,
    /// Why versions do not run that should.
    failures: BTreeMap<Digest, String>,
    /// Those that have not run yet since the node started.
    unstarted: BTreeSet<Digest>,
    /// How conversations began of which that is not written yet, by their keys.
    fresh: BTreeMap<Vec<u8>, Origin>,
    /// Jobs of the stable version and of the one that is tried, at the last look; none before the first.
    jobs: Option<[Jobs; 2]>,
    /// What was decided last, where it holds and is not on disk yet.
    unwritten: Option<OpenDecision>,
    /// Whether peers are still to be shown the version that took the place of another one.
    is_unshown: bool,
    /// Shadows to which a call was denied, which count as nothing.
    denied: u64,
}

impl AgentRollout {
    pub fn new(name: &str, versions: Versions, names: BTreeMap<Digest, Arc<str>>) -> AgentRollout {
        let (tickets, given, failures, unstarted, fresh) = Default::default();
        let (next, jobs, unwritten, is_unshown, denied) = Default::default();
        let state = State {
            versions,
            names,
            tickets,
            given,
            next,
            failures,
            unstarted,
            fresh,
            jobs,
            unwritten,
            is_unshown,
            denied,
        };
        AgentRollout { name: name.to_owned(), deciding: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    /// The same, of a node that starts: none of them runs yet.
    pub fn unstarted(self) -> AgentRollout {
        {
            let mut state = self.state();
            state.unstarted = state.names.keys().copied().collect();
        }
        self
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

    /// The version that answers a call of a conversation of which nothing can be noted; what comes of it is not counted.
    pub fn route_unnoted(&self, now_ms: u64) -> Option<Arc<str>> {
        let mut state = self.state();
        let version = state.versions.route_unnoted(now_ms);
        state.names.get(&version).cloned()
    }

    /// By what the end of a call is counted that this version answered.
    pub fn take_tickets(&self, key: CallKey, version: &str) -> Option<Tickets> {
        let mut state = self.state();
        let call = state.tickets.remove(&key)?;
        state.given.remove(&call.number);
        // Another one answered where that one did not run.
        (*call.version == *version).then_some(call.tickets)
    }

    /// How a conversation began, if that is being written.
    pub fn fresh(&self, conversation: &[u8]) -> Option<Origin> {
        self.state().fresh.get(conversation).cloned()
    }

    /// Knows how a conversation began, until what is returned is dropped.
    pub fn begin_conversation(self: &Arc<Self>, conversation: Vec<u8>, origin: Origin) -> FreshConversation {
        self.state().fresh.insert(conversation.clone(), origin);
        FreshConversation { divided: self.clone(), conversation }
    }

    /// What the file of the version says that it is that is or was tried.
    pub fn tried(&self) -> Option<Arc<str>> {
        let state = self.state();
        state.names.get(&state.versions.rollout()?.plan().to).cloned()
    }

    /// Notes how many jobs both versions ran; gives what came of them since the look before.
    pub fn note_jobs(&self, now: [Jobs; 2]) -> [Option<Outcome>; 2] {
        let mut state = self.state();
        let (noted, came) = jobs::look(now, state.jobs);
        state.jobs = Some(noted);
        came
    }

    /// Notes what was decided and is not on disk yet, or that it is.
    pub fn note_unwritten(&self, decision: Option<OpenDecision>) {
        self.state().unwritten = decision;
    }

    /// What was decided and is not on disk yet.
    pub fn unwritten(&self) -> Option<OpenDecision> {
        self.state().unwritten.clone()
    }

    /// Another version is the first one here from now on, and is to be shown to peers.
    pub fn note_unshown(&self) {
        self.state().is_unshown = true;
    }

    /// Shows that version to peers, if it was not shown yet. Where that fails, it is shown the next time.
    ///
    /// # Errors
    /// Those of `show`.
    pub async fn show_once<E>(&self, show: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        let is_unshown = self.state().is_unshown;
        if is_unshown {
            show.await?;
            self.state().is_unshown = false;
        }
        Ok(())
    }

    /// Whether each call is given to the new version too now.
    pub fn has_shadows(&self) -> bool {
        let state = self.state();
        let rollout = state.versions.rollout().filter(|rollout| rollout.phase() == Phase::Running);
        rollout.is_some_and(|rollout| rollout.plan().is_shadow(rollout.stage()))
    }

    /// A call was denied to a shadow.
    pub fn add_denied(&self) {
        let mut state = self.state();
        state.denied = state.denied.saturating_add(1);
    }

    /// To how many shadows a call was denied, since the rollout began or the node was started.
    pub fn denied(&self) -> u64 {
        self.state().denied
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
        state.unstarted.remove(&version);
    }

    /// Why a version does not run, or that it does.
    pub fn note_failure(&self, version: Digest, failure: Option<String>) {
        let mut state = self.state();
        match failure {
            Some(why) => drop(state.failures.insert(version, why)),
            None => {
                state.failures.remove(&version);
                state.unstarted.remove(&version);
            }
        }
    }

    /// What the files of the versions say that they are which may answer, and have not run yet since the node started.
    pub fn starting(&self) -> Vec<Arc<str>> {
        let state = self.state();
        let starting = state.unstarted.iter().filter(|version| state.versions.may_answer(**version));
        starting.filter_map(|version| state.names.get(version).cloned()).collect()
    }

    /// What the files of the versions say that they are which may answer and do not run, each with the reason.
    pub fn failures(&self) -> Vec<(Arc<str>, String)> {
        let state = self.state();
        let failures = state.failures.iter().filter(|(version, _)| state.versions.may_answer(**version));
        failures.filter_map(|(version, why)| Some((state.names.get(version)?.clone(), why.clone()))).collect()
    }

    pub fn failure(&self, version: Digest) -> Option<String> {
        self.state().failures.get(&version).cloned()
    }
}

impl State {
    fn give(&mut self, key: CallKey, tickets: Tickets, version: Arc<str>) {
        let number = self.next;
        self.next += 1;
        if let Some(before) = self.tickets.insert(key, OpenCall { tickets, version, number }) {
            self.given.remove(&before.number);
        }
        self.given.insert(number, key);
        if self.given.len() > TICKETS_MAX
            && let Some((_, oldest)) = self.given.pop_first()
        {
            self.tickets.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use althing_verification::machine::rollout::Plan;

    use super::*;

    fn divided() -> AgentRollout {
        let mut versions = Versions::new([1; 32]);
        versions.begin(Plan::of([2; 32]), 1_000).expect("a plan that can be followed");
        let names = BTreeMap::from([([1; 32], Arc::from("1.0.0")), ([2; 32], Arc::from("1.1.0"))]);
        AgentRollout::new("shop", versions, names)
    }

    /// Begins a call; gives by what it is known, and the version that answers it.
    fn begin(divided: &AgentRollout, task: &str) -> (CallKey, Arc<str>) {
        let (caller, origin, channel, group) = (None, None, None, None);
        let call = Call { task, conversation: None, caller, origin, channel, group, now_ms: 2_000 };
        let key = CallKey::of("maria", task, task);
        let (version, route) = divided.route(&call, key);
        assert!(route.ticket.is_some(), "it is counted");
        (key, version.expect("its version has a name"))
    }

    #[tokio::test]
    async fn what_could_not_be_shown_is_shown_the_next_time_and_once() {
        let (divided, shown) = (divided(), AtomicUsize::new(0));
        let count = &shown;
        let show = |result: Result<(), &'static str>| {
            divided.show_once(async move {
                count.fetch_add(1, Ordering::Relaxed);
                result
            })
        };
        assert_eq!((show(Err("full")).await, shown.load(Ordering::Relaxed)), (Ok(()), 0), "nothing is to be shown");
        divided.note_unshown();
        assert_eq!(show(Err("full")).await, Err("full"));
        assert_eq!((show(Ok(())).await, shown.load(Ordering::Relaxed)), (Ok(()), 2));
        assert_eq!((show(Err("full")).await, shown.load(Ordering::Relaxed)), (Ok(()), 2));
    }

    #[test]
    fn calls_that_are_over_take_no_room_of_one_that_goes_on() {
        let divided = divided();
        let (slow, answered_by) = begin(&divided, "slow");
        for number in 0..=TICKETS_MAX {
            let (key, version) = begin(&divided, &format!("c-{number}"));
            assert!(divided.take_tickets(key, &version).is_some());
        }
        assert!(divided.take_tickets(slow, &answered_by).is_some());
    }

    #[test]
    fn of_too_many_that_go_on_those_are_not_counted_that_began_first() {
        let divided = divided();
        let all: Vec<_> = (0..=TICKETS_MAX).map(|number| begin(&divided, &format!("c-{number}"))).collect();
        let [(first, version), others @ ..] = all.as_slice() else { panic!("there are several") };
        assert!(divided.take_tickets(*first, version).is_none());
        assert!(others.iter().all(|(key, version)| divided.take_tickets(*key, version).is_some()));
    }

    #[test]
    fn a_call_that_is_made_again_counts_as_the_newest() {
        let divided = divided();
        let (again, answered_by) = begin(&divided, "again");
        begin(&divided, "first");
        begin(&divided, "again");
        (1..TICKETS_MAX).for_each(|number| drop(begin(&divided, &format!("c-{number}"))));
        assert!(divided.take_tickets(again, &answered_by).is_some());
        assert!(divided.take_tickets(again, &answered_by).is_none(), "once");
    }
}
