//! The outgoing path of a call: a face hands over a request with its principal; L3 resolves the agent to
//! nodes; L2 sends one signed frame, unless the agent is hosted here.

mod attachment;
mod host_attempts;
mod host_calls;
mod host_verdicts;
mod resting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use althing_call::{
    Asker, CallRequest, Callee, Operation, OperationError, Params, Purpose, Reply, Target, chain, traced,
};
use althing_communication::{Caller, Communication, WallClock};
use althing_discovery::{Among, Discovery, TrustRelation};
use althing_execution::CandidateList;
use althing_execution::agent::OwnCard;
use althing_protocol::contract::Latency;
use althing_protocol::{AgentId, CallerId, Label, PublicKey, PublisherId};
use althing_session::{AgentFigures, Remote, Tenures};
use althing_store::Store;
use futures::TryFutureExt as _;
use tracing::Instrument as _;

use host_attempts::{AttemptPorts, HostAttempts, Unanswered, lost, unproven};
use host_calls::{Call, HostCalls, refusal};
use host_verdicts::HostVerdicts;
use resting::resting;

use crate::elsewhere::Elsewhere;
use crate::hosting::Hosting;
use crate::lists;
use crate::machine::redirects::{RedirectError, Redirects};
use crate::target::{Finder, permitted};

/// The calling side.
#[derive(Clone)]
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    communication: Communication,
    discovery: Discovery,
    hosting: Hosting,
    remote: Arc<Remote>,
    clock: WallClock,
    me: Caller,
    finder: Finder,
    /// Has hosts answer.
    hosts: HostCalls,
    /// Where calls were redirected.
    redirects: Mutex<Redirects>,
}

impl Shared {
    /// What a call needs on its way to a host that answers it.
    fn ports(&self) -> AttemptPorts<'_> {
        let Shared { hosts, discovery, remote, finder, redirects, .. } = self;
        AttemptPorts { hosts, discovery, remote, finder, redirects }
    }
}

impl Calls {
    /// Connects the layers; who decides for `hosting` decides here too. `owner` is this node's owner.
    #[must_use]
    pub fn new(
        communication: Communication,
        discovery: Discovery,
        hosting: Hosting,
        store: Arc<dyn Store>,
        clock: WallClock,
        owner: PublisherId,
    ) -> Calls {
        let me = Caller { node: communication.network().local(), owner: Some(owner) };
        let remote = Arc::new(Remote::new(store, me.node, hosting.network()));
        let below = (communication.clone(), discovery.clone(), hosting.clone());
        let shared = Shared {
            communication,
            finder: Finder::new(discovery.clone(), hosting.decide().clone(), owner),
            hosts: HostCalls::new(below, remote.clone(), clock.clone(), me),
            discovery,
            remote,
            hosting,
            clock,
            me,
            redirects: Mutex::default(),
        };
        let calls = Calls { shared: Arc::new(shared) };
        calls.connect_handoffs();
        calls
    }

    /// The node on which a task is that an agent was called with through this one.
    pub(crate) fn host_of(&self, agent: &AgentId, task: &str) -> Option<PublicKey> {
        self.shared.remote.node(agent, task)
    }

    /// From now on this node redirects callers to who does what it cannot. The first one stays.
    pub fn redirect_by(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.shared.hosting.redirect_by(elsewhere);
    }

    /// The agent that a name or an id means, if whoever asks may have it for that purpose: the only way to one. A name is
    /// looked up among the agents of this node's owner and of whom it trusts; it means a stranger's only where `callee` allows
    /// that, and nobody near has one of that name.
    ///
    /// # Errors
    /// `AGENT_UNKNOWN`, also if the name is ambiguous; `AGENT_REVOKED` if it is one of this node's that was stopped for
    /// that; after these `CALLER_NOT_ALLOWED`, also where somebody must consent first.
    pub async fn target(&self, asker: &Asker, callee: &Callee, purpose: Purpose) -> Result<Target, OperationError> {
        self.shared.finder.target(asker, callee, purpose).await
    }

    /// Whether `asker` may have an agent that is known already, for that purpose: for lists, which wait for no decision.
    #[must_use]
    pub fn allows(&self, asker: &Asker, agent: &AgentId, purpose: Purpose) -> bool {
        self.shared.finder.allows(asker, agent, purpose)
    }

