//! One version is stable: what a node knows is never undone, nobody knows what no node decided, and at the end both have the same
//! stable version, if older versions go on for longer than the nodes were apart: only then a promotion can be undone.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::{Decision, Event, Evidence, Knowledge, Place};
use super::Invariant;

/// For longer no nodes are apart, and no clock is set forward by more, in milliseconds.
const APART_MS: u64 = 60_000;

pub(super) struct OneStable;

/// What the follower may know.
#[derive(Default)]
struct Decisions {
    promoted: BTreeSet<u8>,
    gone: BTreeSet<u8>,
}

impl Decisions {
    /// What the leader knows it may tell.
    fn of_leader(&mut self, knowledge: &Knowledge) {
        self.promoted.insert(knowledge.stable);
        self.gone.extend(&knowledge.gone);
    }

    /// What the follower decided itself.
    fn of_follower(&mut self, version: u8, decision: Decision) {
        match decision {
            Decision::Promotion { .. } => drop(self.promoted.insert(version)),
            Decision::Reversal { .. } => drop(self.gone.insert(version)),
            Decision::Share => {}
        }
    }

    fn has(&self, knowledge: &Knowledge) -> bool {
        self.promoted.contains(&knowledge.stable) && knowledge.gone.is_subset(&self.gone)
    }
}

impl Invariant for OneStable {
    fn name(&self) -> &'static str {
        "one-stable"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let mut last: BTreeMap<Place, &Knowledge> = BTreeMap::new();
        let mut stables: BTreeMap<(Place, u64), u8> = BTreeMap::new();
        let mut decided = Decisions::default();
        for event in &seen.events {
            if let Event::Decision { place: Place::Follower, version, decision } = event {
                decided.of_follower(*version, *decision);
            }
            let Event::News { place, knowledge, .. } = event else { continue };
            let Knowledge { revision, stable, .. } = knowledge;
            if let Some(before) = last.insert(*place, knowledge)
                && before.revision > *revision
            {
                return Err(format!("the {place:?} knew {before:?}, and then {knowledge:?}"));
            }
            if *stables.entry((*place, *revision)).or_insert(*stable) != *stable {
                return Err(format!("two versions are stable at the {place:?} after {revision} decisions"));
            }
            match place {
                Place::Leader => decided.of_leader(knowledge),
                Place::Follower if !decided.has(knowledge) => {
                    return Err(format!("the follower knows {knowledge:?}, which nobody decided"));
                }
                Place::Follower => {}
            }
        }
        let mut ends = last.values().map(|knowledge| knowledge.stable);
        let first = ends.next();
        match seen.plan.drain_ms < APART_MS || ends.all(|stable| Some(stable) == first) {
            true => Ok(()),
            false => Err(format!("after all healed there are two stable versions: {last:?}")),
        }
    }
}
