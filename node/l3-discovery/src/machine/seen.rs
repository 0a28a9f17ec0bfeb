//! What was seen of nodes and agents, also of those that are gone, so that nothing older comes back.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use althing_protocol::{AgentId, Digest, PublicKey, VerifiedAgent};

use super::rank::Rank;

/// Agents whose newest description is remembered when they are gone.
const NEWEST_MAX: usize = 65_536;

/// The highest sequence of each node's placements, and how near the node was.
#[derive(Default)]
pub(super) struct Sequences(BTreeMap<PublicKey, (u64, Rank)>);

impl Sequences {
    /// The highest one of a node, if any was seen.
    pub fn highest(&self, node: PublicKey) -> Option<u64> {
        self.0.get(&node).map(|(sequence, _)| *sequence)
    }

    /// Notes the highest one of a node. Of those that are gone, the farthest that was seen longest ago is forgotten where there are
    /// `max` already.
    pub fn note(&mut self, node: PublicKey, seen: (u64, Rank), max: usize, is_here: impl Fn(&PublicKey) -> bool) {
        if self.0.len() >= max && !self.0.contains_key(&node) {
            // Sequences grow with time of day, so the smallest is the oldest.
            let gone = self.0.iter().filter(|(node, _)| !is_here(node));
            let oldest = gone.max_by_key(|(_, (sequence, rank))| (*rank, Reverse(*sequence)));
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(node, seen);
    }
}

/// The newest description of an agent.
struct Newest {
    sequence: u64,
    digest: Digest,
    /// How near the node was.
    rank: Rank,
    /// Which of all that came it was.
    number: u64,
}

/// The newest description of each agent that a node showed.
#[derive(Default)]
pub(super) struct NewestDescriptions(BTreeMap<(AgentId, PublicKey), Newest>);

impl NewestDescriptions {
    /// The sequence of what was seen of an agent, if that is newer than this description of it, or another one of the same
    /// sequence.
    pub fn before(&self, verified: &VerifiedAgent) -> Option<u64> {
        let seen = self.0.get(&(verified.agent.clone(), verified.node))?;
        let (sequence, digest) = (verified.description.body.sequence, verified.description.digest());
        let is_old = seen.sequence > sequence || seen.sequence == sequence && seen.digest != digest;
        is_old.then_some(seen.sequence)
    }

    /// Notes the newest one of an agent, which came as the one of that number. Of those that are gone, the farthest that came first
    /// is forgotten where there are too many.
    pub fn note(
        &mut self,
        verified: &VerifiedAgent,
        (rank, number): (Rank, u64),
        is_here: impl Fn(PublicKey, &AgentId) -> bool,
    ) {
        let (description, about) = (&verified.description, (verified.agent.clone(), verified.node));
        if self.0.len() >= NEWEST_MAX && !self.0.contains_key(&about) {
            let gone = self.0.iter().filter(|((agent, node), _)| !is_here(*node, agent));
            let farthest = gone.max_by_key(|(_, newest)| (newest.rank, Reverse(newest.number)));
            if let Some(gone) = farthest.map(|(known, _)| known.clone()) {
                self.0.remove(&gone);
            }
        }
        let (sequence, digest) = (description.body.sequence, description.digest());
        self.0.insert(about, Newest { sequence, digest, rank, number });
    }
}
