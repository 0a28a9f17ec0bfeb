//! The agents of this node: added, started, published to peers, and removed.

mod loops;
mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use althing_calls::Hosting;
use althing_communication::WallClock;
use althing_discovery::Discovery;
use althing_execution::definition::Pins;
use althing_execution::kernel::{Kernel, LeaseError};
use althing_execution::{AgentState, AgentStatus, Host};
use althing_failure::Kind;
use althing_governance::Governance;
use althing_protocol::AgentId;
use althing_protocol::object::{OrderSubject, OrderWord};
use althing_store::Store;
use althing_td::{AgentFile, RightsChanges, RuntimeSpec};

use crate::admission::{admit_added, admit_replaced};
use crate::agent_records::AgentRecords;
use crate::agent_starts::AgentStarts;
use crate::agent_versions::AgentVersions;
use crate::agreements::{AgreementRows, Agreements};
use crate::bindings::Bindings;
use crate::error::NodeError;
use crate::events::{Event, Events};
use crate::identity::Identity;
use crate::names::Names;
use crate::orders::Orders;
use crate::owner::Owner;
use crate::publish::{self, Stay, StoredAgent};
use crate::revocations::{InstalledRow, Revocations, remove_folder};
use crate::rollouts::{Rollouts, start_others};
use crate::smooth;

pub(crate) use loops::follow_policies;
pub(crate) use tools::follow_tools;

/// The agents of a node.
pub struct Agents {
    host: Arc<Host>,
    kernel: Option<Arc<Kernel>>,
    discovery: Discovery,
    store: Arc<dyn Store>,
    clock: WallClock,
    identity: Arc<Identity>,
    bindings: Arc<Bindings>,
    revocations: Arc<Revocations>,
    orders: Arc<Orders>,
    events: Events,
    /// What the owner's policies say.
    pub governance: Governance,
    rollouts: Arc<Rollouts>,
    /// Who has which name here, agents and workflows alike.
    pub names: Names,
    /// Which of them do not run, or are still to be started.
    pub starts: AgentStarts,
    versions: AgentVersions,
    records: Arc<AgentRecords>,
    /// The tools that they expose.
    exposing: tools::Exposing,
}

/// The status of each agent that runs. One that nobody can find yet is still being started.
#[must_use]
pub fn agent_statuses(host: &Host, discovery: &Discovery) -> Vec<AgentStatus> {
    let mut all = host.status();
    for status in &mut all {
        if status.state == AgentState::Ready && !discovery.is_hosted(&status.name) {
            status.state = AgentState::Starting;
        }
    }
    all
}

impl Agents {
    pub(crate) fn new(
        bindings: Arc<Bindings>,
        hosting: Hosting,
        discovery: Discovery,
        (revocations, orders, events, governance): (Arc<Revocations>, Arc<Orders>, Events, Governance),
        rollouts: Arc<Rollouts>,
    ) -> Agents {
        let Bindings { host, kernel, store, identity, clock, .. } = bindings.as_ref();
        let records = Arc::new(AgentRecords::new(governance.clone(), identity.clone()));
        let decided = (revocations.clone(), orders.clone(), governance.clone());
        let versions = AgentVersions::new(bindings.clone(), hosting, decided, rollouts.clone(), records.clone());
        Agents {
            host: host.clone(),
            kernel: kernel.clone(),
            discovery,
            store: store.clone(),
            clock: clock.clone(),
            identity: identity.clone(),
            names: Names::new(store.clone(), revocations.clone()),
            bindings,
            revocations,
            orders,
            events,
            governance,
            rollouts,
            starts: AgentStarts::new(),
            versions,
            records,
            exposing: tools::Exposing::default(),
        }
    }

    /// What puts on record what happens to them.
    pub(crate) fn records(&self) -> &AgentRecords {
        &self.records
    }