    /// Whether an agent that is known already is among those that are meant, and `asker` may have it for that purpose: for what is
    /// offered in place of a name.
    #[must_use]
    pub fn offers(&self, asker: &Asker, agent: &AgentId, among: Among, purpose: Purpose) -> bool {
        let is_meant = among == Among::Anyone || self.relation(agent.publisher()) != TrustRelation::Stranger;
        is_meant && self.allows(asker, agent, purpose)
    }

    /// Whether an agent that is hosted here would do tasks of a group that this node gives it on behalf of `asker`, as far as the
    /// group is told before there is one: by its contract. Whether it does one, [`Calls::check_task`] says.
    #[must_use]
    pub fn offers_tasks(&self, agent: &AgentId, asker: CallerId) -> bool {
        self.shared.hosting.offers_tasks(&self.shared.me, agent, &[chain::Principal::Caller(asker)])
    }

    /// Whether an agent that is hosted here does a task of a group that this node gives it on behalf of `asker`. `elsewhere`
    /// says whether another node submitted the task: an agent that only this node may call does none of those, though the same
    /// owner may stand behind both. `label` is what is said of the data in it. Nobody is asked: what needs somebody's yes is
    /// refused.
    ///
    /// # Errors
    /// Why it does not, as whoever called it would hear.
    pub async fn check_task(
        &self,
        agent: &AgentId,
        asker: CallerId,
        (elsewhere, label): (bool, Option<Label>),
    ) -> Result<(), OperationError> {
        let principals = [chain::Principal::Caller(asker)];
        let judged = self.shared.hosting.judge_task(&self.shared.me, agent, &principals, (elsewhere, label))?;
        judged.decision().await.allowed()
    }

    /// Whether an agent that is hosted here began a task by a message of that id, which this node sent it on behalf of `asker`.
    #[must_use]
    pub fn has_begun(&self, agent: &AgentId, asker: CallerId, message_id: &str) -> bool {
        let accepted = self.shared.hosting.accepted();
        accepted.has_begun(&self.shared.me, agent, &[chain::Principal::Caller(asker)], message_id)
    }

    /// From now on turns that are for tasks of groups go on, where their node ended, as these say. The first one stays.
    pub fn ask_tenures(&self, tenures: Arc<dyn Tenures>) {
        self.shared.hosting.ask_tenures(tenures);
    }

    /// Looks up the nodes of an agent if none is known.
    pub async fn find_hosts(&self, agent: &AgentId) {
        self.shared.discovery.search_hosts(agent).await;
    }

    /// The host to which a message goes that goes to no other, whatever becomes of it: the first one that can be reached of those that
    /// would be asked, and the first of all where none can be. None where no host is known.
    pub(crate) async fn first_host(&self, agent: &AgentId) -> Option<PublicKey> {
        let Shared { discovery, communication, redirects, me, .. } = &*self.shared;
        let mut hosts = discovery.search_hosts(agent).await;
        redirects.lock().expect("no holder of the redirects panics").order(agent, &mut hosts);
        for host in &hosts {
            let is_there = *host == me.node || communication.network().is_connected(*host);
            if is_there || discovery.reconnect(*host).await {
                return Some(*host);
            }
        }
        hosts.first().copied()
    }

    /// This node, as it calls.
    pub(crate) fn me(&self) -> &Caller {
        &self.shared.me
    }

    /// The hosting side.
    pub(crate) fn hosting(&self) -> &Hosting {
        &self.shared.hosting
    }

    /// Whether an agent is hosted on that node, which is this one.
    pub(crate) fn is_here(&self, agent: &AgentId, node: PublicKey) -> bool {
        node == self.shared.me.node && self.shared.hosting.hosts(agent)
    }

    /// A weak handle.
    pub(crate) fn downgrade(&self) -> WeakCalls {
        WeakCalls(Arc::downgrade(&self.shared))
    }

    /// The agent of this node's owner that has that name.
    pub(crate) fn own_agent(&self, name: &str) -> Option<AgentId> {
        self.shared.finder.own_agent(name)
    }

    /// What a publisher is to this node's owner.
    #[must_use]
    pub fn relation(&self, publisher: PublisherId) -> TrustRelation {
        self.shared.finder.relation(publisher)
    }

    /// A new id for a message, by the node's clock and randomness.
    #[must_use]
    pub fn new_id(&self) -> String {
        self.shared.hosting.new_id()
    }

