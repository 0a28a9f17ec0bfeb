//! The ports of a host: compilers of guests, connections to tools, other agents and models.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use althing_protocol::{AgentRef, Contract, IdentityError, PublisherId};
use althing_td::{AgentFile, AsksAs, Effect, ModelEndpoint, ToolServerSpec, ToolTerms};
use futures::future::BoxFuture;

use crate::agent::Agent;
use crate::agents::{self, AgentCalls, AgentServer};
use crate::effects::Effects;
use crate::grants::{AskGrant, all_grants};
use crate::groups::{self, GroupServer, GroupTasks};
use crate::hrt::Template;
use crate::kernel::Kernel;
use crate::memory::Memories;
use crate::mesh::{self, MeshServer};
use crate::note_server::{self, NoteServer, SaveKind};
use crate::output_gates::MakeOutputGates;
use crate::process::{FindLevel, ProgramCalls, ServeCalls};
use crate::profiles::Profiles;
use crate::secrets::{SecretLookup, ServerSecrets};
use crate::start_error::StartError;
use crate::statements::ToolStatements;
use crate::syscalls::SystemCalls;
use crate::tools::{Definition, Fault, MakeGate, ToolServer, Tools, contract_gates};

/// Runs modules of agents that are not hard real-time.
pub trait SoftRuntime: Send + Sync + 'static {
    /// Compiles a module; the contract limits its guests.
    ///
    /// # Errors
    /// The reason, for people.
    fn load(&self, module: &[u8], contract: &Contract, calls: &SystemCalls) -> Result<Loaded, String>;
}

/// A loaded module.
pub enum Loaded {
    /// A control loop.
    Control(Arc<dyn Template>),
    /// An agent that processes messages.
    Agent(Arc<dyn Agent>),
}

/// Whose tool server it is.
#[derive(Debug, Clone, Copy)]
pub struct ServerOf<'a> {
    /// The agent; empty for who only looks.
    pub agent: &'a str,
    /// Its name in the agent's file.
    pub server: &'a str,
    /// Where relative paths of the file start.
    pub folder: &'a Path,
    /// KiB of memory that each process of its program may write to, by the agent's contract; 0 for any.
    pub memory_kib: u64,
}

/// Connects an agent to a tool server, with its granted secrets.
pub type Connect = Arc<dyn Fn(ServerOf<'_>, &ToolServerSpec, ServerSecrets) -> Arc<dyn ToolServer> + Send + Sync>;

/// The tool server of simulations, which cannot connect.
struct Nowhere;

impl ToolServer for Nowhere {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no tool servers".to_owned())) })
    }

    fn call<'a>(&'a self, _: &'a str, _: serde_json::Value) -> BoxFuture<'a, Result<serde_json::Value, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no tool servers".to_owned())) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The scheduler with its runtimes.
#[derive(Clone)]
pub struct Scheduling {
    /// The node's scheduler.
    pub kernel: Arc<Kernel>,
    /// Runs modules.
    pub soft: Arc<dyn SoftRuntime>,
}

impl Scheduling {
    /// Blocks on work on the soft real-time runtime; not for threads of a runtime. None if the node stops meanwhile.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.kernel.runtimes.soft().spawn(async move {
            // The receiver is gone only when the node stops.
            let _ = done.send(work.await);
        });
        wait.recv().ok()
    }
}

/// The ports of a host.
#[derive(Clone)]
pub struct Ports {
    /// The owner of the node, who publishes its agents.
    pub owner: PublisherId,
    /// The node's secrets.
    pub secrets: SecretLookup,
    /// Connects to tool servers.
    pub connect: Connect,
    /// The memory of agents.
    pub memories: Option<Arc<Memories>>,
    /// Models of the node, to which agents may be bound if their contracts allow it.
    pub models: Vec<ModelEndpoint>,
    /// What the node says of the effects of tools, by `server/tool` or `server/*`, before what agent files say.
    pub effects: BTreeMap<String, Effect>,
    /// What else the node says of tools, by the same names, before what agent files say.
    pub profiles: BTreeMap<String, ToolTerms>,
    /// The labels of the node.
    pub labels: Vec<String>,
    /// Calls other agents.
    pub agents: Option<Arc<dyn AgentCalls>>,
    /// Gives groups tasks.
    pub groups: Option<Arc<dyn GroupTasks>>,
    /// Makes the gate of system calls.
    pub gate: MakeGate,
    /// Decides what agents are given when they start.
    pub grants: AskGrant,
    /// Makes the gates of a turn's outputs.
    pub output_gates: MakeOutputGates,
    /// Serves system calls to programs.
    pub serve_calls: Option<ServeCalls>,
    /// Finds out how strongly the machine encloses programs; asked when an agent starts to whose tools that matters.
    pub level: FindLevel,
}