    /// Where they are kept.
    pub(crate) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Starts the agents that were added before; one that fails does not keep the others from starting. Gives what the user
    /// should know of them.
    pub(crate) async fn start_stored(&self) -> Result<Vec<String>, NodeError> {
        let mut notes = Vec::new();
        let stored = publish::all(self.store.as_ref())?;
        // No program that is started writes what the node read of another one.
        stored.iter().for_each(|added| self.versions.guard_files(added));
        for added in stored {
            if added.once {
                // Whoever ran it is not connected any more.
                publish::delete(self.store.as_ref(), &added.file.name).await?;
                continue;
            }
            let (owner, now_ms) = (self.identity.owner(), self.clock.now_ms());
            let added =
                publish::signed_now(self.store.as_ref(), added, &owner, self.identity.network(), now_ms).await?;
            self.starts.starting().insert(added.file.name.clone(), class(&added.file));
            // What takes seconds is started once the node is ready.
            if matches!(added.file.runtime, RuntimeSpec::Wasm { .. }) || !added.file.tools.is_empty() {
                continue;
            }
            let outcome = self.restart(&added).await;
            let name = added.file.name;
            if let Some(failure) = outcome.as_ref().err().filter(|failure| failure.kind() != Kind::NotYet) {
                let again = if matches!(failure, NodeError::Stopped(_)) { "" } else { "; it is tried again" };
                notes.push(format!("agent {name:?} does not start: {failure}{again}"));
            }
            self.starts.note(&name, outcome.as_ref().err());
        }
        self.starts.tell_known();
        Ok(notes)
    }

