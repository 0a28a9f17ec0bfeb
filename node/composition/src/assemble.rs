//! The composition root: connects all layers to one node, from what is handed in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use althing_calls::spans::{SpanRing, TRACE, TraceService, Traces};
use althing_calls::{
    AgentCaller, ByContract, CALL, Calls, Decide, Hosting, Incoming, IncomingRequest, RESERVE, ReservationService,
    Service, Signer,
};
use althing_communication::{Caller, Communication, Entropy, Inbound, Network, StreamLimits, Trust, WallClock};
use althing_coordination::{
    Groups, GroupsConfig, OwnerNow, Ports as GroupPorts, RAFT, RAFT_LIMITS, RaftService, Worker,
};
use althing_discovery::lan::{Lan, Sighting};
use althing_discovery::{Discovery, DiscoveryConfig, Net, NodeLoad, Relations, TrustRelation};
use althing_execution::kernel::{Kernel, Promises};
use althing_execution::memory::Memories;
use althing_execution::{Host, success_rates};
use althing_governance::records::TurnRecords;
use althing_governance::{Gates, Governance};
use althing_protocol::contract::Latency;
use althing_protocol::object::{AgentLoad, Machine};
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentId, AgentRef, PublicKey, PublisherId, SecretKey};
use althing_store::Store;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::bindings::Bindings;
use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::event_sources;
use crate::events::Events;
use crate::group_port::{GroupHook, MakeWorker};
use crate::identity::Identity;
use crate::keys;
use crate::known_peers;
use crate::lan::{Introductions, LanPresence};
use crate::machine;
use crate::node::Node;
use crate::node_profile;
use crate::orders::{self, Orders};
use crate::own_policy_sets::OwnPolicySets;
use crate::owner::Owner;
use crate::publish;
use crate::push::Post;
use crate::revocation_check::KnownRevocations;
use crate::revocations::Revocations;
use crate::rollouts::{self, Rollouts};
use crate::trust::{TrustedPeers, read_trusted};

/// Turns at which a node reports full load.
const TASKS_FULL: u64 = 64;

/// What a node is handed.
pub struct Ports {
    /// The network.
    pub network: Arc<dyn Network>,
    /// The store; it has [`crate::FAMILIES`].
    pub store: Arc<dyn Store>,
    /// The time of day.
    pub clock: WallClock,
    /// Randomness.
    pub entropy: Entropy,
    /// The LAN.
    pub lan: LanPort,
    /// What runs agents.
    pub execution: Execution,
    /// The owner's keys, as they change.
    pub owner: watch::Receiver<Owner>,
    /// What answers peers' calls, if not the agents that are hosted here.
    pub answers: Option<Arc<dyn Inbound>>,
    /// Makes who decides who may reach whom, of what decides by contracts alone; nothing where that is all.
    pub decide: Option<MakeDecide>,
    /// Where its agents are called over HTTP; the caller serves that.
    pub gateway: Option<String>,
    /// Where strangers read of its public agents; the caller serves that.
    pub introductions: Introductions,
    /// Its recent spans; the caller's subscriber fills it.
    pub spans: Arc<SpanRing>,
}

/// Makes who decides, of what decides by contracts alone: only that knows whom this node trusts.
pub type MakeDecide = Box<dyn FnOnce(Arc<dyn Decide>) -> Arc<dyn Decide> + Send>;

/// The LAN.
pub enum LanPort {
    /// Not wanted.
    Off,
    /// Joined, and the nodes that are sighted.
    Joined(Lan, mpsc::Receiver<Sighting>),
    /// Wanted, and why it could not be joined.
    Failed(String),
}

impl LanPort {
    /// The node's presence on the LAN, and the nodes that are sighted there.
    fn into_presence(self, introductions: Introductions) -> (LanPresence, Option<mpsc::Receiver<Sighting>>) {
        let is_wanted = !matches!(self, LanPort::Off);
        let (lan, sightings, failure) = match self {
            LanPort::Off => (None, None, None),
            LanPort::Joined(lan, sightings) => (Some(lan), Some(sightings), None),
            LanPort::Failed(why) => (None, None, Some(why)),
        };
        (LanPresence::new(lan, is_wanted, failure, introductions), sightings)
    }
}

