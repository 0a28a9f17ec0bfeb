//! Whole nodes over the simulated network, put together as the program puts its own together, with agents that do as they
//! are told.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use a2a::{Message, Part, Role, TaskState};
use althing_calls::{
    AgentCaller, CallRequest, HostedAgent, Operation, OperationError, OperationRequest, Principal, Reply,
};
use althing_communication::{CallerRule, CommunicationConfig, Inbound, Network, Priority, WallClock};
use althing_discovery::{DiscoveryConfig, LocalAgent};
use althing_execution::agent::{Agent, Made};
use althing_execution::memory::Memories;
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, Builtins, Host, Output, Turn};
use althing_node::publish;
use althing_node::{Execution, Introductions, LanPort, NodeConfig, Ports, TRUSTED};
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{
    AgentId, CallerId, KeyLog, OwnerProof, PublicKey, PublisherId, SecretKey, VerifiedAgent, keylog,
};
use althing_simnet::SimNet;
use althing_store::{Batch, Durability, MemoryStore, Store};
use althing_td::{AgentFile, Description, Exposure};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::{NETWORK, NOW_MS, entropy, key};

/// Does what its message says: `stuck` for ever, `ask` once, `pieces` of an artifact, or an echo.
struct Actor;

impl Agent for Actor {
    fn turn(&self, turn: Turn, out: Output) -> BoxFuture<'_, Result<(), AgentError>> {
        async move {
            match turn.text().as_str() {
                "stuck" => std::future::pending().await,
                "ask" => out.ask(&turn, "which?").await,
                "pieces" => {
                    for number in 0..5 {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        out.chunk("pieces", format!("{number} "), number > 0, number == 4).await?;
                        let word = Message::new(Role::Agent, vec![Part::text(format!("made {number}"))]);
                        out.put(Made::Status(TaskState::Working, Some(word))).await?;
                    }
                    Ok(())
                }
                text => out.text("echo", text).await,
            }
        }
        .boxed()
    }
}

pub use althing_node::FAMILIES;

/// What a node's disk holds.
#[must_use]
pub fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(&FAMILIES))
}

/// A whole node, until it is dropped.
pub struct Node {
    node: Arc<althing_node::Node>,
    /// Whose it is, with the keys that come next.
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
    let yaml = format!(
        "name: {name}\ndescription: {about}\nskills: [{{id: {skill}, name: Skill, description: {about}, action: \
         {action}, target: {target}}}]\nruntime: {{ native: {{ builtin: actor }} }}\ncontract: {{ class: {{ latency: srt }} }}\n"
    );
    AgentFile::parse(&yaml).expect("an agent file")
}

/// Whose agents and nodes some are.
#[derive(Clone)]
pub struct Owner {
    /// What became of its keys.
    pub log: KeyLog,
    /// The one that speaks for it.
    pub key: SecretKey,
}

/// The keys that owners take next are of these numbers.
const NEXT: u32 = 800_000;
/// A day: longer than any clock is wrong.
const DAY_MS: u64 = 86_400_000;