    /// The time of day as A2A writes it (RFC 3339, in UTC).
    #[must_use]
    pub fn now(&self) -> String {
        rfc3339(self.shared.clock.now_ms())
    }

    /// The agent card that an agent hosted here serves itself, if any.
    #[must_use]
    pub fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.shared.hosting.own_card(agent)
    }

    /// The latency class of an agent's contract, `hrt`, `srt` or `dt`: of one that is hosted elsewhere, as the node says that is
    /// asked first.
    #[must_use]
    pub fn latency_class(&self, agent: &AgentId) -> Option<&'static str> {
        let here = self.shared.hosting.latency_class(agent);
        here.or_else(|| self.shared.discovery.latency(agent).map(Latency::name))
    }

    /// Whether push notifications are sent.
    #[must_use]
    pub fn notifies(&self) -> bool {
        self.shared.hosting.notifies()
    }

    /// What is counted below the faces.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures::of(&self.shared.communication, &self.shared.hosting)
    }

    /// L3, for faces that describe and find.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    /// Calls an agent on whatever node hosts it. Dropping the future, or the events, cancels the call but not the task. Events go on
    /// when the node of their task is lost and comes back within a minute.
    ///
    /// # Errors
    /// A2A's errors and this project's refusals.
    pub async fn ask(&self, request: CallRequest) -> Result<Reply, OperationError> {
        let span = traced::client(request.operation());
        traced::bound(&span, &request.binding_hash);
        request.trace.continue_in(&span);
        let is_message = request.operation().is_message();
        let again = request.operation().streams().then(|| request.clone());
        let answered = self.walk(request).instrument(span.clone()).await;
        let answered = match again {
            Some(asked) => answered.map(|reply| attachment::follow(self, asked, reply)),
            None => answered,
        };
        traced::ended(&span, answered, is_message)
    }

    async fn walk(&self, request: CallRequest) -> Result<Reply, OperationError> {
        let carried = request.metadata.attributes.check();
        carried.map_err(|error| OperationError::invalid_params(error.to_string()))?;
        let agent = request.target.agent.clone();
        let span = tracing::Span::current();
        span.record("agent", tracing::field::display(&agent));
        let call = Call { agent, request };
        let (shared, operation) = (&self.shared, call.request.operation());
        let chosen_among = || shared.finder.candidates(&call.request.target);
        CandidateList::record(&span, "althing.agent.candidates", chosen_among);
        if operation == Operation::ExtendedCard {
            return Err(OperationError::no_extended_card());
        }
        let mut hosts = self.hosts(&call).await;
        let known = hosts.clone();
        if operation.is_message() {
            let judged = shared.finder.judged(&call.agent, hosts, &call.request);
            let may_be_asked = judged.iter().any(|judged| judged.waits_at(shared.me.node));
            // What an agent here accepted before is told again: nothing leaves for it, and no yes is used.
            if may_be_asked && let Some(told) = Box::pin(self.told_again(&call)).await? {
                return Ok(told);
            }
            hosts = match permitted(judged).await {
                Ok(permitted) => permitted,
                Err(refused) => {
                    HostVerdicts::of(&known, &[]).record();
                    return self.resting(&call, refused);
                }
            };
        }
        let verdicts = match call.request.host {
            // Which one it goes to was decided before.
            Some(_) => HostVerdicts::open(shared.discovery.hosts(&call.agent)),
            None => HostVerdicts::of(&known, &hosts),
        };
        if operation == Operation::ListTasks && hosts.len() > 1 {
            let call = &call;
            let new_home = |from, proof: String| async move { self.new_home(from, &proof, call).await };
            return lists::all(hosts, |node| shared.hosts.ask_host(node, call).map_err(OperationError::from), new_home)
                .await;
        }
        let failed = match Box::pin(HostAttempts::new(shared.ports(), &call, verdicts).ask(hosts)).await {
            Ok(reply) => return Ok(reply),
            Err(Unanswered::Refused(error)) => return self.resting(&call, error),
            Err(Unanswered::Unreached(failed)) => failed,
        };
        if let Params::Get(request) = &call.request.request.params
            && let Some((task, label)) = shared.remote.last_known(&call.agent, &request.id)
        {
            // Rows from before labels went with answers have none.
            call.request.metadata.answer.add_label(Some(label.unwrap_or(Label::UNLABELLED)));
            let json = serde_json::to_vec(&task).map_err(|error| OperationError::internal(error.to_string()))?;
            return Ok(Reply::One(json));
        }
        Err(match failed {
            Some(failed) => refusal(failed),
            None => {
                let why = format!("no node that hosts {} is known", call.agent);
                shared.finder.unknown([call.agent.clone()].into_iter(), why).await
            }
        })
    }

    /// The answer to a message that an agent here accepted before; none to another one.
    async fn told_again(&self, call: &Call) -> Result<Option<Reply>, OperationError> {
        let Shared { hosting, me, .. } = &*self.shared;
        let CallRequest { request, metadata, .. } = &call.request;
        hosting.accepted().told_again(me, &call.agent, request, metadata).await
    }

    /// The answer to a call that is refused: a task that rests, where somebody can consent.
    fn resting(&self, call: &Call, refused: OperationError) -> Result<Reply, OperationError> {
        let shared = &self.shared;
        resting(&call.request, &shared.remote, || (self.new_id(), shared.clock.now_ms()), refused)
    }

    /// Where the tasks are that a host proved to have handed over.
    async fn new_home(&self, from: PublicKey, proof: &str, call: &Call) -> Result<PublicKey, OperationError> {
        let (shared, agent) = (&self.shared, &call.agent);
        let home = shared.remote.moved(agent, None, from, proof).map_err(|why| unproven(from, &why))?;
        if !shared.discovery.search_host(agent, home.node).await {
            return Err(lost(from, home.node, RedirectError::NoHost));
        }
        shared.remote.follow(agent, &home).await;
        Ok(home.node)
    }

    /// The nodes to call: the node of the task if the operation names one, or else the one that the call is for, or every node that
    /// hosts the agent.
    async fn hosts(&self, call: &Call) -> Vec<PublicKey> {
        let shared = &self.shared;
        if let Some(id) = call.request.request.params.task_id() {
            // This node's own tasks come first: other nodes cannot claim them.
            let here = shared.hosting.has_task(&call.agent, id).then_some(shared.me.node);
            if let Some(node) = here.or_else(|| shared.remote.node(&call.agent, id)) {
                return vec![node];
            }
        }
        match call.request.host {
            Some(host) => vec![host],
            None => shared.discovery.search_hosts(&call.agent).await,
        }
    }
}

