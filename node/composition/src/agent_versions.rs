//! Starts and stops versions of agents: one that runs is bound, sealed, on record, and answers calls.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{HostedAgent, Hosting};
use althing_communication::Priority;
use althing_execution::definition::Pins;
use althing_execution::kernel::Kernel;
use althing_execution::{AgentKey, BoundTool, Host, enclosed};
use althing_governance::Governance;
use althing_protocol::contract::Class;
use althing_protocol::{AgentId, AgentRef, Contract};
use althing_store::Store;
use althing_td::{AgentFile, RuntimeSpec};

use crate::admission::admit_loop;
use crate::agent_records::AgentRecords;
use crate::bindings::Bindings;
use crate::blocking::run_blocking;
use crate::error::NodeError;
use crate::identity::Identity;
use crate::orders::Orders;
use crate::publish::{self, StoredAgent};
use crate::revocations::Revocations;
use crate::rollouts::{Rollouts, stored_agents};
use crate::smooth;

/// How long it is waited for how the program of an agent is contained.
const ENCLOSED_MAX: Duration = Duration::from_secs(5);

/// The versions of a node's agents: which of them may run, and what runs of them.
pub(crate) struct AgentVersions {
    host: Arc<Host>,
    kernel: Option<Arc<Kernel>>,
    hosting: Hosting,
    identity: Arc<Identity>,
    bindings: Arc<Bindings>,
    revocations: Arc<Revocations>,
    orders: Arc<Orders>,
    governance: Governance,
    rollouts: Arc<Rollouts>,
    records: Arc<AgentRecords>,
}

impl AgentVersions {
    pub fn new(
        bindings: Arc<Bindings>,
        hosting: Hosting,
        (revocations, orders, governance): (Arc<Revocations>, Arc<Orders>, Governance),
        rollouts: Arc<Rollouts>,
        records: Arc<AgentRecords>,
    ) -> AgentVersions {
        let Bindings { host, kernel, identity, .. } = bindings.as_ref();
        AgentVersions {
            host: host.clone(),
            kernel: kernel.clone(),
            hosting,
            identity: identity.clone(),
            bindings,
            revocations,
            orders,
            governance,
            rollouts,
            records,
        }
    }

    /// Starts an agent in the version of this file, beside those that run; peers see the one that was there before.
    pub async fn start_version(&self, added: &StoredAgent, pins: Option<Pins>) -> Result<AgentRef, NodeError> {
        self.identity.check_authority()?;
        self.check_may_run(added).await?;
        self.bindings.check_profile(&added.file)?;
        // What an agent does is recorded, and so nothing runs where that cannot be.
        self.records.check().await?;
        let hosted = hosted(added, publish::agent_ref(&self.identity.owner(), &added.file)?)?;
        let file = smooth::bound_file(&self.host, added);
        let (host, bound, folder) = (self.host.clone(), file.clone(), added.folder.clone());
        run_blocking(self.kernel.as_ref(), move || host.start_pinned(&bound, &folder, pins)).await??;
        self.bindings.seal(&hosted.agent).await?;
        // Its description says how its program is contained, which its keeper tells at once.
        enclosed(&self.host, &hosted.agent, ENCLOSED_MAX).await;
        self.govern(&hosted.agent, &added.file);
        if let Err(unrecorded) = self.records.start(&hosted.agent, &file, &self.host).await {
            self.host.stop(&hosted.agent).await;
            return Err(unrecorded);
        }
        // Hosted before it is published: peers may call at once.
        let agent = hosted.agent.clone();
        self.hosting.add(hosted);
        Ok(agent)
    }

    /// Those of an agent that run.
    pub fn running(&self, agent: &str) -> Vec<AgentRef> {
        self.host.versions(agent)
    }

    /// No program writes the files of an agent, in any of its versions.
    pub fn guard_files(&self, added: &StoredAgent) {
        self.host.process.agent_files.set(&added.file.name, &self.rollouts.sources(added));
    }

    /// Policies are checked against the tools of an agent as their servers list them.
    fn govern(&self, agent: &AgentRef, file: &AgentFile) {
        let tools = bound_tools(&self.host, agent).into_iter().map(|tool| (tool.name, tool.definition.input_schema));
        self.governance.take_tools(agent, &tools.collect(), &self.host.ports.statements(file));
    }

    /// Stops all versions of an agent that run. None is hosted any more when the first is stopped: else its tasks would go on with
    /// another one.
    pub async fn stop_all(&self, name: &str) {
        let versions = self.host.versions(name);
        versions.iter().for_each(|agent| self.hosting.remove(agent));
        self.hosting.end_work(name);
        for agent in &versions {
            self.stop(agent).await;
        }
    }

