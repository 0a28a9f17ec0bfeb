//! The shell of L3: what is hosted here, what is found, and whom to keep a connection to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_communication::{Communication, WallClock};
use althing_protocol::object::{AgentLoad, Health, Machine};
use althing_protocol::{AgentId, PublicKey, PublisherId, SecretKey, VerifiedAgent};
use althing_td::{Description, Exposure};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::config::DiscoveryConfig;
use crate::error::FindError;
use crate::exchange::Serving;
use crate::lan::Sighting;
use crate::machine::allowance::Allowance;
use crate::machine::audience::Audience;
use crate::machine::catalogue::{Candidate, Catalogue, Now};
use crate::machine::contacts::Contacts;
use crate::machine::dialling::{Dialling, Target, Times};
use crate::machine::in_use::InUse;
use crate::machine::query::{Among, Explanation, Found, Nearness, Query};
use crate::machine::things::Things;
use crate::placement::Told;
use crate::relations::Relations;
use crate::watch::Watching;
use crate::{DESCRIBE, PLACEMENTS};

/// How often targets and lifetimes are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long the larger id waits for the smaller one to dial, on a LAN sighting.
const COURTESY_MS: u64 = 1_000;
/// The longest wait before a lost node is dialled again.
const LOST_BACKOFF_MS: u64 = 60_000;

/// An agent that this node hosts.
#[derive(Debug, Clone)]
pub struct LocalAgent {
    /// Description, grant and key log, verified.
    pub verified: Arc<VerifiedAgent>,
    /// The description, parsed.
    pub description: Arc<Description>,
    /// Who may find it.
    pub exposure: Exposure,
}

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
    pub(crate) shared: Arc<Shared>,
}

/// What a node tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Share of the node that is in use, thousandths.
    pub load_permille: u16,
    /// What its machine can do, once that is known.
    pub machine: Option<Machine>,
    /// What its agents do, by name.
    pub loads: BTreeMap<String, AgentLoad>,
}

pub(crate) struct Shared {
    pub communication: Communication,
    pub config: DiscoveryConfig,
    pub key: SecretKey,
    pub clock: WallClock,
    /// How near others are.
    pub relations: Relations,
    /// How this node is.
    pub facts: Box<dyn Fn() -> Facts + Send + Sync>,
    started: Instant,
    state: Mutex<State>,
    pub changed: Notify,
    /// The state's `beat` has risen.
    pub beaten: Notify,
}

pub(crate) struct State {
    pub catalogue: Catalogue,
    /// Nodes that were called from here a while ago.
    pub in_use: InUse,
    /// How much of what strangers show is verified.
    pub allowance: Allowance,
    pub things: Things,
    pub contacts: Contacts,
    pub dialling: Dialling,
    pub audience: Audience,
    /// Where those of the audience were dialled that this node had dialled.
    pub dialled: BTreeMap<PublicKey, String>,
    /// The last of the peers that were asked without having been named by the table.
    pub asked_last: Option<PublicKey>,
    /// What peers are told, and what those are told who are trusted.
    pub told: [Told; 2],
    /// Counts heartbeats and changes.
    pub beat: u64,
    /// Peers that are told on, and the numbers of their watches.
    pub watchers: BTreeMap<PublicKey, u64>,
    /// How many watches there were.
    pub watches: u64,
    /// Nodes that this one asked to be told on.
    pub watching: BTreeMap<PublicKey, Watching>,
    /// Peers that a placement is on its way to.
    pub pushing: BTreeSet<PublicKey>,
    pub local: BTreeMap<AgentId, LocalAgent>,
    pub health: Health,
    pub sequence: u64,
    /// Names that belonged to a near publisher's agent.
    taken: BTreeMap<String, AgentId>,
    /// Addresses that were dialled in vain, and why.
    unreachable: BTreeMap<String, String>,
    /// Peers that did not take this node's placement, and why.
    pub refused_by: BTreeMap<PublicKey, String>,
    pub fetching: BTreeMap<PublicKey, Arc<Semaphore>>,
    pub refused: u64,
}

/// Names that are remembered.
const TAKEN_MAX: usize = 10_000;

