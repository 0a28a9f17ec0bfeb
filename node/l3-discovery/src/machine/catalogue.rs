//! The catalogue: which agents are where, as the nodes themselves say it, and for how long that is believed.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::object::{Health, Hosted, ObjectError, Placement};
use althing_protocol::{AgentId, Authored, PublicKey, VerifiedAgent};
use althing_td::Description;

use crate::machine::index::Index;

/// Times at which something is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds that only rise.
    pub monotonic_ms: u64,
    /// Unix milliseconds.
    pub wall_ms: u64,
}

/// Where an entry was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It is hosted here.
    Local,
    /// Its node pushed it.
    Push,
}

/// A described agent on a node.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What was verified.
    pub verified: Arc<VerifiedAgent>,
    /// The description, parsed.
    pub description: Arc<Description>,
}

/// Why a placement is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementRefused {
    /// It does not hold.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A newer one, or the same, was seen.
    #[error("sequence {got} is not newer than {seen}")]
    Stale {
        /// Its sequence.
        got: u64,
        /// The highest seen.
        seen: u64,
    },
    /// The catalogue is full.
    #[error("the catalogue holds {0} nodes and takes no more")]
    Full(usize),
}

/// A node and what it hosts.
#[derive(Debug)]
pub(crate) struct Node {
    pub load_permille: u16,
    pub health: Health,
    pub learned: Learned,
    pub heard_ms: u64,
    expires_ms: u64,
    hosted: Vec<Hosted>,
    agents: BTreeMap<AgentId, (Candidate, u32)>,
}

/// Nodes, their agents, and the index over these.
pub struct Catalogue {
    nodes: BTreeMap<PublicKey, Node>,
    /// The highest sequence of each node, also of those that are gone, so that an old placement never comes back.
    sequences: BTreeMap<PublicKey, u64>,
    pub(crate) index: Index,
    nodes_max: usize,
}

impl Catalogue {
    /// An empty catalogue for at most `nodes_max` nodes.
    #[must_use]
    pub fn new(nodes_max: usize) -> Catalogue {
        Catalogue { nodes: BTreeMap::new(), sequences: BTreeMap::new(), index: Index::default(), nodes_max }
    }

    /// Takes a node's placement; says which of its agents still need evidence.
    ///
    /// # Errors
    /// See [`PlacementRefused`].
    pub fn place(
        &mut self,
        now: Now,
        placement: &Authored<Placement>,
        learned: Learned,
    ) -> Result<Vec<Hosted>, PlacementRefused> {
        placement.believable(now.wall_ms)?;
        let body = &placement.body;
        match self.sequences.get(&body.node) {
            Some(seen) if *seen >= body.sequence => {
                return Err(PlacementRefused::Stale { got: body.sequence, seen: *seen });
            }
            None => self.make_room()?,
            Some(_) => {}
        }
        self.sequences.insert(body.node, body.sequence);
        if body.health == Health::Leaving {
            self.forget(body.node);
            return Ok(Vec::new());
        }
        let index = &mut self.index;
        let node = self.nodes.entry(body.node).or_insert_with(|| Node {
            load_permille: 0,
            health: Health::Healthy,
            learned,
            heard_ms: 0,
            expires_ms: 0,
            hosted: Vec::new(),
            agents: BTreeMap::new(),
        });
        node.load_permille = body.load_permille;
        node.health = body.health;
        node.learned = learned;
        node.heard_ms = now.monotonic_ms;
        node.expires_ms = now.monotonic_ms + body.ttl_ms;
        if node.hosted != body.agents {
            node.hosted.clone_from(&body.agents);
            let hosted = &node.hosted;
            node.agents.retain(|agent, (candidate, document)| {
                let stays = entry(hosted, agent).is_some_and(|entry| names(entry, &candidate.verified));
                if !stays {
                    index.remove(*document);
                }
                stays
            });
        }
        Ok(node.hosted.iter().filter(|hosted| !node.agents.contains_key(&hosted.agent)).cloned().collect())
    }

    /// Room for one more node: of those that are gone, the sequence that was seen longest ago is forgotten.
    fn make_room(&mut self) -> Result<(), PlacementRefused> {
        if self.nodes.len() >= self.nodes_max {
            return Err(PlacementRefused::Full(self.nodes.len()));
        }
        if self.sequences.len() >= self.nodes_max * 4 {
            // Sequences grow with time of day, so the smallest is the oldest.
            let gone = self.sequences.iter().filter(|(node, _)| !self.nodes.contains_key(node));
            if let Some(oldest) = gone.min_by_key(|(_, sequence)| **sequence).map(|(node, _)| *node) {
                self.sequences.remove(&oldest);
            }
        }
        Ok(())
    }

    /// Adds an agent whose evidence was verified. False when its node does not, or no longer, host just that.
    pub fn admit(&mut self, candidate: Candidate) -> bool {
        let verified = &candidate.verified;
        let Some(node) = self.nodes.get_mut(&verified.node) else { return false };
        let hosted = entry(&node.hosted, &verified.agent).is_some_and(|entry| names(entry, verified));
        if hosted {
            let agent = verified.agent.clone();
            let document = self.index.add(candidate.clone());
            if let Some((_, old)) = node.agents.insert(agent, (candidate, document)) {
                self.index.remove(old);
            }
        }
        hosted
    }

    /// Drops nodes that were silent for too long; says which.
    pub fn sweep(&mut self, monotonic_ms: u64) -> Vec<PublicKey> {
        let silent = self.nodes.iter().filter(|(_, node)| node.expires_ms <= monotonic_ms);
        let silent: Vec<PublicKey> = silent.map(|(node, _)| *node).collect();
        for node in &silent {
            self.forget(*node);
        }
        silent
    }

    /// Drops a node and its agents. Its sequence stays known.
    pub fn forget(&mut self, node: PublicKey) {
        if let Some(node) = self.nodes.remove(&node) {
            for (_, document) in node.agents.into_values() {
                self.index.remove(document);
            }
        }
    }

    /// How many agents are known, counted once for each node that hosts them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.values().map(|node| node.agents.len()).sum()
    }

    /// True when no agent is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes that are believed to be there.
    #[must_use]
    pub fn nodes(&self) -> Vec<PublicKey> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn node(&self, node: PublicKey) -> Option<&Node> {
        self.nodes.get(&node)
    }

    /// The agent on that node.
    #[must_use]
    pub fn candidate(&self, node: PublicKey, agent: &AgentId) -> Option<&Candidate> {
        self.nodes.get(&node)?.agents.get(agent).map(|(candidate, _)| candidate)
    }

    /// The nodes that host `agent`.
    pub(crate) fn hosting(&self, agent: &AgentId) -> impl Iterator<Item = (PublicKey, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.agents.contains_key(agent)).map(|(key, node)| (*key, node))
    }
}

/// The entry of an agent; a placement's agents ascend (SPEC P-40).
fn entry<'a>(hosted: &'a [Hosted], agent: &AgentId) -> Option<&'a Hosted> {
    hosted.binary_search_by(|entry| entry.agent.cmp(agent)).ok().map(|at| &hosted[at])
}

fn names(hosted: &Hosted, verified: &VerifiedAgent) -> bool {
    (hosted.description, hosted.grant) == verified.digests()
}
