//! The composition root: makes one node of all layers, from what is handed in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use althing_calls::{Asking, CALL, Calls, Hosting, Incoming, RESERVE, Reserving};
use althing_communication::{Caller, CallerRule, Communication, Entropy, Inbound, Network, Trust, WallClock};
use althing_discovery::lan::{Lan, Sighting};
use althing_discovery::{Discovery, DiscoveryConfig, Facts, Nearness, Relations};
use althing_execution::Host;
use althing_execution::kernel::Kernel;
use althing_execution::memory::Memories;
use althing_protocol::object::{AgentLoad, Machine};
use althing_protocol::{AgentId, CallerId, SecretKey};
use althing_store::Store;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::introduce::Introductions;
use crate::keys;
use crate::node::{Node, read_trusted};
use crate::owner::Owner;
use crate::publish;

/// Tasks at which a node calls itself fully loaded.
const TASKS_FULL: u64 = 64;

/// What a node stands on.
pub struct Ports {
    /// Who else is there, and the way to them.
    pub network: Arc<dyn Network>,
    /// What lasts; it has [`crate::FAMILIES`].
    pub store: Arc<dyn Store>,
    /// The time of day.
    pub clock: WallClock,
    /// Randomness.
    pub entropy: Entropy,
    /// The LAN.
    pub lan: LanPort,
    /// What runs agents.
    pub execution: Execution,
    /// The owner's keys, as they are and as they change.
    pub owner: watch::Receiver<Owner>,
    /// What answers peers' calls, where that is not the agents that are hosted here.
    pub answers: Option<Arc<dyn Inbound>>,
    /// Where its agents are called over HTTP, by whoever serves that.
    pub gateway: Option<SocketAddr>,
    /// Where strangers read of its public agents, by whoever serves that.
    pub introductions: Introductions,
}

/// The way to others on the LAN.
pub enum LanPort {
    /// Not wanted.
    Off,
    /// Joined, and whom it sights.
    Joined(Lan, mpsc::Receiver<Sighting>),
    /// Wanted, and why it cannot be had.
    Failed(String),
}

impl LanPort {
    /// The LAN, whom it sights, and why it cannot be had.
    fn into_parts(self) -> (Option<Lan>, Option<mpsc::Receiver<Sighting>>, Option<String>) {
        match self {
            LanPort::Off => (None, None, None),
            LanPort::Joined(lan, sightings) => (Some(lan), Some(sightings), None),
            LanPort::Failed(why) => (None, None, Some(why)),
        }
    }
}

/// What runs agents.
pub struct Execution {
    /// L1.
    pub host: Arc<Host>,
    /// What schedules them; none where they run as they come.
    pub kernel: Option<Arc<Kernel>>,
    /// What they keep.
    pub memories: Arc<Memories>,
    /// Their way to other agents.
    pub asking: Arc<Asking>,
    /// What else keeps this machine busy, permille; 0 where nobody measures that.
    pub busy_permille: Arc<AtomicU16>,
}

