//! The agents of this node: added, run, shown to the peers, and taken away.

use std::path::Path;

use althing_calls::HostedAgent;
use althing_communication::Priority;
use althing_discovery::LocalAgent;
use althing_execution::AgentStatus;
use althing_execution::definition::Pins;
use althing_execution::kernel::LeaseError;
use althing_protocol::contract::Class;
use althing_protocol::{AgentId, Contract};
use althing_td::{AgentFile, RuntimeSpec};

use crate::error::{Kind, NodeError};
use crate::node::Node;
use crate::publish::{self, Added};

impl Node {
    /// Begins its work: whose keys it watches, which Things it reads; and starts the agents that were added before. One
    /// that fails does not keep the others from starting.
    pub(crate) async fn start_stored(mut self) -> Result<Node, NodeError> {
        self.watch_keys();
        self.read_things();
        for added in publish::known(self.store.as_ref())? {
            if added.once {
                // Nobody looks on any more.
                publish::forget(self.store.as_ref(), &added.file.name).await?;
                continue;
            }
            let added = self.as_signed_now(added).await?;
            // What takes seconds is begun when the node is ready.
            if matches!(added.file.runtime, RuntimeSpec::Wasm { .. }) || !added.file.tools.is_empty() {
                self.failed().insert(added.file.name, "it is being started".to_owned());
                continue;
            }
            if let Err(failure) = self.run_again(&added).await {
                let name = added.file.name;
                if failure.kind() != Kind::NotYet {
                    self.notes.push(format!("agent {name:?} does not start: {failure}; it is tried again"));
                }
                self.failed().insert(name, failure.to_string());
            }
        }
        Ok(self)
    }

    /// An agent that was described for another network, or with a key that the owner has rotated away since, is described
    /// anew: whose it is has not changed.
    async fn as_signed_now(&self, added: Added) -> Result<Added, NodeError> {
        let owner = self.owner();
        if added.is_signed(&owner, self.network()) || owner.log.revoked() {
            return Ok(added);
        }
        let anew = added.signed_anew(&owner, self.network(), self.clock.now_ms())?;
        publish::keep(self.store.as_ref(), &anew).await?;
        Ok(anew)
    }

    /// Starts agents that did not start before: what they lacked may be there now.
    pub(crate) async fn retry_failed(&self) -> Result<(), NodeError> {
        let names: Vec<String> = self.failed().keys().cloned().collect();
        for name in names {
            let _changing = self.changing.lock().await;
            // It may have been removed meanwhile.
            let stored = publish::stored(self.store.as_ref())?;
            let Some(added) = stored.iter().find(|added| added.file.name == name) else {
                self.failed().remove(&name);
                continue;
            };
            match self.run_again(added).await {
                Ok(()) => drop(self.failed().remove(&name)),
                Err(failure) => drop(self.failed().insert(name, failure.to_string())),
            }
        }
        Ok(())
    }

