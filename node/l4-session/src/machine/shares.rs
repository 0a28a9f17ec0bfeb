//! Shares of the turns that run at once, and of their tasks' memory.
//!
//! Running turns are never stopped in favour of others, so capacity is reserved: a part for each trust level above
//! untrusted. One caller, one agent, and one caller with one agent each have a limited part. Untrusted peers of one origin
//! count as one caller.

use std::collections::BTreeMap;

use althing_communication::{QuotaGroup, TrustLevel};

use crate::machine::record::Scope;

/// The capacity that turns take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Turns.
    pub turns: usize,
    /// Estimated bytes of memory of their tasks.
    pub bytes: usize,
}

impl Load {
    fn plus(self, other: Load) -> Load {
        Load { turns: self.turns.saturating_add(other.turns), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Load) -> Load {
        Load { turns: self.turns.saturating_sub(other.turns), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn fraction(self, numerator: usize, denominator: usize) -> Load {
        Load { turns: (self.turns * numerator / denominator).max(1), bytes: self.bytes / denominator * numerator }
    }

    fn exceeds(self, limit: Load) -> bool {
        self.turns > limit.turns || self.bytes > limit.bytes
    }
}

/// Whose share a turn counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareOwner {
    /// A caller's.
    Scope(Scope),
    /// That of untrusted peers of one origin.
    Crowd(QuotaGroup),
}

/// A turn's claim on the capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<Key> {
    /// Whose share it counts against.
    pub owner: Key,
    /// The trust level of the caller.
    pub trust: TrustLevel,
    /// The agent.
    pub agent: String,
    /// Estimated memory of its task so far.
    pub bytes: usize,
    /// Turns that the agent's runtime runs at once, if fewer than its share.
    pub agent_turns_max: Option<usize>,
}

/// Which capacity is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverCapacity {
    /// That of the node, or its part for this trust level.
    #[error("this node is at its capacity; try again later")]
    Node,
    /// The agent's share.
    #[error("this agent is at its capacity; try again later")]
    Agent,
    /// The caller's share.
    #[error("this caller's share of the node's capacity is used up; wait for an answer, or cancel a task")]
    Scope,
}

/// The capacity and what running turns take of it.
#[derive(Debug)]
pub struct Shares<Key: Ord> {
    capacity: Load,
    /// By trust level.
    all: BTreeMap<TrustLevel, Load>,
    callers: BTreeMap<Key, Load>,
    /// Of one agent, by the callers' trust level.
    agents: BTreeMap<(String, TrustLevel), Load>,
    callers_of_agent: BTreeMap<(String, Key), Load>,
}

/// Eighths of the capacity that callers of this trust level and below may have together.
fn eighths(trust: TrustLevel) -> usize {
    match trust {
        TrustLevel::Own => 8,
        TrustLevel::Trusted => 6,
        TrustLevel::InUse => 5,
        TrustLevel::Stranger => 4,
    }
}

const ALL: [TrustLevel; 4] = [TrustLevel::Stranger, TrustLevel::InUse, TrustLevel::Trusted, TrustLevel::Own];

/// The load that is counted under a key.
fn load_of<K: Ord>(map: &BTreeMap<K, Load>, key: &K) -> Load {
    map.get(key).copied().unwrap_or_default()
}

impl<Key: Ord + Clone> Shares<Key> {
    /// A capacity of so many turns and bytes.
    #[must_use]
    pub fn new(capacity: Load) -> Shares<Key> {
        Shares {
            capacity,
            all: BTreeMap::new(),
            callers: BTreeMap::new(),
            agents: BTreeMap::new(),
            callers_of_agent: BTreeMap::new(),
        }
    }

