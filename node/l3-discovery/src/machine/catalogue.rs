//! The catalogue: which agents are where, as the nodes themselves say it, and for how long that is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::object::{Health, Hosted, ObjectError, Placement};
use althing_protocol::{AgentId, Authored, Digest, KeyLog, PublicKey, PublisherId, VerifiedAgent};

use crate::machine::departed::DepartedNodes;
use crate::machine::index::Index;
pub use crate::machine::node::{Candidate, Learned, Now};
use crate::machine::node::{Departed, Held, LogName, Node, list_bytes};
use crate::machine::rank::{AGENT_BYTES, Bounds, DESCRIPTION_COPIES, Rank, Source, WORD_BYTES};
use crate::machine::seen::{NewestDescriptions, Sequences};

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
    /// The catalogue is full of nodes that are as near.
    #[error("the catalogue holds {0} nodes and takes no more")]
    Full(usize),
    /// There is no room for what it says.
    #[error("the catalogue has no room for a list of {0} agents")]
    NoRoom(usize),
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
    /// What is kept of one node, or of all, takes more room than is given to it.
    #[error("what is kept of {of} passes {max} bytes")]
    NoRoom {
        /// Of whom.
        of: &'static str,
        /// How much room there is.
        max: usize,
    },
}

/// An agent that had to give way is not asked for again within this, unless it changes.
const GAVE_WAY_MS: u64 = 60_000;

/// Nodes, their agents, and the index over these.
pub struct Catalogue {
    pub(super) nodes: BTreeMap<PublicKey, Node>,
    /// Of nodes, also of those that are gone, so that an old placement never comes back.
    sequences: Sequences,
    /// Of agents, also of those that are gone.
    newest: NewestDescriptions,
    pub(crate) index: Index,
    /// Each key log once, by its last event, and how many agents have it.
    logs: BTreeMap<Digest, (Arc<KeyLog>, usize)>,
    gone: DepartedNodes,
    pub(super) bounds: Bounds,
    /// Bytes of all that is kept of other nodes.
    pub(super) bytes: usize,
    /// How many placements and descriptions came so far.
    count: u64,
}

