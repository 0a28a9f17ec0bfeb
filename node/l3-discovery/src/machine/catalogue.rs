//! The catalogue: which agents are where, as the nodes themselves say it, and for how long that is believed.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::object::{Health, Hosted, Machine, ObjectError, Placement};
use althing_protocol::{AgentId, Authored, Digest, PublicKey, VerifiedAgent};
use althing_td::Description;

use crate::machine::gone::Gone;
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
    /// Its node was asked.
    Asked,
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

/// Why an agent is not taken although its evidence holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitRefused {
    /// Its node does not, or no longer, say that it hosts just that.
    #[error("its node does not say that it hosts that")]
    NotHosted,
    /// A newer description, or another of the same sequence, was seen (SPEC P-42).
    #[error("its description has sequence {got}, and one with {seen} was seen")]
    OldDescription {
        /// Its sequence.
        got: u64,
        /// The highest seen.
        seen: u64,
    },
    /// Descriptions of one node, or of all, take more room than is given to them.
    #[error("the descriptions of {of} pass {max} bytes")]
    NoRoom {
        /// Of whom.
        of: &'static str,
        /// How much room there is.
        max: usize,
    },
}

/// Bytes of the descriptions of one other node, and of all of them: 10,000 agents of 4 KiB have room. In memory each
/// takes several times as much.
pub const NODE_BYTES_MAX: usize = 4 << 20;
/// See [`NODE_BYTES_MAX`].
pub const BYTES_MAX: usize = 48 << 20;
/// Agents whose newest description is remembered when they are gone.
const NEWEST_MAX: usize = 65_536;

/// A node and what it hosts.
#[derive(Debug)]
pub(crate) struct Node {
    pub load_permille: u16,
    pub machine: Option<Machine>,
    pub health: Health,
    pub learned: Learned,
    pub heard_ms: u64,
    ttl_ms: u64,
    expires_ms: u64,
    hosted: Vec<Hosted>,
    agents: BTreeMap<AgentId, (Candidate, u32)>,
    /// Bytes of their descriptions.
    bytes: usize,
    /// Agents that were refused as they are, and until when they are not asked for again.
    spurned: BTreeMap<AgentId, (Hosted, u64)>,
}

impl Node {
    fn heard(&mut self, now: Now) {
        self.heard_ms = now.monotonic_ms;
        self.expires_ms = now.monotonic_ms + self.ttl_ms;
        self.spurned.retain(|_, (_, until_ms)| *until_ms > now.monotonic_ms);
    }

    /// Agents without evidence, but for those that are not to be asked for.
    fn wanted(&self) -> Vec<Hosted> {
        let missing =
            |hosted: &&Hosted| !self.agents.contains_key(&hosted.agent) && !self.spurned.contains_key(&hosted.agent);
        self.hosted.iter().filter(missing).cloned().collect()
    }
}

/// Nodes, their agents, and the index over these.
pub struct Catalogue {
    nodes: BTreeMap<PublicKey, Node>,
    /// The highest sequence of each node, also of those that are gone, so that an old placement never comes back.
    sequences: BTreeMap<PublicKey, u64>,
    /// Sequence and digest of the newest description of each agent that a node showed, also of those that are gone.
    newest: BTreeMap<(AgentId, PublicKey), (u64, Digest)>,
    pub(crate) index: Index,
    gone: Gone,
    nodes_max: usize,
    /// Bytes of all descriptions of other nodes.
    bytes: usize,
}