    /// Stops one version; the others go on.
    pub async fn stop(&self, agent: &AgentRef) {
        self.hosting.remove(agent);
        self.host.stop(agent).await;
        self.records.end(agent).await;
    }

    /// Stops those that run beside the ones that everybody has, and may not run; the latter go on.
    pub async fn end_revoked(&self, store: &dyn Store) {
        let others = match stored_agents(store) {
            Ok(others) => others,
            Err(error) => return tracing::error!(%error, "versions that may not run any more could not be stopped"),
        };
        for other in others {
            let Err(why) = self.check_may_run(&other).await else { continue };
            let Ok(version) = publish::agent_ref(&self.identity.owner(), &other.file) else { continue };
            if self.running(&other.file.name).contains(&version) {
                tracing::warn!(agent = other.file.name, version = &*version.version, %why, "a version is stopped");
                self.stop(&version).await;
            }
        }
    }

    /// Whether the owner of an agent stopped it.
    pub fn is_stopped(&self, agent: &AgentId) -> bool {
        self.orders.why_stopped(agent).is_some()
    }

    /// Refuses an agent that may not run now: as [`AgentVersions::check_standing`], and a control loop that the owner's policies do not
    /// permit as they are. Of agents of other classes policies decide call by call.
    ///
    /// # Errors
    /// [`NodeError::Stopped`], [`NodeError::Revoked`], [`NodeError::Forbidden`].
    pub async fn check_may_run(&self, added: &StoredAgent) -> Result<(), NodeError> {
        self.check_standing(added)?;
        let id = publish::agent_id(&self.identity.owner(), &added.file)?;
        let known = (&self.governance, self.revocations.as_ref());
        Ok(admit_loop(known, (&id, &added.file), added.group.as_deref()).await?)
    }

    /// Refuses an agent that its owner stopped, or whose release its publisher revoked.
    pub fn check_standing(&self, added: &StoredAgent) -> Result<(), NodeError> {
        let id = publish::agent_id(&self.identity.owner(), &added.file)?;
        if let Some(why) = self.orders.why_stopped(&id) {
            return Err(NodeError::Stopped(why));
        }
        match self.revocations.here(&id, &added.file.version) {
            Some(why) => Err(NodeError::Revoked(why)),
            None => Ok(()),
        }
    }
}

/// The tools that an agent is bound to, as their servers list them; none of one that does not run.
pub(crate) fn bound_tools<'a>(host: &Host, agent: impl Into<AgentKey<'a>>) -> Vec<BoundTool> {
    host.tools(agent).map(|tools| tools.all()).unwrap_or_default()
}

/// What calls of an agent are answered by.
fn hosted(added: &StoredAgent, agent: AgentRef) -> Result<HostedAgent, NodeError> {
    let file = &added.file;
    Ok(HostedAgent {
        agent,
        callers: added.rule()?,
        input_modes: input_modes(file),
        barge_in: takes_interruptions(file),
        is_told_again: is_told_again(file),
        priority: priority(file),
    })
}

/// What an agent reads; calls of the tools that it exposes are data.
fn input_modes(file: &AgentFile) -> Vec<String> {
    const DATA: &str = "application/json";
    let mut modes = file.input_modes.clone();
    if !file.expose.is_empty() && !modes.iter().any(|mode| mode == DATA) {
        modes.push(DATA.to_owned());
    }
    modes
}

/// The priority of an agent's frames, by its latency class.
fn priority(file: &AgentFile) -> Priority {
    match file.contract.as_ref().map(|contract| &contract.class) {
        Some(Class::Hrt(_)) => Priority::Urgent,
        Some(Class::Srt(_)) | None => Priority::Interactive,
        Some(Class::Dt(_)) => Priority::Bulk,
    }
}

/// Whether a new message interrupts a turn. A program or server has tasks of its own, which end when they are cancelled.
fn takes_interruptions(file: &AgentFile) -> bool {
    let wanted = |contract: &Contract| matches!(&contract.class, Class::Srt(srt) if srt.barge_in);
    !matches!(file.runtime, RuntimeSpec::Process { .. } | RuntimeSpec::Remote { .. })
        && file.contract.as_ref().is_some_and(wanted)
}

/// Whether an agent is given a message again whose turn is over. One that runs elsewhere decides by itself what it does then,
/// as when it is asked directly.
fn is_told_again(file: &AgentFile) -> bool {
    matches!(file.runtime, RuntimeSpec::Remote { .. })
}