    /// Adds an agent: it is started, and told to the peers; and it stays, unless it is to run this once only.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn add_agent(
        &self,
        file: AgentFile,
        folder: &Path,
        reservation: Option<&str>,
        keep: bool,
    ) -> Result<AgentId, NodeError> {
        self.may_run()?;
        // Nothing is promised by a machine that is not known.
        self.probed().await;
        let _changing = self.changing.lock().await;
        let known = publish::known(self.store.as_ref())?;
        if known.iter().any(|added| added.file.name == file.name && !added.once) {
            return Err(NodeError::AgentExists(file.name));
        }
        if self.host.status().iter().any(|running| running.name == file.name) {
            return Err(NodeError::AgentRuns(file.name));
        }
        if known.len() >= publish::AGENTS_MAX {
            return Err(NodeError::TooManyAgents(publish::AGENTS_MAX));
        }
        let now_ms = self.clock.now_ms();
        let mut file = file;
        if let Some(normalised) = self.normalised(&file)? {
            file.contract = Some(normalised.contract);
        }
        // What `althing contract lint` looks at, whoever sent the file, and with what role and policy filled in.
        file.check()?;
        let mut added = Added::new(file, folder.to_owned(), !keep, &self.owner(), self.network(), now_ms)?;
        if let (Some(id), Some(contract)) = (reservation, &added.file.contract) {
            self.kernel().ok_or(LeaseError::Unknown)?.claim(id, &added.file.name, contract)?;
        }
        // What its tools are now is what whoever adds it agrees to.
        if let Err(failure) = self.run_agent(&added, None).await {
            self.kernel().into_iter().for_each(|kernel| kernel.unclaim(&added.file.name));
            self.drop_agent(&added.file.name).await?;
            return Err(failure);
        }
        // The tools that it was bound to now are the only ones that it will be given.
        added.pins = self.host.pins(&added.file.name);
        if let Err(failure) = publish::keep(self.store.as_ref(), &added).await {
            self.drop_agent(&added.file.name).await?;
            return Err(failure);
        }
        publish::agent_id(&self.owner(), &added.file)
    }

    /// Nobody can let an agent run on a node whose owner is no more.
    fn may_run(&self) -> Result<(), NodeError> {
        let owner = self.owner();
        if owner.log.revoked() {
            return Err(NodeError::OwnerRevoked);
        }
        if owner.withdrew(self.key.public(), self.clock.now_ms()) {
            return Err(NodeError::NodeWithdrawn);
        }
        Ok(())
    }

    /// Starts an agent that was added before, with the tools that it had then.
    async fn run_again(&self, added: &Added) -> Result<(), NodeError> {
        self.run_agent(added, Some(added.kept_pins()?)).await
    }

    /// Starts an agent with these tools, or else with what its servers have now.
    async fn run_agent(&self, added: &Added, pins: Option<Pins>) -> Result<(), NodeError> {
        self.may_run()?;
        let rule = added.rule()?;
        let (host, file, folder) = (self.host.clone(), added.file.clone(), added.folder.clone());
        self.aside(move || host.start_pinned(&file, &folder, pins)).await??;
        self.seal(&added.file.name).await?;
        // Before the peers are told, who may call at once.
        let id = publish::agent_id(&self.owner(), &added.file)?;
        self.hosting.add(HostedAgent {
            id,
            callers: rule,
            input_modes: added.file.input_modes.clone(),
            barge_in: takes_interruptions(&added.file),
            priority: priority(&added.file),
        });
        self.show_agent(added)
    }

    /// Makes fresh evidence for an agent and hands it to L3.
    pub(crate) fn show_agent(&self, added: &Added) -> Result<(), NodeError> {
        let (verified, description) =
            added.evidence(&self.owner(), self.key.public(), self.network(), self.clock.now_ms())?;
        self.discovery.host(LocalAgent { verified, description, exposure: added.file.exposure });
        Ok(())
    }

    /// How an agent is.
    #[must_use]
    pub fn agent_status(&self, name: &str) -> Option<AgentStatus> {
        self.host.status().into_iter().find(|status| status.name == name)
    }

    /// Takes away an agent that was to run once.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn end_agent(&self, name: &str) -> Result<(), NodeError> {
        let _changing = self.changing.lock().await;
        self.drop_agent(name).await?;
        let known = publish::known(self.store.as_ref())?;
        if known.iter().any(|added| added.file.name == name && added.once) {
            publish::forget(self.store.as_ref(), name).await?;
        }
        Ok(())
    }

    /// Takes an agent away.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn remove_agent(&self, name: &str) -> Result<(), NodeError> {
        let _changing = self.changing.lock().await;
        let stored = publish::stored(self.store.as_ref())?;
        if !stored.iter().any(|added| added.file.name == name) {
            return Err(NodeError::NoAgent(name.to_owned()));
        }
        publish::forget(self.store.as_ref(), name).await?;
        self.failed().remove(name);
        self.drop_agent(name).await
    }

    /// Ends all agents; they stay added.
    pub(crate) async fn end_all_agents(&self, why: &str) -> Result<(), NodeError> {
        let _changing = self.changing.lock().await;
        for status in self.host.status() {
            self.drop_agent(&status.name).await?;
            self.failed().insert(status.name, why.to_owned());
        }
        Ok(())
    }

    async fn drop_agent(&self, name: &str) -> Result<(), NodeError> {
        let id = AgentId::new(self.owner().id(), name)?;
        self.discovery.unhost(&id);
        self.hosting.remove(&id);
        self.host.stop(name).await;
        Ok(())
    }
}

/// What waits for whom on the wire, by the latency class.
fn priority(file: &AgentFile) -> Priority {
    match file.contract.as_ref().map(|contract| &contract.class) {
        Some(Class::Hrt(_)) => Priority::Urgent,
        Some(Class::Srt(_)) | None => Priority::Interactive,
        Some(Class::Dt(_)) => Priority::Bulk,
    }
}

/// A program has tasks of its own, which end when they are cancelled; the others' go on.
fn takes_interruptions(file: &AgentFile) -> bool {
    let wanted = |contract: &Contract| matches!(&contract.class, Class::Srt(srt) if srt.barge_in);
    !matches!(file.runtime, RuntimeSpec::Process { .. }) && file.contract.as_ref().is_some_and(wanted)
}

#[cfg(test)]
pub(crate) mod tests;
