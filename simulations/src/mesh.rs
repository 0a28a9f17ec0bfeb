//! Whole nodes over the simulated network, assembled as the program assembles its own, with scripted agents.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use althing_calls::{
    AgentCaller, Asker, CallRequest, Callee, Calls, HostedAgent, Operation, OperationError, OperationRequest,
    Principal, Purpose, Reply,
};
use althing_communication::{CallerRule, CommunicationConfig, Inbound, Network, Priority, WallClock};
use althing_discovery::{DiscoveryConfig, LocalAgent, Net};
use althing_execution::admission::Policy;
use althing_execution::kernel::Promises;
use althing_execution::memory::Memories;
use althing_execution::process::ProcessConfig;
use althing_execution::realtime::{HardwareProfile, Privilege};
use althing_execution::tools::contract_gates;
use althing_execution::{Builtins, Host};
use althing_node::publish;
use althing_node::{Execution, Gates, Introductions, LanPort, MakeDecide, NodeConfig, Ports, TRUSTED};
use althing_operations::{Operations, OperationsConfig};
use althing_protocol::contract::Grade;
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{AgentId, AgentRef, CallerId, OwnerProof, PublicKey, PublisherId, SecretKey, VerifiedAgent};
use althing_simnet::SimNet;
use althing_store::{Batch, Durability, MemoryStore, Store};
use althing_td::{AgentFile, Description, Exposure};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::{NETWORK, NOW_MS, entropy, key};

pub use crate::owner::Owner;
pub use althing_operations::FAMILIES;

/// An empty disk.
#[must_use]
pub fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(&FAMILIES))
}

/// A whole node, until it is dropped.
pub struct Node {
    node: Arc<Operations>,
    /// Its owner, with that one's next keys.
    pub owner: Owner,
    told: watch::Sender<althing_node::Owner>,
    kept: AbortHandle,
    /// Its time of day.
    pub clock: WallClock,
}

impl Deref for Node {
    type Target = althing_node::Node;

    fn deref(&self) -> &althing_node::Node {
        &self.node
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kept.abort();
    }
}

/// An agent file.
#[must_use]
pub fn file(name: &str, about: &str, skill: &str, action: &str, target: &str) -> AgentFile {
    file_asking(name, about, skill, (action, target), &[])
}

/// The file of an agent whose contract lets it ask `others`.
#[must_use]
pub fn file_asking(
    name: &str,
    about: &str,
    skill: &str,
    (action, target): (&str, &str),
    others: &[String],
) -> AgentFile {
    let named: Vec<String> = others.iter().map(|other| format!("agents/{other}")).collect();
    let capabilities = if named.is_empty() { String::new() } else { format!(", capabilities: [{}]", named.join(", ")) };
    let yaml = format!(
        "name: {name}\ndescription: {about}\nskills: [{{id: {skill}, name: Skill, description: {about}, action: \
         {action}, target: {target}}}]\nruntime: {{ native: {{ builtin: actor }} }}\ncontract: {{ class: {{ latency: srt }}{capabilities} }}\n"
    );
    AgentFile::parse(&yaml).expect("an agent file")
}

/// An agent with its evidence: described under `sequence`, and granted to `node` by `granter` from `from_ms` for an hour.
#[must_use]
pub fn agent(
    owner: &Owner,
    granter: &SecretKey,
    node: PublicKey,
    file: &AgentFile,
    sequence: u64,
    from_ms: u64,
) -> LocalAgent {
    let id = AgentId::new(owner.id(), &file.name).expect("a name");
    let td = althing_td::describe(file, &id.to_string());
    let body = object::Description::new(id.clone(), sequence, from_ms, td.bytes().to_vec());
    let description = object::sign(body, NETWORK, "", &owner.key).expect("a description");
    let grant = Grant::new(id.clone(), node, from_ms, from_ms + 3_600_000);
    let grant = object::sign(grant, NETWORK, "", granter).expect("a grant");
    let verified = VerifiedAgent { agent: id, node, description, grant, key_log: Arc::new(owner.log.clone()) };
    let description = Arc::new(Description::parse(td.bytes()).expect("a description"));
    LocalAgent { verified: Arc::new(verified), description, exposure: Exposure::Public }
}