/// What runs agents.
pub struct Execution {
    /// L1.
    pub host: Arc<Host>,
    /// What schedules them; none if they are not scheduled.
    pub kernel: Option<Arc<Kernel>>,
    /// Where the owner's other nodes reserve capacity: the scheduler's, as a rule; nobody reserves without it.
    pub promises: Option<Arc<Promises>>,
    /// Their memory.
    pub memories: Arc<Memories>,
    /// Lets them call other agents.
    pub agent_caller: Arc<AgentCaller>,
    /// Makes the gates of its agents, once governance is there.
    pub gates: Gates,
    /// Other load of this machine, permille; 0 if it is not measured.
    pub busy_permille: Arc<AtomicU16>,
}

impl Node {
    /// Starts every layer, from L2 up; then the agents that were added before. `make` makes what does tasks of groups here; none
    /// are done without it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn assemble(
        key: SecretKey,
        config: NodeConfig,
        ports: Ports,
        make: Option<MakeWorker>,
    ) -> Result<Node, NodeError> {
        let Ports { network, store, clock, entropy, lan, execution, owner, .. } = ports;
        let Ports { answers, decide, gateway, introductions, spans, .. } = ports;
        let Execution { host, kernel, promises, memories, agent_caller, gates, busy_permille } = execution;
        let now = owner.borrow().clone();
        let membership = publish::membership(&now, key.public(), &config.communication.network, clock.now_ms())?;
        let (membership, shown) = watch::channel(membership);
        let (trust, trusting) = watch::channel(whom_to_trust(key.public(), &now, store.as_ref(), config.private)?);
        let governance = governed(&key, &config, now.id(), (&store, &host), (&clock, &entropy)).await?;
        gates.connect(&governance);
        let (revocations, orders, decide) = who_decides(trusting, &store, (now.id(), &clock), (&governance, decide))?;
        follow_orders(&orders, &gates, &governance);
        let l2 = config.communication.clone();
        let communication = Communication::start(network, key.clone(), shown, l2, clock.clone(), entropy.clone());
        recall_keys(&communication, store.as_ref(), &now, &trust, &decide, clock.now_ms())?;
        let (lan, sightings) = lan.into_presence(introductions);
        let load = facts(&host, kernel.as_ref(), busy_permille);
        let discovery = discovered(&communication, (&key, &config, &clock), &decide, load, sightings)?;
        let me = signer(&key, &config);
        let (hosting, events, rollouts) = hosted(&store, &host, (now.id(), me), &decide, (&clock, &entropy)).await?;
        put_on_record(&governance, &hosting, &rollouts);
        communication.serve(CALL, config.communication.streams, answers.unwrap_or_else(|| answering(&hosting)))?;
        serve_reservations(&communication, promises, &decide, entropy.clone(), &config.labels)?;
        let below = (communication.clone(), discovery.clone(), hosting.clone());
        let calls = Calls::new(below.0, below.1, below.2, store.clone(), clock.clone(), now.id());
        agent_caller.connect(&calls);
        let network = config.communication.network.clone();
        let identity =
            Arc::new(Identity::new(key.clone(), network, owner, membership, communication.clone(), clock.clone()));
        let work = make.map(|make| make(&calls, &identity));
        let groups = open_groups(&communication, &identity, store.clone(), &entropy, work).await?;
        let bindings = bindings(&host, kernel.as_ref(), &store, &identity, &config);
        let noted = (revocations.clone(), orders.clone(), events.clone(), governance.clone());
        let node = Node {
            traces: serve_traces((&communication, &discovery), (&hosting, &calls), spans, decide)?,
            key,
            config,
            agents: Agents::new(bindings.clone(), hosting.clone(), discovery.clone(), noted, rollouts.clone()),
            rollouts,
            revocations,
            orders,
            trust: TrustedPeers::new(store.clone(), communication.clone(), trust, events.clone()),
            events,
            communication,
            discovery,
            governance,
            hosting,
            calls,
            groups,
            host,
            kernel,
            memories,
            store,
            identity,
            bindings,
            lan,
            gateway,
            notes: Vec::new(),
            stop: CancellationToken::new(),
            clock,
            entropy,
        };
        node.start().await
    }

    /// Recalls peers, watches keys, reads Things, and starts the agents that were added before.
    async fn start(mut self) -> Result<Node, NodeError> {
        self.notes.extend(self.lan.failure.iter().map(|why| format!("not on the LAN: {why}")));
        known_peers::load(self.store.as_ref(), &self.discovery).await?;
        orders::serve(&self.orders, &self.communication)?;
        rollouts::serve(&self.rollouts, &self.communication)?;
        send_notifications(&self.hosting, self.config.push.clone(), &self.key, &self.clock);
        self.communication.check_reachability(self.config.announce.clone());
        self.trust.watch_keys();
        self.notes.extend(self.lan.read_things(&self.discovery, &self.config.things));
        self.notes.extend(node_profile::note(self.config.governance.profile));
        self.record_settings().await?;
        self.notes.extend(self.agents.start_stored().await?);
        Ok(self)
    }
}

