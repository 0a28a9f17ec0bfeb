//! The composition root: makes one node of all layers.
#![expect(clippy::disallowed_methods, reason = "shell: hands the real clock and randomness to the layers")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use althing_calls::{Calls, Hosting, Incoming, REMOTE_TASKS, TASKS};
use althing_communication::{Communication, CommunicationConfig, Entropy, Network, Trust, WallClock};
use althing_discovery::lan::{Lan, LanConfig};
use althing_discovery::{Discovery, DiscoveryConfig, Facts};
use althing_execution::kernel::Kernel;
use althing_execution::memory::{MEMORY, Memories};
use althing_execution::process::ProcessConfig;
use althing_execution::{Builtins, Echo, Host, Ports, Scheduling};
use althing_gateway::Access;
use althing_knowledge::Knowledge;
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object::Machine;
use althing_protocol::{PublicKey, SecretKey};
use althing_store::{Batch, Durability, Family, OpenError, Range, RocksStore, Store, StoreConfig};
use rand::Rng as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::exit::Failure;
use crate::owner::{self, Owner};
use crate::paths::Paths;
use crate::publish::{self, AGENTS};
use crate::secrets::Secrets;

/// Nodes and owners that this node trusts, by DID.
const TRUSTED: Family = Family("althing.trusted");
/// Nodes and owners that may be trusted.
const TRUSTED_MAX: usize = 10_000;
/// Tasks at which a node calls itself fully loaded.
const TASKS_FULL: u64 = 64;
/// Grants and memberships are renewed at half of their life.
const RENEW: Duration = Duration::from_millis(publish::GRANT_MS / 2);
/// How often it is looked whether that time has come.
const RENEW_LOOK: Duration = Duration::from_secs(10);
/// How long calls that are under way when the node stops may take to end.
const LET_END: Duration = Duration::from_secs(5);