    /// Adds an agent: starts it and publishes it to the peers; it is started with the node again if `keep` is set.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn add(
        &self,
        file: AgentFile,
        folder: &Path,
        reservation: Option<&str>,
        keep: bool,
    ) -> Result<AgentId, NodeError> {
        let stay = if keep { Stay::UntilRemoved } else { Stay::WhileConnected };
        self.add_as(file, folder, reservation, (stay, None, None)).await
    }

    /// Adds an agent of a file that was read from these files (absolute, the agent's own first and without links), which no program
    /// writes from now on. Where it may do more than was agreed to for that name, or for that file, `agreed` is the digest of what was
    /// shown.
    ///
    /// # Errors
    /// [`NodeError::Wider`]; see [`NodeError`].
    pub async fn add_read(
        &self,
        file: AgentFile,
        (folder, sources): (&Path, &[PathBuf]),
        reservation: Option<&str>,
        (stay, agreed): (Stay<'_>, Option<&str>),
    ) -> Result<AgentId, NodeError> {
        let file = self.normal(file)?;
        let changes = self.changes(&file, sources)?;
        if changes.wider && agreed != Some(changes.digest.as_str()) {
            return Err(NodeError::Wider(file.name));
        }
        self.add_as(file, folder, reservation, (stay, None, Some(sources))).await
    }

    /// What an agent file that was read from these files changes of what was agreed to, for its name and for the first of them; where
    /// nothing was, only programs without a sandbox.
    ///
    /// # Errors
    /// [`NodeError::AgentExists`], [`NodeError::WorkflowExists`], those of the contract, and those of the store.
    pub fn changes(&self, file: &AgentFile, sources: &[PathBuf]) -> Result<RightsChanges, NodeError> {
        self.identity.check_authority()?;
        self.names.check_free(&file.name)?;
        Agreements(self.store.as_ref()).changes(&self.normal(file.clone())?, sources.first())
    }

    /// Adds an agent whose tools are those that were looked at, if that is known.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn adopt(&self, file: AgentFile, folder: &Path, pins: Option<Pins>) -> Result<AgentId, NodeError> {
        self.add_as(file, folder, None, (Stay::UntilRemoved, pins, None)).await
    }

    /// Adds an agent that a group placed here, by its deployment of that time.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn add_for_group(
        &self,
        file: AgentFile,
        folder: &Path,
        group: &str,
        made_ms: u64,
    ) -> Result<AgentId, NodeError> {
        self.add_as(file, folder, None, (Stay::Placed(group, made_ms), None, None)).await
    }

    /// Adds an agent; with `sources` one whose owner was shown what these files let it do, and agreed.
    async fn add_as(
        &self,
        file: AgentFile,
        folder: &Path,
        reservation: Option<&str>,
        (stay, pins, sources): (Stay<'_>, Option<Pins>, Option<&[PathBuf]>),
    ) -> Result<AgentId, NodeError> {
        self.identity.check_authority()?;
        // Nothing is promised before the machine was probed.
        self.probed().await;
        let _changing = self.names.claim(&file.name).await?;
        if self.host.status().iter().any(|running| running.name == file.name) {
            return Err(NodeError::AgentRuns(file.name));
        }
        if publish::all(self.store.as_ref())?.len() >= publish::AGENTS_MAX {
            return Err(NodeError::TooManyAgents(publish::AGENTS_MAX));
        }
        let id = publish::agent_id(&self.identity.owner(), &file)?;
        admit_added((&self.governance, self.revocations.as_ref()), (&id, &file), &stay).await?;
        self.governance.forget_definitions(&id).await?;
        let is_placed = matches!(stay, Stay::Placed(..));
        let mut added = self.signed(file, folder, stay)?;
        added.sources = sources.unwrap_or_default().to_vec();
        if !is_placed {
            lift(&self.orders, &self.identity.owner(), &added).await?;
        }
        if let (Some(id), Some(contract)) = (reservation, &added.file.contract) {
            self.kernel.as_ref().ok_or(LeaseError::Unknown)?.promises.claim(id, &added.file.name, contract)?;
        }
        // Whoever adds it agrees to the definitions that its tools have now, or had when they were looked at.
        if let Err(failure) = self.start(&added, pins).await {
            self.kernel.as_ref().into_iter().for_each(|kernel| kernel.promises.unclaim(&added.file.name));
            self.stop(&added.file.name).await?;
            self.host.process.forget(&added.file.name);
            return Err(failure);
        }
        // From now on it is given these definitions of tools only.
        added.pins = self.host.tools(&added.file.name).and_then(|tools| tools.pins());
        self.exposing.keep_description(&mut added);
        let written = match self.records.change("adding", None, Some(&added.file)).await {
            Ok(()) => Agreements(self.store.as_ref()).add(&added, sources.is_some()).await,
            Err(unrecorded) => Err(unrecorded),
        };
        if let Err(failure) = written {
            self.stop(&added.file.name).await?;
            self.host.process.forget(&added.file.name);
            return Err(failure);
        }
        Ok(id)
    }

    /// Puts another agent file, whose relative paths start in `folder`, in the place of an agent's: with the definitions of tools
    /// that were looked at, or else with those of now. If the new one does not start, the old one runs on.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn replace(&self, file: AgentFile, folder: &Path, pins: Option<Pins>) -> Result<AgentId, NodeError> {
        self.identity.check_authority()?;
        self.probed().await;
        let _changing = self.names.hold().await;
        let before = stored(self.store.as_ref(), &file.name)?;
        self.rollouts.release(&file.name).await?;
        let mut after = self.signed(file, folder, Stay::UntilRemoved)?;
        after.sources.clone_from(&before.sources);
        let (name, id) = (after.file.name.clone(), publish::agent_id(&self.identity.owner(), &after.file)?);
        admit_replaced((&self.governance, self.revocations.as_ref()), (&id, &after.file), &before.file).await?;
        self.stop(&name).await?;
        let mut replaced = match self.governance.forget_definitions(&id).await {
            Ok(()) => self.start(&after, pins).await,
            Err(error) => Err(error.into()),
        };
        if replaced.is_ok() {
            after.pins = self.host.tools(&name).and_then(|tools| tools.pins());
            self.exposing.keep_description(&mut after);
            replaced = match self.records.change("binding", Some(&before.file), Some(&after.file)).await {
                Ok(()) => publish::write(self.store.as_ref(), &after).await,
                Err(unrecorded) => Err(unrecorded),
            };
        }
        if let Err(failure) = replaced {
            self.stop(&name).await?;
            self.host.process.keep_only(&before.file);
            if let Err(error) = self.restart(&before).await {
                self.starts.failed().insert(name, error.to_string());
            }
            return Err(failure);
        }
        self.host.process.keep_only(&after.file);
        self.starts.note(&name, None);
        Ok(id)
    }

    /// The file of an agent that its user added, to stay.
    ///
    /// # Errors
    /// [`NodeError::NoAgent`], [`NodeError::OfGroup`], and those of the store.
    pub fn file(&self, name: &str) -> Result<(AgentFile, std::path::PathBuf), NodeError> {
        stored(self.store.as_ref(), name).map(|added| (added.file, added.folder))
    }

    /// The file with its contract as it holds here, with its role and this node's policy.
    pub(crate) fn normal(&self, file: AgentFile) -> Result<AgentFile, NodeError> {
        let contract = self.bindings.normalise(&file)?.map(|normalised| normalised.contract);
        Ok(AgentFile { contract: contract.or(file.contract), ..file })
    }

    /// What is stored of an agent that is added now.
    pub(crate) fn signed(&self, file: AgentFile, folder: &Path, stay: Stay<'_>) -> Result<StoredAgent, NodeError> {
        let file = self.normal(file)?;
        // The same check as `althing contract lint`, with the role and the policy filled in.
        file.check()?;
        let (owner, network) = (self.identity.owner(), self.identity.network());
        let mut added = StoredAgent::new(file, folder.to_owned(), stay, &owner, network, self.clock.now_ms())?;
        smooth::note(&self.host, &mut added);
        Ok(added)
    }

    /// Starts an agent that was added before, with the tool definitions of then.
    pub(crate) async fn restart(&self, added: &StoredAgent) -> Result<(), NodeError> {
        self.start(added, Some(added.kept_pins()?)).await?;
        start_others(&self.versions, &self.rollouts, &added.file.name).await;
        let mut now = added.clone();
        // Another level, or other tools, are signed once, and not whenever the node is started.
        let is_described = self.exposing.keep_description(&mut now);
        let is_bound_anew = smooth::note(&self.host, &mut now);
        if is_described || is_bound_anew { publish::write(self.store.as_ref(), &now).await } else { Ok(()) }
    }

    /// Starts an agent with these tool definitions, or else with those that its servers list now.
    async fn start(&self, added: &StoredAgent, pins: Option<Pins>) -> Result<(), NodeError> {
        self.versions.guard_files(added);
        let agent = self.versions.start_version(added, pins).await?;
        tools::publish_agent(self, added)?;
        self.events.note(Event::AgentStart { agent: added.file.name.clone(), id: agent.id.to_string() });
        Ok(())
    }

    /// Which versions of them may run, and what runs of them.
    pub(crate) fn versions(&self) -> &AgentVersions {
        &self.versions
    }

    /// Shows peers a version of an agent that took the place of another one.
    pub(crate) fn show(&self, added: &StoredAgent) -> Result<(), NodeError> {
        self.exposing.forget(&added.file.name);
        tools::publish_agent(self, added)
    }

    /// The status of an agent that runs.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<AgentStatus> {
        agent_statuses(&self.host, &self.discovery).into_iter().find(|status| status.name == name)
    }

    /// Stops an agent that was added for one run, and forgets it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn end(&self, name: &str) -> Result<(), NodeError> {
        let _changing = self.names.hold().await;
        self.stop(name).await?;
        self.host.process.forget(name);
        let known = publish::all(self.store.as_ref())?;
        if known.iter().any(|added| added.file.name == name && added.once) {
            publish::delete(self.store.as_ref(), name).await?;
        }
        Ok(())
    }

    /// Stops an agent, and forgets it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn remove(&self, name: &str) -> Result<(), NodeError> {
        let _changing = self.names.hold().await;
        stored(self.store.as_ref(), name)?;
        self.forget(name, None).await
    }

    /// What is noted of what was agreed to for that name, and for the first of these files, before an agent is added.
    ///
    /// # Errors
    /// [`NodeError`] of the store.
    pub fn noted(&self, name: &str, sources: &[PathBuf]) -> Result<AgreementRows, NodeError> {
        Agreements(self.store.as_ref()).noted(name, sources.first().map(PathBuf::as_path))
    }

    /// Stops an agent that was added and did not start, and forgets it and what was agreed to by that: `before` is what was noted.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn take_back(&self, name: &str, before: AgreementRows) -> Result<(), NodeError> {
        let _changing = self.names.hold().await;
        stored(self.store.as_ref(), name)?;
        self.forget(name, Some(before)).await
    }

    /// Stops an agent that its group does not place here any more, and forgets it.
    pub async fn withdraw(&self, name: &str) -> Result<(), NodeError> {
        let _changing = self.names.hold().await;
        self.forget(name, None).await
    }

    async fn forget(&self, name: &str, before: Option<AgreementRows>) -> Result<(), NodeError> {
        self.rollouts.forget(name).await?;
        let added = publish::named(self.store.as_ref(), name)?;
        if let Err(error) = self.records.change("removing", added.as_ref().map(|added| &added.file), None).await {
            // What ends must end, also where nothing can be recorded.
            tracing::error!(agent = name, %error, "that an agent is removed is not on record");
        }
        match (added, before) {
            (_, Some(before)) => Agreements(self.store.as_ref()).take_back(name, before).await?,
            (Some(added), None) => Agreements(self.store.as_ref()).remove(&added).await?,
            (None, None) => publish::delete(self.store.as_ref(), name).await?,
        }
        self.starts.note(name, None);
        self.stop(name).await?;
        self.host.process.forget(name);
        let installed = self.revocations.set_installed(name, None).await?;
        installed.iter().flat_map(InstalledRow::folders).for_each(|folder| remove_folder(folder));
        Ok(())
    }

    /// Waits until the machine was probed, where agents are scheduled.
    pub async fn probed(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.promises.probed().await;
        }
    }

    /// Stops one, which stays added.
    pub(crate) async fn stop(&self, name: &str) -> Result<(), NodeError> {
        let id = AgentId::new(self.identity.owner().id(), name)?;
        let was_shown = self.discovery.is_hosted(name);
        self.discovery.unhost(&id);
        self.exposing.forget(name);
        self.versions.stop_all(name).await;
        note_end(&self.events, name, was_shown);
        Ok(())
    }
}