impl Owner {
    /// With its first key, which it has had for a day.
    #[must_use]
    pub fn new(key: SecretKey) -> Owner {
        let next = [crate::key(NEXT).public(), crate::key(NEXT + 1).public()];
        let event = keylog::inception(&key, next, NOW_MS - DAY_MS);
        Owner { log: KeyLog::verify(&[event.bytes]).expect("a key log"), key }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    /// What a node is told of it.
    fn told(&self) -> althing_node::Owner {
        althing_node::Owner::new(self.key.clone(), self.log.clone())
    }

    /// The key that the log commits to.
    fn next(&self, later: u32) -> SecretKey {
        crate::key(NEXT + u32::try_from(self.log.len()).expect("a short log") - 1 + later)
    }

    /// With the next key; the one before is not accepted any more.
    #[must_use]
    pub fn rotated(&self, now_ms: u64) -> Owner {
        let (key, after) = (self.next(0), self.next(2));
        Owner { log: self.log.rotate(&key, after.public(), now_ms, 0).expect("it may"), key }
    }

    /// The end of its log.
    #[must_use]
    pub fn revocation(&self, now_ms: u64) -> KeyLog {
        self.log.revoke(&self.next(0), now_ms).expect("it may")
    }
}

/// An agent with all that proves it: described under `sequence`, granted to `node` from `from_ms` for an hour by
/// `granter`.
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

/// How a node is put together.
pub struct Setup {
    /// Its number, which its randomness comes from.
    pub number: u32,
    /// Its key.
    pub key: SecretKey,
    /// Whose it is.
    pub owner: Owner,
    /// Whom it trusts.
    pub trusted: BTreeSet<CallerId>,
    /// What answers calls in place of its agents.
    pub serves: Option<Arc<dyn Inbound>>,
    /// How L3 behaves.
    pub discovery: DiscoveryConfig,
    /// Its time of day.
    pub clock: WallClock,
    /// Its address on the internet.
    pub ip: Option<IpAddr>,
    /// How busy it is.
    pub load_permille: Arc<AtomicU16>,
}

impl Setup {
    /// The node of a number, of the owner of a number, as nodes are by default.
    #[must_use]
    pub fn new(net: &SimNet, number: u32, owner: u32) -> Setup {
        Setup {
            number,
            key: key(number),
            owner: Owner::new(key(owner)),
            trusted: BTreeSet::new(),
            serves: None,
            discovery: DiscoveryConfig::default(),
            clock: net.clone().named(NETWORK, NOW_MS).clock(),
            ip: None,
            load_permille: Arc::default(),
        }
    }
}

/// `owner`'s word that `node` is its own, from `from_ms` for an hour.
#[must_use]
pub fn membership(owner: &Owner, node: PublicKey, from_ms: u64) -> Arc<OwnerProof> {
    let body = Membership::new(owner.id(), node, from_ms, from_ms + 3_600_000);
    let membership = object::sign(body, NETWORK, "", &owner.key).expect("a membership");
    Arc::new(OwnerProof::new(membership.bytes, &owner.log))
}

impl Node {
    /// A node with the key `number`, of the owner with the key `owner`, that trusts `trusted`.
    pub async fn start(net: &SimNet, number: u8, owner: u8, trusted: &[CallerId], store: Arc<dyn Store>) -> Node {
        Node::start_serving(net, number, owner, trusted, store, None).await
    }

    /// The same, with calls answered by something else than its agents.
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

    /// All layers of a node, as `setup` says.
    pub async fn assemble(net: &SimNet, setup: Setup, store: Arc<dyn Store>) -> Node {
        let network = net.join_at(setup.key.public(), setup.ip);
        Node::assemble_on(network, setup, store).await
    }

