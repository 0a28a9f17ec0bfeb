//! What a host is handed: who compiles guests, who reaches tools, other agents and models.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::Contract;
use althing_td::{ModelEndpoint, ToolServerSpec};
use futures::future::BoxFuture;

use crate::agent::Agent;
use crate::agents::AgentCalls;
use crate::hrt::Template;
use crate::kernel::Kernel;
use crate::memory::Memories;
use crate::secrets::SecretLookup;
use crate::syscalls::SystemCalls;
use crate::tools::{Definition, Fault, MakeGate, ToolServer, contract_gates};

/// Runs modules of agents that are not hard real-time.
pub trait SoftRuntime: Send + Sync + 'static {
    /// Compiles a module, whose guests are held to the contract.
    ///
    /// # Errors
    /// The reason, for people.
    fn load(&self, module: &[u8], contract: &Contract, calls: &SystemCalls) -> Result<Loaded, String>;
}

/// What a module turned out to be.
pub enum Loaded {
    /// A control loop.
    Control(Arc<dyn Template>),
    /// An agent that is given messages.
    Agent(Arc<dyn Agent>),
}

/// Makes the connection to a server of tools; its secret was granted.
pub type Connect = fn(&ToolServerSpec, &Path, Option<String>) -> Arc<dyn ToolServer>;

/// Where nothing can be connected to: simulations.
struct Nowhere;

impl ToolServer for Nowhere {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no servers of tools".to_owned())) })
    }

    fn call<'a>(&'a self, _: &'a str, _: serde_json::Value) -> BoxFuture<'a, Result<serde_json::Value, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no servers of tools".to_owned())) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn nowhere(_: &ToolServerSpec, _: &Path, _: Option<String>) -> Arc<dyn ToolServer> {
    Arc::new(Nowhere)
}

/// What keeps the promises of contracts.
#[derive(Clone)]
pub struct Scheduling {
    /// The node's scheduler.
    pub kernel: Arc<Kernel>,
    /// Runs modules.
    pub soft: Arc<dyn SoftRuntime>,
}

/// What a host is handed from outside.
#[derive(Clone)]
pub struct Ports {
    /// The node's secrets.
    pub secrets: SecretLookup,
    /// Reaches servers of tools.
    pub connect: Connect,
    /// What agents keep.
    pub memories: Option<Arc<Memories>>,
    /// Models that every agent may be bound to, as far as its contract allows them.
    pub models: Vec<ModelEndpoint>,
    /// What the node's owner says of the node.
    pub labels: Vec<String>,
    /// Asks other agents.
    pub agents: Option<Arc<dyn AgentCalls>>,
    /// Decides which system calls may run, and hears how they end.
    pub gate: MakeGate,
}

impl Ports {
    /// No secrets, no servers, no memory; the contract alone decides.
    #[must_use]
    pub fn none() -> Ports {
        Ports {
            secrets: Arc::new(|_| Ok(None)),
            connect: nowhere,
            memories: None,
            models: Vec::new(),
            labels: Vec::new(),
            agents: None,
            gate: contract_gates(),
        }
    }
}
