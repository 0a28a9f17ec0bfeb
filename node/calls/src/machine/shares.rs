//! Who may have how many of the turns that run at once, and of the memory that their tasks take.
//!
//! Turns that were begun are never stopped for others, so that room must be kept: a part of everything for each nearness
//! that is nearer than a stranger's, and no more than a part for one caller, for one agent, and for one caller with one agent.
//! Strangers of one origin are one caller here.

use std::collections::BTreeMap;

use althing_communication::{QuotaGroup, TrustLevel};

use crate::machine::record::Scope;

/// What turns take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Turns.
    pub turns: usize,
    /// Bytes of memory that their tasks take, about.
    pub bytes: usize,
}

impl Load {
    fn and(self, other: Load) -> Load {
        Load { turns: self.turns.saturating_add(other.turns), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn without(self, other: Load) -> Load {
        Load { turns: self.turns.saturating_sub(other.turns), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn of(self, parts: usize, of: usize) -> Load {
        Load { turns: (self.turns * parts / of).max(1), bytes: self.bytes / of * parts }
    }

    fn passes(self, limit: Load) -> bool {
        self.turns > limit.turns || self.bytes > limit.bytes
    }
}

/// Whose share a turn is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// A caller's.
    Scope(Scope),
    /// That of strangers who come from one place.
    Crowd(QuotaGroup),
}

/// Who wants a turn, and of which agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<Key> {
    /// Whose share it is of.
    pub whose: Key,
    /// How near that is to this node.
    pub nearness: TrustLevel,
    /// The agent.
    pub agent: String,
    /// What its task takes so far.
    pub bytes: usize,
    /// Turns that the agent's runtime runs at once, where it is fewer than its share.
    pub agent_turns_max: Option<usize>,
}

/// What is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    /// All that there is, or all that there is for those who are no nearer.
    #[error("this node works on as much as it can; try again later")]
    Node,
    /// The agent's share.
    #[error("this agent works on as much as it can; try again later")]
    Agent,
    /// The caller's share.
    #[error("this node works on as much of yours as one caller may have; wait for an answer, or cancel a task")]
    Scope,
}

/// The turns that run.
#[derive(Debug)]
pub struct Shares<Key: Ord> {
    most: Load,
    /// By how near they are.
    all: BTreeMap<TrustLevel, Load>,
    callers: BTreeMap<Key, Load>,
    /// Of one agent, by how near the callers are.
    agents: BTreeMap<(String, TrustLevel), Load>,
    callers_of: BTreeMap<(String, Key), Load>,
}

/// Eighths of all that callers so near, and all who are farther, may have together.
fn eighths(nearness: TrustLevel) -> usize {
    match nearness {
        TrustLevel::Own => 8,
        TrustLevel::Trusted => 6,
        TrustLevel::InUse => 5,
        TrustLevel::Stranger => 4,
    }
}

const ALL: [TrustLevel; 4] = [TrustLevel::Stranger, TrustLevel::InUse, TrustLevel::Trusted, TrustLevel::Own];

/// Something whose share is counted.
fn held<K: Ord>(map: &BTreeMap<K, Load>, key: &K) -> Load {
    map.get(key).copied().unwrap_or_default()
}

impl<Key: Ord + Clone> Shares<Key> {
    /// For so many turns and bytes in all.
    #[must_use]
    pub fn new(most: Load) -> Shares<Key> {
        Shares {
            most,
            all: BTreeMap::new(),
            callers: BTreeMap::new(),
            agents: BTreeMap::new(),
            callers_of: BTreeMap::new(),
        }
    }

    /// What is taken.
    #[must_use]
    pub fn all(&self) -> Load {
        self.all.values().fold(Load::default(), |sum, load| sum.and(*load))
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// [`Crowded`]; nothing is taken then.
    pub fn begin(&mut self, claim: &Claim<Key>) -> Result<(), Crowded> {
        let more = Load { turns: 1, bytes: claim.bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.and(more));
        Ok(())
    }

    /// A turn's task takes more.
    ///
    /// # Errors
    /// [`Crowded`]; nothing is taken then.
    pub fn grow(&mut self, claim: &mut Claim<Key>, bytes: usize) -> Result<(), Crowded> {
        let more = Load { turns: 0, bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.and(more));
        claim.bytes = claim.bytes.saturating_add(bytes);
        Ok(())
    }

    /// A turn ends.
    pub fn end(&mut self, claim: &Claim<Key>) {
        let less = Load { turns: 1, bytes: claim.bytes };
        self.change(claim, |load| load.without(less));
    }

    fn check(&self, claim: &Claim<Key>, more: Load) -> Result<(), Crowded> {
        let (most, is_own) = (self.most, claim.nearness == TrustLevel::Own);
        let mut of_agent = most.of(1, 2);
        of_agent.turns = of_agent.turns.min(claim.agent_turns_max.unwrap_or(usize::MAX)).max(1);
        // This node's owner may have three quarters, so that others are never shut out; another caller an eighth.
        let of_caller = if is_own { most.of(3, 4) } else { most.of(1, 8) };
        let of_both = if is_own { of_agent.of(3, 4) } else { of_agent.of(1, 4) };
        // A caller with nothing under way may always have one, however large its task is.
        let first = held(&self.callers, &claim.whose).turns <= usize::from(more.turns == 0);
        let within = |now: Load, limit: Load| {
            let limit = if first { Load { bytes: usize::MAX, ..limit } } else { limit };
            !now.and(more).passes(limit)
        };
        // Those who are nearer can take all that there is for others too; what others have is never theirs alone.
        let no_nearer = |load: &dyn Fn(TrustLevel) -> Load| {
            ALL.iter().filter(|other| **other <= claim.nearness).fold(Load::default(), |sum, at| sum.and(load(*at)))
        };
        let eighths = eighths(claim.nearness);
        let farther = no_nearer(&|nearness| held(&self.all, &nearness));
        if self.all().and(more).passes(most) || farther.and(more).passes(most.of(eighths, 8)) {
            return Err(Crowded::Node);
        }
        let caller_of = (claim.agent.clone(), claim.whose.clone());
        if !within(held(&self.callers, &claim.whose), of_caller) || !within(held(&self.callers_of, &caller_of), of_both)
        {
            return Err(Crowded::Scope);
        }
        let of = |nearness| held(&self.agents, &(claim.agent.clone(), nearness));
        let all = ALL.iter().fold(Load::default(), |sum, nearness| sum.and(of(*nearness)));
        if !within(all, of_agent) || !within(no_nearer(&of), of_agent.of(eighths, 8)) {
            return Err(Crowded::Agent);
        }
        Ok(())
    }

    fn change(&mut self, claim: &Claim<Key>, change: impl Fn(Load) -> Load) {
        fn at<K: Ord>(map: &mut BTreeMap<K, Load>, key: K, change: impl Fn(Load) -> Load) {
            let load = change(held(map, &key));
            if load.turns == 0 {
                map.remove(&key)
            } else {
                map.insert(key, load)
            };
        }
        at(&mut self.all, claim.nearness, &change);
        at(&mut self.callers, claim.whose.clone(), &change);
        at(&mut self.agents, (claim.agent.clone(), claim.nearness), &change);
        at(&mut self.callers_of, (claim.agent.clone(), claim.whose.clone()), &change);
    }
}

#[cfg(test)]
mod tests;