/// The parts of a node.
pub struct Setup {
    /// Its number, the seed of its randomness.
    pub number: u32,
    /// Its key.
    pub key: SecretKey,
    /// Its owner.
    pub owner: Owner,
    /// Whom it trusts.
    pub trusted: BTreeSet<CallerId>,
    /// Answers calls in place of its agents.
    pub serves: Option<Arc<dyn Inbound>>,
    /// Makes who decides who may reach whom; contracts alone without it.
    pub decide: Option<MakeDecide>,
    /// How L3 behaves.
    pub discovery: DiscoveryConfig,
    /// Its time of day.
    pub clock: WallClock,
    /// Its address on the internet.
    pub ip: Option<IpAddr>,
    /// Its load.
    pub load_permille: Arc<AtomicU16>,
    /// Where the owner's other nodes reserve capacity.
    pub promises: Option<Arc<Promises>>,
    /// The nets that its push notifications may lead into; none are sent without it.
    pub push: Option<Vec<Net>>,
}

impl Setup {
    /// A node and owner by their numbers, with defaults.
    #[must_use]
    pub fn new(net: &SimNet, number: u32, owner: u32) -> Setup {
        Setup {
            number,
            key: key(number),
            owner: Owner::new(key(owner)),
            trusted: BTreeSet::new(),
            serves: None,
            decide: None,
            discovery: DiscoveryConfig::default(),
            clock: net.clone().named(NETWORK, NOW_MS).clock(),
            ip: None,
            load_permille: Arc::default(),
            promises: None,
            push: None,
        }
    }
}

/// The promises of a machine with one core for hard real-time agents, which keeps time well. Leases follow virtual time.
#[must_use]
pub fn promises() -> Arc<Promises> {
    let begun = Instant::now();
    let now_ns = move || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let promises = Promises::new(Policy::Edf, 1, Arc::new(now_ns));
    promises.set_hardware(HardwareProfile {
        grade: Grade::A,
        privilege: Privilege::Full,
        samples: 1_000,
        wake_p50_ns: 10_000,
        wake_p99_ns: 50_000,
        wake_p999_ns: 100_000,
        wake_max_ns: 100_000,
    });
    Arc::new(promises)
}

/// A membership of `node`, signed by `owner`, from `from_ms` for an hour.
#[must_use]
pub fn membership(owner: &Owner, node: PublicKey, from_ms: u64) -> Arc<OwnerProof> {
    let body = Membership::new(owner.id(), node, from_ms, from_ms + 3_600_000);
    let membership = object::sign(body, NETWORK, "", &owner.key).expect("a membership");
    Arc::new(OwnerProof::new(membership.bytes, &owner.log))
}

impl Node {
    /// Starts a node with the key `number`, of the owner with the key `owner`, that trusts `trusted`.
    pub async fn start(net: &SimNet, number: u8, owner: u8, trusted: &[CallerId], store: Arc<dyn Store>) -> Node {
        Node::start_serving(net, number, owner, trusted, store, None).await
    }

    /// The same; `serves` answers calls in place of its agents.
    pub async fn start_serving(
        net: &SimNet,
        number: u8,
        owner: u8,
        trusted: &[CallerId],
        store: Arc<dyn Store>,
        serves: Option<Arc<dyn Inbound>>,
    ) -> Node {
        let mut setup = Setup::new(net, u32::from(number), u32::from(owner));
        setup.trusted = trusted.iter().copied().collect();
        setup.load_permille = Arc::new((u16::from(number) * 10).into());
        setup.serves = serves;
        Node::assemble(net, setup, store).await
    }

    /// Assembles all layers of a node.
    pub async fn assemble(net: &SimNet, setup: Setup, store: Arc<dyn Store>) -> Node {
        let network = net.join_at(setup.key.public(), setup.ip);
        Node::assemble_on(network, setup, store).await
    }

