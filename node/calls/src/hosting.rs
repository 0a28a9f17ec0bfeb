//! The A2A operations on the agents that this node hosts. One handler for every face and for the network.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use althing_call::{
    CallMetadata, Consent, Decide, Decision, IncomingRequest, Judgement, MessageContent, Operation, OperationError,
    OperationRequest, Params, Principal, Reply, Service,
};
use althing_communication::{Caller, Entropy, Priority, WallClock};
use althing_execution::agent::OwnCard;
use althing_execution::tools::PendingAsks;
use althing_execution::{Host, SuccessRate, TurnRecorder};
use althing_protocol::{AgentId, AgentRef, CallerId, Label, PublicKey, PublisherId};
use althing_session::{
    AgentFigures, CountOutcomes, HandoffService, HandoverError, HostedAgent, Postman, Scope, Sessions, Signer,
    Standing, TaskPack, TaskService, TaskStoreError, Tenures, TurnEnd, is_handoff,
};
use althing_store::Store;
use futures::future::BoxFuture;

use crate::accepted_messages::AcceptedMessages;
use crate::agent_versions::AgentVersions;
use crate::elsewhere::{self, Elsewhere};
use crate::own_tasks::OwnTasks;
use crate::version_choice::VersionChoice;
use crate::versions::Versions;

/// The hosting side of calls.
#[derive(Clone)]
pub struct Hosting {
    shared: Arc<Shared>,
}

struct Shared {
    tasks: TaskService,
    decide: Arc<dyn Decide>,
    agents: AgentVersions,
    /// Who does what this node cannot.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
    /// Who divides calls between versions of agents.
    versions: OnceLock<Arc<dyn Versions>>,
}