/// The real clock.
pub fn clock() -> WallClock {
    WallClock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The operating system's randomness.
pub fn entropy() -> Entropy {
    Entropy::new(|bytes| rand::rng().fill(bytes))
}

/// A running node.
pub struct Node {
    pub owner: Owner,
    pub key: SecretKey,
    pub config: Config,
    pub communication: Communication,
    pub discovery: Discovery,
    pub hosting: Hosting,
    pub calls: Calls,
    pub host: Arc<Host>,
    pub kernel: Arc<Kernel>,
    pub memories: Arc<Memories>,
    pub store: Arc<dyn Store>,
    pub gateway: SocketAddr,
    /// What the user should know about how the node came up.
    pub notes: Vec<String>,
    pub stop: CancellationToken,
    pub(crate) clock: WallClock,
    entropy: Entropy,
    trust: watch::Sender<Trust>,
    membership: watch::Sender<Option<Vec<u8>>>,
    lan: Mutex<Option<Lan>>,
    /// Held while agents are added, started or taken away, so that names and promises belong to one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Agents that were added and do not run, and why.
    failed: Mutex<BTreeMap<String, String>>,
}

impl Node {
    /// Starts every layer, from the ground up.
    pub async fn start(at: &Paths, config: Config) -> Result<Node, Failure> {
        let (clock, entropy) = (clock(), entropy());
        let owner = Owner::open(&at.owner, &clock, &entropy)?;
        let store = open_store(at)?;
        let key = owner::secret(&at.node_key(), &entropy)?;
        let mut notes = Vec::new();
        let (listener, gateway) = bind_gateway(&config.gateway.listen, config.gateway.fixed, &mut notes).await?;
        let network = listen(&key, &config, &mut notes).await?;
        let membership = publish::membership(&owner, key.public(), &config.network, clock.now_ms())?;
        let (membership, shown) = watch::channel(Some(membership));
        let trusted = read_trusted(store.as_ref())?;
        let (trust, trusting) = watch::channel(Trust { node: key.public(), owner: owner.id(), trusted });
        let communication = Communication::start(
            network.clone(),
            key.clone(),
            shown,
            CommunicationConfig { network: config.network.clone(), ..CommunicationConfig::default() },
            clock.clone(),
            entropy.clone(),
        );
        let secrets = secrets(at);
        let (now, random) = (clock.clone(), entropy.clone());
        let memories = Arc::new(Memories::new(
            store.clone(),
            Arc::new(move || now.now_ms()),
            Arc::new(move |bytes| random.fill(bytes)),
            secrets.clone(),
        ));
        let ports = Ports { secrets, connect: althing_mcp::server, memories: Some(memories.clone()) };
        let (kernel, host) = schedule(&config, ports)?;
        let (lan, sightings) = join_lan(&key, network.as_ref(), &config, &mut notes);
        let discovery = discover(&communication, &key, &config, &clock, &trust, facts(&host, &kernel), sightings)?;
        let hosting = Hosting::open(store.clone(), host.clone(), trusting, clock.clone(), entropy.clone())
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        let serving = communication.serve(althing_calls::CALL, Arc::new(Incoming(hosting.clone())));
        serving.map_err(|error| Failure::failed(error.to_string()))?;
        let calls = Calls::new(
            communication.clone(),
            discovery.clone(),
            hosting.clone(),
            store.clone(),
            clock.clone(),
            owner.id(),
        );
        let token = (!config.gateway.token.is_empty()).then(|| config.gateway.token.clone());
        let mut hosts = config.gateway.hosts.clone();
        hosts.push(gateway.ip().to_string());
        let router = althing_gateway::router(
            calls.clone(),
            key.clone(),
            Access { hosts, by_address: !gateway.ip().is_loopback(), token },
        );
        let stop = CancellationToken::new();
        tokio::spawn(althing_gateway::serve(listener, router, althing_gateway::Limits::default(), stop.clone()));
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
            notes,
            stop,
            clock,
            entropy,
            trust,
            membership,
            lan: Mutex::new(lan),
            changing: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
        };
        node.start_stored().await
    }

    /// Agents that were added and do not run, and why.
    pub fn failed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().expect("no holder of the failed agents panics")
    }

    /// Trusts a node or an owner, or trusts it no longer.
    pub async fn set_trust(&self, key: PublicKey, trusted: bool) -> Result<(), Failure> {
        let mut batch = Batch::new();
        if trusted {
            batch.put(TRUSTED, key.did(), Vec::new());
        } else {
            batch.delete(TRUSTED, key.did());
        }
        let written = self.store.write(batch, Durability::Synced).await;
        written.map_err(|error| Failure::failed(error.to_string()))?;
        self.trust.send_modify(|trust| {
            if trusted {
                trust.trusted.insert(key);
            } else {
                trust.trusted.remove(&key);
            }
        });
        Ok(())
    }

    /// This node's randomness.
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    /// Whom this node trusts.
    pub fn trusted(&self) -> BTreeSet<PublicKey> {
        self.trust.borrow().trusted.clone()
    }

    /// Renews grants and the membership for as long as the node runs.
    pub async fn renew_for_ever(&self) {
        let renew_ms = u64::try_from(RENEW.as_millis()).unwrap_or(u64::MAX);
        let mut renewed_ms = self.clock.now_ms();
        // What waits for the machine to be known is started as soon as it is.
        self.kernel.probed().await;
        if let Err(failure) = self.retry_failed().await {
            tracing::error!(reason = failure.message, "agents could not be started");
        }
        loop {
            // By the time of day, which goes on while a machine sleeps.
            tokio::time::sleep(RENEW_LOOK).await;
            if let Err(failure) = self.retry_failed().await {
                tracing::error!(reason = failure.message, "agents could not be started again");
            }
            match self.memories.sweep().await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "what has passed its retention is gone"),
                Err(error) => tracing::error!(%error, "memory could not be swept"),
            }
            let now_ms = self.clock.now_ms();
            if now_ms.abs_diff(renewed_ms) < renew_ms {
                continue;
            }
            // What fails is tried again with the next look.
            match self.renew(now_ms) {
                Ok(()) => renewed_ms = now_ms,
                Err(failure) => tracing::error!(reason = failure.message, "not all grants could be renewed"),
            }
        }
    }

    /// Renews the membership and the grants of the agents that run, as many as can be; gives the first failure.
    fn renew(&self, now_ms: u64) -> Result<(), Failure> {
        let membership = publish::membership(&self.owner, self.key.public(), &self.config.network, now_ms)?;
        self.membership.send_replace(Some(membership));
        let running: BTreeSet<String> = self.host.status().into_iter().map(|status| status.name).collect();
        let stored = publish::stored(self.store.as_ref())?;
        let shown =
            stored.iter().filter(|added| running.contains(&added.file.name)).map(|added| self.show_agent(added));
        // Every one is tried, whatever becomes of the others.
        let outcomes: Vec<Result<(), Failure>> = shown.collect();
        outcomes.into_iter().collect()
    }

    /// Leaves the mesh politely: says goodbye, lets calls end, stops agents.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        let goodbye = async {
            self.discovery.leave().await;
            let lan = self.lan.lock().expect("no holder of the LAN panics").take();
            if let Some(lan) = lan {
                lan.leave().await;
            }
        };
        // A peer that does not take the goodbye finds out by itself.
        let _ = tokio::time::timeout(Duration::from_secs(2), goodbye).await;
        // Calls that are under way may end; new ones find nobody.
        let ended = async {
            while self.hosting.live_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(LET_END, ended).await;
        self.host.stop_all().await;
        // An empty synced batch: all that was written is on disk.
        if let Err(error) = self.store.write(Batch::new(), Durability::Synced).await {
            tracing::error!(%error, "the store could not be flushed");
        }
    }
}