    /// The same, on another network.
    pub async fn assemble_on(network: Arc<dyn Network>, setup: Setup, store: Arc<dyn Store>) -> Node {
        let Setup { number, key, owner, trusted, serves, decide, discovery, .. } = setup;
        let Setup { clock, load_permille, promises, push, .. } = setup;
        let mut batch = Batch::new();
        for id in trusted {
            batch.put(TRUSTED, id.to_string(), Vec::new());
        }
        store.write(batch, Durability::Buffered).await.expect("the disk takes it");
        let (told, owners) = watch::channel(owner.to_node_owner());
        let ports = Ports {
            network,
            store: store.clone(),
            clock: clock.clone(),
            entropy: entropy(u64::from(number)),
            lan: LanPort::Off,
            execution: Execution { promises, ..execution(number, owner.id(), &clock, store, load_permille) },
            owner: owners,
            answers: serves,
            decide,
            gateway: None,
            introductions: Introductions::default(),
            spans: Arc::default(),
        };
        let communication = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
        let config = NodeConfig { communication, discovery, push, ..NodeConfig::default() };
        let config = OperationsConfig { node: config, ..OperationsConfig::default() };
        let started = Box::pin(Operations::assemble(key, config, ports, Arc::default())).await;
        let node = Arc::new(started.expect("it starts"));
        let keeps = node.clone();
        let kept = tokio::spawn(async move { keeps.run().await }).abort_handle();
        Node { node, owner, told, kept, clock }
    }

    /// The node, for a face of it.
    #[must_use]
    pub fn shared(&self) -> Arc<Operations> {
        self.node.clone()
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.key.public()
    }

    /// Connects to another node.
    pub async fn connect(&self, other: &Node) {
        let (from, to) = (self.communication.network(), other.communication.network());
        from.dial(Some(to.local()), to.listening()).await.expect("a connection");
    }

    /// Hosts the agent of a file for trusted callers; an agent that it has already is left unchanged.
    pub async fn host(&self, file: &AgentFile) -> AgentId {
        let known = publish::all(self.store.as_ref()).expect("readable");
        if known.iter().any(|added| added.file.name == file.name) {
            return AgentId::new(self.owner.id(), &file.name).expect("a name");
        }
        Box::pin(self.agents.add(file.clone(), Path::new("/"), None, true)).await.expect("a native agent")
    }

    /// Hosts the agent of a file for all callers. A message to a working task is refused, without interrupting it.
    pub async fn host_for_anyone(&self, file: &AgentFile) -> AgentId {
        let id = self.host(file).await;
        self.hosting.add(HostedAgent {
            agent: AgentRef { id: id.clone(), version: file.version.as_str().into() },
            callers: CallerRule::Anyone,
            input_modes: vec!["text/plain".to_owned()],
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        });
        id
    }

    /// An agent that runs here, in the version that is given new messages.
    #[must_use]
    pub fn stable(&self, agent: &AgentId) -> AgentRef {
        self.node.host.versions(agent.name()).into_iter().next().expect("it runs here")
    }

    /// Publishes an agent's description under `sequence`.
    pub fn publish(&self, file: &AgentFile, sequence: u64) -> AgentId {
        let local = agent(&self.owner, &self.owner.key, self.id(), file, sequence, self.clock.now_ms());
        let id = local.verified.agent.clone();
        let input_modes = vec!["text/plain".to_owned()];
        self.hosting.add(HostedAgent {
            agent: AgentRef { id: id.clone(), version: file.version.as_str().into() },
            callers: CallerRule::Trusted,
            input_modes,
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        });
        self.discovery.host(local);
        id
    }

    /// Gives it the owner's new key.
    pub fn rekey(&mut self, owner: Owner) {
        self.told.send_replace(owner.to_node_owner());
        self.owner = owner;
    }

    /// Makes a call through all layers.
    pub async fn ask(&self, agent: &AgentId, operation: Operation, params: Value) -> Result<Reply, OperationError> {
        answer(&self.calls, agent, operation, params).await
    }

    /// Makes a call with one answer.
    pub async fn one(&self, agent: &AgentId, operation: Operation, params: Value) -> Result<Value, OperationError> {
        match self.ask(agent, operation, params).await? {
            Reply::One(body) => Ok(serde_json::from_slice(&body).expect("JSON")),
            Reply::Events(_) => panic!("{operation:?} does not stream"),
        }
    }

