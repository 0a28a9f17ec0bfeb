//! A conversation stays with its version for as long as that one may answer.

use std::collections::BTreeMap;

use super::super::evidence::{Event, Evidence, Knowledge, Place};
use super::super::world::OF_FOLLOWER;
use super::Invariant;

/// So much earlier than the plan says, milliseconds, a version may be done with its conversations: each decision takes a millisecond.
const SLACK_MS: u64 = 100;

pub(super) struct FaithfulConversation;

/// What one node knows.
#[derive(Default)]
struct Node<'a> {
    knowledge: Option<&'a Knowledge>,
    /// When versions were not stable any more.
    replaced: BTreeMap<u8, u64>,
    /// Since when the one is tried that is tried, or was last.
    tried_ms: u64,
}

impl<'a> Node<'a> {
    /// Goes by something else; `own` are its conversations, with when they began.
    fn learn(&mut self, knowledge: &'a Knowledge, at_ms: u64, drain_ms: u64, own: &mut BTreeMap<u64, (u8, u64)>) {
        // One whose version was taken back, if only for a time, has none of its own any more.
        own.retain(|_, (version, _)| self.goes_on(*version, at_ms, drain_ms));
        let before = self.knowledge.replace(knowledge);
        let tried = before.and_then(|before| before.tried);
        // An older version may be tried again while it goes on with its conversations: where that ends without a promotion, those
        // that it had by that alone are the stable version's, and it goes on with the others.
        if let Some(ended) = tried.filter(|tried| knowledge.tried != Some(*tried) && knowledge.stable != *tried) {
            own.retain(|_, (version, began_ms)| *version != ended || *began_ms < self.tried_ms);
        }
        if knowledge.tried.is_some() && knowledge.tried != tried {
            self.tried_ms = at_ms;
        }
        if let Some(before) = before.filter(|before| before.stable != knowledge.stable) {
            self.replaced.insert(before.stable, at_ms);
        }
        own.retain(|_, (version, _)| self.goes_on(*version, at_ms, drain_ms));
    }

    /// Whether a version certainly goes on with its conversations then.
    fn goes_on(&self, version: u8, at_ms: u64, drain_ms: u64) -> bool {
        let Some(knowledge) = self.knowledge else { return false };
        let drains = |since_ms: &u64| at_ms.saturating_add(SLACK_MS) < since_ms.saturating_add(drain_ms);
        let is_drained = self.replaced.get(&version).is_some_and(drains);
        let is_gone = knowledge.gone.contains(&version);
        version == knowledge.stable || (!is_gone && (knowledge.tried == Some(version) || is_drained))
    }
}

fn place_of(conversation: u64) -> Place {
    if conversation < OF_FOLLOWER { Place::Leader } else { Place::Follower }
}

impl Invariant for FaithfulConversation {
    fn name(&self) -> &'static str {
        "a-conversation-stays"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let drain_ms = seen.plan.drain_ms;
        let mut nodes: BTreeMap<Place, Node<'_>> = BTreeMap::new();
        // The versions of conversations, and when these began.
        let mut own: BTreeMap<Place, BTreeMap<u64, (u8, u64)>> = BTreeMap::new();
        let mut began: BTreeMap<u64, u64> = BTreeMap::new();
        for event in &seen.events {
            match event {
                Event::News { place, knowledge, at_ms } => {
                    let (node, own) = (nodes.entry(*place).or_default(), own.entry(*place).or_default());
                    node.learn(knowledge, *at_ms, drain_ms, own);
                }
                Event::NoteLoss { conversation } => {
                    own.entry(place_of(*conversation)).or_default().remove(conversation);
                }
                Event::Answer { place, call, conversation: Some(number), version, at_ms } => {
                    let began_ms = *began.entry(*number).or_insert(*at_ms);
                    let before = own.entry(*place).or_default().insert(*number, (*version, began_ms));
                    let Some((before, _)) = before.filter(|(before, _)| before != version) else { continue };
                    let node = nodes.entry(*place).or_default();
                    if node.goes_on(before, *at_ms, drain_ms) {
                        return Err(format!("call {call}: conversation {number} went from {before} to {version}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
