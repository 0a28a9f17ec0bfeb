//! No effect twice: a call that must not be made twice is made once at most, one by a key does something once, and no two calls have
//! one key.

use std::collections::BTreeMap;

use althing_execution::journal::Effect;

use super::super::evidence::{Event, Evidence};
use super::Invariant;

pub(super) struct Once;

impl Invariant for Once {
    fn name(&self) -> &'static str {
        "no-effect-twice"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let (mut calls, mut keys, mut steps) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for event in &seen.events {
            let Event::Call { turn, step, effect, key, is_new, .. } = event else { continue };
            if !matches!(effect, Effect::Keyed | Effect::Final) {
                continue;
            }
            let place = (*turn, *step);
            let of_key = *keys.entry(*key).or_insert(place);
            if of_key != place {
                return Err(format!("the calls {of_key:?} and {place:?} have one key"));
            }
            if *steps.entry(place).or_insert(*key) != *key {
                return Err(format!("the call {place:?} has two keys"));
            }
            let times = calls.entry(place).or_insert(0_u32);
            *times += u32::from(*is_new);
            if *times > 1 {
                return Err(format!("the call {place:?} ({effect:?}) took place twice"));
            }
        }
        Ok(())
    }
}