/// Notes that an agent runs no more, if it did: one that does not start is stopped too.
fn note_end(events: &Events, name: &str, ran: bool) {
    if ran {
        events.note(Event::AgentEnd { agent: name.to_owned() });
    }
}

/// Whether an agent was installed from a release that its publisher revoked.
#[must_use]
pub fn is_revoked_install(agents: &Agents, added: &StoredAgent) -> bool {
    agents.revocations.installed_row(&added.file.name).is_some()
        && matches!(agents.versions.check_standing(added), Err(NodeError::Revoked(_)))
}

/// Renews the grants of the agents that run, as many as can be; gives the first failure.
pub(crate) fn renew_grants(agents: &Agents) -> Result<(), NodeError> {
    let running: BTreeSet<String> = agents.host.status().into_iter().map(|status| status.name).collect();
    let known = publish::all(agents.store.as_ref())?;
    let renewed = known
        .iter()
        .filter(|added| running.contains(&added.file.name))
        .map(|added| tools::publish_agent(agents, added));
    // Every one is tried, whatever becomes of the others.
    let outcomes: Vec<Result<(), NodeError>> = renewed.collect();
    outcomes.into_iter().collect()
}

/// Signs all descriptions with the owner's key of now: those by an old key end when its overlap ends.
pub(crate) async fn sign_anew(agents: &Agents, owner: &Owner, now_ms: u64) -> Result<(), NodeError> {
    let _changing = agents.names.hold().await;
    publish::sign_all(agents.store.as_ref(), owner, agents.identity.network(), now_ms).await
}

