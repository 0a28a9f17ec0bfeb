//! Handoffs on the path of calls: the way to the agents that take work, and the owner's order to hand a task over.

use std::sync::Arc;

use althing_call::{Asker, CallRequest, Callee, OperationError, OperationRequest, Principal, Purpose, Reply, chain};
use althing_failure::{Kind, Remedy};
use althing_protocol::{AgentId, Attributes, PublicKey};
use althing_session::{
    DraftWords, HANDOFF_EXTENSION, HandoffCall, HandoffError, HandoffFile, HandoffProgress, HandoffWay,
};
use futures::future::BoxFuture;

use crate::outgoing::{Calls, WeakCalls};

/// Why a task is not handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoffOrderError {
    /// The agent that is to have the work is not found, or may not be called.
    #[error("{}", .0.message)]
    Recipient(OperationError),
    /// The work is not offered.
    #[error(transparent)]
    Handoff(#[from] HandoffError),
}

impl HandoffOrderError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            HandoffOrderError::Recipient(error) => error.kind(),
            HandoffOrderError::Handoff(error) => error.kind(),
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            HandoffOrderError::Recipient(error) => error.remedy.as_deref().cloned(),
            HandoffOrderError::Handoff(error) => error.remedy(),
        }
    }
}

/// The way to agents, as long as the node runs.
struct Way {
    calls: WeakCalls,
}

impl HandoffWay for Way {
    fn call(&self, call: HandoffCall) -> BoxFuture<'static, Result<Reply, OperationError>> {
        let calls = self.calls.upgrade();
        Box::pin(async move {
            let calls = calls.ok_or_else(|| OperationError::busy("this node is being stopped"))?;
            let HandoffCall { from, to, operation, params, label, answer } = call;
            let principals = chain::asked_by(&[Principal::Local], &from, &to);
            let principals = principals.map_err(|error| OperationError::invalid_request(error.to_string()))?;
            let request = OperationRequest::parse(operation, params)?;
            // As where the order was taken: the owner gives the work away.
            let target = calls.target(&Asker::Owner, &Callee::Id(to), Purpose::Call).await?;
            let call = CallRequest::new(target, request, principals)
                .with_extensions(vec![HANDOFF_EXTENSION.to_owned()])
                .with_attributes(Attributes { label, ..Attributes::default() })
                .adding_to(answer);
            calls.ask(call).await
        })
    }

    fn is_host<'a>(&'a self, agent: &'a AgentId, node: PublicKey) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(calls) = self.calls.upgrade() else { return false };
            calls.is_here(agent, node) || calls.discovery().search_host(agent, node).await
        })
    }
}

impl Calls {
    /// Lets the node's tasks be handed over through this, and follows those that were.
    pub(crate) fn connect_handoffs(&self) {
        let way = Arc::new(Way { calls: self.downgrade() });
        self.hosting().handoffs().connect(way);
    }

    /// A handoff of a task of this node to the agent that a name or an id means, not signed, with all that the node knows of the
    /// work.
    ///
    /// # Errors
    /// [`HandoffOrderError`].
    pub async fn draft_handoff(
        &self,
        task: &str,
        to: &str,
        words: &DraftWords,
    ) -> Result<HandoffFile, HandoffOrderError> {
        let to = self.recipient(to).await?;
        Ok(self.hosting().handoffs().draft(task, &to, words).await?)
    }

    /// Signs a handoff of a task of this node and offers it to the agent that a name or an id means, for which it must be. Completes
    /// once that is settled, or once it takes longer; then it goes on.
    ///
    /// # Errors
    /// [`HandoffOrderError`]; the task's agent still has the work then.
    pub async fn hand_over(
        &self,
        task: &str,
        to: &str,
        file: HandoffFile,
    ) -> Result<HandoffProgress, HandoffOrderError> {
        let (to, found) = (self.recipient(to).await?, &file.handoff.recipient);
        if to != *found {
            let (found, wanted) = (found.to_string(), to.to_string());
            return Err(HandoffError::Document { member: "recipient", found, wanted }.into());
        }
        Ok(self.hosting().handoffs().give(task, file).await?)
    }

    /// The agent that is to have work. The owner asks: it may be a stranger's, by its id.
    async fn recipient(&self, to: &str) -> Result<AgentId, HandoffOrderError> {
        let target = self.target(&Asker::Owner, &Callee::near(to), Purpose::Call).await;
        Ok(target.map_err(HandoffOrderError::Recipient)?.agent)
    }
}