/// A weak handle of [`Calls`].
#[derive(Clone)]
pub(crate) struct WeakCalls(Weak<Shared>);

impl WeakCalls {
    pub fn upgrade(&self) -> Option<Calls> {
        self.0.upgrade().map(|shared| Calls { shared })
    }
}

/// What a node counts.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Nodes with a connection.
    pub peers: usize,
    /// Streams that were closed because something on them was refused, since the start.
    pub streams_refused: u64,
    /// Turns that run.
    pub live_tasks: usize,
    /// What is counted of the turns of each agent that runs here, or ran, by its name.
    pub agents: BTreeMap<String, AgentFigures>,
}

/// A known agent, for listings.
#[derive(Debug, Clone)]
pub struct KnownAgent {
    /// Its id.
    pub agent: AgentId,
    /// A node that hosts it.
    pub node: PublicKey,
    /// Its title.
    pub title: String,
    /// How its programs are contained on that node, as its description says, in its words.
    pub contained: Option<&'static str>,
}

impl Calls {
    /// The agents that this node knows, at most `max`.
    #[must_use]
    pub fn known(&self, max: usize) -> Vec<KnownAgent> {
        let query = althing_discovery::Query { limit: Some(max), ..Default::default() };
        let (found, _) = self.shared.discovery.find(&query);
        let known = found.into_iter().map(|found| KnownAgent {
            agent: found.candidate.verified.agent.clone(),
            node: found.node,
            title: found.candidate.description.title().to_owned(),
            contained: found.candidate.description.contained().map(|contained| contained.words()),
        });
        known.collect()
    }
}

impl Figures {
    fn of(communication: &Communication, hosting: &Hosting) -> Figures {
        Figures {
            peers: communication.network().peers().len(),
            streams_refused: communication.refused(),
            live_tasks: hosting.live_tasks(),
            agents: hosting.figures(),
        }
    }
}

fn rfc3339(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    time.unwrap_or_default().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
