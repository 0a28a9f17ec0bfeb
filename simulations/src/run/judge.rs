//! Checks the invariants on what happens in a run, and counts its results.

use std::collections::BTreeMap;

use crate::invariant::{self, Called, Invariant, LONGEST_MS, Truth};
use crate::scenario::Scenario;
use crate::trace::{Recorder, Trace};

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Searches that ended.
    pub finds: usize,
    /// Those that had a node to find.
    pub findable: usize,
    /// Those of them that found it.
    pub found: usize,
    /// Agents of adversaries among the results.
    pub of_adversaries: usize,
    /// The durations of successful searches, milliseconds of virtual time, ascending.
    pub took_ms: Vec<u64>,
    /// Tasks that were acknowledged.
    pub tasks: usize,
    /// Tasks that were asked for again.
    pub recalled: usize,
    /// Those of them that were still there.
    pub kept: usize,
    /// Undisturbed calls, and undisturbed repeated requests for tasks.
    pub undisturbed_calls: [usize; 2],
    /// Values that honest nodes stored for others at the end, each of which was checked.
    pub values: usize,
    /// The invariants that did not hold.
    pub violations: Vec<Violation>,
    /// What the nodes decided.
    pub trace: Trace,
}

/// An invariant that did not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// When, milliseconds.
    pub at_ms: u64,
    /// How.
    pub what: String,
}

/// What must hold in a run, what is true in it, and its results.
pub(super) struct Judge {
    pub truth: Truth,
    pub outcome: Outcome,
    invariants: Vec<Box<dyn Invariant>>,
    recorder: Recorder,
    /// When the calls began that have not ended.
    calling: BTreeMap<u64, u64>,
    /// The number of calls so far.
    calls: u64,
}

impl Judge {
    pub fn new(scenario: &Scenario, seed: u64, recorder: Recorder) -> Judge {
        let outcome = Outcome {
            seed,
            finds: 0,
            findable: 0,
            found: 0,
            of_adversaries: 0,
            took_ms: Vec::new(),
            tasks: 0,
            recalled: 0,
            kept: 0,
            undisturbed_calls: [0, 0],
            values: 0,
            violations: Vec::new(),
            trace: Trace::default(),
        };
        Judge {
            truth: Truth::default(),
            outcome,
            invariants: invariant::named(&scenario.invariants),
            recorder,
            calling: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Checks each invariant.
    pub fn check(&mut self, at_ms: u64, holds: impl Fn(&mut dyn Invariant, &Truth) -> Result<(), String>) {
        for invariant in &mut self.invariants {
            if let Err(what) = holds(invariant.as_mut(), &self.truth) {
                self.recorder.note(format_args!("{} is broken: {what}", invariant.name()));
                self.outcome.violations.push(Violation { invariant: invariant.name(), at_ms, what });
            }
        }
    }

    /// A call begins; gives its number.
    pub fn call_begins(&mut self, now_ms: u64) -> u64 {
        self.calls += 1;
        self.calling.insert(self.calls, now_ms);
        self.calls
    }

    pub fn call_ended(&mut self, number: u64) {
        self.calling.remove(&number);
    }

    /// Judges a call, whose `undisturbed` is up to date.
    pub fn call(&mut self, called: &Called) {
        self.outcome.undisturbed_calls[0] += usize::from(called.undisturbed);
        let took_ms = called.ended_ms - called.began_ms;
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} called {agent}, for {took_ms} ms: {:?}", called.task));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(called, truth));
        self.outcome.tasks += usize::from(called.task.is_ok());
    }

    /// Judges a repeated request for a task, whose `undisturbed` is up to date.
    pub fn recall(&mut self, called: &Called) {
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} asked {agent} again: {:?}", called.recalled));
        self.outcome.recalled += 1;
        self.outcome.undisturbed_calls[1] += usize::from(called.undisturbed);
        self.outcome.kept += usize::from(called.recalled == Some(called.task.clone()));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(called, truth));
    }

    /// The end of the run: judges calls that have not ended, and the share of successful searches.
    pub fn finish(mut self, now_ms: u64, scenario: &Scenario) -> Outcome {
        let stuck = self.calling.iter().filter(|(_, began_ms)| **began_ms + LONGEST_MS < now_ms);
        let stuck = stuck.map(|(number, began_ms)| {
            let what = format!("call {number}, begun after {began_ms} ms, has not ended");
            Violation { invariant: "calls-are-answered", at_ms: now_ms, what }
        });
        self.outcome.violations.extend(stuck);
        self.outcome.took_ms.sort_unstable();
        let (found, wanted) = (self.outcome.found as f64, scenario.finds.share * self.outcome.findable as f64);
        if found < wanted {
            let (findable, wanted) = (self.outcome.findable, wanted.ceil());
            let what = format!("{found} of {findable} searches succeeded; at least {wanted:.0} must");
            self.outcome.violations.push(Violation { invariant: "finds.share", at_ms: scenario.for_ms, what });
        }
        self.outcome.trace = self.recorder.trace();
        self.outcome
    }
}
