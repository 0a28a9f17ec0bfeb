//! Where tasks went that were handed over, also of agents that this node does not host any more.

use althing_call::{OperationError, Params};
use althing_protocol::AgentId;

use crate::machine::listing::Filter;
use crate::machine::moves;
use crate::machine::record::Scope;
use crate::tasks::service::TaskService;
use crate::tasks::store::TaskStore;

impl TaskService {
    /// Whether a task was handed over to another node.
    #[must_use]
    pub fn has_departed(&self, id: &str) -> bool {
        self.runner.store().summary(id).is_some_and(|summary| summary.departed)
    }

    /// Says where a task is by now that this caller asks for and that was handed over (`TASK_MOVED`), as it is answered while the
    /// agent is here: of an operation that names the task, of the message that began it, and of a list of a context of which all
    /// tasks were. None of other tasks, nor of those that the caller may not see.
    pub async fn departed(&self, agent: &AgentId, scope: Scope, params: &Params) -> Option<OperationError> {
        let id = departed_id(self.runner.store(), agent.name(), scope, params)?;
        let runner = self.runner.clone();
        let record = self.runner.apart(move || runner.store().read(&id)).await.ok()?.ok()??;
        let proof = record.departed?;
        // The task of an agent of that name may be another publisher's.
        let moved = moves::read(&proof, &self.signer().network).ok()?;
        moves::check_subject(&moved.body, agent, Some(&record.task.id)).ok()?;
        Some(OperationError::task_moved(proof))
    }
}

/// The id of the task that is asked for, if it was handed over.
fn departed_id(store: &TaskStore, agent: &str, scope: Scope, params: &Params) -> Option<String> {
    let ids: Vec<String> = match params {
        Params::Send(request) => {
            let began = store.began_by(agent, scope, &request.message.message_id);
            began.into_iter().chain(request.message.task_id.clone()).collect()
        }
        Params::List(request) => {
            let context_id = request.context_id.as_deref().filter(|id| !id.is_empty());
            let filter = Filter { agent, scope, context_id, state: None, after_ms: None };
            store.departed(&filter).into_iter().collect()
        }
        params => params.task_id().map(str::to_owned).into_iter().collect(),
    };
    let is_own = |id: &String| {
        let summary = store.summary(id);
        summary.is_some_and(|summary| summary.departed && summary.agent == agent && summary.scope == scope)
    };
    ids.into_iter().find(is_own)
}
