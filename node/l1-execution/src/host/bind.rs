//! Binds the contract of an agent file to the models and tools of this node.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::binding::{Candidates, Model, Tool};
use althing_td::{AgentFile, ModelEndpoint, RuntimeSpec};
use futures::FutureExt as _;

use super::start::AgentStart;
use super::{Host, StartError};
use crate::bindable::{offer, runtime};
use crate::binding::{Bindable, Bound, bind, unchanged};
use crate::tools::Tools;
use crate::{memory, tiers};

impl Host {
    /// Binds the contract of an agent file in `folder`; starts only its tool servers. Blocks on them: not for threads of an
    /// async runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn bind(&self, file: &AgentFile, folder: &Path) -> Result<Bound, StartError> {
        let contract = file.contract.as_ref().ok_or_else(|| StartError::NoContract(file.name.clone()))?;
        let start = self.start_of(file, folder, contract);
        let mut servers = start.servers()?;
        if contract.memory.is_some() {
            servers.insert(memory::SERVER.to_owned(), Arc::new(memory::Offered));
        }
        servers.extend(self.ports.own_servers(file, contract));
        let tools = Arc::new(self.ports.tools(file, contract, servers)?);
        let bound = start.bound(&tools);
        if let Some(scheduling) = &self.scheduling {
            // Programs that were started for the listing end again.
            scheduling.kernel.runtimes.soft().spawn(async move { tools.stop().await });
        }
        bound
    }
}

impl AgentStart<'_> {
    /// Binds the contract to the models and to those tools, as their servers list them now.
    pub(super) fn bound(&self, tools: &Arc<Tools>) -> Result<Bound, StartError> {
        let AgentStart { file, folder, contract, .. } = *self;
        let what = Bindable {
            agent: file.name.clone(),
            agent_version: file.version.clone(),
            runtime: runtime(file, folder)?,
            embeddings: file.embeddings.as_ref().map(offer),
        };
        let unbound = |reason| StartError::Unbound { name: file.name.clone(), reason };
        let within = tiers::within(contract, self.known(tools), |tool| tools.profiles.of(tool).tier);
        let (known, above) = within.map_err(unbound)?;
        let candidates = Candidates {
            models: self.offers().iter().map(offer).collect(),
            tools: known,
            labels: self.ports.labels.clone(),
        };
        let bound = unchanged(contract, &tools.unfit()).and_then(|()| bind(contract, what, candidates));
        let mut bound = bound.map_err(unbound)?;
        bound.tools.extend(above);
        Ok(bound)
    }

    /// The models that an agent may be bound to: those of its file and of the node.
    fn offers(&self) -> Vec<ModelEndpoint> {
        let RuntimeSpec::Model { endpoints, .. } = &self.file.runtime else { return Vec::new() };
        endpoints.iter().chain(&self.ports.models).cloned().collect()
    }

    /// The runtime with the bound endpoints, in their order.
    pub(super) fn chosen(&self, bound: &Bound) -> RuntimeSpec {
        let mut runtime = self.file.runtime.clone();
        if let RuntimeSpec::Model { endpoints, .. } = &mut runtime {
            let offers = self.offers();
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
        let listed = match self.scheduling {
            Some(scheduling) => scheduling.wait(listing),
            None => listing.now_or_never(),
        };
        listed.unwrap_or_default()
    }
}