impl Catalogue {
    /// An empty catalogue that holds as much as `bounds` says.
    #[must_use]
    pub fn new(bounds: Bounds) -> Catalogue {
        Catalogue {
            nodes: BTreeMap::new(),
            sequences: Sequences::default(),
            newest: NewestDescriptions::default(),
            index: Index::default(),
            logs: BTreeMap::new(),
            gone: DepartedNodes::new(bounds.gone_bytes),
            bounds,
            bytes: 0,
            count: 0,
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
        source: Source,
    ) -> Result<Vec<Hosted>, PlacementRefused> {
        placement.believable(now.wall_ms)?;
        let body = &placement.body;
        if let Some(seen) = self.sequences.highest(body.node).filter(|seen| *seen >= body.sequence) {
            return Err(PlacementRefused::Stale { got: body.sequence, seen });
        }
        if body.health == Health::Leaving {
            self.note_sequence(body.node, body.sequence, source.rank);
            self.remove_node(body.node);
            self.gone.take(body.node);
            return Ok(Vec::new());
        }
        if learned != Learned::Local {
            self.make_room_for_node(body.node, source, list_bytes(body.agents.len()))?;
        }
        self.note_sequence(body.node, body.sequence, source.rank);
        let back = self.gone.take(body.node);
        self.describe_node(now, body, learned, source);
        for departed in back {
            if departed.candidate.verified.grant.body.in_force(now.wall_ms).is_ok() {
                // What it does not host any more, or otherwise, is asked for.
                let _ = self.admit(departed.candidate, departed.publisher);
            }
        }
        Ok(self.nodes.get(&body.node).map(Node::wanted).unwrap_or_default())
    }

    /// Takes over what a placement says.
    fn describe_node(&mut self, now: Now, body: &Placement, learned: Learned, source: Source) {
        self.count += 1;
        let (number, counted) = (self.count, learned != Learned::Local);
        let before = self.nodes.get(&body.node).map_or(0, Node::total);
        let node = self.nodes.entry(body.node).or_insert_with(|| Node::new(learned, source, number));
        node.load_permille = body.load_permille;
        node.machine = body.machine;
        node.loads = body.loads.clone().unwrap_or_default();
        node.successes = body.successes.clone().unwrap_or_default();
        node.health = body.health;
        node.learned = learned;
        node.ttl_ms = body.ttl_ms;
        node.heard(now);
        if node.hosted != body.agents || node.source != source {
            node.source = source;
            node.hosted.clone_from(&body.agents);
            let hosted = &node.hosted;
            let leave = |agent: &AgentId, held: &mut Held| {
                entry(hosted, agent).is_none_or(|entry| !names(entry, &held.candidate.verified))
            };
            for (_, held) in node.agents.extract_if(.., leave) {
                self.index.remove(held.document);
                release(&mut self.logs, held.log);
            }
            node.backed_off.retain(|agent, (as_was, _)| entry(hosted, agent) == Some(as_was));
            node.count();
        }
        if counted {
            self.bytes = self.bytes - before + node.total();
        }
    }

    /// What `node` said last, that it hosts just `hosted` if that is known, still holds, as it says itself; says which of its agents still need
    /// evidence. `None` when nothing that it said is believed any more, and when what is believed is another list: another node
    /// with the same key said that later, and would not be forgotten although it is gone.
    pub fn renew(&mut self, now: Now, node: PublicKey, rank: Rank, hosted: Option<&[Hosted]>) -> Option<Vec<Hosted>> {
        let is_same = |node: &Node| hosted.is_none_or(|hosted| node.hosted == hosted);
        let node = self.nodes.get_mut(&node).filter(|node| node.expires_ms > now.monotonic_ms && is_same(node))?;
        node.learned = Learned::Push;
        node.heard(now);
        if node.source.rank != rank {
            // Whatever its rank, it takes as much as before.
            node.source.rank = rank;
            node.count();
        }
        Some(node.wanted())
    }

    /// Notes the highest sequence of a node.
    fn note_sequence(&mut self, node: PublicKey, sequence: u64, rank: Rank) {
        let nodes = &self.nodes;
        self.sequences.note(node, (sequence, rank), self.bounds.nodes * 4, |node| nodes.contains_key(node));
    }

    /// Adds an agent whose evidence was verified.
    ///
    /// # Errors
    /// See [`AdmitRefused`].
    pub fn admit(&mut self, mut candidate: Candidate, publisher: Rank) -> Result<(), AdmitRefused> {
        let verified = candidate.verified.clone();
        let Some(node) = self.nodes.get(&verified.node) else { return Err(AdmitRefused::NotHosted) };
        if !entry(&node.hosted, &verified.agent).is_some_and(|entry| names(entry, &verified)) {
            return Err(AdmitRefused::NotHosted);
        }
        let description = &verified.description;
        if let Some(seen) = self.newest.before(&verified) {
            return Err(AdmitRefused::OldDescription { got: description.body.sequence, seen });
        }
        // Of what it hosts, only that which it says is kept: so what is there is the same.
        self.take_out(verified.node, &verified.agent);
        let Some(node) = self.nodes.get(&verified.node) else { return Err(AdmitRefused::NotHosted) };
        let words = self.index.words(&candidate.description);
        let log = LogName::of(&verified.key_log);
        let bytes = DESCRIPTION_COPIES * description.bytes.len()
            + verified.grant.bytes.len()
            + AGENT_BYTES
            + words.len() * WORD_BYTES;
        let (rank, more, counted) = (node.rank(publisher), node.more(log, bytes), node.learned != Learned::Local);
        if counted {
            self.make_room_for_agent(verified.node, rank, more)?;
        }
        self.remember(&verified, rank);
        let shared = share(&mut self.logs, log, &verified.key_log);
        drop(verified);
        Arc::make_mut(&mut candidate.verified).key_log = shared;
        let document = self.index.add(candidate.clone(), words);
        let (of, agent) = (candidate.verified.node, candidate.verified.agent.clone());
        if let Some(node) = self.nodes.get_mut(&of) {
            let before = node.total();
            node.add(agent, Held { candidate, document, publisher, log, bytes });
            self.bytes += if counted { node.total() - before } else { 0 };
        }
        Ok(())
    }

    /// Notes what is newest of an agent.
    fn remember(&mut self, verified: &VerifiedAgent, rank: Rank) {
        self.count += 1;
        let nodes = &self.nodes;
        let is_here =
            |node: PublicKey, agent: &AgentId| nodes.get(&node).is_some_and(|node| node.agents.contains_key(agent));
        self.newest.note(verified, (rank, self.count), is_here);
    }

    /// Drops one agent of a node.
    fn take_out(&mut self, node: PublicKey, agent: &AgentId) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        let before = node.total();
        if let Some(held) = node.take(agent) {
            self.bytes -= if node.learned == Learned::Local { 0 } else { before - node.total() };
            self.index.remove(held.document);
            release(&mut self.logs, held.log);
        }
    }

