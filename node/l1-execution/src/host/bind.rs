//! Binds the contract of an agent file to the models and tools of this node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use althing_protocol::binding::{Candidates, Model, Runtime, Tool};
use althing_protocol::{Contract, digest, hex};
use althing_td::{AgentFile, ModelEndpoint, RuntimeSpec};
use futures::FutureExt as _;

use super::start::read;
use super::{Host, StartError};
use crate::binding::{Bindable, Bound, Unmet, bind, pinnable, unchanged};
use crate::definition::hash;
use crate::memory;
use crate::syscalls::SystemCalls;
use crate::tools::Tools;

impl Host {
    /// Binds the contract of an agent file in `folder`; starts only its tool servers. Blocks on them: not for threads of an
    /// async runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn bind(&self, file: &AgentFile, folder: &Path) -> Result<Bound, StartError> {
        let contract = file.contract.as_ref().ok_or_else(|| StartError::NoContract(file.name.clone()))?;
        let mut servers = self.servers(file, folder, contract)?;
        if contract.memory.is_some() {
            servers.insert(memory::SERVER.to_owned(), Arc::new(memory::Offered));
        }
        servers.extend(self.ports.own_servers(file, contract));
        let tools = Arc::new(self.ports.tools(file, contract, servers)?);
        let bound = self.bound(file, folder, contract, &tools);
        if let Some(scheduling) = &self.scheduling {
            // Programs that were started for the listing end again.
            scheduling.kernel.runtimes.soft().spawn(async move { tools.stop().await });
        }
        bound
    }

    pub(super) fn bound(
        &self,
        file: &AgentFile,
        folder: &Path,
        contract: &Contract,
        tools: &Arc<Tools>,
    ) -> Result<Bound, StartError> {
        let what = Bindable {
            agent: file.name.clone(),
            agent_version: file.version.clone(),
            runtime: runtime(file, folder)?,
            embeddings: file.embeddings.as_ref().map(offer),
        };
        let candidates = Candidates {
            models: self.offers(file).iter().map(offer).collect(),
            tools: self.known(tools),
            labels: self.ports.labels.clone(),
        };
        let bound = unchanged(contract, &tools.unfit()).and_then(|()| bind(contract, what, candidates));
        bound.map_err(|reason| StartError::Unbound { name: file.name.clone(), reason })
    }

    /// The models that an agent may be bound to: those of its file and of the node.
    fn offers(&self, file: &AgentFile) -> Vec<ModelEndpoint> {
        let RuntimeSpec::Model { endpoints, .. } = &file.runtime else { return Vec::new() };
        endpoints.iter().chain(&self.ports.models).cloned().collect()
    }

    /// The runtime with the bound endpoints, in their order.
    pub(super) fn chosen(&self, file: &AgentFile, bound: &Bound) -> RuntimeSpec {
        let mut runtime = file.runtime.clone();
        if let RuntimeSpec::Model { endpoints, .. } = &mut runtime {
            let offers = self.offers(file);
            let of = |model: &Model| offers.iter().find(|endpoint| offer(endpoint) == *model).cloned();
            *endpoints = bound.manifest.models.iter().filter_map(of).collect();
        }
        runtime
    }

    /// The current tools of the tool servers.
    fn known(&self, tools: &Arc<Tools>) -> Vec<Tool> {
        if tools.is_empty() {
            return Vec::new();
        }
        let asked = tools.clone();
        let listing = async move {
            asked.listed().await;
            asked.definitions()
        };
        // Without a scheduler the only servers are the node's own, which answer at once.
        let listed = match &self.scheduling {
            Some(scheduling) => scheduling.wait(listing),
            None => listing.now_or_never(),
        };
        listed.unwrap_or_default()
    }
}

/// An offered model; the digest covers the whole endpoint.
fn offer(endpoint: &ModelEndpoint) -> Model {
    Model {
        name: endpoint.named().to_owned(),
        version: endpoint.version.clone(),
        context_tokens: endpoint.context_tokens,
        ttft_ms: endpoint.ttft_ms,
        cost: endpoint.cost,
        clearance: endpoint.clearance,
        digest: hash(endpoint),
    }
}

fn runtime(file: &AgentFile, folder: &Path) -> Result<Runtime, StartError> {
    let (kind, digest) = match &file.runtime {
        RuntimeSpec::Native { .. } => ("native", hash(&file.runtime)),
        RuntimeSpec::Process { .. } => ("process", hash(&file.runtime)),
        RuntimeSpec::Remote { .. } => ("remote", hash(&file.runtime)),
        // The endpoints are among the candidates.
        RuntimeSpec::Model { prompt, temperature, .. } => {
            let said = BTreeMap::from([
                ("prompt", serde_json::json!(prompt)),
                ("temperature", serde_json::json!(temperature)),
            ]);
            ("model", hash(&said))
        }
        RuntimeSpec::Wasm { module } => {
            let module = folder.join(module);
            let failed =
                |reason| StartError::Module { name: file.name.clone(), module: module.display().to_string(), reason };
            ("wasm", hex(&digest(&read(&module).map_err(failed)?)))
        }
    };
    Ok(Runtime { kind: kind.to_owned(), digest })
}

/// The binding of a running agent.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The manifest's hash, hexadecimal.
    pub hash: Arc<str>,
    /// The manifest, and the reasons.
    pub bound: Arc<Bound>,
}

impl Binding {
    pub(super) fn new(bound: Bound) -> Binding {
        let hash = hex(&bound.manifest.hash());
        Binding { hash: hash.into(), bound: Arc::new(bound) }
    }
}

/// Pins the bound definitions unless there are pins: a changed definition is another tool, in every binding mode.
pub(super) fn pin(calls: &SystemCalls, bound: &Bound) -> Result<(), Unmet> {
    if calls.tools.pins().is_none() {
        calls.tools.pin(pinnable(calls.tools.pinnable(&bound.manifest.tools))?);
    }
    Ok(())
}
