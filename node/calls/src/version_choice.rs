//! Which version of an agent answers what it is asked.

use std::sync::Arc;

use althing_call::Params;
use althing_execution::lease::Lease;
use althing_protocol::AgentId;
use althing_session::{HostedAgent, Scope, TaskService, is_handoff};

use crate::agent_versions::AgentVersions;
use crate::versions::{NewCall, Versions, conversation_of};

/// What says which version of an agent answers.
pub(crate) struct VersionChoice<'a> {
    pub tasks: &'a TaskService,
    pub agents: &'a AgentVersions,
    /// Who divides calls between versions, if anybody does.
    pub versions: Option<&'a Arc<dyn Versions>>,
}

impl VersionChoice<'_> {
    /// The version of the agent that is asked: of a task of this caller the one that works on it, if it is here; else the stable
    /// one.
    pub async fn for_params(&self, agent: &AgentId, scope: Scope, params: &Params) -> Option<HostedAgent> {
        let stable = self.agents.stable(agent)?;
        // Where there is only one, nothing is looked up.
        let Some(task) = params.task_id().filter(|_| !self.agents.is_alone(agent)) else { return Some(stable) };
        let version = self.tasks.version_of(&stable, scope, task).await;
        let of_task = version.and_then(|version| self.agents.version(agent, &version));
        let may_answer =
            |version: &HostedAgent| self.versions.is_none_or(|versions| versions.may_answer(&version.agent));
        Some(of_task.filter(may_answer).unwrap_or(stable))
    }

    /// The version beside the stable one that answers a message, for the group's task of that lease if it is for one; none where the
    /// stable one does. A message that begins a conversation names it from then on.
    pub async fn for_message(
        &self,
        stable: &HostedAgent,
        scope: Scope,
        message: &mut a2a::Message,
        lease: Option<&Lease>,
    ) -> Option<HostedAgent> {
        let versions = self.versions.filter(|versions| versions.divides(stable.id()))?;
        let is_new = message.task_id.is_none() && !is_handoff(message);
        // What was taken before is answered by its task.
        if !is_new || self.tasks.has_begun(stable, scope, &message.message_id) {
            return None;
        }
        let written = String::from(scope);
        let has_context = |context: &String| self.tasks.has_context(stable, scope, context);
        let is_known = message.context_id.as_ref().is_some_and(has_context);
        let begin = || conversation_of(stable.id(), &written, &message.message_id);
        let context = message.context_id.clone().unwrap_or_else(begin);
        let (agent, caller, message_id) = (stable.id(), written.as_str(), message.message_id.as_str());
        let (group, channel) = (lease.map(|lease| lease.name().0), lease.and_then(Lease::channel));
        let call = NewCall { agent, caller, context: &context, message: message_id, is_known, group, channel };
        let version = versions.route(&call).await;
        message.context_id = Some(context);
        let version = version.and_then(|version| self.agents.version(stable.id(), &version));
        version.filter(|version| version.agent != stable.agent)
    }
}
