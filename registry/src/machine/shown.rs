//! The agents that everybody sees: what is made of them does not depend on those that are hidden.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use althing_protocol::AgentId;

use super::things::{Orders, Place};
use super::twins::Twins;

/// An agent that everybody sees, with a version that is neither yanked nor revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownAgent<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// The entry of its first release.
    pub first: u64,
    /// The entry of its current release.
    pub current: u64,
}

#[derive(Debug, Clone)]
struct Shown {
    id: Arc<str>,
    first: u64,
    current: u64,
    /// The entry since which that is so.
    since: u64,
}

/// The agents that everybody sees.
#[derive(Debug, Clone, Default)]
pub struct ShownAgents {
    agents: BTreeMap<AgentId, Shown>,
    orders: Orders,
    changes: BTreeMap<u64, AgentId>,
    twins: Twins,
}

impl ShownAgents {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.agents.len() as u64
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, agent: &AgentId) -> Option<ShownAgent<'_>> {
        self.agents.get_key_value(agent).map(shown)
    }

    /// Whether an agent is shown, and was shown just so before that entry.
    #[must_use]
    pub fn is_unchanged_since(&self, agent: &AgentId, entry: u64) -> bool {
        self.agents.get(agent).is_some_and(|shown| shown.since < entry)
    }

    /// Those after an agent, in the order of their ids.
    pub fn after<'a>(&'a self, agent: Option<&AgentId>) -> impl DoubleEndedIterator<Item = ShownAgent<'a>> + use<'a> {
        self.agents.range((agent.map_or(Unbounded, Excluded), Unbounded)).map(shown)
    }

    /// The orders in which they are listed.
    #[must_use]
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Their names, by what they look like.
    pub(super) fn twins(&self) -> &Twins {
        &self.twins
    }

    /// The one whose current release is another since exactly that entry.
    #[must_use]
    pub fn changed_at(&self, entry: u64) -> Option<ShownAgent<'_>> {
        self.changes.get(&entry).and_then(|agent| self.get(agent))
    }

    /// Those that changed so at entries from `entry` on.
    pub fn changed_since(&self, entry: u64) -> impl Iterator<Item = (u64, ShownAgent<'_>)> {
        let changes = self.changes.range(entry..);
        changes.filter_map(|(entry, agent)| Some((*entry, self.get(agent)?)))
    }

    /// Takes over what an entry made of an agent: the entries of its first and of its current release, if it is shown.
    pub(super) fn update(&mut self, entry: u64, agent: &AgentId, now: Option<(u64, u64)>) {
        let before = self.agents.get(agent).map(|shown| (shown.first, shown.current));
        if now == before {
            return;
        }
        let first = |entries: Option<(u64, u64)>| entries.map(|(first, _)| first);
        if first(now) != first(before) {
            first(before).into_iter().for_each(|first| self.twins.remove(agent, first));
            first(now).into_iter().for_each(|first| self.twins.insert(agent, first));
        }
        let place = |first, current| Place { created: first, modified: current, title: agent.name() };
        if let Some(shown) = self.agents.remove(agent) {
            self.orders.remove(&shown.id, place(shown.first, shown.current));
            self.changes.remove(&shown.since);
        }
        if let Some((first, current)) = now {
            let id: Arc<str> = agent.to_string().into();
            self.orders.insert(&id, place(first, current));
            self.changes.insert(entry, agent.clone());
            self.agents.insert(agent.clone(), Shown { id, first, current, since: entry });
        }
    }
}

fn shown<'a>((agent, shown): (&'a AgentId, &'a Shown)) -> ShownAgent<'a> {
    ShownAgent { agent, first: shown.first, current: shown.current }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn an_agent_is_where_its_current_release_is_and_nowhere_else() {
        let agent = |name| AgentId::new(PublisherId::from_digest([7; 32]), name).expect("an id");
        let (bill, echo) = (agent("bill"), agent("echo"));
        let mut shown = ShownAgents::default();
        shown.update(3, &echo, Some((3, 3)));
        shown.update(4, &bill, None);
        assert_eq!((shown.count(), shown.changed_at(4)), (1, None), "what is hidden leaves nothing");
        shown.update(5, &echo, Some((3, 5)));
        shown.update(6, &echo, Some((3, 5)));
        shown.update(7, &bill, Some((4, 4)));
        let of = |agent, first, current| ShownAgent { agent, first, current };
        assert_eq!((shown.changed_at(3), shown.changed_at(6)), (None, None));
        assert_eq!([5, 6].map(|entry| shown.is_unchanged_since(&echo, entry)), [false, true]);
        assert!(!shown.is_unchanged_since(&agent("none"), 9));
        assert_eq!(shown.changed_since(4).collect::<Vec<_>>(), [(5, of(&echo, 3, 5)), (7, of(&bill, 4, 4))]);
        assert_eq!(shown.after(None).collect::<Vec<_>>(), [of(&bill, 4, 4), of(&echo, 3, 5)]);
        let ids = |ids: Vec<(u64, &str)>| ids.into_iter().map(|(entry, _)| entry).collect::<Vec<_>>();
        assert_eq!(ids(shown.orders().created().collect()), [3, 4]);
        assert_eq!(ids(shown.orders().modified().collect()), [4, 5]);
        shown.update(8, &echo, Some((3, 3)));
        assert_eq!(shown.changed_at(8), Some(of(&echo, 3, 3)), "a release was taken back");
        shown.update(9, &echo, None);
        shown.update(10, &bill, None);
        assert_eq!((shown.count(), shown.orders().titles().count(), shown.changed_since(0).count()), (0, 0, 0));
    }
}
