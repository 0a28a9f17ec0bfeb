//! Nothing is promoted, and gets no larger share, on fewer calls than the owner wants; and nothing that is far worse than what it
//! replaces, unless the owner says so.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::{Decision, Event, Evidence, Place};
use super::super::plan::Order;
use super::Invariant;

pub(super) struct EnoughEvidence;

/// What was seen since a stage began.
#[derive(Default)]
struct Stage {
    /// Its first event.
    from: usize,
    /// The calls of the version that is tried, and its shadows, that it gave out and that ended.
    ends: BTreeSet<(u64, bool)>,
}

impl Invariant for EnoughEvidence {
    fn name(&self) -> &'static str {
        "undecided-is-not-promoted"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let (mut stage, mut is_ordered, mut stable) = (Stage::default(), false, 0_u8);
        let mut routed: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, event) in seen.events.iter().enumerate() {
            match event {
                Event::Order { order: Order::Begin(_), is_taken: true } => {
                    (stage, is_ordered) = (Stage { from: at, ..Stage::default() }, false);
                }
                Event::Order { order: Order::Promote, is_taken: true } => is_ordered = true,
                Event::News { place: Place::Leader, knowledge, .. } => stable = knowledge.stable,
                Event::Answer { call, .. } => drop(routed.insert(*call, at)),
                Event::End { place: Place::Leader, call, is_new: true, is_shadow, .. }
                    if routed.get(call).is_some_and(|place| *place > stage.from) =>
                {
                    stage.ends.insert((*call, *is_shadow));
                }
                Event::Decision { place: Place::Leader, version, decision } => {
                    let ends = stage.ends.len();
                    let is_enough = u32::try_from(ends).is_ok_and(|ends| ends >= seen.plan.calls_min);
                    let is_worse = |number: u8| seen.plan.versions[usize::from(number)].is_far_worse();
                    match decision {
                        Decision::Reversal { .. } => {}
                        Decision::Promotion { by_owner: true } if is_ordered => {}
                        Decision::Promotion { by_owner: true } => {
                            return Err(format!("version {version} was promoted, and the owner did not say so"));
                        }
                        Decision::Share | Decision::Promotion { by_owner: false } if !is_enough => {
                            let least = seen.plan.calls_min;
                            return Err(format!("version {version} went on with {ends} calls, not {least}"));
                        }
                        Decision::Promotion { by_owner: false } if is_worse(*version) && !is_worse(stable) => {
                            return Err(format!("version {version} is far worse than {stable}, and was promoted"));
                        }
                        Decision::Share | Decision::Promotion { by_owner: false } => {}
                    }
                    stage = Stage { from: at, ..Stage::default() };
                }
                _ => {}
            }
        }
        Ok(())
    }
}