impl Node {
    /// Starts every layer, from the ground up; then the agents that were added before.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn assemble(key: SecretKey, config: NodeConfig, ports: Ports) -> Result<Node, NodeError> {
        let Ports { network, store, clock, entropy, lan, execution, owner, answers, gateway, introductions } = ports;
        let Execution { host, kernel, memories, asking, busy_permille } = execution;
        let now = owner.borrow().clone();
        let membership = publish::membership(&now, key.public(), &config.communication.network, clock.now_ms())?;
        let (membership, shown) = watch::channel(membership);
        let trusted = read_trusted(store.as_ref())?;
        let (trust, trusting) =
            watch::channel(Trust { node: key.public(), owner: now.id(), trusted, private: config.private });
        let communication = Communication::start(
            network,
            key.clone(),
            shown,
            config.communication.clone(),
            clock.clone(),
            entropy.clone(),
        );
        let near = trust.borrow().publishers().chain([now.id()]).collect();
        keys::recall(store.as_ref(), communication.keys(), &now, near, clock.now_ms())?;
        regard_trusted(&communication, trust.subscribe());
        communication.check_reachability(config.announce.clone());
        let lan_wanted = !matches!(lan, LanPort::Off);
        let (lan, sightings, lan_trouble) = lan.into_parts();
        let discovery = Discovery::start(
            communication.clone(),
            key.clone(),
            DiscoveryConfig { network: config.communication.network.clone(), ..config.discovery.clone() },
            clock.clone(),
            relations(&communication, trust.subscribe()),
            facts(&host, kernel.as_ref(), busy_permille),
            sightings,
        )?;
        let hosting = Hosting::open(store.clone(), host.clone(), trusting, clock.clone(), entropy.clone()).await?;
        communication.serve(CALL, answers.unwrap_or_else(|| Arc::new(Incoming(hosting.clone()))))?;
        if let Some(kernel) = kernel.clone() {
            let (trust, entropy, labels) = (trust.subscribe(), entropy.clone(), config.labels.clone());
            communication.serve(RESERVE, Arc::new(Reserving { kernel, trust, entropy, labels }))?;
        }
        let below = (communication.clone(), discovery.clone(), hosting.clone());
        let calls = Calls::new(below.0, below.1, below.2, store.clone(), clock.clone(), now.id());
        asking.tie(&calls);
        let notes = lan_trouble.iter().map(|why| format!("not on the LAN: {why}")).collect();
        let node = Node {
            owner,
            key,
            config,
            communication,
            discovery,
            hosting,
            calls,
            host,
            kernel,
            memories,
            store,
            gateway,
            introductions,
            notes,
            stop: CancellationToken::new(),
            clock,
            entropy,
            trust,
            membership,
            lan: Mutex::new(lan),
            lan_trouble,
            lan_wanted,
            changing: tokio::sync::Mutex::default(),
            failed: Mutex::new(BTreeMap::new()),
        };
        node.start_stored().await
    }
}

/// Peers that are trusted have no limit of requests.
fn regard_trusted(communication: &Communication, trust: watch::Receiver<Trust>) {
    communication.trusts(move |caller: &Caller| trust.borrow().check(&CallerRule::Trusted, caller).is_ok());
}

/// How near nodes and publishers are, by whom this node trusts.
fn relations(communication: &Communication, trust: watch::Receiver<Trust>) -> Relations {
    let (owners, trusting) = (communication.clone(), trust.clone());
    let of_node = move |peer| {
        let (caller, trust) = (Caller { node: peer, owner: owners.owner(peer) }, trusting.borrow());
        let allows = |rule| trust.check(&rule, &caller).is_ok();
        match (allows(CallerRule::Own), allows(CallerRule::Trusted)) {
            (true, _) => Nearness::Own,
            (false, true) => Nearness::Trusted,
            (false, false) => Nearness::Stranger,
        }
    };
    let of_publisher = move |agent: &AgentId| {
        let trust = trust.borrow();
        match agent.publisher() {
            own if own == trust.owner => Nearness::Own,
            other if trust.private || trust.trusted.contains(&CallerId::Publisher(other)) => Nearness::Trusted,
            _ => Nearness::Stranger,
        }
    };
    Relations::new(of_node, of_publisher)
}

/// What this node tells of itself.
fn facts(
    host: &Arc<Host>,
    kernel: Option<&Arc<Kernel>>,
    busy_permille: Arc<AtomicU16>,
) -> impl Fn() -> Facts + Send + Sync + use<> {
    let (host, kernel, memory_mib) = (host.clone(), kernel.cloned(), memory_mib());
    let machine = move |kernel: &Kernel| {
        let promised =
            kernel.shares_ppm().iter().min().map_or(1_000, |ppm| u16::try_from(ppm / 1_000).unwrap_or(1_000));
        kernel.machine().map(|machine| Machine {
            grade: machine.grade,
            cores: u16::try_from(kernel.cores()).unwrap_or(u16::MAX),
            memory_mib,
            promised_permille: promised,
        })
    };
    move || {
        let turns = host.turns();
        let all: u64 = turns.values().map(|(_, turns)| turns).sum();
        let load = |(latency, turns)| AgentLoad { latency, turns: u32::try_from(turns).unwrap_or(u32::MAX) };
        let permille = u16::try_from(all.min(TASKS_FULL) * 1_000 / TASKS_FULL).unwrap_or(1_000);
        Facts {
            loads: turns.into_iter().map(|(name, now)| (name, load(now))).collect(),
            load_permille: permille.max(busy_permille.load(Ordering::Relaxed)),
            machine: kernel.as_deref().and_then(machine),
        }
    }
}

/// Memory of this machine, MiB; 0 where the system does not tell.
fn memory_mib() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default();
    u32::try_from(kib / 1_024).unwrap_or(u32::MAX)
}
