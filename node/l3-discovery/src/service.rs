//! The interface of L3: what is hosted here, what is found, and what keeps it from working.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_communication::{Communication, StreamLimits, WallClock};
use althing_protocol::contract::Latency;
use althing_protocol::object::Authored;
use althing_protocol::record::Contact;
use althing_protocol::{AgentId, PublicKey, PublisherId, SecretKey};
use althing_td::Exposure;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::DiscoveryConfig;
use crate::error::FindError;
use crate::exchange::PlacementExchange;
use crate::hints::HostHints;
use crate::lan::Sighting;
use crate::machine::catalogue::Candidate;
use crate::machine::dialling::{Dialling, Times};
use crate::machine::known_peers::{KnownPeer, Remembered};
use crate::machine::query::{Among, Explanation, Found, Query, TrustRelation};
use crate::machine::things::Thing;
use crate::search::Searcher;
use crate::serve::Server;
use crate::state::{LocalAgent, NodeLoad, Relations, Shared, State};
use crate::things::{Hint, ThingReader};
use crate::{DESCRIBE, Net, PLACEMENTS, dialler, instance, key_changes, publisher};

/// A node pushes its placement, watches, and searches: few streams to each peer at one time.
const PLACEMENTS_LIMITS: StreamLimits = StreamLimits { per_peer_max: 32, total_max: 4_096, idle_max: 4 };
/// A search asks each host for descriptions, many at a time when its callers are many.
const DESCRIBE_LIMITS: StreamLimits = StreamLimits { per_peer_max: 32, total_max: 1_024, idle_max: 4 };

/// How long the larger id waits for the smaller one to dial, after a sighting on the LAN.
const DIAL_TIE_BREAK_MS: u64 = 1_000;

/// What keeps this node from finding others, or others from finding it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Addresses of the configuration that cannot be reached, and why.
    pub unreachable: Vec<(String, String)>,
    /// Peers that do not take this node's placement, and why.
    pub refused_by: Vec<(PublicKey, String)>,
}

/// L3 at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Nodes believed to be there, this one included.
    pub nodes: usize,
    /// Agents known, counted once for each node that hosts them.
    pub agents: usize,
    /// Bytes of what is kept of other nodes, of those that are there and of those that went silent.
    pub bytes: usize,
    /// Addresses and nodes that are dialled when they have no connection.
    pub targets: usize,
    /// Placements and evidence that were refused since the start.
    pub refused: u64,
}

/// Finds nodes and agents.
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

impl Discovery {
    /// Starts L3: serves placements and descriptions, pushes this node's own, dials `sightings` and bootstrap peers.
    ///
    /// # Errors
    /// When the stream protocols are served already.
    pub fn start(
        communication: Communication,
        key: SecretKey,
        config: DiscoveryConfig,
        clock: WallClock,
        relations: Relations,
        facts: impl Fn() -> NodeLoad + Send + Sync + 'static,
        sightings: Option<mpsc::Receiver<Sighting>>,
    ) -> Result<Discovery, althing_communication::AcceptError> {
        let mut dialling = Dialling::new(key.public(), times(&config));
        config.bootstrap.iter().cloned().for_each(|address| dialling.bootstrap(address));
        let begun_ms = clock.now_ms();
        let state = State::new(key.public(), &config, dialling, begun_ms);
        let shared = Arc::new(Shared {
            communication,
            config,
            key,
            clock,
            relations,
            facts: Box::new(facts),
            started: Instant::now(),
            state: Mutex::new(state),
            changed: Notify::new(),
            subscribers: Notify::new(),
            known_changed: Notify::new(),
            begun_ms,
            hints: OnceLock::new(),
        });
        let server = Arc::new(Server(shared.clone()));
        shared.communication.serve(PLACEMENTS, PLACEMENTS_LIMITS, server.clone())?;
        shared.communication.serve(DESCRIBE, DESCRIBE_LIMITS, server)?;
        let events = shared.communication.network().events();
        // The other tasks end with the network, whose end the exchange notices.
        let over = CancellationToken::new();
        let exchange = PlacementExchange(shared.clone()).run(events);
        let ends = over.clone().drop_guard();
        tokio::spawn(async move {
            exchange.await;
            drop(ends);
        });
        tokio::spawn(over.clone().run_until_cancelled_owned(dialler::run(shared.clone())));
        tokio::spawn(over.clone().run_until_cancelled_owned(publisher::run(shared.clone())));
        tokio::spawn(over.clone().run_until_cancelled_owned(instance::run(shared.clone())));
        tokio::spawn(over.run_until_cancelled_owned(key_changes::run(shared.clone())));
        if let Some(sightings) = sightings {
            tokio::spawn(dialler::take_sightings(shared.clone(), sightings));
        }
        Ok(Discovery { shared })
    }

    /// Adds, or replaces, an agent that this node hosts, and tells the peers.
    pub fn host(&self, agent: LocalAgent) {
        let id = agent.verified.agent.clone();
        let mut state = self.shared.lock();
        state.taken.insert(id.name().to_owned(), id.clone());
        state.local.insert(id, agent);
        drop(state);
        self.shared.refresh_own();
        self.shared.changed.notify_one();
    }

