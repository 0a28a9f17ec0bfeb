//! What another set would have decided.

use crate::decide::{Answer, Request, Verdict};
use crate::set::PolicySet;
use crate::world::World;

/// A decision that was recorded.
#[derive(Debug, Clone)]
pub struct Decision<'a> {
    /// What the record calls it.
    pub id: &'a str,
    /// What was decided.
    pub request: Request<'a>,
    /// How it was decided.
    pub answer: Answer,
}

/// A decision that another set turns, be it only in what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'a> {
    /// What the record calls it.
    pub id: &'a str,
    /// How it was decided.
    pub was: Answer,
    /// How the other set decides.
    pub becomes: Verdict,
}

/// The decisions that this set turns, in their order.
#[must_use]
pub fn differences<'a>(set: &PolicySet, world: &World, decisions: &[Decision<'a>]) -> Vec<Difference<'a>> {
    let turned = |decision: &Decision<'a>| {
        let becomes = set.decide(world, &decision.request);
        let is_other = becomes.answer != decision.answer;
        is_other.then(|| Difference { id: decision.id, was: decision.answer.clone(), becomes })
    };
    decisions.iter().filter_map(turned).collect()
}