impl Hosting {
    /// Opens the task store. Tasks that ran when the node ended wait for their agent ([`Hosting::add`]), if their turns can begin
    /// again, and are set to failed else. A damaged task does not keep the store
    /// from opening: only summaries are read, and a failure that cannot be written is remembered until the node ends. `owner`
    /// is this node's owner, and `signer` the node itself, in whose name it hands tasks over; `decide` decides on all that its
    /// calls, outgoing and incoming, ask for.
    ///
    /// # Errors
    /// [`TaskStoreError::Read`]: the disk, or the whole store, cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        host: Arc<Host>,
        owner: PublisherId,
        signer: Signer,
        decide: Arc<dyn Decide>,
        clock: WallClock,
        entropy: Entropy,
    ) -> Result<Hosting, TaskStoreError> {
        let owner = Scope::of(CallerId::Publisher(owner));
        let tasks = TaskService::open(store, host, owner, signer, clock, entropy).await?;
        let (agents, elsewhere, versions) = (AgentVersions::default(), OnceLock::new(), OnceLock::new());
        let shared = Shared { tasks, decide, agents, elsewhere, versions };
        Ok(Hosting { shared: Arc::new(shared) })
    }

    /// From now on answers new messages that another node serves with a redirect to it. The first one stays.
    pub fn redirect_by(&self, elsewhere: Arc<dyn Elsewhere>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.shared.elsewhere.set(elsewhere);
    }

    /// From now on asks these which version answers a message, where several divide an agent's calls, and lets them count what
    /// comes of the turns. The first ones stay.
    pub fn divide_by<V: Versions + CountOutcomes>(&self, versions: Arc<V>) {
        self.tasks().count_outcomes(versions.clone());
        // Others would be a fault of the composition: the first decide.
        let _ = self.shared.versions.set(versions);
    }

    /// Lets a version of an agent that is hosted here be the stable one.
    pub fn prefer(&self, agent: &AgentRef) {
        self.agents().prefer(agent);
    }

    /// Adds a version of an agent, or replaces it. The version that was added first is the stable one: it is given new messages,
    /// until it is removed and the next one is. A task goes on with the version that works on it, as long as that is here.
    ///
    /// Its turns that had not ended when the node did go on now, if their callers may still call it; where somebody must consent to
    /// that, they wait until then.
    pub fn add(&self, agent: HostedAgent) {
        self.agents().add(agent.clone());
        // The tasks keep it, and it keeps them.
        let shared = Arc::downgrade(&self.shared);
        let recheck = move |standing: Standing| -> BoxFuture<'static, Decision> {
            let hosting = shared.upgrade().map(|shared| Hosting { shared });
            Box::pin(async move {
                match hosting {
                    Some(hosting) => hosting.recheck(&standing).await,
                    None => Decision::Ask(Consent { to: "nothing: its node is being stopped".to_owned() }),
                }
            })
        };
        Sessions::of(self.tasks()).resume(&agent, Arc::new(recheck));
    }

    /// Decides again on the message that began a turn.
    async fn recheck(&self, standing: &Standing) -> Decision {
        let Standing { agent, caller, principals, label, message, metadata } = standing;
        let hosted = self.agents().version(&agent.id, &agent.version).or_else(|| self.agents().stable(&agent.id));
        let Some(hosted) = hosted else {
            return Decision::Deny(OperationError::agent_not_here(format!("{} is not hosted here", agent.id)));
        };
        let operation = Operation::SendMessage;
        let service = Service::Call { agent: hosted.id(), callers: &hosted.callers, operation };
        // Its turn began, and goes on: what somebody agreed to for it was not agreed to for anything else.
        let metadata = metadata.as_ref();
        let content = message.as_ref().map(|message| MessageContent { message, metadata, is_again: true });
        let asked = IncomingRequest { service, caller, principals, label: *label, content };
        self.shared.decide.decide_incoming(&asked).decision().await
    }

    /// From now on turns whose agents can begin them again end where somebody is asked about a call, rest as AUTH_REQUIRED, and go
    /// on when these say that it was answered. Called before agents are added. The first one stays.
    pub fn ask_people(&self, asks: Arc<dyn PendingAsks>) {
        Sessions::of(self.tasks()).ask_people(asks);
    }

    /// What this node's owner alone does with its tasks.
    #[must_use]
    pub fn own_tasks(&self) -> OwnTasks {
        OwnTasks::of(self.tasks())
    }

    /// Removes a version of an agent. Its tasks stay, and go on with the stable one; its running turns are cancelled.
    pub fn remove(&self, agent: &AgentRef) {
        self.agents().remove(agent);
        self.tasks().cancel_agent(agent);
    }

    /// Cancels what is under way of an agent of which no version is hosted here any more, by its name: also work that a version gave
    /// away which did not run here.
    pub fn end_work(&self, agent: &str) {
        self.tasks().cancel_all(agent);
    }

    /// Whether a version of an agent has work here that is not over: a turn that runs, work that it gave away, or a turn that is to
    /// go on, such as when somebody has answered.
    pub async fn has_work(&self, agent: &AgentRef) -> bool {
        self.tasks().has_work(agent).await
    }

    /// Is the agent hosted here?
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> bool {
        self.agents().has(agent)
    }

    /// The hash of the manifest that the agent is bound to, if it runs here in one version only: else the turn's span says it.
    pub(crate) fn binding_hash(&self, agent: &AgentId) -> Option<Arc<str>> {
        let stable = self.agents().stable(agent).filter(|_| self.agents().is_alone(agent))?;
        self.tasks().binding_hash(&stable.agent)
    }

    /// Whether an agent that is hosted here is given a message again whose turn is over; none of others.
    pub(crate) fn is_told_again(&self, agent: &AgentId) -> Option<bool> {
        self.agents().stable(agent).map(|hosted| hosted.is_told_again)
    }

    /// The priority of the agent's answers.
    pub(crate) fn priority(&self, agent: &AgentId) -> Priority {
        self.agents().stable(agent).map_or(Priority::default(), |hosted| hosted.priority)
    }

    /// Who decides on calls here.
    pub(crate) fn decide(&self) -> &Arc<dyn Decide> {
        &self.shared.decide
    }

    /// Whether this node has that task of the agent, or knows where it handed it over to.
    pub(crate) fn has_task(&self, agent: &AgentId, id: &str) -> bool {
        self.tasks().is_of(id, agent) && (self.hosts(agent) || self.tasks().has_departed(id))
    }

    /// Hands a task over to the node `to`, which hosts its agent, and which takes what this gives by [`Hosting::thaw`]. Every
    /// operation on the task is answered with where it is from then on.
    ///
    /// # Errors
    /// See [`HandoverError`].
    pub async fn freeze(&self, agent: &AgentId, task: &str, to: PublicKey) -> Result<TaskPack, HandoverError> {
        althing_session::freeze(self.tasks(), agent, task, to).await
    }

    /// Takes a task of an agent that is hosted here, which the node `from` hands over; gives its id. Whoever calls this must
    /// know that `from` may hand over tasks of that agent, and that it was it that sent the pack.
    ///
    /// # Errors
    /// See [`HandoverError`].
    pub async fn thaw(&self, agent: &AgentId, from: PublicKey, pack: &TaskPack) -> Result<String, HandoverError> {
        if !self.hosts(agent) {
            return Err(HandoverError::NotHosted { agent: agent.clone() });
        }
        althing_session::thaw(self.tasks(), agent, from, pack).await
    }

    /// The name of the network, in which moves of tasks are signed.
    pub(crate) fn network(&self) -> Arc<str> {
        self.tasks().signer().network.clone()
    }

    /// The number of turns that run.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.tasks().count()
    }

    /// How many turns of each agent run, by its name, of those that have one.
    #[must_use]
    pub fn running_turns(&self) -> BTreeMap<String, usize> {
        self.tasks().by_agent()
    }

    /// Of the turns of an agent that runs here the share that went well, by its name; none where none ended yet.
    pub(crate) fn success(&self, agent: &str) -> Option<SuccessRate> {
        self.tasks().success(agent)
    }

    /// What is counted of the turns of each agent that runs here, or ran, by its name.
    pub(crate) fn figures(&self) -> BTreeMap<String, AgentFigures> {
        self.tasks().figures()
    }

    /// Ends the turns that run, and accepts no message any more: the node is being stopped. Callers are refused with `OVERLOADED`,
    /// or, where their task was shown to them already, it fails; both say why. A task whose turn can begin again stays as it is,
    /// and goes on when the node is up again.
    pub fn end_turns(&self) {
        self.tasks().end_turns();
    }

    /// Serves one operation of `caller`: what is decided on it, then the operation. The task of a message that needs somebody's
    /// consent rests until it is there.
    ///
    /// # Errors
    /// A2A's errors, `CALLER_NOT_ALLOWED`, `REDIRECTED`, and `TASK_MOVED` of a task that was handed over.
    pub async fn handle(
        &self,
        caller: &Caller,
        agent: &AgentId,
        mut request: OperationRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let (scope, streams) = (Scope::of_call(caller.id(), &metadata.principals), request.operation().streams());
        let Some(hosted) = self.choice().for_params(agent, scope, &request.params).await else {
            return Err(self.not_here(agent, scope, &request.params).await);
        };
        let asked = (request.operation(), MessageContent::of(&request.params));
        let judgement = self.decide_call(&hosted, caller, asked, metadata);
        // Before the judgement is polled, which may use a yes: what is only told again has no use for one.
        if matches!(judgement, Judgement::Later(_))
            && let Some(told) = Box::pin(self.accepted().told_by(&hosted, (caller, scope), &request, metadata)).await?
        {
            return Ok(told);
        }
        let consent = required(judgement.decision().await, request.operation())?;
        // Whatever is answered, with a list of nothing too: without a label it would count as a stranger's elsewhere.
        metadata.answer.add_label(self.tasks().data_label(&hosted.agent).map(Label::of_trusted));
        if let (Params::Send(request), Some(elsewhere)) = (&request.params, self.shared.elsewhere.get()) {
            elsewhere::check(elsewhere.as_ref(), self.tasks(), (&hosted, scope), &request.message, metadata)?;
        }
        let operation = request.operation();
        let (hosted, more) = match &mut request.params {
            Params::Send(request) => {
                self.divided(hosted, (caller, scope), (operation, request.as_mut()), metadata).await?
            }
            _ => (hosted, None),
        };
        let consent = consent.or(more);
        let tasks = self.tasks();
        match request.params {
            Params::Send(request) if is_handoff(&request.message) && streams => {
                Err(OperationError::unsupported("a handoff is sent with SendMessage"))
            }
            Params::Send(request) if is_handoff(&request.message) => {
                self.handoffs().take(&hosted, (caller, scope), *request, metadata, consent).await
            }
            Params::Send(request) if streams => tasks.send_streaming(&hosted, scope, *request, metadata, consent).await,
            Params::Send(request) => tasks.send(&hosted, scope, *request, metadata, consent).await,
            Params::Get(request) => tasks.get(&hosted, scope, &request, metadata),
            Params::List(request) => tasks.list(&hosted, scope, request, metadata).await,
            Params::Cancel(request) => tasks.cancel(&hosted, scope, &request, metadata).await,
            Params::Subscribe(request) => tasks.subscribe(&hosted, scope, &request, metadata).await,
            Params::Card => Err(OperationError::no_extended_card()),
            Params::CreatePush(_) | Params::GetPush(_) | Params::ListPush(_) | Params::DeletePush(_) => {
                tasks.push(&hosted, scope, request.params).await
            }
        }
    }

    /// Why nothing is done of an agent that is not hosted here: it never was, or the task that is asked for is elsewhere by now.
    async fn not_here(&self, agent: &AgentId, scope: Scope, params: &Params) -> OperationError {
        let moved = self.tasks().departed(agent, scope, params).await;
        moved.unwrap_or_else(|| OperationError::agent_not_here(format!("{agent} is not hosted here")))
    }

    /// What knows the messages that agents here accepted before.
    pub(crate) fn accepted(&self) -> AcceptedMessages<'_> {
        AcceptedMessages { choice: self.choice(), decide: self.decide() }
    }

    /// What says which version of an agent answers.
    fn choice(&self) -> VersionChoice<'_> {
        let Shared { tasks, agents, versions, .. } = &*self.shared;
        VersionChoice { tasks, agents, versions: versions.get() }
    }

    /// The version that answers a message, which the stable one may answer too, with what must be consented to where its callers
    /// are others. Called when it was decided that it is answered, so that nobody else leaves a trace.
    async fn divided(
        &self,
        stable: HostedAgent,
        (caller, scope): (&Caller, Scope),
        (operation, request): (Operation, &mut a2a::SendMessageRequest),
        metadata: &CallMetadata,
    ) -> Result<(HostedAgent, Option<Consent>), OperationError> {
        let lease = metadata.rights.lease.as_ref();
        let version = self.choice().for_message(&stable, scope, &mut request.message, lease).await?;
        let Some(version) = version else { return Ok((stable, None)) };
        let consent = match version.callers == stable.callers {
            true => None,
            false => {
                let asked = (operation, Some(MessageContent::of_request(request)));
                required(self.decide_call(&version, caller, asked, metadata).decision().await, operation)?
            }
        };
        metadata.answer.add_label(self.tasks().data_label(&version.agent).map(Label::of_trusted));
        Ok((version, consent))
    }

    /// Decides on one operation.
    fn decide_call(
        &self,
        hosted: &HostedAgent,
        caller: &Caller,
        (operation, content): (Operation, Option<MessageContent<'_>>),
        metadata: &CallMetadata,
    ) -> Judgement {
        let service = Service::Call { agent: hosted.id(), callers: &hosted.callers, operation };
        let (principals, label) = (&metadata.principals, metadata.attributes.label);
        self.shared.decide.decide_incoming(&IncomingRequest { service, caller, principals, label, content })
    }

    /// Goes on with turns that are for tasks of groups as these say.
    pub(crate) fn ask_tenures(&self, tenures: Arc<dyn Tenures>) {
        Sessions::of(self.tasks()).ask_tenures(tenures);
    }

    /// Whether the agent is hosted here and would do tasks of a group that `caller` gives it on behalf of these principals, as far
    /// as others are told before there is one.
    pub(crate) fn offers_tasks(&self, caller: &Caller, agent: &AgentId, principals: &[Principal]) -> bool {
        let hosted = self.agents().stable(agent);
        hosted.is_some_and(|hosted| {
            let service = Service::GroupTask { agent, callers: &hosted.callers, elsewhere: false };
            let asked = IncomingRequest { service, caller, principals, label: None, content: None };
            self.shared.decide.foretell_incoming(&asked).allows_at_once()
        })
    }

    /// What is decided of a task of a group that `caller` gives the agent on behalf of these principals, with what is said of the
    /// data in it; `elsewhere` says whether another node submitted it.
    ///
    /// # Errors
    /// `AGENT_NOT_HERE`: no such agent is hosted here.
    pub(crate) fn judge_task(
        &self,
        caller: &Caller,
        agent: &AgentId,
        principals: &[Principal],
        (elsewhere, label): (bool, Option<Label>),
    ) -> Result<Judgement, OperationError> {
        let hosted = self.agents().stable(agent);
        let hosted = hosted.ok_or_else(|| OperationError::agent_not_here(format!("{agent} is not hosted here")))?;
        let service = Service::GroupTask { agent, callers: &hosted.callers, elsewhere };
        let asked = IncomingRequest { service, caller, principals, label, content: None };
        Ok(self.shared.decide.decide_incoming(&asked))
    }

    /// The agent card that an agent serves itself, if any.
    pub(crate) fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.tasks().own_card(&self.agents().stable(agent)?.agent)
    }

    /// The latency class of an agent's contract, if it runs here.
    pub(crate) fn latency_class(&self, agent: &AgentId) -> Option<&'static str> {
        self.tasks().latency_class(&self.agents().stable(agent)?.agent)
    }

    pub(crate) fn new_id(&self) -> String {
        self.tasks().new_id()
    }

    /// Sends push notifications through `postman`; without one, none are served.
    pub fn notify_through(&self, postman: Arc<dyn Postman>) {
        self.tasks().notify_through(postman);
    }

    /// Work that this node's agents give away or take.
    pub(crate) fn handoffs(&self) -> HandoffService {
        HandoffService::of(self.tasks())
    }

    /// Tells `hear` of each turn that ends from now on and whose task is kept. The first one stays.
    pub fn follow_ends(&self, hear: impl Fn(TurnEnd) + Send + Sync + 'static) {
        self.tasks().follow_ends(hear);
    }

    /// Has turns recorded that end from now on, in the batch of their end. Called before agents are added. The first one stays.
    pub fn record_turns(&self, recorder: Arc<dyn TurnRecorder>) {
        self.tasks().record_turns(recorder);
    }

    /// Whether push notifications are sent.
    pub(crate) fn notifies(&self) -> bool {
        self.tasks().notifies()
    }

    fn tasks(&self) -> &TaskService {
        &self.shared.tasks
    }

    fn agents(&self) -> &AgentVersions {
        &self.shared.agents
    }
}

/// What must be consented to first, of a message. Nothing else can wait for that.
fn required(decision: Decision, operation: Operation) -> Result<Option<Consent>, OperationError> {
    match decision {
        Decision::Ask(consent) if operation.is_message() => Ok(Some(consent)),
        decision => decision.allowed().map(|()| None),
    }
}
