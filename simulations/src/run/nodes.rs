//! The honest nodes of a scenario, which crash, restart and are partitioned, and their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use althing_communication::WallClock;
use althing_discovery::{Bounds, DiscoveryConfig};
use althing_execution::kernel::Promises;
use althing_protocol::{AgentId, CallerId, PublicKey};
use althing_simnet::SimNet;
use althing_store::MemoryStore;
use althing_td::AgentFile;

use super::SETTLED_MS;
use crate::invariant::Truth;
use crate::mesh::{Node, Owner, Setup, file_asking, store};
use crate::scenario::Scenario;
use crate::{NETWORK, NOW_MS, key};

/// The first owner of honest nodes.
pub(super) const OWNER: u32 = 900_000;
/// Peers to which a simulated node pushes its placement: fewer than a real one, since a thousand nodes share a processor; more is
/// then found through the DHT.
const PUSH_PEERS: usize = 4;

/// A node, which may crash and restart, and its disk.
pub(super) struct Slot {
    pub node: Option<Node>,
    pub store: Arc<MemoryStore>,
    pub capability: Option<String>,
    /// When it last joined.
    pub since_ms: u64,
    /// On the smaller side of a partition.
    pub isolated: bool,
    pub skew_ms: Arc<AtomicI64>,
    /// What it has promised.
    pub promises: Option<Arc<Promises>>,
    /// The changes of trust that it has heard of; none of a node that never joined.
    heard: Option<usize>,
}

/// All honest nodes, the network between them, and their owners.
pub(super) struct Nodes {
    pub net: SimNet,
    pub slots: Vec<Slot>,
    pub owners: Vec<Owner>,
    /// Owners whom all others trust again (true) or no longer (false), in order.
    pub trust_changes: Vec<(u32, bool)>,
    asks: u32,
    count: u32,
    partitioned: bool,
}

impl Nodes {
    pub fn new(scenario: &Scenario, seed: u64) -> Nodes {
        let agents = &scenario.agents;
        let slot = |number: u32| Slot {
            node: None,
            store: store(),
            capability: number
                .is_multiple_of(agents.each)
                .then(|| format!("doing.thing-{}", number / agents.each % agents.capabilities)),
            since_ms: 0,
            isolated: false,
            skew_ms: Arc::default(),
            promises: None,
            heard: None,
        };
        Nodes {
            net: SimNet::new(seed, scenario.link.config()).named(NETWORK, NOW_MS),
            slots: (0..scenario.nodes).map(slot).collect(),
            owners: (0..agents.owners).map(|number| Owner::new(key(OWNER + number))).collect(),
            trust_changes: Vec::new(),
            asks: agents.asks,
            count: scenario.nodes,
            partitioned: false,
        }
    }

    pub fn running(&self) -> Vec<u32> {
        let numbered = (0..self.count).zip(&self.slots);
        numbered.filter(|(_, slot)| slot.node.is_some()).map(|(number, _)| number).collect()
    }

    pub fn slot(&self, number: u32) -> &Slot {
        &self.slots[usize::try_from(number).expect("a small number")]
    }

