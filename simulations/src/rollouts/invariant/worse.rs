//! A version that is far worse, or did what it must not, gets no more calls: the first after some dozens of calls at most, the other one
//! at once.

use std::collections::BTreeMap;

use super::super::evidence::{Course, Decision, Event, Evidence, Place};
use super::super::plan::Order;
use super::Invariant;

/// So many failures of a far worse version are enough, and far more than are needed.
const FAILURES_MAX: usize = 60;

pub(super) struct PromptReversal;

/// What was seen of the version that is tried, in this life of the node.
#[derive(Default)]
struct Tally {
    failures: usize,
    /// Whether it did what it must not.
    broken: bool,
}

impl Invariant for PromptReversal {
    fn name(&self) -> &'static str {
        "what-is-worse-goes-back"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let (mut tally, mut from, mut tried, mut stable) = (Tally::default(), 0, None, 0_u8);
        let mut routed: BTreeMap<u64, usize> = BTreeMap::new();
        let plan = |number: u8| seen.plan.versions[usize::from(number)];
        for (at, event) in seen.events.iter().enumerate() {
            match event {
                Event::Order { order: Order::Begin(_), is_taken: true } => (tally, from) = (Tally::default(), at),
                Event::LifeEnd(_)
                | Event::Decision { place: Place::Leader, decision: Decision::Promotion { .. }, .. } => {
                    tally = Tally::default();
                }
                Event::News { place: Place::Leader, knowledge, .. } => {
                    (tried, stable) = (knowledge.tried, knowledge.stable);
                }
                Event::End { place: Place::Leader, call, version, is_new: true, is_shadow, truth, .. } => {
                    // Those of an earlier rollout say nothing of this one; and stable may do the same.
                    let is_of_this = tried == Some(*version) && routed.get(call).is_some_and(|place| *place > from);
                    let is_better = plan(stable).crashing_permille == 0 && !plan(stable).is_far_worse();
                    if is_of_this && is_better {
                        tally.failures += usize::from(!is_shadow && *truth != Course::Good);
                        tally.broken |= *truth == Course::Crash;
                    }
                }
                Event::Answer { place, call, version, .. } => {
                    routed.insert(*call, at);
                    let is_tried = *place == Place::Leader && tried == Some(*version);
                    if is_tried && tally.broken {
                        return Err(format!("version {version} crashed, and answers call {call}"));
                    }
                    if is_tried && tally.failures > FAILURES_MAX && plan(*version).is_far_worse() {
                        let times = tally.failures;
                        return Err(format!("version {version} failed {times} times, and answers call {call}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
