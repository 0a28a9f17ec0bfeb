//! Which deployments of agents are the last ones of their owners: what was replaced or ended is not brought back by whoever
//! may write values.
//!
//! The state refuses it, rather than each node: a node that was away when something ended sees only what the values say when
//! it is back, and one that joins later never saw it.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublisherId;
use althing_protocol::group::Deployment;
use althing_protocol::limits::AGENT_NAME_MAX;
use minicbor::{Decode, Encode};

use super::outcome::Refusal;
use super::shares::{Ledger, Sharers};

/// Agents of one group that are deployed at one time.
pub const DEPLOYED_MAX: usize = 256;
/// Ends that are remembered one by one; of earlier ones it is only known how late they were.
pub const ENDED_MAX: usize = 1_024;

/// The last deployment of an agent by one owner. A later one is higher, and its end is higher than itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub struct Last {
    /// When it was made, Unix milliseconds.
    #[n(0)]
    pub made_ms: u64,
    /// Whether it was removed, or another owner's took its place.
    #[n(1)]
    pub is_over: bool,
}

/// The last deployments of all agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agents {
    last: BTreeMap<String, BTreeMap<PublisherId, Last>>,
    /// How many each owner has that are not over.
    present: Ledger,
    /// Those that are over, the earliest first.
    ended: BTreeSet<(u64, String, PublisherId)>,
    /// Of those that are not remembered any more none was made later than this.
    forgotten_ms: u64,
}

impl Agents {
    /// The last deployment of an agent by an owner, if it is remembered.
    #[must_use]
    pub fn get(&self, agent: &str, owner: &PublisherId) -> Option<Last> {
        self.last.get(agent)?.get(owner).copied()
    }