/// Loads the keys of those whom this node trusts, and exempts these from the limit of requests.
fn recall_keys(
    communication: &Communication,
    store: &dyn Store,
    owner: &Owner,
    trust: &watch::Sender<Trust>,
    decide: &Arc<dyn Decide>,
    now_ms: u64,
) -> Result<(), NodeError> {
    let near = trust.borrow().publishers().chain([owner.id()]).collect();
    keys::load(store, communication.keys(), owner, near, now_ms)?;
    exempt_trusted(communication, decide.clone());
    Ok(())
}

/// This node, its owner, and whom its store says that it trusts.
fn whom_to_trust(node: PublicKey, owner: &Owner, store: &dyn Store, private: bool) -> Result<Trust, NodeError> {
    Ok(Trust { node, owner: owner.id(), trusted: read_trusted(store)?, private })
}

/// People are asked about calls of tools, and it is on record what turns did and which versions have new calls.
fn put_on_record(governance: &Governance, hosting: &Hosting, rollouts: &Rollouts) {
    hosting.ask_people(Arc::new(governance.clone()));
    hosting.record_turns(Arc::new(TurnRecords(governance.clone())));
    rollouts.record_to(governance.clone());
}

/// What owners ordered stops agents, and puts policy sets in force.
fn follow_orders(orders: &Arc<Orders>, gates: &Gates, governance: &Governance) {
    let stopped = orders.clone();
    gates.stops().connect(Box::new(move |agent| stopped.why_stopped(agent)));
    orders.follow_policy_sets(Box::new(OwnPolicySets(governance.clone())));
}

/// What finds other nodes and their agents, and publishes `load` of this one.
fn discovered(
    communication: &Communication,
    (key, config, clock): (&SecretKey, &NodeConfig, &WallClock),
    decide: &Arc<dyn Decide>,
    load: impl Fn() -> NodeLoad + Send + Sync + 'static,
    sightings: Option<mpsc::Receiver<Sighting>>,
) -> Result<Discovery, NodeError> {
    Ok(Discovery::start(
        communication.clone(),
        key.clone(),
        DiscoveryConfig { network: config.communication.network.clone(), ..config.discovery.clone() },
        clock.clone(),
        relations(communication, decide),
        load,
        sightings,
    )?)
}

/// What binds agents' contracts.
fn bindings(
    host: &Arc<Host>,
    kernel: Option<&Arc<Kernel>>,
    store: &Arc<dyn Store>,
    identity: &Arc<Identity>,
    config: &NodeConfig,
) -> Arc<Bindings> {
    Arc::new(Bindings {
        host: host.clone(),
        kernel: kernel.cloned(),
        store: store.clone(),
        identity: identity.clone(),
        policies: config.policies.clone(),
        profile: config.governance.profile,
        clock: identity.clock().clone(),
    })
}

/// What answers calls of agents here, the node's events, of which ends of turns are some, and what divides calls between
/// versions.
async fn hosted(
    store: &Arc<dyn Store>,
    host: &Arc<Host>,
    (owner, me): (PublisherId, Signer),
    decide: &Arc<dyn Decide>,
    (clock, entropy): (&WallClock, &Entropy),
) -> Result<(Hosting, Events, Arc<Rollouts>), NodeError> {
    let events = Events::new(clock.clone());
    let rollouts = Arc::new(Rollouts::open(store.clone(), clock.clone(), owner)?);
    let (store, host, decide) = (store.clone(), host.clone(), decide.clone());
    let hosting = Hosting::open(store, host, owner, me, decide, clock.clone(), entropy.clone()).await?;
    let noted = events.clone();
    hosting.follow_ends(move |end| noted.note(event_sources::turn_end(end)));
    hosting.divide_by(rollouts.clone());
    Ok((hosting, events, rollouts))
}

