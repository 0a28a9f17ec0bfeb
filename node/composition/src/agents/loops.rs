//! Control loops under other policies than those by which they were added: nobody calls a loop, so that it is decided on when it is
//! added or started, and anew whenever policies change.

use super::Agents;
use crate::agent_standing::retry_failed;
use crate::error::NodeError;
use crate::publish::{self, StoredAgent};

/// Decides anew on the control loops of a node whenever its policies change, for as long as it runs.
pub(crate) async fn follow_policies(agents: &Agents) {
    let mut changes = agents.governance.policy_changes();
    loop {
        admit_anew(agents).await;
        if changes.changed().await.is_err() {
            break;
        }
    }
    // No policies can be put in force any more.
    std::future::pending().await
}

/// Stops the control loops that the policies do not permit as they are now; they stay added, and say why they do not run. Those that
/// were stopped so before, and are permitted now, run again.
async fn admit_anew(agents: &Agents) {
    if !admitted_any(agents).await {
        return;
    }
    if let Err(error) = retry_failed(agents).await {
        tracing::error!(%error, "control loops that the policies permit again could not be started");
    }
}

/// Whether one may run again that might not before.
async fn admitted_any(agents: &Agents) -> bool {
    let _changing = agents.names.hold().await;
    let known = match publish::all(agents.store()) {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(%error, "control loops could not be decided on under the policies of now");
            return false;
        }
    };
    let mut is_any = false;
    for added in known {
        is_any |= admit(agents, &added).await;
    }
    agents.versions().end_revoked(agents.store()).await;
    is_any
}

/// Decides on one; says whether it may run again.
async fn admit(agents: &Agents, added: &StoredAgent) -> bool {
    let name = &added.file.name;
    let why = match agents.versions().check_may_run(added).await {
        Err(why @ NodeError::Forbidden(_)) => why,
        // What else keeps one from running is looked at where that changes.
        _ => return agents.starts.forbidden().remove(name),
    };
    if !agents.versions().running(name).is_empty() {
        tracing::warn!(agent = name, %why, "a control loop is stopped, which the policies do not permit any more");
        // Between two of its jobs, as one that is removed.
        if let Err(error) = agents.stop(name).await {
            tracing::error!(agent = name, %error, "a control loop that the policies do not permit does not stop");
            return false;
        }
    }
    agents.starts.note(name, Some(&why));
    false
}
