//! Opens the ports of a node on this machine: the store, the network, the LAN, the agent host, the listeners of faces.
//! `althing_operations` assembles them.
#![expect(clippy::disallowed_methods, reason = "shell: hands the real clock and randomness to the layers")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use althing_calls::AgentCaller;
use althing_calls::spans::SpanRing;
use althing_communication::{CommunicationConfig, Entropy, Network, WallClock};
use althing_discovery::DiscoveryConfig;
use althing_discovery::lan::{Lan, LanConfig};
use althing_execution::ToolAgent;
use althing_execution::groups::GroupAgent;
use althing_execution::kernel::Kernel;
use althing_execution::memory::{self, Memories};
use althing_execution::process::{Accounts, Guarded, ProcessConfig, ServeCalls, machine_level, remove_left};
use althing_execution::tools::contract_gates;
use althing_execution::{Builtins, Connect, Echo, Host, Scheduling};
use althing_knowledge::Knowledge;
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_node::{Adopted, Execution, Gates, LanPort, NodeConfig, Owner, Policies, Ports, Things, ask_grants, owner};
use althing_operations::doctor::{loose_mode, loose_note};
use althing_operations::{FAMILIES, GroupOrders, Operations, OperationsConfig, RouterAgent, Secrets};
use althing_protocol::{PublisherId, SecretKey};
use althing_store::{OpenError, RocksStore, Store, StoreConfig, keyfile};
use althing_td::ToolServerSpec;
use althing_things::{Terms, ThingServer, Web};
use althing_verification::gates::output_gates;
use althing_wasm::Compiler;
use rand::Rng as _;
use tokio::sync::watch;

use crate::config::Config;
use crate::egress;
use crate::exit::Failure;
use crate::faces::Faces;
use crate::paths::Paths;

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

/// The DID of the node whose data is there, which is made on first use.
pub fn node_did(at: &Paths) -> Result<String, Failure> {
    Ok(owner::secret(&at.node_key(), &entropy())?.public().did())
}

/// A node, the sender of its owner's keys, and the listeners of its faces.
pub struct Opened {
    pub node: Operations,
    pub owner_changes: watch::Sender<Owner>,
    pub faces: Faces,
}

/// Opens the ports of a node and assembles it. `spans` are kept by the process's subscriber.
pub async fn open(at: &Paths, config: &Config, spans: Arc<SpanRing>) -> Result<Opened, Failure> {
    let (clock, entropy) = (clock(), entropy());
    let (owner_changes, owner) = watch::channel(Owner::open(&at.owner, &clock, &entropy)?);
    let store = open_store(at).await?;
    let key = owner::secret(&at.node_key(), &entropy)?;
    let mut notes: Vec<String> = loose_mode(&at.data).map(loose_note).into_iter().collect();
    let mut faces = Faces::bind(config, &at.data, &mut notes).await?;
    let network = listen(&key, config, &clock, &mut notes).await?;
    let publisher = owner.borrow().id();
    let (execution, orders) = execute(at, config, publisher, &store, &clock, &entropy)?;
    let lan = join_lan(&key, network.as_ref(), config);
    // After the network's ports, which other nodes know: on a conflict this takes a free one.
    faces.bind_introductions(config, &mut notes).await;
    let ports = Ports {
        network,
        store,
        clock,
        entropy,
        lan,
        execution,
        owner,
        answers: None,
        decide: None,
        gateway: Some(faces.url()),
        introductions: faces.introductions(),
        spans,
    };
    let mut node = Operations::assemble(key, described(at, config), ports, orders).await?;
    notes.append(&mut node.node.notes);
    node.node.notes = notes;
    Ok(Opened { node, owner_changes, faces })
}

