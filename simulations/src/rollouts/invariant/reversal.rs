//! A version that went back answers nothing any more, does not become stable, and is not tried again. One that is stable when it is
//! heard that it went back elsewhere stays so where no older one is left.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::{Event, Evidence, Place};
use super::super::plan::Order;
use super::Invariant;

pub(super) struct FinalReversal;

impl Invariant for FinalReversal {
    fn name(&self) -> &'static str {
        "what-went-back-stays-back"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let mut gone: BTreeMap<Place, BTreeSet<u8>> = BTreeMap::new();
        let mut stable: BTreeMap<Place, u8> = BTreeMap::new();
        for event in &seen.events {
            match event {
                Event::News { place, knowledge, .. } => {
                    let gone = gone.entry(*place).or_default();
                    let before = stable.insert(*place, knowledge.stable);
                    if before != Some(knowledge.stable) && gone.contains(&knowledge.stable) {
                        return Err(format!("version {} went back, and is stable at the {place:?}", knowledge.stable));
                    }
                    gone.extend(&knowledge.gone);
                }
                Event::Answer { place, call, version, .. }
                    if gone.get(place).is_some_and(|gone| gone.contains(version))
                        && stable.get(place) != Some(version) =>
                {
                    return Err(format!("call {call} is answered by version {version}, which went back"));
                }
                Event::Order { order: Order::Begin(to), is_taken: true }
                    if gone.get(&Place::Leader).is_some_and(|gone| gone.contains(to)) =>
                {
                    return Err(format!("version {to} went back, and is tried again"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
