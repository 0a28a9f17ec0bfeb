//! A cache of the verified agents of expired nodes: a node that returns unchanged is not asked for them again. When many
//! nodes expire together, verifying all of them again would delay more heartbeats.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{PublicKey, VerifiedAgent};

use super::node::Departed;
use super::rank::Rank;

/// The verified agents of expired nodes.
pub(super) struct DepartedNodes {
    nodes: BTreeMap<PublicKey, DepartedNode>,
    /// How many were kept so far.
    count: u64,
    bytes: usize,
    bytes_max: usize,
}

struct DepartedNode {
    agents: Vec<Departed>,
    /// The nearest rank among them.
    rank: Rank,
    number: u64,
    bytes: usize,
}

impl DepartedNodes {
    /// An empty cache of at most `bytes_max`; beyond that it drops the farthest nodes, of these the ones that expired first.
    pub fn new(bytes_max: usize) -> DepartedNodes {
        DepartedNodes { nodes: BTreeMap::new(), count: 0, bytes: 0, bytes_max }
    }

    /// A node went silent.
    pub fn keep(&mut self, node: PublicKey, agents: Vec<Departed>) {
        self.take(node);
        let Some(rank) = agents.iter().map(|departed| departed.rank).min() else { return };
        self.count += 1;
        let bytes = weight(&agents);
        self.bytes += bytes;
        self.nodes.insert(node, DepartedNode { agents, rank, number: self.count, bytes });
        while self.bytes > self.bytes_max {
            let drops = self.nodes.iter().max_by_key(|(_, kept)| (kept.rank, Reverse(kept.number)));
            let Some(node) = drops.map(|(node, _)| *node) else { break };
            self.take(node);
        }
    }

    /// It is back, or will never be: what was kept of it is kept no longer.
    pub fn take(&mut self, node: PublicKey) -> Vec<Departed> {
        let Some(kept) = self.nodes.remove(&node) else { return Vec::new() };
        self.bytes -= kept.bytes;
        kept.agents
    }

    /// Drops the agents that are `over`.
    pub fn drop_agents(&mut self, over: impl Fn(&VerifiedAgent) -> bool) {
        for kept in self.nodes.values_mut() {
            kept.agents.retain(|departed| !over(&departed.candidate.verified));
            let bytes = weight(&kept.agents);
            self.bytes -= std::mem::replace(&mut kept.bytes, bytes) - bytes;
        }
        self.nodes.retain(|_, kept| !kept.agents.is_empty());
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// All that is kept of these agents of one node; key logs that they share once.
fn weight(agents: &[Departed]) -> usize {
    let mut logs = BTreeSet::new();
    let keys = |departed: &Departed| if logs.insert(departed.log.head) { departed.log.bytes() } else { 0 };
    agents.iter().map(|departed| departed.bytes).sum::<usize>() + agents.iter().map(keys).sum::<usize>()
}
