//! Which version of an agent answers what it is asked.

use std::sync::Arc;

use althing_call::{OperationError, Params};
use althing_execution::lease::Lease;
use althing_protocol::AgentId;
use althing_session::{HostedAgent, Scope, TaskService, is_handoff};

use crate::agent_versions::AgentVersions;
use crate::versions::{NewCall, Versions, conversation_of};

/// What whoever sends a message is told whose version does not run yet.
const STARTING: &str =
    "the version of the agent that has this conversation is still being started: send the message again in a moment";

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
    ///
    /// # Errors
    /// `OVERLOADED`: the version that has the conversation is still being started, and no other one answers in its place.
    pub async fn for_message(
        &self,
        stable: &HostedAgent,
        scope: Scope,
        message: &mut a2a::Message,
        lease: Option<&Lease>,
    ) -> Result<Option<HostedAgent>, OperationError> {
        let Some(versions) = self.versions.filter(|versions| versions.divides(stable.id())) else { return Ok(None) };
        if is_handoff(message) {
            return Ok(None);
        }
        if stable.is_told_again {
            // It is answered by the turn that works on it. Once that is over there is another turn, in the version of the conversation.
            if let Some((version, context)) = self.tasks.at_work(stable, scope, message) {
                message.context_id = Some(context);
                return Ok(self.beside(versions, stable, &version));
            }
        } else if self.tasks.has_begun(stable, scope, &message.message_id) {
            // What was taken before is answered by its task.
            return Ok(None);
        }
        if let Some(task) = &message.task_id {
            return self.check_runs(versions, (stable, scope), task).await.map(|()| None);
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
        let Some(version) = version else { return Ok(None) };
        let version = self.here(versions, stable.id(), &version)?;
        Ok(version.filter(|version| version.agent != stable.agent))
    }

    /// That version, if it is another one than the stable one, and may answer.
    fn beside(&self, versions: &Arc<dyn Versions>, stable: &HostedAgent, version: &str) -> Option<HostedAgent> {
        let hosted = self.agents.version(stable.id(), version)?;
        (hosted.agent != stable.agent && versions.may_answer(&hosted.agent)).then_some(hosted)
    }

    /// Refuses a message to a task whose version is still being started: another one would go on with its work. Once all run, or are
    /// waited for no more, no task is read for this.
    async fn check_runs(
        &self,
        versions: &Arc<dyn Versions>,
        (hosted, scope): (&HostedAgent, Scope),
        task: &str,
    ) -> Result<(), OperationError> {
        if versions.starting(hosted.id()).is_empty() {
            return Ok(());
        }
        match self.tasks.version_of(hosted, scope, task).await {
            Some(version) => self.here(versions, hosted.id(), &version).map(drop),
            None => Ok(()),
        }
    }

    /// That version, if it is hosted here; none where it is not, and is not waited for.
    fn here(
        &self,
        versions: &Arc<dyn Versions>,
        agent: &AgentId,
        version: &str,
    ) -> Result<Option<HostedAgent>, OperationError> {
        let hosted = self.agents.version(agent, version);
        if hosted.is_none() && versions.starting(agent).iter().any(|starting| **starting == *version) {
            return Err(OperationError::busy(STARTING));
        }
        Ok(hosted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use a2a::{Message, Part, Role};
    use althing_call::{CallMetadata, Consent, Refusal, Reply};
    use althing_communication::{CallerRule, Entropy, Priority, WallClock};
    use althing_execution::process::ProcessConfig;
    use althing_execution::{Builtins, Host};
    use althing_protocol::{AgentRef, CallerId, PublisherId, SecretKey};
    use althing_session::{
        ANSWERS, HANDOFFS_IN, HANDOFFS_OUT, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS, Signer,
        TASK_SUMMARIES, TASKS,
    };
    use althing_store::{Family, MemoryStore, Store};
    use althing_testing_store::{FaultStore, WriteEnd};
    use futures::future::BoxFuture;
    use serde_json::{Value, json};

    use super::*;

    const FAMILIES: [Family; 9] = [
        TASKS,
        TASK_SUMMARIES,
        ANSWERS,
        PUSH_CONFIGS,
        PUSH_OUTBOX,
        SESSION_HEADS,
        SESSION_ROWS,
        HANDOFFS_IN,
        HANDOFFS_OUT,
    ];
    const NEW: &str = "2.0.0";

    fn owner() -> PublisherId {
        PublisherId::from_digest([1; 32])
    }

    fn hosted(version: &str) -> HostedAgent {
        HostedAgent {
            agent: AgentRef::new(owner(), "shop", version).expect("a name"),
            callers: CallerRule::Own,
            input_modes: Vec::new(),
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        }
    }

    fn said(task: Option<&str>) -> Message {
        let task_id = task.map(str::to_owned);
        Message { task_id, ..Message::new(Role::User, vec![Part::text("a mug")]) }
    }

    /// Gives all conversations to the new version, which is being started for as long as that is said.
    struct AllNew {
        starts: AtomicBool,
    }

    impl Versions for AllNew {
        fn divides(&self, _: &AgentId) -> bool {
            true
        }

        fn route<'a>(&'a self, _: &'a NewCall<'a>) -> BoxFuture<'a, Option<Arc<str>>> {
            Box::pin(std::future::ready(Some(NEW.into())))
        }

        fn may_answer(&self, _: &AgentRef) -> bool {
            true
        }

        fn starting(&self, _: &AgentId) -> Vec<Arc<str>> {
            if self.starts.load(Ordering::Relaxed) { vec![NEW.into()] } else { Vec::new() }
        }
    }

    async fn tasks() -> TaskService {
        tasks_on(Arc::new(MemoryStore::new(&FAMILIES))).await
    }

    async fn tasks_on(store: Arc<dyn Store>) -> TaskService {
        let host = Arc::new(Host::new(Builtins::new(), ProcessConfig::default()));
        let signer = Signer { key: SecretKey::from_seed(&[1; 32]), network: "testnet".into() };
        let (clock, entropy) = (WallClock::new(|| 1_700_000_000_000), Entropy::new(|bytes| bytes.fill(7)));
        let own = Scope::of(CallerId::Publisher(owner()));
        let opened = TaskService::open(store, host, own, signer, clock, entropy);
        opened.await.expect("an empty store")
    }

    /// A task of the new version, which waits.
    async fn task_of_new(tasks: &TaskService, scope: Scope) -> String {
        let request = serde_json::from_value(json!({ "message": said(None) })).expect("a request");
        let consent = Some(Consent { to: "a mug".to_owned() });
        let sent = tasks.send(&hosted(NEW), scope, request, &CallMetadata::default(), consent).await;
        let Ok(Reply::One(body)) = sent else { panic!("it does not stream, and is not refused") };
        let sent: Value = serde_json::from_slice(&body).expect("JSON");
        sent["task"]["id"].as_str().expect("a task").to_owned()
    }

    /// The version that answers a message which was sent before.
    async fn chosen_again(tasks: &TaskService, is_told_again: bool, message: &Message) -> Option<String> {
        let (agents, scope) = (AgentVersions::default(), Scope::of(CallerId::Publisher(owner())));
        let versions: Arc<dyn Versions> = Arc::new(AllNew { starts: AtomicBool::new(false) });
        let stable = HostedAgent { is_told_again, ..hosted("1.0.0") };
        [stable.clone(), hosted("1.5.0"), hosted(NEW)].into_iter().for_each(|version| agents.add(version));
        let choice = VersionChoice { tasks, agents: &agents, versions: Some(&versions) };
        let chosen = choice.for_message(&stable, scope, &mut message.clone(), None).await;
        chosen.expect("none is being started").map(|version| version.agent.version.to_string())
    }

    #[tokio::test]
    async fn a_message_that_an_agent_is_told_again_has_its_conversations_version_and_else_its_task_answers_it() {
        let (tasks, message) = (tasks().await, said(None));
        let request = serde_json::from_value(json!({ "message": message })).expect("a request");
        let (scope, consent) = (Scope::of(CallerId::Publisher(owner())), Some(Consent { to: "a mug".to_owned() }));
        let sent = tasks.send(&hosted(NEW), scope, request, &CallMetadata::default(), consent).await;
        assert!(sent.is_ok_and(|reply| matches!(reply, Reply::One(_))), "no turn works on it");
        assert_eq!(chosen_again(&tasks, false, &message).await, None);
        assert_eq!(chosen_again(&tasks, true, &message).await.as_deref(), Some(NEW));
    }

    #[tokio::test]
    async fn a_message_that_comes_again_while_it_is_worked_on_has_the_version_that_works_on_it() {
        let disk = FaultStore::over(MemoryStore::new(&FAMILIES));
        let (tasks, message) = (tasks_on(Arc::new(disk.clone())).await, said(None));
        // The task is written, and what its turn left of it is not.
        let mut writes = 0;
        disk.decide(move |_, _| {
            writes += 1;
            if writes == 1 { WriteEnd::Done } else { WriteEnd::Never { is_applied: false } }
        });
        let request = serde_json::from_value(json!({ "message": message })).expect("a request");
        let (service, scope) = (tasks.clone(), Scope::of(CallerId::Publisher(owner())));
        let sending = tokio::spawn(async move {
            service.send(&hosted("1.5.0"), scope, request, &CallMetadata::default(), None).await.map(drop)
        });
        while tasks.count() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(chosen_again(&tasks, true, &message).await.as_deref(), Some("1.5.0"));
        assert_eq!(chosen_again(&tasks, false, &message).await, None);
        // Another message that has its id is none that is worked on.
        let other =
            Message { message_id: message.message_id.clone(), ..Message::new(Role::User, vec![Part::text("a jug")]) };
        assert_eq!(chosen_again(&tasks, true, &other).await.as_deref(), Some(NEW));
        sending.abort();
    }

    #[tokio::test]
    async fn while_the_version_of_a_conversation_or_a_task_is_being_started_no_other_one_answers_in_its_place() {
        let (tasks, agents, scope) = (tasks().await, AgentVersions::default(), Scope::of(CallerId::Publisher(owner())));
        let task = task_of_new(&tasks, scope).await;
        let stable = hosted("1.0.0");
        agents.add(stable.clone());
        let all_new = Arc::new(AllNew { starts: AtomicBool::new(true) });
        let versions: Arc<dyn Versions> = all_new.clone();
        let choice = VersionChoice { tasks: &tasks, agents: &agents, versions: Some(&versions) };
        let chosen = async |task: Option<&str>| {
            let version = choice.for_message(&stable, scope, &mut said(task), None).await?;
            Ok::<_, OperationError>(version.map(|version| version.agent.version.to_string()))
        };
        for task in [None, Some(task.as_str())] {
            let refused = chosen(task).await.expect_err("it is started");
            assert_eq!(refused.refusal, Refusal::Overloaded, "{refused}");
            assert!(refused.message.contains("still being started"), "{refused}");
        }
        // It is waited for no more: the stable one answers.
        all_new.starts.store(false, Ordering::Relaxed);
        for task in [None, Some(task.as_str())] {
            assert_eq!(chosen(task).await, Ok(None));
        }
        // It runs, whatever is said of it.
        agents.add(hosted(NEW));
        all_new.starts.store(true, Ordering::Relaxed);
        assert_eq!(chosen(None).await, Ok(Some(NEW.to_owned())));
        assert_eq!(chosen(Some(&task)).await, Ok(None), "whoever chose by the task chose it");
    }
}
