//! Messages that agents here accepted before: whoever sends one again is told again what came of it.

use std::sync::Arc;

use althing_call::{
    CallMetadata, Decide, Decision, IncomingRequest, Operation, OperationError, OperationRequest, Params, Principal,
    Reply, Service,
};
use althing_communication::Caller;
use althing_protocol::{AgentId, Label};
use althing_session::{HostedAgent, Scope, is_handoff};

use crate::version_choice::VersionChoice;

/// What knows the messages that agents here accepted before.
pub(crate) struct AcceptedMessages<'a> {
    /// Says which version of an agent is asked, and has the tasks.
    pub choice: VersionChoice<'a>,
    pub decide: &'a Arc<dyn Decide>,
}

impl AcceptedMessages<'_> {
    /// Whether a message of that id, which `caller` sent an agent here on behalf of these principals, began a task.
    pub fn has_begun(&self, caller: &Caller, agent: &AgentId, principals: &[Principal], message_id: &str) -> bool {
        let scope = Scope::of_call(caller.id(), principals);
        let hosted = self.choice.agents.stable(agent);
        hosted.is_some_and(|hosted| self.choice.tasks.has_begun(&hosted, scope, message_id))
    }

    /// The answer to a message that an agent here accepted before, as `caller` sent it, who may look at tasks; none to another one.
    /// Nobody is asked for it, and no yes is used.
    ///
    /// # Errors
    /// What a message that was accepted before is refused for.
    pub async fn told_again(
        &self,
        caller: &Caller,
        agent: &AgentId,
        request: &OperationRequest,
        metadata: &CallMetadata,
    ) -> Result<Option<Reply>, OperationError> {
        let scope = Scope::of_call(caller.id(), &metadata.principals);
        match self.choice.for_params(agent, scope, &request.params).await {
            Some(hosted) => self.told_by(&hosted, (caller, scope), request, metadata).await,
            None => Ok(None),
        }
    }

    /// The same, of the version of the agent that is asked.
    ///
    /// # Errors
    /// See [`AcceptedMessages::told_again`].
    pub async fn told_by(
        &self,
        hosted: &HostedAgent,
        (caller, scope): (&Caller, Scope),
        request: &OperationRequest,
        metadata: &CallMetadata,
    ) -> Result<Option<Reply>, OperationError> {
        let (tasks, streams) = (self.choice.tasks, request.operation().streams());
        let Params::Send(sent) = &request.params else { return Ok(None) };
        // Handoffs know their messages by themselves.
        if is_handoff(&sent.message) || !tasks.was_taken(hosted, scope, &sent.message).await {
            return Ok(None);
        }
        if !self.may_look(hosted, caller, metadata).await {
            return Ok(None);
        }
        let told = tasks.send_again(hosted, scope, sent, streams, metadata).await?;
        if told.is_some() {
            metadata.answer.add_label(tasks.data_label(&hosted.agent).map(Label::of_trusted));
        }
        Ok(told)
    }

    /// Whether a caller may look at tasks of the agent, for which nobody is asked.
    async fn may_look(&self, hosted: &HostedAgent, caller: &Caller, metadata: &CallMetadata) -> bool {
        let service = Service::Call { agent: hosted.id(), callers: &hosted.callers, operation: Operation::GetTask };
        let (principals, label) = (&metadata.principals, metadata.attributes.label);
        let asked = IncomingRequest { service, caller, principals, label, content: None };
        self.decide.decide_incoming(&asked).decision().await == Decision::Allow
    }
}
