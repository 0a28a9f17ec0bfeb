//! Who may have how many of the turns that run at once, and of the memory that their tasks take.
//!
//! Turns that were begun are never stopped for others, so that room must be kept: a part of everything for this node's
//! owner, and no more than a part for one caller, for one agent, and for one caller with one agent.

use std::collections::BTreeMap;

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

/// Who wants a turn, and of which agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<Scope> {
    /// Whose call it is.
    pub scope: Scope,
    /// Whether that is this node's own owner.
    pub own: bool,
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
    /// All that there is, or all that there is for others than this node's owner.
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
pub struct Shares<Scope: Ord> {
    most: Load,
    all: Load,
    /// Of others than this node's owner.
    others: Load,
    scopes: BTreeMap<Scope, Load>,
    agents: BTreeMap<String, Load>,
    /// Of others with one agent.
    others_of: BTreeMap<String, Load>,
    scopes_of: BTreeMap<(String, Scope), Load>,
}

/// Something whose share is counted.
fn held<K: Ord>(map: &BTreeMap<K, Load>, key: &K) -> Load {
    map.get(key).copied().unwrap_or_default()
}

impl<Scope: Ord + Clone> Shares<Scope> {
    /// For so many turns and bytes in all.
    #[must_use]
    pub fn new(most: Load) -> Shares<Scope> {
        Shares {
            most,
            all: Load::default(),
            others: Load::default(),
            scopes: BTreeMap::new(),
            agents: BTreeMap::new(),
            others_of: BTreeMap::new(),
            scopes_of: BTreeMap::new(),
        }
    }

    /// What is taken.
    #[must_use]
    pub fn all(&self) -> Load {
        self.all
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// [`Crowded`]; nothing is taken then.
    pub fn begin(&mut self, claim: &Claim<Scope>) -> Result<(), Crowded> {
        let more = Load { turns: 1, bytes: claim.bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.and(more));
        Ok(())
    }

    /// A turn's task takes more.
    ///
    /// # Errors
    /// [`Crowded`]; nothing is taken then.
    pub fn grow(&mut self, claim: &mut Claim<Scope>, bytes: usize) -> Result<(), Crowded> {
        let more = Load { turns: 0, bytes };
        self.check(claim, more)?;
        self.change(claim, |load| load.and(more));
        claim.bytes = claim.bytes.saturating_add(bytes);
        Ok(())
    }

    /// A turn ends.
    pub fn end(&mut self, claim: &Claim<Scope>) {
        let less = Load { turns: 1, bytes: claim.bytes };
        self.change(claim, |load| load.without(less));
    }

    fn check(&self, claim: &Claim<Scope>, more: Load) -> Result<(), Crowded> {
        let most = self.most;
        let mut of_agent = most.of(1, 2);
        of_agent.turns = of_agent.turns.min(claim.agent_turns_max.unwrap_or(usize::MAX)).max(1);
        // This node's owner may have three quarters, so that others are never shut out; another caller an eighth.
        let of_scope = if claim.own { most.of(3, 4) } else { most.of(1, 8) };
        let of_both = if claim.own { of_agent.of(3, 4) } else { of_agent.of(1, 4) };
        let scope_of = (claim.agent.clone(), claim.scope.clone());
        // A caller with nothing under way may always have one, however large its task is.
        let first = held(&self.scopes, &claim.scope).turns <= usize::from(more.turns == 0);
        let within = |now: Load, limit: Load| {
            let limit = if first { Load { bytes: usize::MAX, ..limit } } else { limit };
            !now.and(more).passes(limit)
        };
        if self.all.and(more).passes(most) || (!claim.own && self.others.and(more).passes(most.of(3, 4))) {
            return Err(Crowded::Node);
        }
        if !within(held(&self.scopes, &claim.scope), of_scope) || !within(held(&self.scopes_of, &scope_of), of_both) {
            return Err(Crowded::Scope);
        }
        let others = held(&self.others_of, &claim.agent);
        if !within(held(&self.agents, &claim.agent), of_agent) || (!claim.own && !within(others, of_agent.of(3, 4))) {
            return Err(Crowded::Agent);
        }
        Ok(())
    }

    fn change(&mut self, claim: &Claim<Scope>, change: impl Fn(Load) -> Load) {
        fn at<K: Ord>(map: &mut BTreeMap<K, Load>, key: K, change: impl Fn(Load) -> Load) {
            let load = change(held(map, &key));
            if load.turns == 0 {
                map.remove(&key)
            } else {
                map.insert(key, load)
            };
        }
        self.all = change(self.all);
        at(&mut self.scopes, claim.scope.clone(), &change);
        at(&mut self.agents, claim.agent.clone(), &change);
        at(&mut self.scopes_of, (claim.agent.clone(), claim.scope.clone()), &change);
        if !claim.own {
            self.others = change(self.others);
            at(&mut self.others_of, claim.agent.clone(), &change);
        }
    }
}

#[cfg(test)]
mod tests;
