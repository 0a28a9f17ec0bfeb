//! A version that went back answers nothing any more, and is not tried again.

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
        for event in &seen.events {
            match event {
                Event::News { place, knowledge, .. } => gone.entry(*place).or_default().extend(&knowledge.gone),
                Event::Answer { place, call, version, .. }
                    if gone.get(place).is_some_and(|gone| gone.contains(version)) =>
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