    pub fn slot_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[usize::try_from(number).expect("a small number")]
    }

    /// The owner of a node.
    pub fn owner_of(&self, number: u32) -> usize {
        number as usize % self.owners.len()
    }

    /// The running nodes of an owner.
    pub fn of_owner(&self, owner: u32) -> Vec<u32> {
        self.running().into_iter().filter(|number| self.owner_of(*number) == owner as usize).collect()
    }

    /// How a node is put together.
    pub fn setup(&self, number: u32, scenario: &Scenario) -> Setup {
        let mut setup = Setup::new(&self.net, number + 1, OWNER);
        setup.owner = self.owners[self.owner_of(number)].clone();
        if self.slot(number).heard.is_none() {
            // What a node was told is on its disk when it restarts.
            setup.trusted = self.owners.iter().map(|owner| CallerId::Publisher(owner.id())).collect();
        }
        // The first nodes are the bootstrap peers of all others.
        let known = (0..scenario.join.through).filter(|known| *known != number);
        let address = |known: u32| format!("sim:{}", key(known + 1).public());
        setup.discovery = DiscoveryConfig {
            bootstrap: known.map(address).collect(),
            push_peers_max: PUSH_PEERS,
            bounds: Bounds { bytes: scenario.catalogue.bytes, ..Bounds::for_nodes(scenario.catalogue.nodes) },
            ..DiscoveryConfig::default()
        };
        let (clock, skew) = (self.net.clock(), self.slot(number).skew_ms.clone());
        setup.clock = WallClock::new(move || clock.now_ms().saturating_add_signed(skew.load(Ordering::Relaxed)));
        setup
    }

    /// Cuts the links between `isolated` and all others.
    pub fn partition(&mut self, isolated: &[u32]) {
        self.partitioned = true;
        for number in isolated {
            self.slot_mut(*number).isolated = true;
        }
        for number in isolated {
            self.cut_off(*number);
        }
    }

    /// Tells a node whom its owner trusts or no longer trusts since it was told last.
    pub async fn hear_trust(&mut self, number: u32) {
        let own = self.owner_of(number);
        let all = self.trust_changes.len();
        let told = self.slot_mut(number).heard.replace(all).unwrap_or_default();
        let Some(node) = &self.slot(number).node else { return };
        for (owner, trusted) in &self.trust_changes[told..] {
            let owner = *owner as usize;
            if owner != own {
                let id = CallerId::Publisher(self.owners[owner].id());
                node.trust.set(id, *trusted).await.expect("memory takes it");
            }
        }
    }

    /// The id of a node's agent.
    pub fn agent(&self, number: u32) -> AgentId {
        AgentId::new(self.owners[self.owner_of(number)].id(), &agent_name(number)).expect("a name")
    }

    /// The nodes that host an agent, in order.
    pub fn hosts(&self) -> Vec<u32> {
        (0..self.count).filter(|number| self.slot(*number).capability.is_some()).collect()
    }

    /// The agent of a node; its contract lets it ask the next ones.
    pub fn agent_file(&self, number: u32, capability: &str) -> AgentFile {
        let hosts = self.hosts();
        let after = hosts.iter().cycle().skip_while(|host| **host != number).skip(1);
        let others: Vec<String> = after.take(self.asks as usize).map(|host| agent_name(*host)).collect();
        file_asking(&agent_name(number), "does its thing", capability, ("do", capability), &others)
    }

    /// Restores all links.
    pub fn heal(&mut self) {
        self.partitioned = false;
        self.net.heal_all();
        self.slots.iter_mut().for_each(|slot| slot.isolated = false);
    }

    /// A node joined: its links across a partition are cut again.
    pub fn on_rejoin(&self, number: u32) {
        if self.partitioned {
            self.cut_off(number);
        }
    }

    /// Cuts a node's links to all nodes on the other side.
    fn cut_off(&self, number: u32) {
        let isolated = self.slot(number).isolated;
        for other in 0..self.count {
            if self.slot(other).isolated != isolated {
                self.net.cut(key(number + 1).public(), key(other + 1).public());
            }
        }
    }

    /// The nodes that a search must find: they have `capability`, joined long enough ago, are on the seeker's side, and their
    /// owner's keys are not revoked.
    pub fn expected(&self, seeker: u32, capability: &str, now_ms: u64, truth: &Truth) -> Vec<PublicKey> {
        let isolated = self.slot(seeker).isolated;
        let settled = |slot: &&Slot| slot.since_ms + SETTLED_MS <= now_ms && slot.isolated == isolated;
        let has = self.slots.iter().filter(|slot| slot.capability.as_deref() == Some(capability)).filter(settled);
        let nodes = has.filter_map(|slot| slot.node.as_ref());
        nodes.filter(|node| !truth.revoked_ms.contains_key(&node.owner.id())).map(Node::id).collect()
    }
}

/// The name of a node's agent.
fn agent_name(number: u32) -> String {
    format!("agent-{number}")
}