impl Ports {
    /// No owner, no secrets, no tool servers, no memory, no gates of outputs; the gate of system calls is that of the contract.
    #[must_use]
    pub fn none() -> Ports {
        Ports {
            owner: PublisherId::from_digest([0; 32]),
            secrets: Arc::new(|_| Ok(None)),
            connect: Arc::new(|_, _, _| Arc::new(Nowhere)),
            memories: None,
            models: Vec::new(),
            effects: BTreeMap::new(),
            profiles: BTreeMap::new(),
            labels: Vec::new(),
            agents: None,
            groups: None,
            gate: contract_gates(),
            grants: all_grants(),
            output_gates: Arc::new(|_| Vec::new()),
            serve_calls: None,
            level: Arc::new(|| None),
        }
    }

    /// That version of the owner's agent of that name.
    ///
    /// # Errors
    /// [`IdentityError::AgentName`].
    pub fn agent_ref(&self, name: &str, version: &str) -> Result<AgentRef, IdentityError> {
        AgentRef::new(self.owner, name, version)
    }

    /// The agent of an agent file of the owner.
    pub(crate) fn agent_of(&self, file: &AgentFile) -> Result<AgentRef, StartError> {
        let agent = self.agent_ref(&file.name, &file.version);
        agent.map_err(|reason| StartError::Config { name: file.name.clone(), reason: reason.to_string() })
    }

    /// What is said of the tools of an agent.
    #[must_use]
    pub fn statements(&self, file: &AgentFile) -> ToolStatements {
        ToolStatements::of(file, (&self.effects, &self.profiles), &*self.level)
    }

    /// The tools of these servers, behind the gate of an agent.
    pub(crate) fn tools(
        &self,
        file: &AgentFile,
        contract: &Contract,
        servers: BTreeMap<String, Arc<dyn ToolServer>>,
    ) -> Result<Tools, StartError> {
        let agent = self.agent_of(file)?;
        let gate = (self.gate)(&agent, contract, &self.statements(file));
        let effects = Effects { node: self.effects.clone(), file: file.effects.clone() };
        let profiles = Profiles { node: self.profiles.clone(), file: file.profiles.clone() };
        let tools = Tools::new(agent, servers, gate).with_effects(effects).with_profiles(profiles);
        Ok(tools.with_checks(&contract.verify))
    }

    /// The system calls of a program, where the contract of its agent permits any.
    pub(crate) fn program_calls(&self, tools: &Arc<Tools>, contract: &Contract) -> Option<(ServeCalls, ProgramCalls)> {
        // The gate permits nothing else, the memory's tools included.
        let permits_any = !contract.capabilities.is_empty() && !tools.is_empty();
        let serve = self.serve_calls.clone().filter(|_| permits_any)?;
        let calls = ProgramCalls::of(tools.clone(), contract, serve.entropy.clone());
        Some((serve, calls))
    }

    /// The tool servers of the node itself, as far as the contract names them: other agents, finding
    /// them, groups, and the session of a turn.
    pub(crate) fn own_servers(&self, file: &AgentFile, contract: &Contract) -> Vec<(String, Arc<dyn ToolServer>)> {
        let agents = AgentServer::of(file, contract, self.agents.as_ref());
        let groups = GroupServer::of(file, contract, self.groups.as_ref());
        let agents = agents.map(|server| (agents::SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
        let groups = groups.map(|server| (groups::SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
        let mesh = MeshServer::of(contract, self.agents.as_ref());
        let mesh = mesh.map(|server| (mesh::SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
        let notes = NoteServer::of(contract, file.asks_as == AsksAs::Itself, SaveKind::of(file), self.agents.as_ref());
        let notes = notes.map(|server| (note_server::SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
        agents.into_iter().chain(groups).chain(mesh).chain(notes).collect()
    }
}
