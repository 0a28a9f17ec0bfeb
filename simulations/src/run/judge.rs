//! Checks the invariants on what happens in a run, and counts its results.

use std::collections::BTreeMap;

use crate::invariant::{self, Asked, Called, Interrupted, Invariant, LONGEST_MS, REFUSED, Reserved, Truth};
use crate::scenario::{Finds, Scenario};
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
    /// Those by nodes that were connected to one that had what they looked for.
    pub connected: usize,
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
    /// Calls of untrusted owners, and repeated requests for tasks, that were refused.
    pub refused: usize,
    /// Questions of agents that were answered, and those that were not because one of the nodes did not trust another.
    pub questions: [usize; 2],
    /// Turns that were interrupted, and whose second message was answered.
    pub interrupted: usize,
    /// Reservations that were made, and those that were refused.
    pub reservations: [usize; 2],
    /// Whether nobody waited for an answer any more at the end.
    pub at_rest: bool,
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

/// The calls of a run ended so long ago that no turn of theirs runs any more, milliseconds.
const AT_REST_MS: u64 = 5_000;

/// How too few searches succeeded, or more than what hides it lets.
fn misses_its_share(outcome: &Outcome, finds: &Finds) -> Option<String> {
    let (found, findable) = (outcome.found as f64, outcome.findable as f64);
    let (least, most) = (finds.share * findable, finds.share_max * findable);
    let rule = if found < least {
        format!("at least {:.0} must", least.ceil())
    } else if found > most {
        format!("at most {:.0} may: what is to hide it does not", most.floor())
    } else {
        return None;
    };
    Some(format!("{found} of {findable} searches succeeded; {rule}"))
}

/// Whether a call was refused since its caller is not trusted.
fn is_refused(answer: &Result<(String, bool), String>) -> bool {
    answer.as_ref().is_err_and(|why| why.starts_with(REFUSED))
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
    /// When the last of them ended.
    ended_ms: u64,
    reserved: Vec<Reserved>,
}

impl Judge {
    pub fn new(scenario: &Scenario, seed: u64, recorder: Recorder) -> Judge {
        let outcome = Outcome {
            seed,
            finds: 0,
            findable: 0,
            found: 0,
            connected: 0,
            of_adversaries: 0,
            took_ms: Vec::new(),
            tasks: 0,
            recalled: 0,
            kept: 0,
            refused: 0,
            questions: [0, 0],
            interrupted: 0,
            reservations: [0, 0],
            at_rest: false,
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
            ended_ms: 0,
            reserved: Vec::new(),
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

    pub fn call_ended(&mut self, now_ms: u64, number: u64) {
        self.calling.remove(&number);
        self.ended_ms = now_ms;
    }

    /// Whether calls were made, and all ended long enough ago.
    pub fn is_at_rest(&self, now_ms: u64) -> bool {
        self.calls > 0 && self.calling.is_empty() && self.ended_ms + AT_REST_MS <= now_ms
    }

    /// Judges a call, whose `undisturbed` is up to date.
    pub fn call(&mut self, called: &Called) {
        self.outcome.undisturbed_calls[0] += usize::from(called.undisturbed);
        let took_ms = called.ended_ms - called.began_ms;
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} called {agent}, for {took_ms} ms: {:?}", called.task));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(called, truth));
        self.outcome.tasks += usize::from(called.task.is_ok());
        self.outcome.refused += usize::from(is_refused(&called.task));
    }

    /// Judges a question, whose `undisturbed` and `trusted` are up to date.
    pub fn question(&mut self, asked: &Asked) {
        let names = asked.agents.iter().map(|agent| agent.name()).collect::<Vec<_>>().join(", ");
        self.recorder.note(format_args!("of {names} each asked the next: {:?}", asked.answer));
        self.outcome.questions[0] += usize::from(asked.answer.is_ok());
        self.outcome.questions[1] += usize::from(asked.answer.is_err() && asked.trusted == Some(false));
        self.check(asked.ended_ms, |invariant, _| invariant.check_asked(asked));
    }

    /// Judges an interrupted turn, whose `undisturbed` is up to date.
    pub fn interruption(&mut self, interrupted: &Interrupted) {
        let (caller, agent) = (interrupted.caller, interrupted.agent.name());
        self.recorder.note(format_args!("node {caller} interrupted {agent}: {:?}", interrupted.answer));
        self.outcome.interrupted += usize::from(interrupted.answer.as_ref().is_ok_and(|seen| seen.done));
        self.check(interrupted.ended_ms, |invariant, _| invariant.check_interrupted(interrupted));
    }

    /// Notes a reservation, whose `undisturbed` is up to date; all are judged at the end.
    pub fn reserved(&mut self, one: Reserved) {
        let Reserved { holder, host, prepared, kept, after, .. } = &one;
        self.recorder.note(format_args!("node {holder} reserved on node {host}: {prepared:?}, {kept:?}, {after:?}"));
        self.outcome.reservations[usize::from(prepared.is_err())] += 1;
        self.reserved.push(one);
    }

    /// Judges a repeated request for a task, whose `undisturbed` is up to date.
    pub fn recall(&mut self, called: &Called) {
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} asked {agent} again: {:?}", called.recalled));
        self.outcome.recalled += 1;
        self.outcome.undisturbed_calls[1] += usize::from(called.undisturbed);
        self.outcome.refused += usize::from(called.recalled.as_ref().is_some_and(is_refused));
        self.outcome.kept += usize::from(called.recalled == Some(called.task.clone()));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(called, truth));
    }

    /// The end of the run: judges calls that have not ended, and the share of successful searches.
    pub fn finish(mut self, now_ms: u64, scenario: &Scenario) -> Outcome {
        let reserved = std::mem::take(&mut self.reserved);
        self.check(now_ms, |invariant, _| invariant.check_reserved(&reserved));
        let stuck = self.calling.iter().filter(|(_, began_ms)| **began_ms + LONGEST_MS < now_ms);
        let stuck = stuck.map(|(number, began_ms)| {
            let what = format!("call {number}, begun after {began_ms} ms, has not ended");
            Violation { invariant: "calls-are-answered", at_ms: now_ms, what }
        });
        self.outcome.violations.extend(stuck);
        self.outcome.took_ms.sort_unstable();
        if let Some(what) = misses_its_share(&self.outcome, &scenario.finds) {
            self.outcome.violations.push(Violation { invariant: "finds.share", at_ms: scenario.for_ms, what });
        }
        self.outcome.trace = self.recorder.trace();
        self.outcome
    }
}
