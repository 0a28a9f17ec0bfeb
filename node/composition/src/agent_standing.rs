//! Which of the agents of a node may run, by the word of its owner and of publishers: those that may not are stopped, and stay added;
//! those that may again are started.

use std::collections::BTreeSet;

use althing_execution::Host;
use althing_governance::end_questions_of;
use althing_protocol::AgentId;
use althing_store::WriteError;

use crate::agents::Agents;
use crate::error::NodeError;
use crate::publish::{self, StoredAgent};

/// Starts agents that were not started yet, and those that failed to start before: the cause may be gone.
pub(crate) async fn retry_failed(agents: &Agents) -> Result<(), NodeError> {
    let failed = agents.starts.to_retry();
    let names: BTreeSet<String> = agents.starts.starting().keys().cloned().chain(failed).collect();
    for name in names {
        let _changing = agents.names.hold().await;
        // It may have been removed meanwhile.
        let stored = publish::permanent(agents.store())?;
        let Some(added) = stored.iter().find(|added| added.file.name == name) else {
            agents.starts.note(&name, None);
            continue;
        };
        agents.starts.note(&name, agents.restart(added).await.as_ref().err());
    }
    agents.starts.tell_known();
    Ok(())
}

/// Stops all agents that run on this host; they stay added.
pub(crate) async fn end_all(agents: &Agents, host: &Host, why: &str) -> Result<(), NodeError> {
    let _changing = agents.names.hold().await;
    for status in host.status() {
        agents.stop(&status.name).await?;
        agents.starts.failed().insert(status.name, why.to_owned());
    }
    Ok(())
}

/// Whether an agent does not run because its owner stopped it, or revoked it.
#[must_use]
pub fn is_stopped_by_owner(agents: &Agents, added: &StoredAgent) -> bool {
    let standing = agents.versions().check_standing(added);
    matches!(standing, Err(NodeError::Stopped(_)))
}

/// Stops the agents that their owner stopped, and those whose releases their publishers revoked; they stay added, and say why they do
/// not run. One that may run again is started with those that failed.
pub async fn end_revoked(agents: &Agents) {
    if let Err(error) = end_stopped(agents).await {
        tracing::error!(%error, "questions about agents that are stopped could not be ended");
    }
}

/// The same, for who tells what became of the questions to people.
///
/// # Errors
/// [`WriteError`]: the agents are stopped, and what people were asked about them waits on.
pub async fn end_stopped(agents: &Agents) -> Result<(), WriteError> {
    stop_revoked(agents).await;
    // Nobody waits for what people would answer; a turn that rests hears so once its agent runs again.
    let is_stopped = |agent: &AgentId| agents.versions().is_stopped(agent);
    let questions = end_questions_of(&agents.governance, is_stopped).await?;
    if questions > 0 {
        tracing::info!(questions, "questions about agents that are stopped are over");
    }
    Ok(())
}

async fn stop_revoked(agents: &Agents) {
    let _changing = agents.names.hold().await;
    let known = match publish::all(agents.store()) {
        Ok(known) => known,
        Err(error) => return tracing::error!(%error, "agents whose releases are revoked could not be stopped"),
    };
    for added in known {
        let Err(why) = agents.versions().check_standing(&added) else { continue };
        let name = added.file.name;
        match agents.stop(&name).await {
            Ok(()) => agents.starts.note(&name, Some(&why)),
            Err(error) => tracing::error!(agent = name, %error, "an agent whose release is revoked does not stop"),
        }
    }
    agents.versions().end_revoked(agents.store()).await;
}