    /// The load of all turns.
    #[must_use]
    pub fn all(&self) -> Load {
        self.all.values().fold(Load::default(), |sum, load| sum.plus(*load))
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// [`OverCapacity`]; nothing is counted then.
    pub fn begin(&mut self, claim: &Claim<Key>) -> Result<(), OverCapacity> {
        let more = Load { turns: 1, bytes: claim.bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.plus(more));
        Ok(())
    }

    /// Adds to the memory of a turn's task.
    ///
    /// # Errors
    /// [`OverCapacity`]; nothing is counted then.
    pub fn grow(&mut self, claim: &mut Claim<Key>, bytes: usize) -> Result<(), OverCapacity> {
        let more = Load { turns: 0, bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.plus(more));
        claim.bytes = claim.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Counts the memory of a turn's task anew: it goes on, and is not refused for that.
    pub fn recount(&mut self, claim: &mut Claim<Key>, bytes: usize) {
        let (less, more) = (Load { turns: 0, bytes: claim.bytes }, Load { turns: 0, bytes });
        self.change(claim, |load| load.minus(less).plus(more));
        claim.bytes = bytes;
    }

    /// A turn ends.
    pub fn end(&mut self, claim: &Claim<Key>) {
        let less = Load { turns: 1, bytes: claim.bytes };
        self.change(claim, |load| load.minus(less));
    }

    fn check(&self, claim: &Claim<Key>, more: Load) -> Result<(), OverCapacity> {
        let (capacity, is_own) = (self.capacity, claim.trust == TrustLevel::Own);
        let mut of_agent = capacity.fraction(1, 2);
        of_agent.turns = of_agent.turns.min(claim.agent_turns_max.unwrap_or(usize::MAX)).max(1);
        // This node's owner may have three quarters, so that others always get some; another caller an eighth.
        let of_caller = if is_own { capacity.fraction(3, 4) } else { capacity.fraction(1, 8) };
        let of_both = if is_own { of_agent.fraction(3, 4) } else { of_agent.fraction(1, 4) };
        // A caller without a running turn may always have one, however large its task is.
        let first = load_of(&self.callers, &claim.owner).turns <= usize::from(more.turns == 0);
        let within = |now: Load, limit: Load| {
            let limit = if first { Load { bytes: usize::MAX, ..limit } } else { limit };
            !now.plus(more).exceeds(limit)
        };
        // Higher trust levels may also use the part of lower ones.
        let up_to_level = |load: &dyn Fn(TrustLevel) -> Load| {
            ALL.iter().filter(|other| **other <= claim.trust).fold(Load::default(), |sum, at| sum.plus(load(*at)))
        };
        let eighths = eighths(claim.trust);
        let farther = up_to_level(&|trust| load_of(&self.all, &trust));
        if self.all().plus(more).exceeds(capacity) || farther.plus(more).exceeds(capacity.fraction(eighths, 8)) {
            return Err(OverCapacity::Node);
        }
        let caller_of_agent = (claim.agent.clone(), claim.owner.clone());
        if !within(load_of(&self.callers, &claim.owner), of_caller)
            || !within(load_of(&self.callers_of_agent, &caller_of_agent), of_both)
        {
            return Err(OverCapacity::Scope);
        }
        let of = |trust| load_of(&self.agents, &(claim.agent.clone(), trust));
        let all = ALL.iter().fold(Load::default(), |sum, trust| sum.plus(of(*trust)));
        if !within(all, of_agent) || !within(up_to_level(&of), of_agent.fraction(eighths, 8)) {
            return Err(OverCapacity::Agent);
        }
        Ok(())
    }

    fn change(&mut self, claim: &Claim<Key>, change: impl Fn(Load) -> Load) {
        fn at<K: Ord>(map: &mut BTreeMap<K, Load>, key: K, change: impl Fn(Load) -> Load) {
            let load = change(load_of(map, &key));
            if load.turns == 0 {
                map.remove(&key)
            } else {
                map.insert(key, load)
            };
        }
        at(&mut self.all, claim.trust, &change);
        at(&mut self.callers, claim.owner.clone(), &change);
        at(&mut self.agents, (claim.agent.clone(), claim.trust), &change);
        at(&mut self.callers_of_agent, (claim.agent.clone(), claim.owner.clone()), &change);
    }
}

#[cfg(test)]
mod tests;