/// Signs all descriptions anew, those of tools that agents expose too, and shows them to peers.
pub(crate) async fn show_anew(agents: &Agents, owner: &Owner, now_ms: u64) -> Result<(), NodeError> {
    let signed = sign_anew(agents, owner, now_ms).await;
    agents.exposing.forget_all();
    renew_grants(agents)?;
    signed
}

/// The latency class of an agent.
fn class(file: &AgentFile) -> &'static str {
    file.contract.as_ref().map_or("", |contract| contract.class.name())
}

#[cfg(test)]
pub(crate) mod tests;

/// Lets an agent run again that its owner stopped: who adds it wants that.
async fn lift(orders: &Orders, owner: &Owner, added: &StoredAgent) -> Result<(), NodeError> {
    let id = publish::agent_id(owner, &added.file)?;
    if orders.why_stopped(&id).is_some() {
        let lifted = OrderSubject::Agent(id.name().to_owned(), OrderWord::Lift);
        orders.give(lifted, owner).await?;
    }
    Ok(())
}

/// The agent of a name that its user added, to stay.
pub(crate) fn stored(store: &dyn Store, name: &str) -> Result<StoredAgent, NodeError> {
    let stored = publish::permanent(store)?;
    let Some(added) = stored.into_iter().find(|added| added.file.name == name) else {
        return Err(NodeError::NoAgent(name.to_owned()));
    };
    match &added.group {
        Some(group) => Err(NodeError::OfGroup { agent: name.to_owned(), group: group.clone() }),
        None => Ok(added),
    }
}