    /// All that are remembered.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PublisherId, Last)> {
        self.last.iter().flat_map(|(agent, of)| of.iter().map(move |(owner, last)| (agent.as_str(), owner, *last)))
    }

    /// Up to when those were made that are not remembered.
    #[must_use]
    pub fn forgotten_ms(&self) -> u64 {
        self.forgotten_ms
    }

    /// Whether a deployment is the last one of its agent and owner, and not over.
    #[must_use]
    pub fn is_last(&self, deployment: &Deployment) -> bool {
        let present = Last { made_ms: deployment.made_ms, is_over: false };
        self.get(&deployment.agent, &deployment.owner) == Some(present)
    }

    /// When a deployment must be made to be later than the last one: now, unless a clock went back.
    #[must_use]
    pub fn next_ms(&self, agent: &str, owner: &PublisherId, now_ms: u64) -> u64 {
        now_ms.max(self.before_ms(agent, owner).saturating_add(1))
    }

    /// Up to when the deployments of an agent by an owner were made that came before.
    fn before_ms(&self, agent: &str, owner: &PublisherId) -> u64 {
        self.get(agent, owner).map_or(self.forgotten_ms, |last| last.made_ms)
    }

    /// Whether a deployment is later than those before, and has room.
    pub(crate) fn check(&self, deployment: &Deployment, sharers: Sharers<'_>) -> Result<(), Refusal> {
        let Deployment { agent, owner, made_ms, .. } = deployment;
        if *made_ms <= self.before_ms(agent, owner) {
            let why = format!("a later deployment of {agent:?} was made, or it was ended since; deploy it anew");
            return Err(Refusal::Invalid(why));
        }
        match self.get(agent, owner) {
            // It takes the place of the one before.
            Some(last) if !last.is_over => Ok(()),
            _ => self.present.check(owner, 1, DEPLOYED_MAX, sharers, "agents that are deployed"),
        }
    }

    /// A deployment takes the place of what was there by the agent's name.
    pub(crate) fn deploy(&mut self, deployment: &Deployment) {
        let Deployment { agent, owner, made_ms, .. } = deployment;
        self.end(agent);
        self.put(agent, *owner, Last { made_ms: *made_ms, is_over: false });
    }

    /// What was deployed by that name is over.
    pub(crate) fn end(&mut self, agent: &str) {
        let of = self.last.get(agent).into_iter().flatten().filter(|(_, last)| !last.is_over);
        let over: Vec<_> = of.map(|(owner, last)| (*owner, Last { is_over: true, ..*last })).collect();
        for (owner, last) in over {
            self.put(agent, owner, last);
        }
    }

    /// Remembers one, in the place of an earlier one.
    fn put(&mut self, agent: &str, owner: PublisherId, last: Last) {
        match self.last.entry(agent.to_owned()).or_default().insert(owner, last) {
            Some(before) if before.is_over => drop(self.ended.remove(&(before.made_ms, agent.to_owned(), owner))),
            Some(_) => self.present.remove(&owner, 1),
            None => {}
        }
        if last.is_over {
            self.ended.insert((last.made_ms, agent.to_owned(), owner));
        } else {
            self.present.add(owner, 1);
        }
        while self.ended.len() > ENDED_MAX
            && let Some((made_ms, agent, owner)) = self.ended.pop_first()
        {
            self.forgotten_ms = self.forgotten_ms.max(made_ms);
            let of = self.last.get_mut(&agent);
            let is_empty = of.is_some_and(|of| of.remove(&owner).is_some() && of.is_empty());
            if is_empty {
                self.last.remove(&agent);
            }
        }
    }

    /// Adds one of a snapshot.
    pub(crate) fn take(&mut self, agent: String, owner: PublisherId, last: Last) -> Result<(), String> {
        let of = self.last.get(&agent);
        if of.is_some_and(|of| of.contains_key(&owner)) {
            return Err(format!("has the agent {agent:?}, which an earlier row has"));
        }
        if !last.is_over && of.is_some_and(|of| of.values().any(|other| !other.is_over)) {
            return Err(format!("has a second deployment of {agent:?} in force"));
        }
        if agent.len() > AGENT_NAME_MAX {
            return Err("has a name that no agent can have".to_owned());
        }
        let is_full = if last.is_over { self.ended.len() == ENDED_MAX } else { self.present.sum() == DEPLOYED_MAX };
        if is_full {
            return Err("is one deployment too many".to_owned());
        }
        self.put(&agent, owner, last);
        Ok(())
    }

    /// Of a snapshot: up to when those were made that are not remembered.
    pub(crate) fn forget(&mut self, forgotten_ms: u64) {
        self.forgotten_ms = forgotten_ms;
    }

    /// The latest of all these times.
    pub(crate) fn latest_ms(&self) -> u64 {
        self.iter().map(|(.., last)| last.made_ms).max().unwrap_or_default().max(self.forgotten_ms)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::group::GroupId;

    use super::*;
    use crate::machine::shares::tests::{members, owner};

    fn deployment(by: u8, agent: &str, made_ms: u64) -> Deployment {
        Deployment::new(GroupId::from_digest([9; 32]), owner(by), agent, b"{}".to_vec(), made_ms)
    }

    /// The same, as a snapshot has it.
    fn restored(agents: &Agents) -> Agents {
        let mut read = Agents::default();
        read.forget(agents.forgotten_ms());
        for (agent, owner, last) in agents.iter() {
            read.take(agent.to_owned(), *owner, last).expect("its own row");
        }
        read
    }

    /// P-196
    #[test]
    fn each_deployment_is_later_than_those_before_also_after_an_end() {
        let (two, mut agents) = (members(&[1, 2]), Agents::default());
        let sharers = Sharers::of(None, &two);
        let may = |agents: &Agents, by, made_ms| agents.check(&deployment(by, "a", made_ms), sharers).is_ok();
        assert!(may(&agents, 1, 10));
        agents.deploy(&deployment(1, "a", 10));
        assert!(agents.is_last(&deployment(1, "a", 10)) && !agents.is_last(&deployment(1, "a", 9)));
        assert!(!may(&agents, 1, 10) && may(&agents, 1, 11));
        agents.end("a");
        assert!(!agents.is_last(&deployment(1, "a", 10)) && !may(&agents, 1, 10) && may(&agents, 1, 11));
        assert_eq!((agents.next_ms("a", &owner(1), 5), agents.next_ms("a", &owner(1), 50)), (11, 50));
        // Another owner's is of its own time, and ends the first one's.
        agents.deploy(&deployment(1, "a", 20));
        assert!(may(&agents, 2, 3));
        agents.deploy(&deployment(2, "a", 3));
        assert!(agents.is_last(&deployment(2, "a", 3)) && !agents.is_last(&deployment(1, "a", 20)));
        assert!(!may(&agents, 1, 20) && may(&agents, 1, 21));
        assert_eq!(restored(&agents), agents);
    }

    /// P-196
    #[test]
    fn what_is_not_remembered_any_more_does_not_come_back() {
        let (one, mut agents) = (members(&[1]), Agents::default());
        let sharers = Sharers::of(None, &one);
        let name = |at: usize| format!("a{at}");
        for at in 0..ENDED_MAX + 3 {
            agents.deploy(&deployment(1, &name(at), 100 + at as u64));
            agents.end(&name(at));
        }
        assert_eq!((agents.iter().count(), agents.forgotten_ms()), (ENDED_MAX, 102));
        for at in 0..ENDED_MAX + 3 {
            let again = deployment(1, &name(at), 100 + at as u64);
            assert!(agents.check(&again, sharers).is_err(), "{at}");
        }
        assert!(agents.check(&deployment(1, "new", 102), sharers).is_err(), "nobody can tell");
        assert_eq!(agents.next_ms("new", &owner(1), 7), 103);
        assert!(agents.check(&deployment(1, "new", 103), sharers).is_ok());
        assert_eq!(restored(&agents), agents);
        let more = Last { made_ms: 1, is_over: true };
        assert!(restored(&agents).take("more".to_owned(), owner(1), more).is_err_and(|why| why.contains("too many")));
    }

    /// P-196, P-197
    #[test]
    fn the_agents_that_are_deployed_are_bounded_and_shared() {
        let (two, mut agents) = (members(&[1, 2]), Agents::default());
        let sharers = Sharers::of(None, &two);
        let mut fill = |by: u8| {
            let mut names = (0..).map(|at: usize| deployment(by, &format!("o{by}-{at}"), 5));
            let mut count = 0;
            while let Some(next) = names.next().filter(|next| agents.check(next, sharers).is_ok()) {
                agents.deploy(&next);
                count += 1;
            }
            count
        };
        assert_eq!((fill(1), fill(2)), (DEPLOYED_MAX / 4 * 3, DEPLOYED_MAX / 4));
        assert!(agents.check(&deployment(1, "o1-0", 6), sharers).is_ok(), "a later one needs no room");
        let one = Last { made_ms: 5, is_over: false };
        let mut read = restored(&agents);
        assert!(read.take("more".to_owned(), owner(2), one).is_err_and(|why| why.contains("too many")));
        assert!(read.take("o1-0".to_owned(), owner(2), one).is_err_and(|why| why.contains("second")));
        assert!(read.take("o1-0".to_owned(), owner(1), one).is_err_and(|why| why.contains("earlier row")));
        assert_eq!(read.latest_ms(), 5);
    }
}
