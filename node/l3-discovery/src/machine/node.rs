//! A node in the catalogue, and what is kept of it, counted in bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::object::{AgentLoad, Health, Hosted, Machine};
use althing_protocol::{AgentId, Digest, KeyLog, VerifiedAgent};
use althing_td::Description;

use crate::machine::rank::{EVENT_BYTES, HOSTED_BYTES, NODE_BYTES, RANKS, Rank, Source};

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

/// A node and what it hosts.
#[derive(Debug)]
pub(crate) struct Node {
    pub load_permille: u16,
    pub machine: Option<Machine>,
    /// What each of `hosted` does; empty where the node does not say.
    pub(super) loads: Vec<AgentLoad>,
    /// How the turns of each of `hosted` went, as it says, percents; empty where it does not say.
    pub(super) successes: Vec<Option<u8>>,
    pub health: Health,
    pub learned: Learned,
    pub heard_ms: u64,
    /// What it counts as.
    pub source: Source,
    /// Which of all that came it was.
    pub(super) number: u64,
    pub(super) ttl_ms: u64,
    pub(super) expires_ms: u64,
    pub(super) hosted: Vec<Hosted>,
    pub(super) agents: BTreeMap<AgentId, Held>,
    /// Key logs of its agents' publishers by their last events, and how many of its agents have each.
    logs: BTreeMap<Digest, usize>,
    /// Bytes of what is kept of it, by rank: itself, and each of its agents.
    pub(super) bytes: [usize; RANKS],
    /// Agents that were refused as they are, and until when they are not asked for again.
    pub(super) backed_off: BTreeMap<AgentId, (Hosted, u64)>,
}

/// An agent of a node.
#[derive(Debug)]
pub(super) struct Held {
    pub candidate: Candidate,
    /// Its number in the index.
    pub document: u32,
    /// How near its publisher is.
    pub publisher: Rank,
    pub log: LogName,
    /// Bytes without its publisher's key log.
    pub bytes: usize,
}

/// A key log, by what names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogName {
    /// The digest of its last event.
    pub head: Digest,
    /// How many events it has.
    len: usize,
}

impl LogName {
    pub fn of(log: &KeyLog) -> LogName {
        LogName { head: log.head(), len: log.len() }
    }

    /// What it takes in memory.
    pub fn bytes(self) -> usize {
        self.len * EVENT_BYTES
    }
}

/// An agent of a node that went silent.
pub(super) struct Departed {
    pub candidate: Candidate,
    pub publisher: Rank,
    /// As it was counted.
    pub rank: Rank,
    pub log: LogName,
    /// Bytes without its publisher's key log.
    pub bytes: usize,
}

impl Node {
    pub(super) fn new(learned: Learned, source: Source, number: u64) -> Node {
        let mut node = Node {
            load_permille: 0,
            machine: None,
            loads: Vec::new(),
            successes: Vec::new(),
            health: Health::Healthy,
            learned,
            heard_ms: 0,
            source,
            number,
            ttl_ms: 0,
            expires_ms: 0,
            hosted: Vec::new(),
            agents: BTreeMap::new(),
            logs: BTreeMap::new(),
            bytes: [0; RANKS],
            backed_off: BTreeMap::new(),
        };
        node.count();
        node
    }

    pub(super) fn heard(&mut self, now: Now) {
        self.heard_ms = now.monotonic_ms;
        self.expires_ms = now.monotonic_ms + self.ttl_ms;
        self.backed_off.retain(|_, (_, until_ms)| *until_ms > now.monotonic_ms);
    }

    /// Agents without evidence, but for those that are not to be asked for.
    pub(super) fn wanted(&self) -> Vec<Hosted> {
        let missing =
            |hosted: &&Hosted| !self.agents.contains_key(&hosted.agent) && !self.backed_off.contains_key(&hosted.agent);
        self.hosted.iter().filter(missing).cloned().collect()
    }

    /// What an agent of it does, as it says.
    pub fn load(&self, agent: &AgentId) -> Option<AgentLoad> {
        self.loads.get(self.place_of(agent)?).copied()
    }

    /// How the turns of an agent of it went that were judged, as it says: percents.
    pub fn success(&self, agent: &AgentId) -> Option<u8> {
        self.successes.get(self.place_of(agent)?).copied().flatten()
    }

    fn place_of(&self, agent: &AgentId) -> Option<usize> {
        self.hosted.binary_search_by(|hosted| hosted.agent.cmp(agent)).ok()
    }

    /// Bytes of all that is kept of it.
    pub(super) fn total(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Bytes of the list of what it hosts, and of itself.
    pub(super) fn list_bytes(&self) -> usize {
        list_bytes(self.hosted.len())
    }

    /// Bytes of what can be taken from it that is of that rank: itself only when nothing nearer would go with it.
    pub(super) fn can_give(&self, rank: Rank) -> usize {
        let stays = self.source.rank == rank && self.nearest() < rank;
        self.bytes[rank.at()] - if stays { self.list_bytes() } else { 0 }
    }

    /// The rank of the nearest that would go with it.
    pub(super) fn nearest(&self) -> Rank {
        let mut nearest_first = Rank::FARTHEST_FIRST.into_iter().rev();
        nearest_first.find(|rank| self.bytes[rank.at()] > 0).unwrap_or(self.source.rank)
    }

    /// An agent counts as near as its node or its publisher.
    pub(super) fn rank(&self, publisher: Rank) -> Rank {
        publisher.min(self.source.rank)
    }

    /// What one more agent would take.
    pub(super) fn more(&self, log: LogName, bytes: usize) -> usize {
        bytes + if self.logs.contains_key(&log.head) { 0 } else { log.bytes() }
    }

    pub(super) fn add(&mut self, agent: AgentId, held: Held) {
        self.bytes[self.rank(held.publisher).at()] += self.more(held.log, held.bytes);
        *self.logs.entry(held.log.head).or_default() += 1;
        self.agents.insert(agent, held);
    }

    pub(super) fn take(&mut self, agent: &AgentId) -> Option<Held> {
        let held = self.agents.remove(agent)?;
        let mut bytes = held.bytes;
        if let Some(count) = self.logs.get_mut(&held.log.head) {
            *count -= 1;
            if *count == 0 {
                self.logs.remove(&held.log.head);
                bytes += held.log.bytes();
            }
        }
        // All agents of one publisher have one rank on one node, so what the first added the last takes away.
        self.bytes[self.rank(held.publisher).at()] -= bytes;
        Some(held)
    }

    /// Counts everything anew.
    pub(super) fn count(&mut self) {
        self.bytes = [0; RANKS];
        self.bytes[self.source.rank.at()] += list_bytes(self.hosted.len());
        self.logs.clear();
        for (agent, held) in std::mem::take(&mut self.agents) {
            self.add(agent, held);
        }
    }

    /// The last of its agents that are of that rank.
    pub(super) fn last_of(&self, rank: Rank) -> Option<AgentId> {
        let of_rank = |(_, held): &(&AgentId, &Held)| self.rank(held.publisher) == rank;
        self.agents.iter().rfind(of_rank).map(|(agent, _)| agent.clone())
    }
}

/// A node and what it says that it hosts.
pub(super) fn list_bytes(agents: usize) -> usize {
    NODE_BYTES + agents * HOSTED_BYTES
}
