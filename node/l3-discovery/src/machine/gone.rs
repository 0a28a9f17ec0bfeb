//! What was verified of nodes that went silent: when one is back as it was, its agents need not be asked for and verified
//! again. Where many are late at once, that would make all of them later still.

use std::collections::{BTreeMap, VecDeque};

use althing_protocol::{PublicKey, VerifiedAgent};

use super::catalogue::{Candidate, size};

/// Bytes that are kept so; of more, those of the nodes that are gone longest are dropped.
const BYTES_MAX: usize = 16 << 20;
/// What an agent takes beside its description: grant, key log, what was read.
const AGENT_BYTES: usize = 4 << 10;

/// Agents of nodes that are gone.
#[derive(Default)]
pub(super) struct Gone {
    nodes: BTreeMap<PublicKey, Vec<Candidate>>,
    /// The longest gone first.
    order: VecDeque<PublicKey>,
    bytes: usize,
}

impl Gone {
    /// A node went silent.
    pub fn keep(&mut self, node: PublicKey, agents: Vec<Candidate>) {
        self.take(node);
        if agents.is_empty() {
            return;
        }
        self.bytes += weight(&agents);
        self.nodes.insert(node, agents);
        self.order.push_back(node);
        while self.bytes > BYTES_MAX {
            let Some(longest) = self.order.front().copied() else { break };
            self.take(longest);
        }
    }

    /// It is back, or will never be: what was kept of it is kept no longer.
    pub fn take(&mut self, node: PublicKey) -> Vec<Candidate> {
        let Some(agents) = self.nodes.remove(&node) else { return Vec::new() };
        self.order.retain(|kept| *kept != node);
        self.bytes -= weight(&agents);
        agents
    }

    /// Drops the agents that are `over`.
    pub fn drop_agents(&mut self, over: impl Fn(&VerifiedAgent) -> bool) {
        for agents in self.nodes.values_mut() {
            let before = weight(agents);
            agents.retain(|held| !over(&held.verified));
            self.bytes -= before - weight(agents);
        }
        self.nodes.retain(|_, agents| !agents.is_empty());
        self.order.retain(|node| self.nodes.contains_key(node));
    }
}

fn weight(agents: &[Candidate]) -> usize {
    agents.iter().map(|held| size(held) + AGENT_BYTES).sum()
}
