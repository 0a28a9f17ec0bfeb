//! Every call is answered by a version that may: the stable one, the one that is tried, or an older one whose conversation it is.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::{Event, Evidence, Knowledge, Place};
use super::Invariant;

pub(super) struct OnlyAnswerers;

impl Invariant for OnlyAnswerers {
    fn name(&self) -> &'static str {
        "only-who-may-answers"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        // What each node ever knew that was decided last.
        let mut known: BTreeMap<Place, &Knowledge> = BTreeMap::new();
        // When versions were not stable any more at a node.
        let mut replaced: BTreeMap<(Place, u8), u64> = BTreeMap::new();
        let (mut spoke, mut unnoted) = (BTreeSet::new(), BTreeSet::new());
        // When conversations began, by the time of their node.
        let mut began: BTreeMap<u64, u64> = BTreeMap::new();
        for event in &seen.events {
            match event {
                Event::News { place, knowledge, at_ms } => {
                    if let Some(before) = known.get(place).filter(|before| before.stable != knowledge.stable) {
                        replaced.insert((*place, before.stable), *at_ms);
                    }
                    let newest = known.entry(*place).or_insert(knowledge);
                    if knowledge.revision >= newest.revision {
                        *newest = knowledge;
                    }
                }
                Event::NoteLoss { conversation } => drop(unnoted.insert(*conversation)),
                Event::Answer { place, call, conversation, version, at_ms } => {
                    let Some(knowledge) = known.get(place) else { continue };
                    if let Some(number) = conversation {
                        began.entry(*number).or_insert(*at_ms);
                    }
                    let replaced_ms = replaced.get(&(*place, *version)).copied();
                    // One that began before this version was replaced may have gone to it between two calls, when the one that it
                    // had went back, or when that one's time was over. Which one it leaves is judged by `a-conversation-stays`.
                    let is_before = |number: u64| began.get(&number).copied() < replaced_ms;
                    let is_own = |number: u64| {
                        unnoted.contains(&number) || spoke.contains(&(number, *version)) || is_before(number)
                    };
                    let is_older = || replaced_ms.is_some() && conversation.is_some_and(is_own);
                    let is_gone = knowledge.gone.contains(version);
                    let may =
                        *version == knowledge.stable || (!is_gone && (knowledge.tried == Some(*version) || is_older()));
                    if !may {
                        return Err(format!("call {call} at the {place:?} is answered by {version}: {knowledge:?}"));
                    }
                    spoke.extend(conversation.map(|number| (number, *version)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