    /// An agent that is kept gives way to another.
    pub(super) fn give_way(&mut self, node: PublicKey, agent: &AgentId) {
        self.take_out(node, agent);
        let Some(node) = self.nodes.get_mut(&node) else { return };
        if let Some(hosted) = entry(&node.hosted, agent) {
            node.backed_off.insert(agent.clone(), (hosted.clone(), node.heard_ms + GAVE_WAY_MS));
        }
    }

    /// An agent as a node hosts it now is not asked for again until then.
    pub fn back_off(&mut self, node: PublicKey, hosted: &Hosted, until_ms: u64) {
        if let Some(node) = self.nodes.get_mut(&node)
            && entry(&node.hosted, &hosted.agent) == Some(hosted)
        {
            node.backed_off.insert(hosted.agent.clone(), (hosted.clone(), until_ms));
        }
    }

    /// Drops nodes that were silent for too long, and says which; and agents whose grant is over.
    pub fn sweep(&mut self, now: Now) -> Vec<PublicKey> {
        let silent = self.nodes.iter().filter(|(_, node)| node.expires_ms <= now.monotonic_ms);
        let silent: Vec<PublicKey> = silent.map(|(node, _)| *node).collect();
        for node in &silent {
            let agents = self.remove_node(*node);
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

    /// Whose agents are listed.
    pub fn publishers(&self) -> BTreeSet<PublisherId> {
        self.nodes.values().flat_map(|node| node.agents.keys()).map(AgentId::publisher).collect()
    }

    fn drop_here(&mut self, over: impl Fn(&VerifiedAgent) -> bool) -> usize {
        let lapsed: Vec<(PublicKey, AgentId)> = self
            .nodes
            .iter()
            .flat_map(|(key, node)| node.agents.iter().map(move |(agent, held)| (*key, agent, held)))
            .filter(|(_, _, held)| over(&held.candidate.verified))
            .map(|(node, agent, _)| (node, agent.clone()))
            .collect();
        lapsed.iter().for_each(|(node, agent)| self.take_out(*node, agent));
        lapsed.len()
    }

    /// Drops a node and its agents, and gives these. Its sequence stays known.
    pub(super) fn remove_node(&mut self, node: PublicKey) -> Vec<Departed> {
        let Some(node) = self.nodes.remove(&node) else { return Vec::new() };
        self.bytes -= if node.learned == Learned::Local { 0 } else { node.total() };
        let rank = |publisher: Rank| publisher.min(node.source.rank);
        let agents = node.agents.into_values().map(|held| {
            self.index.remove(held.document);
            release(&mut self.logs, held.log);
            let Held { candidate, publisher, log, bytes, .. } = held;
            Departed { candidate, publisher, rank: rank(publisher), log, bytes }
        });
        agents.collect()
    }

    /// Bytes of all that is kept of other nodes, of those that are there and of those that went silent.
    #[must_use]
    pub fn bytes(&self) -> [usize; 2] {
        [self.bytes, self.gone.bytes()]
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
        self.nodes.get(&node)?.agents.get(agent).map(|held| &held.candidate)
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

/// The log as others have it already, or else this one.
fn share(logs: &mut BTreeMap<Digest, (Arc<KeyLog>, usize)>, name: LogName, log: &Arc<KeyLog>) -> Arc<KeyLog> {
    let (shared, count) = logs.entry(name.head).or_insert_with(|| (log.clone(), 0));
    *count += 1;
    shared.clone()
}

/// One agent less has it.
fn release(logs: &mut BTreeMap<Digest, (Arc<KeyLog>, usize)>, name: LogName) {
    if let Some((_, count)) = logs.get_mut(&name.head) {
        *count -= 1;
        if *count == 0 {
            logs.remove(&name.head);
        }
    }
}

fn names(hosted: &Hosted, verified: &VerifiedAgent) -> bool {
    (hosted.description, hosted.grant) == verified.digests()
}
