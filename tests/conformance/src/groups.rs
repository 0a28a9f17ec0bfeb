//! Groups of nodes on the simulated network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{Answer, Caller, Communication, CommunicationConfig, Inbound, Network, Request, WallClock};
use althing_coordination::machine::work::{State, WorkItem};
use althing_coordination::{
    Again, Answering, Assigned, GROUPS, Groups, GroupsConfig, OwnerNow, Ports, RAFT, RAFT_LIMITS, RAFT_LOG,
    RAFT_SNAPSHOTS, RAFT_STATE, RESULTS, RaftService, ReplicaConfig, Report, Role, WorkFailure, Worker,
};
use althing_protocol::group::{
    Command, Content, Deployment, GroupId, Needs, Policy, Priority, Set, Submit, Target, WorkId,
};
use althing_protocol::object::Membership;
use althing_protocol::{KeyLog, OwnerProof, PublicKey, PublisherId, SecretKey, keylog, object};
use althing_simnet::SimNet;
use althing_store::{MemoryStore, Store};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::{NETWORK, entropy};

/// The keys of an owner, and its key log.
#[derive(Clone)]
pub struct Owner {
    /// Its key.
    pub key: SecretKey,
    /// Its log.
    pub log: KeyLog,
}

impl Owner {
    /// The owner of a number.
    #[must_use]
    pub fn new(number: u8) -> Owner {
        let seed = |offset: u8| SecretKey::from_seed(&[number.wrapping_add(offset); 32]);
        let event = keylog::inception(&seed(0), [seed(64).public(), seed(128).public()], crate::NOW_MS);
        Owner { key: seed(0), log: KeyLog::verify(&[event.bytes]).expect("an inception") }
    }

    /// The same owner with its next key, after a rotation without overlap.
    #[must_use]
    pub fn rotated(&self, now_ms: u64) -> Owner {
        self.rotated_over(now_ms, 0)
    }

    /// The same owner with its next key; the former one is accepted for so many milliseconds more.
    #[must_use]
    pub fn rotated_over(&self, now_ms: u64, overlap_ms: u64) -> Owner {
        let seed = |offset: u8| SecretKey::from_seed(&[self.key.seed()[0].wrapping_add(offset); 32]);
        let log = self.log.rotate(&seed(64), seed(192).public(), now_ms, overlap_ms).expect("the next key");
        Owner { key: seed(64), log }
    }

    /// Proves that `node` is its own.
    #[must_use]
    pub fn proof(&self, node: PublicKey, now_ms: u64) -> Arc<OwnerProof> {
        let body = Membership::new(self.log.publisher(), node, now_ms.saturating_sub(1_000), now_ms + 80_000_000);
        let signed = object::sign(body, NETWORK, "", &self.key).expect("a membership");
        Arc::new(OwnerProof::new(signed.bytes, &self.log))
    }
}

/// A node that takes part in groups.
pub struct GroupNode {
    /// Its key.
    pub key: SecretKey,
    /// What it keeps, also while it is down.
    pub store: Arc<dyn Store>,
    /// Its groups.
    pub groups: Groups,
    /// L2.
    pub communication: Communication,
    /// What runs its tasks.
    pub worker: EchoWorker,
    /// How many requests it was sent, by operation.
    pub asked: Asked,
}

/// How many requests a node was sent, by operation.
#[derive(Clone, Default)]
pub struct Asked(Arc<Mutex<BTreeMap<String, usize>>>);

impl Asked {
    /// How many of this operation since this was last asked.
    #[must_use]
    pub fn take(&self, operation: &str) -> usize {
        self.0.lock().expect("no panic").remove(operation).unwrap_or(0)
    }
}

/// Counts requests before they are served.
struct Counting {
    asked: Asked,
    inner: RaftService,
}

impl Inbound for Counting {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        *self.asked.0.lock().expect("no panic").entry(request.operation.clone()).or_default() += 1;
        self.inner.call(caller, request)
    }

    fn keeps_frames(&self) -> bool {
        self.inner.keeps_frames()
    }
}

/// What a member answers to whom a task is for, and what is to be done; or why it fails.
pub type Script = Box<dyn Fn(&Target, &str) -> Result<String, String> + Send>;