impl State {
    /// A node that hosts nothing and has heard nothing. `sequence` is the time of day, so that it rises across restarts too.
    fn new(config: &DiscoveryConfig, dialling: Dialling, sequence: u64) -> State {
        State {
            catalogue: Catalogue::new(config.bounds),
            in_use: InUse::default(),
            allowance: Allowance::default(),
            things: Things::default(),
            contacts: Contacts::default(),
            dialling,
            audience: Audience::new(config.push_peers_max),
            dialled: BTreeMap::new(),
            asked_last: None,
            told: Default::default(),
            beat: 0,
            watchers: BTreeMap::new(),
            watches: 0,
            watching: BTreeMap::new(),
            pushing: BTreeSet::new(),
            local: BTreeMap::new(),
            health: Health::Healthy,
            sequence,
            taken: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            refused_by: BTreeMap::new(),
            fetching: BTreeMap::new(),
            refused: 0,
        }
    }

    fn named(
        &mut self,
        name: &str,
        among: Among,
        nearness: impl Fn(PublisherId) -> Nearness,
    ) -> Result<AgentId, FindError> {
        let found = self.catalogue.resolve(name, among, &nearness);
        if let Some(near) = self.taken.get(name)
            && found.as_ref().map_or(true, |id| nearness(id.publisher()) == Nearness::Stranger)
            && nearness(near.publisher()) != Nearness::Stranger
        {
            return Err(FindError::Gone { name: name.to_owned(), id: near.to_string() });
        }
        let id = found?;
        if nearness(id.publisher()) != Nearness::Stranger && self.taken.len() < TAKEN_MAX {
            self.taken.insert(name.to_owned(), id.clone());
        }
        Ok(id)
    }
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
        facts: impl Fn() -> Facts + Send + Sync + 'static,
        sightings: Option<mpsc::Receiver<Sighting>>,
    ) -> Result<Discovery, althing_communication::AcceptError> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let times = Times {
            backoff_min_ms: millis(config.redial_min),
            backoff_max_ms: millis(config.redial_max),
            forget_ms: millis(config.sighting_ttl),
            courtesy_ms: COURTESY_MS,
            lost_forget_ms: millis(config.lost_ttl),
            lost_backoff_max_ms: LOST_BACKOFF_MS,
        };
        let mut dialling = Dialling::new(key.public(), times);
        config.bootstrap.iter().cloned().for_each(|address| dialling.bootstrap(address));
        let state = State::new(&config, dialling, clock.now_ms());
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
            beaten: Notify::new(),
        });
        let discovery = Discovery { shared };
        let serving = Arc::new(Serving(discovery.clone()));
        discovery.shared.communication.serve(PLACEMENTS, serving.clone())?;
        discovery.shared.communication.serve(DESCRIBE, serving)?;
        let events = discovery.shared.communication.network().events();
        // The rest ends with the network, whose end the first one notices.
        let over = CancellationToken::new();
        let pushing = discovery.clone().push_for_ever(events);
        let ends = over.clone().drop_guard();
        tokio::spawn(async move {
            pushing.await;
            drop(ends);
        });
        tokio::spawn(over.clone().run_until_cancelled_owned(discovery.clone().tick_for_ever()));
        tokio::spawn(over.clone().run_until_cancelled_owned(discovery.clone().tell_for_ever()));
        tokio::spawn(over.run_until_cancelled_owned(discovery.clone().heed_for_ever()));
        if let Some(sightings) = sightings {
            tokio::spawn(discovery.clone().note_sightings(sightings));
        }
        Ok(discovery)
    }

    /// Adds, or replaces, an agent that this node hosts, and tells the peers.
    pub fn host(&self, agent: LocalAgent) {
        let id = agent.verified.agent.clone();
        let mut state = self.lock();
        state.taken.insert(id.name().to_owned(), id.clone());
        state.local.insert(id, agent);
        drop(state);
        self.refresh_own();
        self.shared.changed.notify_one();
    }

    /// Takes away an agent that this node hosted, and tells the peers.
    pub fn unhost(&self, agent: &AgentId) {
        let mut state = self.lock();
        state.local.remove(agent);
        // It was taken away on purpose: its name is free.
        state.taken.retain(|_, taken| taken != agent);
        drop(state);
        self.refresh_own();
        self.shared.changed.notify_one();
    }

    /// The agents of this node that everybody may know of, by name.
    #[must_use]
    pub fn introduced(&self) -> Vec<Candidate> {
        let state = self.lock();
        let public = state.local.values().filter(|local| local.exposure == Exposure::Public);
        let candidate =
            |local: &LocalAgent| Candidate { verified: local.verified.clone(), description: local.description.clone() };
        public.map(candidate).collect()
    }

    /// What `query` finds, and why not more.
    #[must_use]
    pub fn find(&self, query: &Query) -> (Vec<Found>, Explanation) {
        let now_ms = self.now().monotonic_ms;
        self.lock().catalogue.find(query, now_ms)
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
        nearness: impl Fn(PublisherId) -> Nearness,
    ) -> Result<AgentId, FindError> {
        match text.parse::<AgentId>() {
            Ok(id) => Ok(id),
            Err(_) => self.lock().named(text, among, nearness),
        }
    }

    /// The nodes that host an agent, in the order in which they should be asked.
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        self.lock().catalogue.hosts(agent)
    }

    /// What is known of `agent`: the newest description that a node which hosts it showed.
    #[must_use]
    pub fn describe(&self, agent: &AgentId) -> Option<Candidate> {
        let state = self.lock();
        let hosts = state.catalogue.hosts(agent);
        let candidates = hosts.iter().filter_map(|host| state.catalogue.candidate(*host, agent));
        candidates.max_by_key(|candidate| candidate.verified.description.body.sequence).cloned()
    }

    /// L3 at a glance.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.lock();
        Status {
            nodes: state.catalogue.nodes().len(),
            agents: state.catalogue.len(),
            bytes: state.catalogue.bytes().iter().sum(),
            targets: state.dialling.known(),
            refused: state.refused,
        }
    }

    /// What keeps this node from finding others, or others from finding it.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        let state = self.lock();
        Troubles {
            unreachable: state.unreachable.iter().map(|(address, why)| (address.clone(), why.clone())).collect(),
            refused_by: state.refused_by.iter().map(|(peer, why)| (*peer, why.clone())).collect(),
        }
    }

    /// Adds an address that is dialled now and whenever its node is not connected.
    pub fn add_bootstrap(&self, address: String) {
        self.lock().dialling.bootstrap(address);
    }

    /// Tells the peers that this node leaves, so that they need not find out.
    pub async fn leave(&self) {
        {
            let mut state = self.lock();
            state.health = Health::Leaving;
            // Whatever is on its way: this is the last word, and it is to be answered.
            state.pushing.clear();
            state.watchers.clear();
        }
        self.push_all().await;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no holder of the catalogue panics")
    }

    pub(crate) fn now(&self) -> Now {
        let elapsed = self.shared.started.elapsed().as_millis();
        Now { monotonic_ms: u64::try_from(elapsed).unwrap_or(u64::MAX), wall_ms: self.shared.clock.now_ms() }
    }

    async fn tick_for_ever(self) {
        let mut tick = interval(TICK);
        loop {
            tick.tick().await;
            let now = self.now();
            let network = self.shared.communication.network();
            let connected = network.connected();
            let due = {
                let mut state = self.lock();
                for node in state.catalogue.sweep(now) {
                    tracing::info!(%node, "node is silent; its agents are gone");
                    state.watching.remove(&node);
                }
                // Also of those that had to make room.
                let State { catalogue, fetching, .. } = &mut *state;
                fetching.retain(|node, _| catalogue.node(*node).is_some());
                state.dialling.due(now.monotonic_ms, &connected)
            };
            for (target, addresses) in due {
                tokio::spawn(self.clone().dial(target, addresses));
            }
        }
    }

    async fn dial(self, target: Target, addresses: Vec<String>) {
        let peer = match &target {
            Target::Peer(peer) => Some(*peer),
            Target::Address(_) => None,
        };
        let outcome = self.shared.communication.network().dial(peer, addresses).await;
        if let (Err(reason), Target::Address(address)) = (&outcome, &target) {
            // Somebody wrote this address down, and wants to know; once.
            if self.lock().unreachable.insert(address.clone(), reason.to_string()).is_none() {
                tracing::warn!(address, %reason, "a peer cannot be reached; it is tried again and again");
            }
        } else if let Err(reason) = &outcome {
            tracing::debug!(?target, %reason, "dial failed");
        } else if let Target::Address(address) = &target {
            self.lock().unreachable.remove(address);
        }
        let now_ms = self.now().monotonic_ms;
        self.lock().dialling.dialled(&target, outcome.ok(), now_ms);
    }

    async fn note_sightings(self, mut sightings: mpsc::Receiver<Sighting>) {
        while let Some(sighting) = sightings.recv().await {
            tracing::debug!(peer = %sighting.peer, addresses = ?sighting.addresses, "seen on the LAN");
            // It comes into the routing table when it was dialled, and was there: whoever is on the LAN can say anything.
            let now_ms = self.now().monotonic_ms;
            self.lock().dialling.sighted(sighting.peer, sighting.addresses, now_ms);
        }
    }
}