/// The configuration of the node, and of what is operated on it.
fn described(at: &Paths, config: &Config) -> OperationsConfig {
    let named = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let node = NodeConfig {
        communication: CommunicationConfig {
            network: config.network.clone(),
            stranger_rate: config.node.stranger_rate,
            ..CommunicationConfig::default()
        },
        discovery: DiscoveryConfig { bootstrap: config.peers.clone(), ..DiscoveryConfig::default() },
        private: config.secret.is_some(),
        announce: config.node.announce.clone(),
        labels: config.node.labels.clone(),
        things: Things { lan: config.things.lan, urls: config.things.urls.clone(), nets: config.things.nets() },
        adopted: Adopted { check: config.adopt.check_every() },
        push: Some(config.push.nets()),
        policies: Policies { tenant: named(&config.binding.tenant), roles: named(&config.binding.roles) },
        governance: config.governance(),
        data: Some(at.data.clone()),
    };
    OperationsConfig { node, embeddings: config.embeddings.endpoint(), requirements: config.install.clone() }
}

/// Connects to tool servers: Things are asked over HTTP, all others speak MCP.
fn connect(processes: ProcessConfig) -> Connect {
    let web = Web::default();
    Arc::new(move |of, spec, secrets| match spec {
        ToolServerSpec::Thing { thing, allow, td, leads_to, .. } if let Ok(url) = thing.parse() => {
            let terms = Terms { allowed: allow.iter().cloned().collect(), has_secret: secrets.bearer.is_some() };
            let web = if leads_to.is_empty() { web.clone() } else { Web::leading_to(leads_to) };
            Arc::new(ThingServer::new(of.agent, web, url, secrets.bearer, terms, td.clone()))
        }
        _ => althing_mcp::server(of, spec, secrets, &processes),
    })
}

/// The configuration of agents that are programs, or servers elsewhere. The sockets of programs are in the data folder,
/// which no other user can enter.
fn processes(at: &Paths, config: &Config, entropy: memory::Entropy, gates: &Gates) -> ProcessConfig {
    let sockets = at.data.join("run");
    // What a killed node left, of which programs wrote a part; an error would show when the first socket is made.
    let _ = remove_left(&sockets);
    // Also what belongs to the account's other nodes, and keys that the configuration names elsewhere.
    let keys = [&config.gateway.tls.key, &config.network_key].into_iter().filter(|key| !key.as_os_str().is_empty());
    let hidden = [&at.data, &at.nodes, &at.owner, &at.config].into_iter().chain(keys);
    let guarded = Guarded { hidden: hidden.map(|path| absolute(path)).collect() };
    let egress = egress::serve(config.sandbox.nets(), entropy, gates.clone());
    if let Err(error) = &egress {
        tracing::error!(%error, "no program reaches a host");
    }
    ProcessConfig {
        sockets: Some(sockets),
        guarded,
        accounts: Accounts::of(config.sandbox.accounts(), &absolute(&at.data)),
        egress: egress.ok(),
        check: config.adopt.check_every(),
        ..ProcessConfig::default()
    }
}