/// Looks up secrets of this node.
fn secrets(at: &Paths) -> althing_execution::model::Secrets {
    let secrets = Secrets::of(at);
    Arc::new(move |name: &str| secrets.read(name))
}

/// The scheduler, and the agents that it runs.
fn schedule(config: &Config, ports: Ports) -> Result<(Arc<Kernel>, Arc<Host>), Failure> {
    let kernel = Kernel::start(config.execution.kernel(), althing_wasm::make_hard);
    let kernel = kernel.map_err(|error| Failure::failed(format!("cannot start the scheduler: {error}")))?;
    let scheduling = Scheduling { kernel: kernel.clone(), soft: Arc::new(althing_wasm::Soft::default()) };
    Ok((kernel, Arc::new(Host::scheduled(builtins(), ProcessConfig::default(), scheduling, ports))))
}

fn builtins() -> Builtins {
    let mut builtins = Builtins::new();
    builtins.insert("echo", |_, _| Ok(Arc::new(Echo)));
    builtins.insert("knowledge", Knowledge::build);
    builtins
}

fn open_store(at: &Paths) -> Result<Arc<dyn Store>, Failure> {
    let families = [TASKS, REMOTE_TASKS, AGENTS, TRUSTED, MEMORY];
    let opened = RocksStore::open(&at.store(), &families, StoreConfig::default());
    Ok(Arc::new(opened.map_err(|error| {
        let hint = match error {
            OpenError::Locked { .. } if at.name == "default" => " (two nodes on one machine need two names: --name)",
            _ => "",
        };
        Failure::failed(format!("{error}{hint}"))
    })?))
}

/// Binds the gateway; when the port is taken a free one, unless somebody named that port.
async fn bind_gateway(
    listen: &str,
    fixed: bool,
    notes: &mut Vec<String>,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let wanted: SocketAddr =
        listen.parse().map_err(|_| Failure::usage(format!("{listen:?} is no address and port")))?;
    let failed = |error: std::io::Error| Failure::failed(format!("the gateway cannot listen on {listen}: {error}"));
    let listener = match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !fixed => {
            let listener = TcpListener::bind((wanted.ip(), 0)).await.map_err(failed)?;
            let free = listener.local_addr().map_err(failed)?.port();
            notes.push(format!("port {} is taken; the gateway listens on {free}", wanted.port()));
            listener
        }
        bound => bound.map_err(failed)?,
    };
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Listens for nodes; when the port is taken, on a free one.
async fn listen(key: &SecretKey, config: &Config, notes: &mut Vec<String>) -> Result<Arc<dyn Network>, Failure> {
    let start = |listen: Vec<String>| Libp2pNetwork::start(key, Libp2pConfig { listen, ..Libp2pConfig::default() });
    let network = match start(config.node.listen.clone()).await {
        Err(althing_libp2p::ListenError::Io { address, reason }) if reason.contains("in use") && !config.node.fixed => {
            let free = config.node.listen.iter().map(|address| free_port(address)).collect();
            let network = start(free).await.map_err(|error| Failure::failed(error.to_string()))?;
            notes.push(format!("{address} is taken; nodes find this one at {}", network.listening().join(", ")));
            network
        }
        started => started.map_err(|error| Failure::failed(error.to_string()))?,
    };
    Ok(Arc::new(network))
}