    /// Takes away an agent that this node hosted, and tells the peers.
    pub fn unhost(&self, agent: &AgentId) {
        let mut state = self.shared.lock();
        state.local.remove(agent);
        // It was removed on purpose: its name is free.
        state.taken.retain(|_, taken| taken != agent);
        drop(state);
        self.shared.refresh_own();
        self.shared.changed.notify_one();
    }

    /// Whether this node hosts an agent of that name, so that it is found here.
    #[must_use]
    pub fn is_hosted(&self, name: &str) -> bool {
        self.shared.lock().local.keys().any(|id| id.name() == name)
    }

    /// The agents of this node that everybody may know of, by name.
    #[must_use]
    pub fn introduced(&self) -> Vec<Candidate> {
        let state = self.shared.lock();
        let public = state.local.values().filter(|local| local.exposure == Exposure::Public);
        let candidate =
            |local: &LocalAgent| Candidate { verified: local.verified.clone(), description: local.description.clone() };
        public.map(candidate).collect()
    }

    /// The agents of this node, by id.
    #[must_use]
    pub fn local(&self) -> Vec<Candidate> {
        let state = self.shared.lock();
        let candidate =
            |local: &LocalAgent| Candidate { verified: local.verified.clone(), description: local.description.clone() };
        state.local.values().map(candidate).collect()
    }

    /// What `query` finds, and why not more.
    #[must_use]
    pub fn find(&self, query: &Query) -> (Vec<Found>, Explanation) {
        let now_ms = self.shared.now().monotonic_ms;
        self.shared.lock().catalogue.find(query, now_ms)
    }