/// A member whose tasks say what it does: `sleep MS`, `fail`, or anything else, which is the result. It has the capability
/// `echo`, and what a test adds.
#[derive(Clone, Default)]
pub struct EchoWorker {
    /// Answers instead of the tasks themselves.
    pub script: Arc<Mutex<Option<Script>>>,
    /// What it reports of itself, instead of a machine for small tasks; what is below is added.
    pub machine: Arc<Mutex<Option<Report>>>,
    /// Further capabilities.
    pub capabilities: Arc<Mutex<Vec<String>>>,
    /// The tasks that were begun here, with their tokens.
    pub begun: Arc<Mutex<Vec<(WorkId, u64)>>>,
    /// Those that ran to their end.
    pub ended: Arc<Mutex<Vec<(WorkId, u64)>>>,
    /// The agents that groups place here.
    pub hosted: Arc<Mutex<Vec<String>>>,
    /// No task is admitted, for this reason.
    pub refuses: Arc<Mutex<Option<String>>>,
    /// Its agents answer only these owners; none: everybody.
    pub answers: Arc<Mutex<Option<BTreeSet<PublisherId>>>>,
    /// Each task is refused by the agent once it runs, for this reason.
    pub forbids: Arc<Mutex<Option<String>>>,
    /// What it did outside, once for each attempt that it journalled: with it a worker that starts again goes on.
    pub effects: Arc<Mutex<Vec<(WorkId, u64)>>>,
    /// Its agents are still being started: nobody knows yet which attempts go on.
    pub starting: Arc<AtomicBool>,
}

impl EchoWorker {
    /// Has the effect of an attempt, unless its journal says that it had it.
    fn act(&self, task: &Assigned) {
        let mut effects = self.effects.lock().expect("no panic");
        if !effects.contains(&(task.task, task.token)) {
            effects.push((task.task, task.token));
        }
    }
}

impl Worker for EchoWorker {
    fn report(&self, askers: &BTreeSet<PublisherId>) -> Report {
        let small = || Report { slots: 8, memory_mib: 1_024, cores: 2, ..Report::default() };
        let mut report = self.machine.lock().expect("no panic").clone().unwrap_or_else(small);
        let mut capabilities = self.capabilities.lock().expect("no panic").clone();
        capabilities.push("echo".to_owned());
        capabilities.append(&mut report.capabilities);
        let mut agents = self.hosted.lock().expect("no panic").clone();
        agents.append(&mut report.agents);
        match &*self.answers.lock().expect("no panic") {
            Some(owners) => {
                let owners = owners.intersection(askers).copied().collect();
                Report { answering: Some(vec![Answering { agents, capabilities, owners }]), ..report }
            }
            None => Report { agents, capabilities, ..report },
        }
    }

    fn admit<'a>(&'a self, _: &'a Assigned) -> BoxFuture<'a, Result<(), WorkFailure>> {
        let busy = self.refuses.lock().expect("no panic").clone();
        let admitted = busy.map_or(Ok(()), |reason| Err(WorkFailure { reason, again: Again::Any }));
        Box::pin(std::future::ready(admitted))
    }

    fn host(&self, _: GroupId, agents: Vec<Deployment>) {
        *self.hosted.lock().expect("no panic") = agents.into_iter().map(|one| one.agent).collect();
    }

    fn goes_on<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, bool> {
        async move {
            while self.starting.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            self.effects.lock().expect("no panic").contains(&(task.task, task.token))
        }
        .boxed()
    }

    fn run(&self, task: Assigned) -> BoxFuture<'static, Result<Vec<u8>, WorkFailure>> {
        let this = self.clone();
        async move {
            this.act(&task);
            this.begun.lock().expect("no panic").push((task.task, task.token));
            let text = String::from_utf8_lossy(&task.input).into_owned();
            if let Some(script) = &*this.script.lock().expect("no panic") {
                let answer = script(&task.needs.target, &text).map(String::into_bytes);
                return answer.map_err(|reason| WorkFailure { reason, again: Again::Others });
            }
            if let Some(ms) = text.strip_prefix("sleep ").and_then(|ms| ms.parse().ok()) {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            if let Some(count) = text.strip_prefix("large ").and_then(|count| count.parse().ok()) {
                return Ok(vec![b'x'; count]);
            }
            if text == "fail" {
                return Err(WorkFailure { reason: "it was told to fail".to_owned(), again: Again::Any });
            }
            if let Some(reason) = this.forbids.lock().expect("no panic").clone() {
                return Err(WorkFailure { reason, again: Again::Others });
            }
            this.ended.lock().expect("no panic").push((task.task, task.token));
            Ok(task.input)
        }
        .boxed()
    }
}

