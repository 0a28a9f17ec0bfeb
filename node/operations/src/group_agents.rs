//! The agents that groups place on this node: started, replaced and removed as the groups say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use althing_coordination::Groups;
use althing_node::publish::{self, StoredAgent};
use althing_node::{Agents, NodeError};
use althing_protocol::group::{Deployment, GroupId};
use althing_store::Store;
use althing_td::AgentFile;
use tokio::sync::watch;

/// Before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What each group places here; a group that said nothing yet since the node started is not among them.
pub(crate) type Placements = BTreeMap<GroupId, Vec<Deployment>>;

/// What starts and removes the agents that groups place here.
pub(crate) struct PlacedAgents<'a> {
    pub agents: &'a Agents,
    pub groups: &'a Groups,
    pub store: &'a dyn Store,
}

impl PlacedAgents<'_> {
    /// Hosts what groups place here, for as long as the node runs.
    pub(crate) async fn run(&self, mut placements: watch::Receiver<Placements>) {
        self.agents.probed().await;
        loop {
            let wanted = placements.borrow_and_update().clone();
            let done = self.host_placed(&wanted).await;
            if let Err(error) = &done {
                tracing::warn!(%error, "not all agents that groups place here run; it is tried again");
            }
            tokio::select! {
                biased;
                changed = placements.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = tokio::time::sleep(RETRY), if done.is_err() => {}
            }
        }
    }

    /// Starts what is missing, replaces what changed, and removes what is not wanted any more.
    async fn host_placed(&self, placements: &Placements) -> Result<(), NodeError> {
        let mut outcome = Ok(());
        let stored = publish::all(self.store)?;
        let is_wanted = |agent: &StoredAgent| {
            let Some(group) = &agent.group else { return true };
            let Some(wanted) = group.parse().ok().and_then(|group| placements.get(&group)) else {
                // What was brought up goes on until its group says otherwise.
                return group.parse().is_ok_and(|group| belongs(self.groups, group));
            };
            wanted.iter().any(|one| one.agent == agent.file.name && is_same(agent, one))
        };
        for agent in stored.iter().filter(|agent| !is_wanted(agent)) {
            outcome = outcome.and(self.agents.withdraw(&agent.file.name).await);
        }
        let kept: Vec<&StoredAgent> = stored.iter().filter(|agent| is_wanted(agent)).collect();
        for (group, wanted) in placements {
            let missing = |one: &&Deployment| {
                !kept
                    .iter()
                    .any(|agent| agent.file.name == one.agent && agent.group.as_deref() == Some(&group.to_string()))
            };
            for deployment in wanted.iter().filter(missing) {
                outcome = outcome.and(self.start_placed(*group, deployment).await);
            }
        }
        outcome
    }

    async fn start_placed(&self, group: GroupId, deployment: &Deployment) -> Result<(), NodeError> {
        let wrong =
            |why: String| NodeError::Deployment { group: group.to_string(), agent: deployment.agent.clone(), why };
        let file: AgentFile = serde_json::from_slice(&deployment.file).map_err(|error| wrong(error.to_string()))?;
        if file.name != deployment.agent {
            return Err(wrong(format!("its file is of {:?}", file.name)));
        }
        let folder = PathBuf::from(&deployment.folder);
        self.agents.add_for_group(file, &folder, &group.to_string(), deployment.made_ms).await.map(drop)
    }
}

/// Whether this node belongs to a group now.
fn belongs(groups: &Groups, group: GroupId) -> bool {
    groups.overview(group).is_ok_and(|group| ["member", "joining"].contains(&group.standing))
}

/// Whether an agent runs as this deployment says.
fn is_same(agent: &StoredAgent, deployment: &Deployment) -> bool {
    agent.deployed_ms == Some(deployment.made_ms)
}

/// A channel by which groups say what they place here.
pub(crate) fn placements() -> (watch::Sender<Placements>, watch::Receiver<Placements>) {
    watch::channel(Placements::new())
}
