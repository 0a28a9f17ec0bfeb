//! The parts of a node, each made as the configuration says.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use althing_calls::{Asking, CALL, Calls, Hosting, Incoming, REMOTE_TASKS, RESERVE, Reserving, TASK_SUMMARIES, TASKS};
use althing_communication::{
    Caller, CallerRule, Communication, CommunicationConfig, Entropy, Network, Trust, WallClock,
};
use althing_discovery::lan::{Lan, LanConfig};
use althing_discovery::{Discovery, DiscoveryConfig, Facts, Nearness, Relations};
use althing_execution::kernel::Kernel;
use althing_execution::memory::{MEMORY, Memories};
use althing_execution::process::ProcessConfig;
use althing_execution::{Builtins, Echo, Host, Ports, Scheduling};
use althing_gateway::Access;
use althing_knowledge::Knowledge;
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object::{AgentLoad, Machine};
use althing_protocol::{AgentId, CallerId, SecretKey};
use althing_store::{OpenError, RocksStore, Store, StoreConfig, keyfile};
use althing_wasm::Compiler;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bindings::BINDINGS;
use crate::config::Config;
use crate::exit::Failure;
use crate::keys::HEARD;
use crate::node::TRUSTED;
use crate::paths::Paths;
use crate::publish::AGENTS;
use crate::secrets::Secrets;

/// Tasks at which a node calls itself fully loaded.
const TASKS_FULL: u64 = 64;

/// How programs are run: their sockets are in the data folder, which nobody else can enter.
fn processes(at: &Paths) -> ProcessConfig {
    let sockets = at.data.join("run");
    // What a node that was killed left; an error shows when the first socket is made.
    let _ = std::fs::remove_dir_all(&sockets);
    ProcessConfig { sockets: Some(sockets), ..ProcessConfig::default() }
}

/// Modules are compiled by this very program, started anew with limits. What it makes is sealed with a key of its own: it
/// is code, and who can write it runs as this node.
fn compiler(at: &Paths, entropy: &Entropy) -> Result<Compiler, Failure> {
    let path = at.data.join("compiled.key");
    if !path.exists() {
        let key: [u8; 32] = entropy.bytes();
        keyfile::write_secret(&path, &key).map_err(|error| Failure::failed(error.to_string()))?;
    }
    let key = keyfile::read_secret(&path).map_err(|error| Failure::failed(error.to_string()))?;
    let key: [u8; 32] = key.try_into().map_err(|_: Vec<u8>| {
        let message = format!("{} is damaged; remove it: modules are then compiled anew", path.display());
        Failure::failed(message)
    })?;
    // The file that is run, though another may have taken its place on disk meanwhile.
    let program = Path::new("/proc/self/exe");
    let here = || std::env::current_exe().map_err(|error| Failure::failed(error.to_string()));
    let program = if program.exists() { program.to_owned() } else { here()? };
    Ok(Compiler::in_child(program, Vec::new(), at.data.join("compiled"), key))
}

/// Looks up secrets of this node.
fn secrets(at: &Paths) -> althing_execution::model::Secrets {
    let secrets = Secrets::of(at);
    Arc::new(move |name: &str| secrets.read(name))
}

/// What runs agents.
pub struct Execution {
    pub kernel: Arc<Kernel>,
    pub host: Arc<Host>,
    pub memories: Arc<Memories>,
    pub asking: Arc<Asking>,
}

/// The scheduler, the agents that it runs, and what they keep.
pub fn execute(
    at: &Paths,
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &WallClock,
    entropy: &Entropy,
) -> Result<Execution, Failure> {
    let secrets = secrets(at);
    let (now, random) = (clock.clone(), entropy.clone());
    let memories = Arc::new(Memories::new(
        store.clone(),
        Arc::new(move || now.now_ms()),
        Arc::new(move |bytes| random.fill(bytes)),
        secrets.clone(),
    ));
    let asking = Arc::<Asking>::default();
    let ports = Ports {
        secrets,
        connect: althing_mcp::server,
        memories: Some(memories.clone()),
        models: config.models.clone(),
        labels: config.node.labels.clone(),
        agents: Some(asking.clone()),
    };
    let compiler = compiler(at, entropy)?;
    let (soft, hard) = (althing_wasm::Soft::compiled_by(compiler.clone()), compiler);
    let kernel = Kernel::start(config.execution.kernel(), move || althing_wasm::make_hard_compiled_by(hard.clone()));
    let kernel = kernel.map_err(|error| Failure::failed(format!("cannot start the scheduler: {error}")))?;
    let scheduling = Scheduling { kernel: kernel.clone(), soft: Arc::new(soft) };
    let host = Arc::new(Host::scheduled(builtins(), processes(at), scheduling, ports));
    Ok(Execution { kernel, host, memories, asking })
}

fn builtins() -> Builtins {
    let mut builtins = Builtins::new();
    builtins.insert("echo", |_, _| Ok(Arc::new(Echo)));
    builtins.insert("knowledge", Knowledge::build);
    builtins
}

/// The node's database.
pub fn open_store(at: &Paths) -> Result<Arc<dyn Store>, Failure> {
    let families = [TASKS, TASK_SUMMARIES, REMOTE_TASKS, AGENTS, TRUSTED, MEMORY, BINDINGS, HEARD];
    let opened = RocksStore::open(&at.store(), &families, StoreConfig::default());
    Ok(Arc::new(opened.map_err(|error| {
        let hint = match error {
            OpenError::Locked { .. } if at.name == "default" => " (two nodes on one machine need two names: --name)",
            _ => "",
        };
        Failure::failed(format!("{error}{hint}"))
    })?))
}