impl Catalogue {
    /// An empty catalogue for at most `nodes_max` nodes.
    #[must_use]
    pub fn new(nodes_max: usize) -> Catalogue {
        Catalogue {
            nodes: BTreeMap::new(),
            sequences: BTreeMap::new(),
            newest: BTreeMap::new(),
            index: Index::default(),
            gone: Gone::default(),
            nodes_max,
            bytes: 0,
        }
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
            self.gone.take(body.node);
            return Ok(Vec::new());
        }
        let back = self.gone.take(body.node);
        let index = &mut self.index;
        let node = self.nodes.entry(body.node).or_insert_with(|| Node {
            load_permille: 0,
            machine: None,
            health: Health::Healthy,
            learned,
            heard_ms: 0,
            ttl_ms: 0,
            expires_ms: 0,
            hosted: Vec::new(),
            agents: BTreeMap::new(),
            bytes: 0,
            spurned: BTreeMap::new(),
        });
        node.load_permille = body.load_permille;
        node.machine = body.machine;
        node.health = body.health;
        node.learned = learned;
        node.ttl_ms = body.ttl_ms;
        node.heard(now);
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
            node.spurned.retain(|agent, (as_was, _)| entry(hosted, agent) == Some(as_was));
            let before = std::mem::replace(&mut node.bytes, node.agents.values().map(|(held, _)| size(held)).sum());
            if node.learned != Learned::Local {
                self.bytes = self.bytes - before + node.bytes;
            }
        }
        for held in back.into_iter().filter(|held| held.verified.grant.body.in_force(now.wall_ms).is_ok()) {
            // What it does not host any more, or otherwise, is asked for.
            let _ = self.admit(held);
        }
        Ok(self.nodes.get(&body.node).map(Node::wanted).unwrap_or_default())
    }

    /// What `node` said last still holds, as it says itself; says which of its agents still need evidence. `None` when
    /// nothing that it said is believed any more.
    pub fn renew(&mut self, now: Now, node: PublicKey) -> Option<Vec<Hosted>> {
        let node = self.nodes.get_mut(&node).filter(|node| node.expires_ms > now.monotonic_ms)?;
        node.learned = Learned::Push;
        node.heard(now);
        Some(node.wanted())
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

    /// Adds an agent whose evidence was verified.
    ///
    /// # Errors
    /// See [`AdmitRefused`].
    pub fn admit(&mut self, candidate: Candidate) -> Result<(), AdmitRefused> {
        let verified = candidate.verified.clone();
        let Some(node) = self.nodes.get(&verified.node) else { return Err(AdmitRefused::NotHosted) };
        if !entry(&node.hosted, &verified.agent).is_some_and(|entry| names(entry, &verified)) {
            return Err(AdmitRefused::NotHosted);
        }
        let description = &verified.description;
        let (sequence, digest) = (description.body.sequence, description.digest());
        if let Some((seen, as_seen)) = self.newest.get(&(verified.agent.clone(), verified.node))
            && (*seen > sequence || *seen == sequence && *as_seen != digest)
        {
            return Err(AdmitRefused::OldDescription { got: sequence, seen: *seen });
        }
        let replaced = node.agents.get(&verified.agent).map_or(0, |(old, _)| size(old));
        let more = size(&candidate);
        if node.learned != Learned::Local {
            for (of, held, max) in [("one node", node.bytes, NODE_BYTES_MAX), ("all nodes", self.bytes, BYTES_MAX)] {
                if held - replaced + more > max {
                    return Err(AdmitRefused::NoRoom { of, max });
                }
            }
        }
        self.remember(&verified);
        self.take_out(verified.node, &verified.agent);
        let document = self.index.add(candidate.clone());
        if let Some(node) = self.nodes.get_mut(&verified.node) {
            node.agents.insert(verified.agent.clone(), (candidate, document));
            node.bytes += more;
            self.bytes += if node.learned == Learned::Local { 0 } else { more };
        }
        Ok(())
    }

    /// Notes what is newest of an agent.
    fn remember(&mut self, verified: &VerifiedAgent) {
        let description = &verified.description;
        if self.newest.len() >= NEWEST_MAX {
            let here = |(agent, node): &(AgentId, PublicKey)| self.candidate(*node, agent).is_some();
            let gone = self.newest.keys().find(|known| !here(known)).cloned();
            if let Some(gone) = gone {
                self.newest.remove(&gone);
            }
        }
        let newest = (description.body.sequence, description.digest());
        self.newest.insert((verified.agent.clone(), verified.node), newest);
    }

    /// Drops one agent of a node.
    fn take_out(&mut self, node: PublicKey, agent: &AgentId) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        if let Some((old, document)) = node.agents.remove(agent) {
            self.index.remove(document);
            node.bytes -= size(&old);
            self.bytes -= if node.learned == Learned::Local { 0 } else { size(&old) };
        }
    }

    /// An agent as a node hosts it now is not asked for again until then.
    pub fn spurn(&mut self, node: PublicKey, hosted: &Hosted, until_ms: u64) {
        if let Some(node) = self.nodes.get_mut(&node)
            && entry(&node.hosted, &hosted.agent) == Some(hosted)
        {
            node.spurned.insert(hosted.agent.clone(), (hosted.clone(), until_ms));
        }
    }

    /// Drops nodes that were silent for too long, and says which; and agents whose grant is over.
    pub fn sweep(&mut self, now: Now) -> Vec<PublicKey> {
        let silent = self.nodes.iter().filter(|(_, node)| node.expires_ms <= now.monotonic_ms);
        let silent: Vec<PublicKey> = silent.map(|(node, _)| *node).collect();
        for node in &silent {
            let agents = self.forget(*node);
            self.gone.keep(*node, agents);
        }
        // Of those that are gone that is looked at when they are back.
        self.drop_here(|agent| agent.grant.body.in_force(now.wall_ms).is_err());
        silent
    }

    /// Drops the agents that are `over`, wherever they are; gives how many.
    pub fn drop_agents(&mut self, over: impl Fn(&VerifiedAgent) -> bool) -> usize {
        self.gone.drop_agents(&over);
        self.drop_here(over)
    }

    fn drop_here(&mut self, over: impl Fn(&VerifiedAgent) -> bool) -> usize {
        let lapsed: Vec<(PublicKey, AgentId)> = self
            .nodes
            .iter()
            .flat_map(|(key, node)| node.agents.iter().map(move |(agent, held)| (*key, agent, held)))
            .filter(|(_, _, (held, _))| over(&held.verified))
            .map(|(node, agent, _)| (node, agent.clone()))
            .collect();
        lapsed.iter().for_each(|(node, agent)| self.take_out(*node, agent));
        lapsed.len()
    }

    /// Drops a node and its agents, and gives these. Its sequence stays known.
    pub fn forget(&mut self, node: PublicKey) -> Vec<Candidate> {
        let Some(node) = self.nodes.remove(&node) else { return Vec::new() };
        self.bytes -= if node.learned == Learned::Local { 0 } else { node.bytes };
        let agents = node.agents.into_values().map(|(held, document)| {
            self.index.remove(document);
            held
        });
        agents.collect()
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

    /// Was that node heard within `fresh_ms`?
    #[must_use]
    pub fn hears(&self, node: PublicKey, now_ms: u64, fresh_ms: u64) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.heard_ms + fresh_ms >= now_ms)
    }

    /// Was that node heard within `fresh_ms`, and is there evidence for all that it hosts? Who was asked for one thing has
    /// not shown the others.
    #[must_use]
    pub fn knows(&self, node: PublicKey, now_ms: u64, fresh_ms: u64) -> bool {
        self.hears(node, now_ms, fresh_ms) && self.nodes.get(&node).is_some_and(|node| node.wanted().is_empty())
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

/// Bytes of a description.
pub(super) fn size(candidate: &Candidate) -> usize {
    candidate.verified.description.bytes.len()
}

fn names(hosted: &Hosted, verified: &VerifiedAgent) -> bool {
    (hosted.description, hosted.grant) == verified.digests()
}