/// A store for groups.
#[must_use]
pub fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(&[GROUPS, RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS, RESULTS]))
}

impl GroupNode {
    /// Starts a node of `owner` on what `store` keeps.
    pub async fn start(net: &SimNet, key: &SecretKey, owner: &Owner, store: Arc<dyn Store>) -> GroupNode {
        GroupNode::start_with(net, key, owner, store, ReplicaConfig::default()).await
    }

    /// Starts a node whose replicas behave as `replica` says.
    pub async fn start_with(
        net: &SimNet,
        key: &SecretKey,
        owner: &Owner,
        store: Arc<dyn Store>,
        replica: ReplicaConfig,
    ) -> GroupNode {
        GroupNode::start_at(net, key, owner, store, replica, net.clock()).await
    }

    /// Starts a node that reads the time of day from `clock`.
    pub async fn start_at(
        net: &SimNet,
        key: &SecretKey,
        owner: &Owner,
        store: Arc<dyn Store>,
        replica: ReplicaConfig,
        clock: WallClock,
    ) -> GroupNode {
        GroupNode::start_as(net, key, owner, store, (replica, clock), EchoWorker::default()).await
    }

    /// Starts a node with what its worker has kept since an earlier run.
    pub async fn restart(
        net: &SimNet,
        key: &SecretKey,
        owner: &Owner,
        store: Arc<dyn Store>,
        worker: EchoWorker,
    ) -> GroupNode {
        GroupNode::start_as(net, key, owner, store, (ReplicaConfig::default(), net.clock()), worker).await
    }

    async fn start_as(
        net: &SimNet,
        key: &SecretKey,
        owner: &Owner,
        store: Arc<dyn Store>,
        (replica, clock): (ReplicaConfig, WallClock),
        worker: EchoWorker,
    ) -> GroupNode {
        let network: Arc<dyn Network> = net.join(key.public());
        let random = entropy(u64::from(key.seed()[0]));
        let membership = watch::channel(Some(owner.proof(key.public(), net.now_ms()))).1;
        let config = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
        let communication =
            Communication::start(network, key.clone(), membership, config, clock.clone(), random.clone());
        communication.trusts(|_| true);
        let (owner, node, at) = (owner.clone(), key.public(), clock.clone());
        let owner = Box::new(move || OwnerNow {
            key: owner.key.clone(),
            log: owner.log.clone(),
            proof: Some(owner.proof(node, at.now_ms())),
        });
        let ports = Ports {
            communication: communication.clone(),
            key: key.clone(),
            owner,
            store: store.clone(),
            clock,
            entropy: random,
            worker: Some(Arc::new(worker.clone())),
        };
        let groups = Groups::open(ports, GroupsConfig { replica, ..GroupsConfig::new(NETWORK) })
            .await
            .expect("what it keeps can be read");
        let (asked, inner) = (Asked::default(), RaftService(groups.clone()));
        let counting = Arc::new(Counting { asked: asked.clone(), inner });
        communication.serve(RAFT, RAFT_LIMITS, counting).expect("nobody else serves it");
        GroupNode { key: key.clone(), store, groups, communication, worker, asked }
    }