/// From the current folder, which is where the command line's paths begin.
fn absolute(path: &Path) -> PathBuf {
    // An error means that the path is empty, or that there is no current folder: then nothing is there to be hidden.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Modules are compiled by this program, started again with limits. Compiled modules are authenticated with a key of their
/// own: they are native code that runs as this node.
fn compiler(at: &Paths, entropy: &Entropy) -> Result<Compiler, Failure> {
    let path = at.data.join("compiled.key");
    if !path.exists() {
        let key: [u8; 32] = entropy.bytes();
        keyfile::write_secret(&path, &key).map_err(|error| Failure::failed(error.to_string()))?;
    }
    let key = keyfile::read_secret(&path).map_err(|error| Failure::failed(error.to_string()))?;
    let key: [u8; 32] = key.try_into().map_err(|_: Vec<u8>| {
        let message = format!("{} is damaged; remove it: modules are then compiled again", path.display());
        Failure::failed(message)
    })?;
    // The running executable, even if its file was replaced meanwhile.
    let program = Path::new("/proc/self/exe");
    let here = || std::env::current_exe().map_err(|error| Failure::failed(error.to_string()));
    let program = if program.exists() { program.to_owned() } else { here()? };
    Ok(Compiler::in_child(program, Vec::new(), at.data.join("compiled"), key))
}

/// Looks up secrets of this node.
fn secrets(at: &Paths) -> althing_execution::secrets::SecretLookup {
    let secrets = Secrets::of(&at.data);
    Arc::new(move |name: &str| secrets.read(name).map_err(|error| error.to_string()))
}

/// The scheduler, the agent host, and the agents' memory; and what lets agents give groups tasks.
fn execute(
    at: &Paths,
    config: &Config,
    owner: PublisherId,
    store: &Arc<dyn Store>,
    clock: &WallClock,
    entropy: &Entropy,
) -> Result<(Execution, Arc<GroupOrders>), Failure> {
    let secrets = secrets(at);
    let (now, random) = (clock.clone(), entropy.clone());
    let random: memory::Entropy = Arc::new(move |bytes: &mut [u8]| random.fill(bytes));
    let memories =
        Arc::new(Memories::new(store.clone(), Arc::new(move || now.now_ms()), random.clone(), secrets.clone()));
    let agent_caller = Arc::<AgentCaller>::default();
    let group_orders = Arc::<GroupOrders>::default();
    let gates = Gates::default();
    let processes = processes(at, config, random.clone(), &gates);
    let ports = althing_execution::Ports {
        owner,
        secrets,
        connect: connect(processes.clone()),
        memories: Some(memories.clone()),
        models: config.models.clone(),
        effects: config.effects(),
        profiles: config.profiles(),
        labels: config.node.labels.clone(),
        agents: Some(agent_caller.clone()),
        groups: Some(group_orders.clone()),
        gate: gates.make(contract_gates()),
        grants: ask_grants(&gates),
        output_gates: output_gates(),
        serve_calls: Some(ServeCalls { serve: Arc::new(althing_mcp::serve), entropy: random }),
        level: machine_level(processes.clone()),
    };
    let compiler = compiler(at, entropy)?;
    let (soft, hard) = (althing_wasm::Soft::compiled_by(compiler.clone()), compiler);
    let kernel = Kernel::start(config.execution.kernel(), move || althing_wasm::make_hard_compiled_by(hard.clone()));
    let kernel = kernel.map_err(|error| Failure::failed(format!("cannot start the scheduler: {error}")))?;
    let scheduling = Scheduling { kernel: kernel.clone(), soft: Arc::new(soft) };
    let host = Arc::new(Host::scheduled(builtins(), processes, scheduling, ports));
    let promises = Some(kernel.promises.clone());
    let kernel = Some(kernel);
    let execution = Execution { host, kernel, promises, memories, agent_caller, gates, busy_permille: Arc::default() };
    Ok((execution, group_orders))
}

fn builtins() -> Builtins {
    let mut builtins = Builtins::new();
    builtins.insert("echo", Echo::build);
    builtins.insert("group", GroupAgent::build);
    builtins.insert("router", RouterAgent::build);
    builtins.insert("tools", ToolAgent::build);
    builtins.insert("knowledge", |config, folder, _| Knowledge::build(config, folder));
    builtins
}

/// The node's database.
async fn open_store(at: &Paths) -> Result<Arc<dyn Store>, Failure> {
    let opened = RocksStore::open_after(&at.store(), &FAMILIES, StoreConfig::default()).await;
    Ok(Arc::new(opened.map_err(|error| {
        let hint = match error {
            OpenError::Locked { .. } if at.name == "default" => " (two nodes on one machine need two names: --name)",
            _ => "",
        };
        Failure::failed(format!("{error}{hint}"))
    })?))
}

/// Listens for nodes; on a free port if the port is taken.
async fn listen(
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

/// Joins the LAN; a node also works without multicast.
fn join_lan(key: &SecretKey, network: &dyn Network, config: &Config) -> LanPort {
    if !config.lan.enabled {
        return LanPort::Off;
    }
    let listening = network.listening();
    let port = listening.iter().find_map(|address| address.rsplit_once("/tcp/")?.1.parse().ok());
    let lan = LanConfig { interfaces: config.lan.interfaces.clone(), network: config.network.clone() };
    match port.map(|port| Lan::join(key.public(), port, &lan)) {
        Some(Ok((lan, sightings))) => LanPort::Joined(lan, sightings),
        Some(Err(error)) => LanPort::Failed(error.to_string()),
        None => LanPort::Failed("this node listens on no TCP port".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use althing_execution::AgentState;
    use althing_execution::ServerOf;
    use althing_execution::secrets::ServerSecrets;
    use althing_execution::tools::Fault;
    use althing_operations::{Adoption, adopted};
    use althing_td::{Callers, Environment, Place};
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A Thing of this machine, at an address with a name, and how often somebody connected to it.
    async fn lamp() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://localhost:{}/lamp", listener.local_addr().expect("bound").port());
        let td = json!({
            "@context": "https://www.w3.org/2022/wot/td/v1.1",
            "title": "Lamp",
            "securityDefinitions": { "none": { "scheme": "nosec" } },
            "security": "none",
            "properties": { "level": { "type": "integer", "readOnly": true, "forms": [{ "href": "/level" }] } },
        });
        let connections = Arc::<AtomicUsize>::default();
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let mut request = [0; 8_192];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let body = if request[..read].starts_with(b"GET /lamp ") { td.to_string() } else { "7".to_owned() };
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
                // Whoever asked may be gone.
                let _ = stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await;
            }
        });
        (url, connections)
    }

    /// SR-4: where the name of a Thing leads is looked up when it is adopted, and what calls it follows the name nowhere else.
    #[tokio::test]
    async fn an_adopted_thing_is_not_called_where_its_name_did_not_lead_when_it_was_adopted() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (url, connections) = lamp().await;
        let ports =
            althing_execution::Ports { connect: connect(ProcessConfig::default()), ..althing_execution::Ports::none() };
        let host = Host::new(builtins(), ProcessConfig::default()).with_ports(ports);
        let folder = Path::new("/");
        let of = ServerOf { agent: "lamp", server: "thing", folder, memory_kib: 0 };
        let server = |spec: &ToolServerSpec| (host.ports.connect)(of, spec, ServerSecrets::default());
        let adoption = Adoption {
            at: ToolServerSpec::Url { url, secret: None, leads_to: Vec::new() },
            name: None,
            callers: Callers::Own,
            allow: Vec::new(),
            environment: Environment::default(),
        };
        let mut file = adoption.draft(&host, folder).await.expect("a Thing").file;
        assert_eq!(file.tools["thing"].leads_to(), [Place::ThisMachine]);
        let near = server(&file.tools["thing"]);
        assert_eq!(near.call("read_level", json!({})).await.expect("an answer")["content"][0]["text"], "7");
        near.stop().await;

        // What would have been kept had the name led to a server of the internet then: by now it leads to this machine.
        let Some(ToolServerSpec::Thing { leads_to, .. }) = file.tools.get_mut("thing") else { panic!("a Thing") };
        *leads_to = vec![Place::Internet];
        let asked = connections.load(Ordering::Relaxed);
        let moved = server(&file.tools["thing"]);
        assert!(matches!(moved.call("read_level", json!({})).await, Err(Fault::Failed(_))), "it leads to this machine");
        let state = moved.state();
        assert!(matches!(&state, AgentState::Unreachable { why } if why.contains("not followed there")), "{state:?}");
        moved.stop().await;
        assert_eq!(connections.load(Ordering::Relaxed), asked, "nobody connected");

        // Its owner looks at it again, and agrees to where it is now.
        let again = adopted(&file).expect("it was adopted").draft(&host, folder).await.expect("a Thing").file;
        assert_eq!(again.tools["thing"].leads_to(), [Place::ThisMachine]);
    }
}