/// Reads what this node's owner wrote of policies and people, and what people agreed to, and compares it with what the node's
/// profile demands; the audit log is signed with the node's
/// key.
async fn governed(
    key: &SecretKey,
    config: &NodeConfig,
    owner: PublisherId,
    (store, host): (&Arc<dyn Store>, &Arc<Host>),
    (clock, entropy): (&WallClock, &Entropy),
) -> Result<Governance, NodeError> {
    let secret = key.clone();
    let ports = althing_governance::Ports {
        store: store.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
        node: key.public(),
        owner,
        folder: config.data.as_ref().map(|data| data.join("governance")),
        sign: Arc::new(move |origin, head| Checkpoint::sign(origin, head, &secret)),
        profile: config.governance.profile,
    };
    // Boxed, or starting a node would have room for it throughout.
    let governance = Box::pin(Governance::open(ports)).await?;
    node_profile::check(&config.governance, &governance, host, store.as_ref())?;
    Ok(governance)
}

/// Who this node is, for tasks that move.
fn signer(key: &SecretKey, config: &NodeConfig) -> Signer {
    Signer { key: key.clone(), network: config.communication.network.as_str().into() }
}

/// Answers peers' calls by the agents that are hosted here.
fn answering(hosting: &Hosting) -> Arc<dyn Inbound> {
    Arc::new(Incoming(hosting.clone()))
}

/// By what is decided, and who decides.
type Deciders = (Arc<Revocations>, Arc<Orders>, Arc<dyn Decide>);

/// Reads which releases publishers revoked, and what owners ordered. By these, and by whom this node trusts, is decided who may
/// reach whom, then by the owner's policies, and by what `make` adds to that.
fn who_decides(
    trust: watch::Receiver<Trust>,
    store: &Arc<dyn Store>,
    (owner, clock): (PublisherId, &WallClock),
    (governance, make): (&Governance, Option<MakeDecide>),
) -> Result<Deciders, NodeError> {
    let revocations = Arc::new(Revocations::open(store.clone())?);
    let orders = Arc::new(Orders::open(store.clone(), owner, clock.clone())?);
    let (known, given) = (revocations.clone(), orders.clone());
    let check = KnownRevocations { revocations: known, orders: given, store: store.clone(), owner };
    let by_contract: Arc<dyn Decide> = Arc::new(ByContract::new(trust, Some(Arc::new(check))));
    let decide = governance.decide(by_contract);
    let decide = match make {
        Some(make) => make(decide),
        None => decide,
    };
    Ok((revocations, orders, decide))
}

/// Starts the groups that this node belongs to, and serves their members. `work` does their tasks, and is told of them.
async fn open_groups(
    communication: &Communication,
    identity: &Arc<Identity>,
    store: Arc<dyn Store>,
    entropy: &Entropy,
    work: Option<(Arc<dyn Worker>, GroupHook)>,
) -> Result<Groups, NodeError> {
    let of = identity.clone();
    let owner = Box::new(move || {
        let owner = of.owner();
        OwnerNow { key: owner.key, log: owner.log, proof: of.membership() }
    });
    let (worker, opened) = work.unzip();
    let ports = GroupPorts {
        communication: communication.clone(),
        key: identity.key.clone(),
        owner,
        store,
        clock: identity.clock().clone(),
        entropy: entropy.clone(),
        worker,
    };
    let groups = Groups::open(ports, GroupsConfig::new(identity.network())).await?;
    communication.serve(RAFT, RAFT_LIMITS, Arc::new(RaftService(groups.clone())))?;
    if let Some(opened) = opened {
        opened(&groups);
    }
    Ok(groups)
}

/// Few nodes of one owner reserve at one time.
const RESERVE_LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 256, idle_max: 1 };

/// Lets the owner's other nodes reserve capacity here.
fn serve_reservations(
    communication: &Communication,
    promises: Option<Arc<Promises>>,
    decide: &Arc<dyn Decide>,
    entropy: Entropy,
    labels: &[String],
) -> Result<(), NodeError> {
    if let Some(promises) = promises {
        let decide = decide.clone();
        let service = ReservationService { promises, decide, entropy, labels: labels.to_vec() };
        communication.serve(RESERVE, RESERVE_LIMITS, Arc::new(service))?;
    }
    Ok(())
}

/// Sends push notifications, if they are configured.
fn send_notifications(hosting: &Hosting, nets: Option<Vec<Net>>, key: &SecretKey, clock: &WallClock) {
    let Some(nets) = nets else { return };
    match Post::new(nets, key.clone(), clock.clone()) {
        Ok(post) => hosting.notify_through(Arc::new(post)),
        Err(error) => tracing::error!(%error, "push notifications are not served: no HTTP client can be made"),
    }
}