/// The same address with port 0: any free one.
fn free_port(address: &str) -> String {
    match address.rsplit_once("/tcp/") {
        Some((host, _)) => format!("{host}/tcp/0"),
        None => address.to_owned(),
    }
}

type Sightings = tokio::sync::mpsc::Receiver<althing_discovery::lan::Sighting>;

/// Joins the LAN; a machine without multicast is still a node.
fn join_lan(
    key: &SecretKey,
    network: &dyn Network,
    config: &Config,
    notes: &mut Vec<String>,
) -> (Option<Lan>, Option<Sightings>) {
    if !config.lan.enabled {
        return (None, None);
    }
    let listening = network.listening();
    let port = listening.iter().find_map(|address| address.rsplit_once("/tcp/")?.1.parse().ok());
    let lan = LanConfig { interfaces: config.lan.interfaces.clone(), network: config.network.clone() };
    match port.map(|port| Lan::join(key.public(), port, &lan)) {
        Some(Ok((lan, sightings))) => (Some(lan), Some(sightings)),
        Some(Err(error)) => {
            notes.push(format!("not on the LAN: {error}"));
            (None, None)
        }
        None => {
            notes.push("not on the LAN: this node listens on no TCP port".to_owned());
            (None, None)
        }
    }
}

fn discover(
    communication: &Communication,
    key: &SecretKey,
    config: &Config,
    clock: &WallClock,
    trust: &watch::Sender<Trust>,
    facts: impl Fn() -> Facts + Send + Sync + 'static,
    sightings: Option<Sightings>,
) -> Result<Discovery, Failure> {
    let discovery = DiscoveryConfig {
        network: config.network.clone(),
        bootstrap: config.peers.clone(),
        ..DiscoveryConfig::default()
    };
    let (trusting, owners) = (trust.subscribe(), communication.clone());
    let trusts = move |peer| {
        let caller = althing_communication::Caller { node: peer, owner: owners.owner(peer) };
        trusting.borrow().check(&althing_communication::CallerRule::Trusted, &caller).is_ok()
    };
    let started =
        Discovery::start(communication.clone(), key.clone(), discovery, clock.clone(), trusts, facts, sightings);
    started.map_err(|error| Failure::failed(error.to_string()))
}

/// What this node tells of itself.
fn facts(host: &Arc<Host>, kernel: &Arc<Kernel>) -> impl Fn() -> Facts + Send + Sync + use<> {
    let (working, kernel, memory_mib) = (host.clone(), kernel.clone(), memory_mib());
    move || Facts {
        load_permille: u16::try_from(working.turns().min(TASKS_FULL) * 1_000 / TASKS_FULL).unwrap_or(1_000),
        machine: kernel.machine().map(|machine| Machine {
            grade: machine.grade,
            cores: u16::try_from(kernel.cores()).unwrap_or(u16::MAX),
            memory_mib,
            promised_permille: kernel
                .shares_ppm()
                .iter()
                .min()
                .map_or(1_000, |ppm| u16::try_from(ppm / 1_000).unwrap_or(1_000)),
        }),
    }
}

/// Memory of this machine, MiB; 0 where the system does not tell.
fn memory_mib() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default();
    u32::try_from(kib / 1_024).unwrap_or(u32::MAX)
}

fn read_trusted(store: &dyn Store) -> Result<BTreeSet<PublicKey>, Failure> {
    let rows = store.scan(TRUSTED, Range::all(TRUSTED_MAX)).map_err(|error| Failure::failed(error.to_string()))?;
    let keys = rows.into_iter().filter_map(|(did, _)| PublicKey::from_did(&String::from_utf8(did).ok()?).ok());
    Ok(keys.collect())
}