    /// Its key, by which others know it.
    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.key.public()
    }

    /// Invites another node, which joins.
    pub async fn admit(&self, group: GroupId, other: &GroupNode) {
        let ticket = self.groups.invite(group, other.id(), 60_000).expect("an invitation");
        other.groups.join(&ticket).await.expect("it joins");
    }

    /// Writes a value.
    pub async fn set(&self, group: GroupId, key: &str, value: &str) -> u64 {
        let set = Set { key: key.to_owned(), value: value.as_bytes().to_vec().into(), if_version: None };
        let version = self.groups.command(group, Command::Set(set)).await.expect("it is written");
        version.expect("its version")
    }

    /// Reads a value as of now.
    pub async fn get(&self, group: GroupId, key: &str) -> Option<String> {
        self.groups.catch_up(group).await.expect("the group answers");
        self.peek(group, key)
    }

    /// Reads a value as it has arrived here.
    #[must_use]
    pub fn peek(&self, group: GroupId, key: &str) -> Option<String> {
        let value = |state: &althing_coordination::machine::group::Group| {
            state.values().get(key).map(|value| String::from_utf8_lossy(&value.bytes).into_owned())
        };
        self.groups.look(group, value).ok().flatten()
    }

    /// Submits a task for a member that can `echo`.
    pub async fn submit(&self, group: GroupId, number: u32, input: &str, after: &[u32]) -> WorkId {
        let task =
            Submit { dependencies: after.iter().map(|number| task_id(*number)).collect(), ..echo_task(number, input) };
        let id = task.task;
        self.groups.command(group, Command::Submit(Box::new(task))).await.expect("it is submitted");
        id
    }

    /// Looks at a task as it has arrived here.
    pub fn task<T>(&self, group: GroupId, id: WorkId, look: impl FnOnce(&WorkItem) -> T) -> T {
        self.groups.look(group, |state| look(state.work().tasks().get(&id).expect("it is there"))).expect("the group")
    }

    /// Waits until tasks are completed, as it is known here.
    pub async fn completed(&self, group: GroupId, tasks: &[WorkId]) {
        for _ in 0..60_000 {
            let done = |id: &WorkId| self.task(group, *id, |task| task.state) == State::Completed;
            if tasks.iter().all(done) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let told: Vec<String> = tasks.iter().map(|id| self.task(group, *id, |task| format!("{task:?}"))).collect();
        panic!("they were not completed: {told:#?}");
    }

    /// Whether it leads.
    #[must_use]
    pub fn leads(&self, group: GroupId) -> bool {
        self.role(group) == Some(Role::Leader)
    }

    /// What it does in the group.
    #[must_use]
    pub fn role(&self, group: GroupId) -> Option<Role> {
        self.groups.overview(group).ok()?.replica.map(|status| status.role)
    }

    /// Stops it as a crash does: nothing more is sent or received.
    pub async fn crash(self, net: &SimNet) -> (SecretKey, Arc<dyn Store>) {
        net.crash(self.id());
        self.groups.shut_down().await;
        (self.key, self.store)
    }
}

/// The id of the task of a number.
#[must_use]
pub fn task_id(number: u32) -> WorkId {
    WorkId::from_bytes(u128::from(number).to_be_bytes())
}

/// A task for a member that can `echo`.
#[must_use]
pub fn echo_task(number: u32, input: &str) -> Submit {
    Submit {
        task: task_id(number),
        key: None,
        needs: Needs::of(Target::Capability("echo".to_owned())),
        input: Content::Inline(input.as_bytes().to_vec().into()),
        priority: Priority::Normal,
        deadline_ms: None,
        attempts_max: 4,
        lease_ms: 2_000,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    }
}

/// A group of `count` nodes of one owner, of whom the first founded it; all voters vote already.
pub async fn group_of(net: &SimNet, count: u8) -> (Vec<GroupNode>, GroupId) {
    let owner = Owner::new(101);
    let mut nodes = Vec::new();
    for number in 1..=count {
        nodes.push(GroupNode::start(net, &crate::key(number), &owner, store()).await);
    }
    let policy = Policy { voters_max: 7, ..Policy::default() };
    let id = nodes[0].groups.create("team", policy).await.expect("a group");
    for node in &nodes[1..] {
        nodes[0].admit(id, node).await;
    }
    settled(&nodes, id, usize::from(count - 1 + count % 2)).await;
    (nodes, id)
}

/// Waits until so many of these nodes vote, and one of them leads.
pub async fn settled(nodes: &[GroupNode], id: GroupId, voters: usize) {
    let votes = |node: &GroupNode| matches!(node.role(id), Some(Role::Leader | Role::Follower | Role::Candidate));
    let holds = || nodes.iter().filter(|node| votes(node)).count() == voters && nodes.iter().any(|node| node.leads(id));
    for _ in 0..4_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told: Vec<_> = nodes.iter().map(|node| node.groups.overview(id)).collect();
    panic!("{voters} voters were expected: {told:#?}");
}

/// Waits until one of these nodes leads; which one, and after how long.
pub async fn leader(nodes: &[GroupNode], id: GroupId) -> (usize, Duration) {
    let begun = tokio::time::Instant::now();
    crate::world::until("a leader", || nodes.iter().any(|node| node.leads(id))).await;
    (nodes.iter().position(|node| node.leads(id)).expect("it was there"), begun.elapsed())
}

/// Has a member lead.
pub async fn hand_over(nodes: &[GroupNode], id: GroupId, to: usize) {
    // It is refused until the leader knows that the other one votes, and has everything.
    for _ in 0..100 {
        let (at, _) = leader(nodes, id).await;
        if at == to {
            return;
        }
        drop(nodes[at].groups.transfer(id, nodes[to].id()).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not lead");
}