    /// The same, on another network.
    pub async fn assemble_on(network: Arc<dyn Network>, setup: Setup, store: Arc<dyn Store>) -> Node {
        let Setup { number, key, owner, trusted, serves, discovery, clock, ip: _, load_permille } = setup;
        let mut batch = Batch::new();
        for id in trusted {
            batch.put(TRUSTED, id.to_string(), Vec::new());
        }
        store.write(batch, Durability::Buffered).await.expect("the disk takes it");
        let (told, owners) = watch::channel(owner.told());
        let ports = Ports {
            network,
            store: store.clone(),
            clock: clock.clone(),
            entropy: entropy(u64::from(number)),
            lan: LanPort::Off,
            execution: execution(number, &clock, store, load_permille),
            owner: owners,
            answers: serves,
            gateway: None,
            introductions: Introductions::default(),
        };
        let communication = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
        let config = NodeConfig { communication, discovery, ..NodeConfig::default() };
        let started = Box::pin(althing_node::Node::assemble(key, config, ports)).await;
        let node = Arc::new(started.expect("it starts"));
        let keeps = node.clone();
        let kept = tokio::spawn(async move { keeps.run().await }).abort_handle();
        Node { node, owner, told, kept, clock }
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

    /// Hosts the agent of a file, for those whom its node trusts; one that it has already goes on.
    pub async fn host(&self, file: &AgentFile) -> AgentId {
        let known = publish::all(self.store.as_ref()).expect("readable");
        if known.iter().any(|added| added.file.name == file.name) {
            return AgentId::new(self.owner.id(), &file.name).expect("a name");
        }
        Box::pin(self.agents.add(file.clone(), Path::new("/"), None, true)).await.expect("a native agent")
    }

    /// Hosts the agent of a file for everybody. A message to a task that is worked on is refused, and interrupts nothing.
    pub async fn host_for_anyone(&self, file: &AgentFile) -> AgentId {
        let id = self.host(file).await;
        self.hosting.add(HostedAgent {
            id: id.clone(),
            callers: CallerRule::Anyone,
            input_modes: vec!["text/plain".to_owned()],
            barge_in: false,
            priority: Priority::default(),
        });
        id
    }

    /// Describes an agent, perhaps anew.
    pub fn publish(&self, file: &AgentFile, sequence: u64) -> AgentId {
        let local = agent(&self.owner, &self.owner.key, self.id(), file, sequence, self.clock.now_ms());
        let id = local.verified.agent.clone();
        let input_modes = vec!["text/plain".to_owned()];
        self.hosting.add(HostedAgent {
            id: id.clone(),
            callers: CallerRule::Trusted,
            input_modes,
            barge_in: false,
            priority: Priority::default(),
        });
        self.discovery.host(local);
        id
    }

    /// Its owner has another key: it hears so.
    pub fn rekey(&mut self, owner: Owner) {
        self.told.send_replace(owner.told());
        self.owner = owner;
    }

    /// Asks through the whole walk.
    pub async fn ask(&self, agent: &AgentId, operation: Operation, params: Value) -> Result<Reply, OperationError> {
        self.calls.ask(ask(agent, operation, &params)?).await
    }

    /// Asks for one answer.
    pub async fn one(&self, agent: &AgentId, operation: Operation, params: Value) -> Result<Value, OperationError> {
        match self.ask(agent, operation, params).await? {
            Reply::One(body) => Ok(serde_json::from_slice(&body).expect("JSON")),
            Reply::Events(_) => panic!("{operation:?} does not stream"),
        }
    }

    /// Asks for events, and takes all of them.
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

    /// Sends a message and gives the task that it comes to.
    pub async fn send(&self, agent: &AgentId, text: &str) -> Value {
        let sent = self.one(agent, Operation::SendMessage, message(text)).await.expect("an answer");
        sent["task"].clone()
    }

    /// Sends a message and does not wait; gives the task's id.
    pub async fn begin(&self, agent: &AgentId, text: &str) -> Value {
        let mut params = message(text);
        params["configuration"] = json!({ "returnImmediately": true });
        let sent = self.one(agent, Operation::SendMessage, params).await.expect("an answer");
        sent["task"]["id"].clone()
    }
}

/// What runs the agents of a node: they run as they come, since threads that keep deadlines follow no virtual time.
fn execution(number: u32, clock: &WallClock, store: Arc<dyn Store>, busy_permille: Arc<AtomicU16>) -> Execution {
    let mut builtins = Builtins::new();
    builtins.insert("actor", |_, _| Ok(Arc::new(Actor)));
    builtins.insert("program", |_, _| Ok(Arc::new(crate::program::Program)));
    let (clock, random) = (clock.clone(), entropy(1_000 + u64::from(number)));
    let none: althing_execution::secrets::SecretLookup = Arc::new(|_| Ok(None));
    let now = Arc::new(move || clock.now_ms());
    let memories = Arc::new(Memories::new(store, now, Arc::new(move |bytes| random.fill(bytes)), none));
    let agent_caller = Arc::<AgentCaller>::default();
    let ports = althing_execution::Ports {
        memories: Some(memories.clone()),
        agents: Some(agent_caller.clone()),
        ..althing_execution::Ports::none()
    };
    let host = Arc::new(Host::new(builtins, ProcessConfig::default()).with_ports(ports));
    Execution { host, kernel: None, memories, agent_caller, busy_permille }
}

/// A question as the person asks it who sits at a node.
///
/// # Errors
/// Parameters that break a rule.
pub fn ask(agent: &AgentId, operation: Operation, params: &Value) -> Result<CallRequest, OperationError> {
    ask_as(agent, operation, params, vec![Principal::Local])
}

/// The same in the name of others.
///
/// # Errors
/// Parameters that break a rule.
pub fn ask_as(
    agent: &AgentId,
    operation: Operation,
    params: &Value,
    principals: Vec<Principal>,
) -> Result<CallRequest, OperationError> {
    let request = OperationRequest::parse(operation, params.to_string().into_bytes())?;
    Ok(CallRequest::new(agent.clone(), request, principals))
}

/// The parameters that send a text, in a message of its own.
#[must_use]
pub fn message(text: &str) -> Value {
    static MESSAGES: AtomicU32 = AtomicU32::new(0);
    // Always of one length, so that what a simulation sends takes as long in each run.
    let id = format!("m-{:010}", MESSAGES.fetch_add(1, Ordering::Relaxed));
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}
