//! The shell of L3: pushes and takes placements, fetches evidence, keeps connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_communication::{Answer, CallError, Caller, Communication, Inbound, PeerEvent, Request, WallClock};
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_protocol::{AgentId, Authored, Evidence, PublicKey, SecretKey, VerifiedAgent};
use althing_td::{Description, Exposure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore, broadcast, mpsc};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::config::DiscoveryConfig;
use crate::error::FindError;
use crate::lan::Sighting;
use crate::machine::catalogue::{Candidate, Catalogue, Learned, Now};
use crate::machine::dialling::{Dialling, Target, Times};
use crate::machine::query::{Explanation, Found, Query};
use crate::{DESCRIBE, PLACEMENTS};

/// How often targets and lifetimes are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long the larger id waits for the smaller one to dial, on a LAN sighting.
const COURTESY_MS: u64 = 1_000;

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

/// L3 at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Nodes believed to be there, this one included.
    pub nodes: usize,
    /// Agents known, counted once for each node that hosts them.
    pub agents: usize,
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

struct Shared {
    communication: Communication,
    config: DiscoveryConfig,
    key: SecretKey,
    clock: WallClock,
    /// Says whether a peer may see agents whose exposure is `trusted`.
    trusts: Box<dyn Fn(PublicKey) -> bool + Send + Sync>,
    /// This node's load, thousandths.
    load: Box<dyn Fn() -> u16 + Send + Sync>,
    started: Instant,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    catalogue: Catalogue,
    dialling: Dialling,
    local: BTreeMap<AgentId, LocalAgent>,
    health: Health,
    sequence: u64,
    fetching: BTreeMap<PublicKey, Arc<Semaphore>>,
    refused: u64,
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
        trusts: impl Fn(PublicKey) -> bool + Send + Sync + 'static,
        load: impl Fn() -> u16 + Send + Sync + 'static,
        sightings: Option<mpsc::Receiver<Sighting>>,
    ) -> Result<Discovery, althing_communication::AcceptError> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let times = Times {
            backoff_min_ms: millis(config.redial_min),
            backoff_max_ms: millis(config.redial_max),
            forget_ms: millis(config.sighting_ttl),
            courtesy_ms: COURTESY_MS,
        };
        let mut dialling = Dialling::new(key.public(), times);
        config.bootstrap.iter().cloned().for_each(|address| dialling.bootstrap(address));
        let state = State {
            catalogue: Catalogue::new(config.nodes_max),
            dialling,
            local: BTreeMap::new(),
            health: Health::Healthy,
            // The time of day, so that it rises across restarts too.
            sequence: clock.now_ms(),
            fetching: BTreeMap::new(),
            refused: 0,
        };
        let shared = Arc::new(Shared {
            communication,
            config,
            key,
            clock,
            trusts: Box::new(trusts),
            load: Box::new(load),
            started: Instant::now(),
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        let discovery = Discovery { shared };
        let serving = Arc::new(Serving(discovery.clone()));
        discovery.shared.communication.serve(PLACEMENTS, serving.clone())?;
        discovery.shared.communication.serve(DESCRIBE, serving)?;
        let events = discovery.shared.communication.network().events();
        tokio::spawn(discovery.clone().push_for_ever(events));
        tokio::spawn(discovery.clone().tick_for_ever());
        if let Some(sightings) = sightings {
            tokio::spawn(discovery.clone().note_sightings(sightings));
        }
        Ok(discovery)
    }

    /// Adds, or replaces, an agent that this node hosts, and tells the peers.
    pub fn host(&self, agent: LocalAgent) {
        self.lock().local.insert(agent.verified.agent.clone(), agent);
        self.refresh_own();
        self.shared.changed.notify_one();
    }

    /// Takes away an agent that this node hosted, and tells the peers.
    pub fn unhost(&self, agent: &AgentId) {
        self.lock().local.remove(agent);
        self.refresh_own();
        self.shared.changed.notify_one();
    }

    /// What `query` finds, and why not more.
    #[must_use]
    pub fn find(&self, query: &Query) -> (Vec<Found>, Explanation) {
        let now_ms = self.now().monotonic_ms;
        self.lock().catalogue.find(query, now_ms)
    }

    /// The agent that `text` names, and the nodes that host it: this one first, then the least loaded.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn resolve(&self, text: &str) -> Result<(AgentId, Vec<PublicKey>), FindError> {
        let state = self.lock();
        let agent = state.catalogue.resolve(text)?;
        let hosts = state.catalogue.hosts(&agent);
        Ok((agent, hosts))
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
            targets: state.dialling.known(),
            refused: state.refused,
        }
    }

    /// Adds an address that is dialled now and whenever its node is not connected.
    pub fn add_bootstrap(&self, address: String) {
        self.lock().dialling.bootstrap(address);
    }

    /// Tells the peers that this node leaves, so that they need not find out.
    pub async fn leave(&self) {
        self.lock().health = Health::Leaving;
        self.push_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no holder of the catalogue panics")
    }

    fn now(&self) -> Now {
        let elapsed = self.shared.started.elapsed().as_millis();
        Now { monotonic_ms: u64::try_from(elapsed).unwrap_or(u64::MAX), wall_ms: self.shared.clock.now_ms() }
    }

    /// A new placement of this node with what `sees` lets through.
    fn placement(&self, state: &mut State, sees: impl Fn(Exposure) -> bool) -> Authored<Placement> {
        state.sequence += 1;
        let ttl_ms = u64::try_from(self.shared.config.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut placement =
            Placement::new(self.shared.key.public(), state.sequence, self.shared.clock.now_ms(), ttl_ms);
        placement.load_permille = (self.shared.load)().min(1_000);
        placement.health = state.health;
        let seen = state.local.values().filter(|local| sees(local.exposure));
        let hosted = seen.map(|local| {
            let (description, grant) = local.verified.digests();
            Hosted { agent: local.verified.agent.clone(), description, grant }
        });
        placement.agents = hosted.take(althing_protocol::limits::PLACEMENT_AGENTS_MAX).collect();
        object::sign(placement, &self.shared.config.network, "", &self.shared.key)
            .expect("a placement of our own keeps its own limits")
    }

    /// Puts this node's own agents, hidden ones too, into its own catalogue.
    fn refresh_own(&self) {
        let now = self.now();
        let mut state = self.lock();
        let placement = self.placement(&mut state, |_| true);
        match state.catalogue.place(now, &placement, Learned::Local) {
            Ok(wanted) => {
                for hosted in wanted {
                    let Some(local) = state.local.get(&hosted.agent) else { continue };
                    let candidate =
                        Candidate { verified: local.verified.clone(), description: local.description.clone() };
                    state.catalogue.admit(candidate);
                }
            }
            Err(reason) => tracing::error!(%reason, "this node's own placement was refused"),
        }
    }

    async fn push_for_ever(self, mut events: broadcast::Receiver<PeerEvent>) {
        let mut beat = interval(self.shared.config.heartbeat);
        loop {
            tokio::select! {
                biased;
                _ = beat.tick() => { self.refresh_own(); tokio::spawn(self.clone().push_all_owned()); }
                () = self.shared.changed.notified() => { tokio::spawn(self.clone().push_all_owned()); }
                event = events.recv() => match event {
                    Ok(PeerEvent::Connected(peer)) => { tokio::spawn(self.clone().push_new(peer)); }
                    Ok(PeerEvent::Disconnected(_)) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            }
        }
    }

    async fn push_all_owned(self) {
        self.push_all().await;
    }

    async fn push_all(&self) {
        let peers = self.shared.communication.network().peers();
        let peers = peers.iter().take(self.shared.config.push_peers_max).map(|info| info.peer);
        futures::future::join_all(peers.map(|peer| self.push(peer))).await;
    }

    /// A new connection may be one of two, of which one is closed again: so a failed push is repeated soon.
    async fn push_new(self, peer: PublicKey) {
        for wait_ms in [0, 50, 200] {
            sleep(Duration::from_millis(wait_ms)).await;
            if self.push(peer).await {
                return;
            }
        }
    }

    async fn push(&self, peer: PublicKey) -> bool {
        let trusted = (self.shared.trusts)(peer);
        let placement = self.placement(&mut self.lock(), |exposure| match exposure {
            Exposure::Public => true,
            Exposure::Trusted => trusted,
            Exposure::Hidden => false,
        });
        let mut request = Request::new("placement", placement.bytes);
        request.deadline = Some(self.shared.config.push_timeout);
        match self.shared.communication.call(peer, PLACEMENTS, request).await {
            Ok(_) => true,
            Err(CallError::Refused { body, .. }) => {
                tracing::debug!(%peer, reason = %String::from_utf8_lossy(&body), "peer refused our placement");
                true
            }
            Err(reason) => {
                tracing::debug!(%peer, %reason, "placement not pushed");
                false
            }
        }
    }

    async fn tick_for_ever(self) {
        let mut tick = interval(TICK);
        loop {
            tick.tick().await;
            let now_ms = self.now().monotonic_ms;
            let network = self.shared.communication.network();
            let connected: Vec<PublicKey> = network.peers().iter().map(|info| info.peer).collect();
            let due = {
                let mut state = self.lock();
                for node in state.catalogue.sweep(now_ms) {
                    tracing::info!(%node, "node is silent; its agents are gone");
                    state.fetching.remove(&node);
                }
                state.dialling.due(now_ms, &connected)
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
        if let Err(reason) = &outcome {
            tracing::debug!(?target, %reason, "dial failed");
        }
        let now_ms = self.now().monotonic_ms;
        self.lock().dialling.dialled(&target, outcome.ok(), now_ms);
    }

    async fn note_sightings(self, mut sightings: mpsc::Receiver<Sighting>) {
        while let Some(sighting) = sightings.recv().await {
            tracing::debug!(peer = %sighting.peer, addresses = ?sighting.addresses, "seen on the LAN");
            let now_ms = self.now().monotonic_ms;
            self.lock().dialling.sighted(sighting.peer, sighting.addresses, now_ms);
        }
    }

    /// A peer's placement came: takes it, and fetches what is new in it.
    fn take(&self, caller: PublicKey, bytes: &[u8]) -> Result<(), String> {
        let taken = object::open::<Placement>(bytes, &self.shared.config.network, "")
            .map_err(|error| error.to_string())
            .and_then(|placement| {
                if placement.body.node != caller {
                    return Err(format!("{caller} pushed the placement of {}", placement.body.node));
                }
                let now = self.now();
                let wanted = self.lock().catalogue.place(now, &placement, Learned::Push);
                wanted.map_err(|error| error.to_string())
            });
        let wanted = taken.inspect_err(|reason| {
            self.lock().refused += 1;
            tracing::warn!(peer = %caller, reason, "placement refused");
        })?;
        if !wanted.is_empty() {
            let most = self.shared.config.fetches_per_node;
            let gate = self.lock().fetching.entry(caller).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
            // A fetch is under way, and the next heartbeat asks again for what it leaves: so one round at a time.
            if gate.available_permits() == most {
                tokio::spawn(self.clone().fetch_all(caller, wanted, gate));
            }
        }
        Ok(())
    }

    async fn fetch_all(self, node: PublicKey, wanted: Vec<Hosted>, gate: Arc<Semaphore>) {
        let fetches = wanted.iter().map(|hosted| async {
            let Ok(_permit) = gate.acquire().await else { return };
            if let Err(reason) = self.fetch(node, hosted).await {
                self.lock().refused += 1;
                tracing::warn!(%node, agent = %hosted.agent, reason, "agent not believed");
            }
        });
        futures::future::join_all(fetches).await;
    }

    async fn fetch(&self, node: PublicKey, hosted: &Hosted) -> Result<(), String> {
        let body = minicbor::to_vec(&hosted.agent).expect("writing to a vector cannot fail");
        let request = Request::new("describe", body);
        let asking = self.shared.communication.call(node, DESCRIBE, request);
        let answer = timeout(self.shared.config.fetch_timeout, asking).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        let verified = Evidence::decode(&answer)
            .and_then(|evidence| {
                evidence.verify(&self.shared.config.network, &hosted.agent, node, self.shared.clock.now_ms())
            })
            .map_err(|error| error.to_string())?;
        let description = Description::parse(&verified.description.body.td).map_err(|error| error.to_string())?;
        if description.id() != Some(hosted.agent.to_string().as_str()) {
            return Err(format!("its description is about {:?}", description.id()));
        }
        let candidate = Candidate { verified: Arc::new(verified), description: Arc::new(description) };
        self.lock().catalogue.admit(candidate);
        Ok(())
    }

    /// Evidence for an agent that this node hosts, if `caller` may see it.
    fn evidence(&self, caller: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
        althing_protocol::cbor::check(body, 1_024).map_err(|error| error.to_string())?;
        let agent: AgentId = minicbor::decode(body).map_err(|error| error.to_string())?;
        let state = self.lock();
        let local = state.local.get(&agent).filter(|local| match local.exposure {
            Exposure::Public => true,
            Exposure::Trusted => (self.shared.trusts)(caller),
            Exposure::Hidden => false,
        });
        let local = local.ok_or_else(|| format!("{agent} is not hosted here"))?;
        Ok(local.verified.evidence().encode())
    }
}

/// JSON-RPC's codes, which errors carry on every stream protocol (SPEC P-56).
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
const SERVER_ERROR: i32 = -32_000;

/// The body of an error frame (SPEC P-56).
fn refusal(code: i32, reason: Option<&str>, message: &str) -> Vec<u8> {
    let mut error = serde_json::json!({ "code": code, "message": message });
    if let Some(reason) = reason {
        error["data"] = serde_json::json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "domain": "althing.dev",
            "reason": reason,
        }]);
    }
    error.to_string().into_bytes()
}

/// Serves `/althing/placements/1` and `/althing/describe/1`.
struct Serving(Discovery);

impl Inbound for Serving {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "placement" => {
                self.0.take(caller.node, &request.body).map(|()| Vec::new()).map_err(|why| (INVALID_PARAMS, None, why))
            }
            "describe" => {
                self.0.evidence(caller.node, &request.body).map_err(|why| (SERVER_ERROR, Some("AGENT_NOT_HERE"), why))
            }
            other => Err((METHOD_NOT_FOUND, None, format!("there is no operation {other:?} here"))),
        };
        let answer = match answer {
            Ok(body) => Answer::Response(body),
            Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
        };
        futures::future::ready(answer).boxed()
    }
}