    /// The agent that `text` names: a whole id, or a name. Of several agents of one name those of the nearest publisher
    /// count; a stranger's only where that is asked for, and never in the place of one that was near.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn resolve(
        &self,
        text: &str,
        among: Among,
        relation: impl Fn(PublisherId) -> TrustRelation,
    ) -> Result<AgentId, FindError> {
        match text.parse::<AgentId>() {
            Ok(id) => Ok(id),
            Err(_) => self.shared.lock().named(text, among, relation),
        }
    }

    /// The agents of that name that are known, whosever they are: those among which [`Discovery::resolve`] chooses.
    #[must_use]
    pub fn namesakes(&self, name: &str) -> BTreeSet<AgentId> {
        self.shared.lock().catalogue.namesakes(name)
    }

    /// The nodes that host an agent, in the order in which they should be asked.
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        self.shared.lock().catalogue.hosts(agent)
    }

    /// The latency class in which the node that is asked first for `agent` runs it, as that node says.
    #[must_use]
    pub fn latency(&self, agent: &AgentId) -> Option<Latency> {
        let state = self.shared.lock();
        let first = state.catalogue.hosts(agent).into_iter().next()?;
        state.catalogue.node(first)?.load(agent).map(|load| load.latency)
    }

    /// What is known of `agent`: the newest description that a node which hosts it showed.
    #[must_use]
    pub fn describe(&self, agent: &AgentId) -> Option<Candidate> {
        let state = self.shared.lock();
        let hosts = state.catalogue.hosts(agent);
        let candidates = hosts.iter().filter_map(|host| state.catalogue.candidate(*host, agent));
        candidates.max_by_key(|candidate| candidate.verified.description.body.sequence).cloned()
    }

    /// What that node showed of `agent`, if it hosts it.
    #[must_use]
    pub fn described_by(&self, node: PublicKey, agent: &AgentId) -> Option<Candidate> {
        self.shared.lock().catalogue.candidate(node, agent).cloned()
    }

    /// L3 at a glance.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.shared.lock();
        Status {
            nodes: state.catalogue.nodes().len(),
            agents: state.catalogue.len(),
            bytes: state.catalogue.bytes().iter().sum(),
            targets: state.dialling.known(),
            refused: state.refused,
        }
    }

    /// These peers were known before this node started: they are dialled by what was known of them.
    pub fn recall(&self, peers: Vec<KnownPeer>) {
        self.shared.recall(peers);
    }

    /// Waits until something of the peers that are remembered is to be written.
    pub async fn known_peers_changed(&self) {
        self.shared.known_changed.notified().await;
    }

    /// Up to `most` peers of which something is to be written, and what; nothing for one that is to be deleted.
    #[must_use]
    pub fn take_changed_peers(&self, most: usize) -> Vec<(PublicKey, Option<KnownPeer>)> {
        self.shared.lock().known.take_changed(most)
    }

    /// These could not be written.
    pub fn put_back_peers(&self, peers: impl IntoIterator<Item = PublicKey>) {
        self.shared.lock().known.put_back(peers);
        self.shared.known_changed.notify_one();
    }

    /// The peers that are remembered, at a glance.
    #[must_use]
    pub fn remembered(&self) -> Remembered {
        self.shared.lock().known.remembered()
    }

    /// Tells peers of this run of the node now, and hears from them whether another node uses its key.
    pub async fn look_for_twin(&self) {
        instance::tell_now(&self.shared).await;
    }

    /// Where this node and another one are that uses the same key, if one does.
    #[must_use]
    pub fn twin(&self) -> Option<[Vec<String>; 2]> {
        let now_ms = self.shared.now().monotonic_ms;
        let other = self.shared.lock().own_key.twin(now_ms)?;
        Some([instance::own_addresses(&self.shared), other])
    }

    /// Keys of other nodes that several use, with the addresses of each.
    #[must_use]
    pub fn shared_keys(&self) -> Vec<(PublicKey, Vec<Vec<String>>)> {
        let now_ms = self.shared.now().monotonic_ms;
        self.shared.lock().instances.cloned(now_ms)
    }

    /// What keeps this node from finding others, or others from finding it.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        let state = self.shared.lock();
        Troubles {
            unreachable: state.unreachable.iter().map(|(address, why)| (address.clone(), why.clone())).collect(),
            refused_by: state.exchange.refusals(),
        }
    }

    /// Adds an address that is dialled now and whenever its node is not connected.
    pub fn add_bootstrap(&self, address: String) {
        self.shared.lock().dialling.bootstrap(address);
    }

    /// Tells the peers that this node leaves, so that they need not find out.
    pub async fn leave(&self) {
        PlacementExchange(self.shared.clone()).leave().await;
    }

    /// A node answered a call: it is in use.
    pub fn note_use(&self, node: PublicKey) {
        let now_ms = self.shared.now().monotonic_ms;
        self.shared.lock().in_use.note(node, now_ms);
    }

    /// What `query` finds here and, where it names a capability, an action or a target, on nodes that were not heard of.
    pub async fn search(&self, query: &Query) -> (Vec<Found>, Explanation) {
        let sought = Searcher(&self.shared).by_query(query).await;
        let (found, mut why) = self.find(query);
        why.sought = sought;
        (found, why)
    }

    /// The nodes that host an agent; the network is searched when none is known.
    pub async fn search_hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        Searcher(&self.shared).hosts(agent).await
    }

    /// The nodes that host an agent, but for `gone`, which said that it does not any more; the network is searched when no other is
    /// known.
    pub async fn search_other_hosts(&self, agent: &AgentId, gone: PublicKey) -> Vec<PublicKey> {
        Searcher(&self.shared).other_hosts(agent, gone).await
    }

    /// Whether `node` hosts an agent, by evidence that was verified; the network is searched when none is known.
    pub async fn search_host(&self, agent: &AgentId, node: PublicKey) -> bool {
        Searcher(&self.shared).host(agent, node).await
    }

    /// Connects to a node that is not connected any more: at the addresses of the routing table, or else at those that the
    /// node published last. False when that does not succeed.
    pub async fn reconnect(&self, node: PublicKey) -> bool {
        Searcher(&self.shared).reconnect(node).await
    }

    /// From now on searches ask `hints` too. The first ones stay.
    pub fn take_hints(&self, hints: Arc<dyn HostHints>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.shared.hints.set(hints);
    }

    /// Where this node can be dialled, signed by it and valid for `life_ms`; nothing for one that listens nowhere.
    #[must_use]
    pub fn contact(&self, life_ms: u64) -> Option<Authored<Contact>> {
        self.shared.contact(life_ms)
    }

    /// Reads Things at `urls`, and where `hints` lead, for as long as the network lives. Links that others wrote are followed
    /// to addresses that the internet routes, and into `nets`.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn read_things(
        &self,
        urls: Vec<String>,
        nets: Vec<Net>,
        hints: Option<mpsc::Receiver<Hint>>,
    ) -> Result<(), String> {
        ThingReader(self.shared.clone()).start(urls, nets, hints)
    }

    /// Other people's Things that `query` finds. Agents that are known by themselves are none.
    #[must_use]
    pub fn things(&self, query: &Query) -> Vec<Thing> {
        let state = self.shared.lock();
        let mut found = state.things.find(query);
        found.retain(|thing| thing.id.parse().map_or(true, |id| state.catalogue.hosts(&id).is_empty()));
        found
    }

    /// How many Things are known, and the places of the configuration where none could be read, each with the reason.
    #[must_use]
    pub fn reading_things(&self) -> (usize, Vec<(String, String)>) {
        let state = self.shared.lock();
        (state.things.len(), state.things.unread())
    }

    /// The Thing of that identifier.
    #[must_use]
    pub fn thing(&self, id: &str) -> Option<Thing> {
        self.shared.lock().things.get(id)
    }

    /// A Thing of that identifier or title, where no agent has that name.
    #[must_use]
    pub fn no_agent_but_thing(&self, name: &str) -> Option<Thing> {
        let unknown =
            matches!(self.resolve(name, Among::Anyone, |_| TrustRelation::Stranger), Err(FindError::Unknown(_)));
        let state = self.shared.lock();
        unknown.then(|| state.things.get(name).or_else(|| state.things.titled(name))).flatten()
    }
}

fn times(config: &DiscoveryConfig) -> Times {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Times {
        backoff_min_ms: millis(config.redial_min),
        backoff_max_ms: millis(config.redial_max),
        forget_ms: millis(config.sighting_ttl),
        tie_break_ms: DIAL_TIE_BREAK_MS,
    }
}