/// Serves calls and reservations of peers.
pub fn serve_peers(
    communication: &Communication,
    hosting: &Hosting,
    kernel: &Arc<Kernel>,
    trust: watch::Receiver<Trust>,
    entropy: &Entropy,
    config: &Config,
) -> Result<(), Failure> {
    let serving = communication.serve(CALL, Arc::new(Incoming(hosting.clone())));
    serving.map_err(|error| Failure::failed(error.to_string()))?;
    let (kernel, entropy, labels) = (kernel.clone(), entropy.clone(), config.node.labels.clone());
    let serving = communication.serve(RESERVE, Arc::new(Reserving { kernel, trust, entropy, labels }));
    serving.map_err(|error| Failure::failed(error.to_string()))
}

/// Who may use the gateway.
pub fn access(config: &Config, gateway: SocketAddr) -> Access {
    let token = (!config.gateway.token.is_empty()).then(|| config.gateway.token.clone());
    let mut hosts = config.gateway.hosts.clone();
    hosts.push(gateway.ip().to_string());
    Access { hosts, by_address: !gateway.ip().is_loopback(), token }
}

/// Serves the gateway until `stop`.
pub fn open_gateway(listener: TcpListener, calls: &Calls, key: &SecretKey, access: Access, stop: &CancellationToken) {
    let router = althing_gateway::router(calls.clone(), key.clone(), access);
    tokio::spawn(althing_gateway::serve(listener, router, althing_gateway::Limits::default(), stop.clone()));
}

/// Binds the gateway; when the port is taken a free one, unless somebody named that port.
pub async fn bind_gateway(
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
pub async fn listen(
    key: &SecretKey,
    config: &Config,
    clock: &WallClock,
    notes: &mut Vec<String>,
) -> Result<Arc<dyn Network>, Failure> {
    let start = |listen: Vec<String>| {
        let (relay, network_key) = (config.node.relay, config.secret.clone());
        let plain = Libp2pConfig::new(&config.network, clock.clone());
        Libp2pNetwork::start(key, Libp2pConfig { listen, relay, network_key, ..plain })
    };
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
    match (address.rsplit_once("/tcp/"), address.rsplit_once("/udp/")) {
        (Some((host, _)), _) => format!("{host}/tcp/0"),
        (None, Some((host, _))) => format!("{host}/udp/0/quic-v1"),
        (None, None) => address.to_owned(),
    }
}

type Sightings = tokio::sync::mpsc::Receiver<althing_discovery::lan::Sighting>;

/// Joins the LAN; a machine without multicast is still a node.
pub fn join_lan(
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

/// How nodes are spoken with.
pub fn communicating(config: &Config) -> CommunicationConfig {
    let (network, stranger_rate) = (config.network.clone(), config.node.stranger_rate);
    CommunicationConfig { network, stranger_rate, ..CommunicationConfig::default() }
}

/// Finding nodes and agents.
pub fn discover(
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
    let trusted = CallerRule::Trusted;
    communication.trusts({
        let (trusting, trusted) = (trusting.clone(), trusted.clone());
        move |caller: &Caller| trusting.borrow().check(&trusted, caller).is_ok()
    });
    communication.find_out_reach(config.node.announce.clone());
    let publishers = trust.subscribe();
    let of_node = move |peer| {
        let (caller, trust) = (Caller { node: peer, owner: owners.owner(peer) }, trusting.borrow());
        let allows = |rule: &CallerRule| trust.check(rule, &caller).is_ok();
        match (allows(&CallerRule::Own), allows(&trusted)) {
            (true, _) => Nearness::Own,
            (false, true) => Nearness::Trusted,
            (false, false) => Nearness::Stranger,
        }
    };
    let of_publisher = move |agent: &AgentId| {
        let (trust, publisher) = (publishers.borrow(), agent.publisher());
        match publisher {
            own if own == trust.owner => Nearness::Own,
            other if trust.private || trust.trusted.contains(&CallerId::Publisher(other)) => Nearness::Trusted,
            _ => Nearness::Stranger,
        }
    };
    let relations = Relations::new(of_node, of_publisher);
    let started =
        Discovery::start(communication.clone(), key.clone(), discovery, clock.clone(), relations, facts, sightings);
    started.map_err(|error| Failure::failed(error.to_string()))
}

/// What this node tells of itself.
pub fn facts(host: &Arc<Host>, kernel: &Arc<Kernel>) -> impl Fn() -> Facts + Send + Sync + use<> {
    let (working, kernel, memory_mib) = (host.clone(), kernel.clone(), memory_mib());
    move || {
        let turns = working.turns();
        let all: u64 = turns.values().map(|(_, turns)| turns).sum();
        let load = |(latency, turns)| AgentLoad { latency, turns: u32::try_from(turns).unwrap_or(u32::MAX) };
        Facts {
            loads: turns.into_iter().map(|(name, now)| (name, load(now))).collect(),
            load_permille: u16::try_from(all.min(TASKS_FULL) * 1_000 / TASKS_FULL).unwrap_or(1_000),
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
}

/// Memory of this machine, MiB; 0 where the system does not tell.
fn memory_mib() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default();
    u32::try_from(kib / 1_024).unwrap_or(u32::MAX)
}
