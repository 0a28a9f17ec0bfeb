//! The names of a node's agents and workflows, and of what was installed from releases: one namespace, in which whoever brings
//! something claims its name first.

use std::sync::Arc;

use althing_store::Store;
use tokio::sync::{Mutex, MutexGuard};

use crate::error::NodeError;
use crate::publish;
use crate::revocations::Revocations;

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameHolder {
    /// An agent that stays: added, adopted, installed, or placed here by a group.
    Agent,
    /// A workflow that was installed.
    Workflow,
}

/// Who has which name on a node.
pub struct Names {
    store: Arc<dyn Store>,
    revocations: Arc<Revocations>,
    /// Held while agents are added, started or removed, and workflows installed, so that names and promises belong to one at
    /// a time.
    changing: Mutex<()>,
}

impl Names {
    pub(crate) fn new(store: Arc<dyn Store>, revocations: Arc<Revocations>) -> Names {
        Names { store, revocations, changing: Mutex::default() }
    }

    /// What has a name; none if it is free.
    ///
    /// # Errors
    /// Those of the store.
    pub fn holder(&self, name: &str) -> Result<Option<NameHolder>, NodeError> {
        if publish::named(self.store.as_ref(), name)?.is_some_and(|added| !added.once) {
            return Ok(Some(NameHolder::Agent));
        }
        Ok(self.revocations.workflows().contains_key(name).then_some(NameHolder::Workflow))
    }

    /// Refuses a name that something has.
    ///
    /// # Errors
    /// [`NodeError::AgentExists`], [`NodeError::WorkflowExists`], and those of the store.
    pub fn check_free(&self, name: &str) -> Result<(), NodeError> {
        match self.holder(name)? {
            None => Ok(()),
            Some(NameHolder::Agent) => Err(NodeError::AgentExists(name.to_owned())),
            Some(NameHolder::Workflow) => Err(NodeError::WorkflowExists(name.to_owned())),
        }
    }

    /// Waits until nobody else changes what has a name; for as long as what is given is held, nobody else does.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// The same for whoever brings something of that name, which must be free.
    ///
    /// # Errors
    /// As [`Names::check_free`].
    pub async fn claim(&self, name: &str) -> Result<MutexGuard<'_, ()>, NodeError> {
        let held = self.hold().await;
        self.check_free(name)?;
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::tests::{program, started};
    use crate::revocations::InstalledRow;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_agent_and_a_workflow_have_no_name_at_the_same_time() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let names = &node.agents.names;
        let row = InstalledRow {
            agent: node.owner().id().to_string(),
            version: "1.0.0".to_owned(),
            range: "*".to_owned(),
            named: None,
            registry: "http://r/".to_owned(),
            folder: folder.path().join("review"),
            ..InstalledRow::default()
        };
        node.revocations.set_workflow("review", Some(row)).await.expect("it is written");
        node.agents.add(program("maps", false), folder.path(), None, true).await.expect("it is added");
        node.agents.add(program("once", false), folder.path(), None, false).await.expect("it is added");
        let holders = ["maps", "review", "once", "other"].map(|name| names.holder(name).expect("readable"));
        assert_eq!(holders, [Some(NameHolder::Agent), Some(NameHolder::Workflow), None, None]);
        for keep in [true, false] {
            let added = node.agents.add(program("review", false), folder.path(), None, keep).await;
            assert!(matches!(added, Err(NodeError::WorkflowExists(name)) if name == "review"), "{keep}");
        }
        let claimed = names.claim("maps").await.map(drop);
        assert!(matches!(claimed, Err(NodeError::AgentExists(_))), "{claimed:?}");
        node.revocations.set_workflow("review", None).await.expect("it is written");
        assert!(names.claim("review").await.is_ok(), "what was removed leaves its name");
        node.shut_down().await;
    }
}