    /// Makes a call, and collects its events.
    pub async fn all(
        &self,
        agent: &AgentId,
        operation: Operation,
        params: Value,
    ) -> Result<Vec<Value>, OperationError> {
        match self.ask(agent, operation, params).await? {
            Reply::One(_) => panic!("{operation:?} streams"),
            Reply::Events(events) => {
                Ok(events.map(|event| serde_json::from_slice(&event.expect("an event")).expect("JSON")).collect().await)
            }
        }
    }

    /// Sends a message; gives its task.
    pub async fn send(&self, agent: &AgentId, text: &str) -> Value {
        let sent = self.one(agent, Operation::SendMessage, message(text)).await.expect("an answer");
        sent["task"].clone()
    }

    /// Sends a message without waiting for the turn; gives the task's id.
    pub async fn begin(&self, agent: &AgentId, text: &str) -> Value {
        let mut params = message(text);
        params["configuration"] = json!({ "returnImmediately": true });
        let sent = self.one(agent, Operation::SendMessage, params).await.expect("an answer");
        sent["task"]["id"].clone()
    }
}

/// The execution layer of a node, without the scheduler, whose threads do not follow virtual time.
fn execution(
    number: u32,
    owner: PublisherId,
    clock: &WallClock,
    store: Arc<dyn Store>,
    busy_permille: Arc<AtomicU16>,
) -> Execution {
    let mut builtins = Builtins::new();
    builtins.insert("actor", |_, _, calls| Ok(Arc::new(Actor::new(calls.clone()))));
    builtins.insert("program", |_, _, _| Ok(Arc::new(crate::program::Program)));
    let (clock, random) = (clock.clone(), entropy(1_000 + u64::from(number)));
    let none: althing_execution::secrets::SecretLookup = Arc::new(|_| Ok(None));
    let now = Arc::new(move || clock.now_ms());
    let memories = Arc::new(Memories::new(store, now, Arc::new(move |bytes| random.fill(bytes)), none));
    let (agent_caller, gates) = (Arc::<AgentCaller>::default(), Gates::default());
    let ports = althing_execution::Ports {
        owner,
        memories: Some(memories.clone()),
        agents: Some(agent_caller.clone()),
        gate: gates.make(contract_gates()),
        ..althing_execution::Ports::none()
    };
    let host = Arc::new(Host::new(builtins, ProcessConfig::default()).with_ports(ports));
    Execution { host, kernel: None, promises: None, memories, agent_caller, gates, busy_permille }
}

/// A call on behalf of the local user.
///
/// # Errors
/// Parameters that break a rule, and why the owner may not call the agent.
pub async fn ask(
    calls: &Calls,
    agent: &AgentId,
    operation: Operation,
    params: &Value,
) -> Result<CallRequest, OperationError> {
    ask_as(calls, agent, (operation, params), vec![Principal::Local]).await
}

/// A call on behalf of other principals.
///
/// # Errors
/// Parameters that break a rule, and why the owner may not call the agent.
pub async fn ask_as(
    calls: &Calls,
    agent: &AgentId,
    (operation, params): (Operation, &Value),
    principals: Vec<Principal>,
) -> Result<CallRequest, OperationError> {
    let request = OperationRequest::parse(operation, params.to_string().into_bytes())?;
    let target = calls.target(&Asker::Owner, &Callee::Id(agent.clone()), Purpose::Call).await?;
    Ok(CallRequest::new(target, request, principals))
}

/// What an agent answers to a call on behalf of the local user.
///
/// # Errors
/// Parameters that break a rule, why the owner may not call the agent, and why it did not answer.
pub async fn answer(
    calls: &Calls,
    agent: &AgentId,
    operation: Operation,
    params: Value,
) -> Result<Reply, OperationError> {
    calls.ask(ask(calls, agent, operation, &params).await?).await
}

/// The parameters that send a text, in a message of its own.
#[must_use]
pub fn message(text: &str) -> Value {
    static MESSAGES: AtomicU32 = AtomicU32::new(0);
    // Of constant length, so that runs send the same number of bytes.
    let id = format!("m-{:010}", MESSAGES.fetch_add(1, Ordering::Relaxed));
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}
