//! One version is stable: what a node knows is never undone, nodes that know as much know the same, nobody knows what was not decided,
//! and at the end both have the same stable version.

use std::collections::BTreeMap;

use super::super::evidence::{Event, Evidence, Knowledge, Place};
use super::Invariant;

pub(super) struct OneStable;

impl Invariant for OneStable {
    fn name(&self) -> &'static str {
        "one-stable"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let mut last: BTreeMap<Place, &Knowledge> = BTreeMap::new();
        let mut stables: BTreeMap<u64, u8> = BTreeMap::new();
        for event in &seen.events {
            let Event::News { place, knowledge, .. } = event else { continue };
            let Knowledge { revision, stable, .. } = knowledge;
            if let Some(before) = last.insert(*place, knowledge)
                && before.revision > *revision
            {
                return Err(format!("the {place:?} knew {before:?}, and then {knowledge:?}"));
            }
            if *stables.entry(*revision).or_insert(*stable) != *stable {
                return Err(format!("two versions are stable after {revision} decisions"));
            }
            let decided = last.get(&Place::Leader).map_or(0, |leader| leader.revision);
            if *revision > decided {
                return Err(format!("the {place:?} knows {knowledge:?}, and {decided} decisions were made"));
            }
        }
        let mut ends = last.values().map(|knowledge| knowledge.stable);
        let first = ends.next();
        match ends.all(|stable| Some(stable) == first) {
            true => Ok(()),
            false => Err(format!("after all healed there are two stable versions: {last:?}")),
        }
    }
}