/// Few nodes of one owner ask for traces at one time.
const TRACE_LIMITS: StreamLimits = StreamLimits { per_peer_max: 4, total_max: 64, idle_max: 1 };

/// Lets the owner's other nodes ask for spans and for what turns did, and this one ask them.
fn serve_traces(
    (communication, discovery): (&Communication, &Discovery),
    (hosting, calls): (&Hosting, &Calls),
    ring: Arc<SpanRing>,
    decide: Arc<dyn Decide>,
) -> Result<Traces, NodeError> {
    let service = TraceService { ring: ring.clone(), decide: decide.clone(), hosting: hosting.clone() };
    communication.serve(TRACE, TRACE_LIMITS, Arc::new(service))?;
    let (communication, discovery) = (communication.clone(), discovery.clone());
    Ok(Traces { ring, communication, discovery, decide, calls: calls.clone() })
}

/// Exempts trusted peers from the request rate limit.
fn exempt_trusted(communication: &Communication, decide: Arc<dyn Decide>) {
    communication.trusts(move |caller: &Caller| {
        decide.decide_incoming(&IncomingRequest::plain(Service::Exemption, caller)).allows_at_once()
    });
}

/// The trust levels of nodes and publishers.
fn relations(communication: &Communication, decide: &Arc<dyn Decide>) -> Relations {
    let (owners, of_peers, of_agents) = (communication.clone(), decide.clone(), decide.clone());
    let of_node = move |peer| {
        let caller = Caller { node: peer, owner: owners.owner(peer) };
        let is_told = |near: &TrustRelation| {
            let asked = IncomingRequest::plain(Service::Discovery(*near), &caller);
            of_peers.decide_incoming(&asked).allows_at_once()
        };
        let nearest = [TrustRelation::Own, TrustRelation::Trusted].into_iter().find(is_told);
        nearest.unwrap_or(TrustRelation::Stranger)
    };
    let of_publisher = move |agent: &AgentId| of_agents.relation(agent.publisher());
    Relations::new(of_node, of_publisher)
}

/// The load of each agent, by its name: the turns of all its versions, in the class of the one that is given new messages.
fn loads(host: &Host, turns: BTreeMap<AgentRef, (Latency, u64)>) -> BTreeMap<String, AgentLoad> {
    let mut loads = BTreeMap::new();
    for (agent, (latency, turns)) in turns {
        let latency = host.latency(agent.name()).unwrap_or(latency);
        let load = loads.entry(agent.name().to_owned()).or_insert(AgentLoad { latency, turns: 0 });
        load.turns = load.turns.saturating_add(u32::try_from(turns).unwrap_or(u32::MAX));
    }
    loads
}

/// How the turns of each agent went, by its name, percents: where that is known from verdicts and failures alone.
fn measured(host: &Host) -> BTreeMap<String, u8> {
    let rates = success_rates(host).into_iter().filter(|(_, rate)| rate.is_measured);
    rates.map(|(name, rate)| (name, rate.percent)).collect()
}

/// What this node publishes of itself.
fn facts(
    host: &Arc<Host>,
    kernel: Option<&Arc<Kernel>>,
    busy_permille: Arc<AtomicU16>,
) -> impl Fn() -> NodeLoad + Send + Sync + use<> {
    let (host, kernel, memory_mib) = (host.clone(), kernel.cloned(), machine::memory_mib("MemTotal"));
    let of_machine = move |kernel: &Kernel| {
        let promised =
            kernel.promises.shares_ppm().iter().min().map_or(1_000, |ppm| u16::try_from(ppm / 1_000).unwrap_or(1_000));
        kernel.promises.hardware().map(|machine| Machine {
            grade: machine.grade,
            cores: u16::try_from(kernel.cores()).unwrap_or(u16::MAX),
            memory_mib,
            promised_permille: promised,
        })
    };
    move || {
        let turns = host.turns();
        let all: u64 = turns.values().map(|(_, turns)| turns).sum();
        let permille = u16::try_from(all.min(TASKS_FULL) * 1_000 / TASKS_FULL).unwrap_or(1_000);
        NodeLoad {
            loads: loads(&host, turns),
            successes: measured(&host),
            load_permille: permille.max(busy_permille.load(Ordering::Relaxed)),
            machine: kernel.as_deref().and_then(of_machine),
        }
    }
}
