//! The groups of one node: forms them, joins and leaves them, and keeps their replicas running.

pub mod calendar;
mod changes;
pub mod deploy;
mod joining;
mod large;
mod lead;
mod majority;
mod member;
mod outbox;
pub mod owners;
mod proofs;
mod reading;
mod record;
mod results;
mod rules;
mod serve;
mod submit;
mod tend;
mod withdrawn;
pub mod work;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_communication::{Communication, Entropy, StreamLimits, WallClock};
use althing_protocol::group::{
    Author, Charter, Command, Endorsed, Equivocated, Founding, GroupId, Policy, RULES, Rule, WorkId,
};
use althing_protocol::object::Statement;
use althing_protocol::{KeyLog, OwnerProof, PublicKey, PublisherId, SecretKey, object};
use althing_store::Store;
use minicbor::bytes::ByteVec;
use tokio::sync::watch;

use crate::consensus::arriving::Room;
use crate::consensus::heartbeats::Heartbeats;
use crate::consensus::{ReplicaConfig, ReplicaError, Role, Status};
use crate::error::GroupError;
use crate::machine::group::{Group, admission, comparison, permits};
use crate::machine::outcome::{Outcome, Refusal};
use crate::ticket::{ADDRESSES_MAX, CONTACTS_MAX, Contact, Ticket};
pub use changes::GroupChanges;
pub use large::content;
pub use majority::{lacks_majority, promptly};
use member::Member;
use owners::{Owners, Signed};
pub use proofs::Proofs;
pub use reading::Reader;
pub use record::GROUPS;
use record::{GROUPS_MAX, Record, Standing};
pub use results::{PART_BYTES, RESULT_BYTES_MAX, RESULTS};
pub use serve::RaftService;
use work::Worker;

/// Members replicate, vote and submit at one time; strangers only submit.
pub const RAFT_LIMITS: StreamLimits = StreamLimits { per_peer_max: 64, total_max: 1_024, idle_max: 16 };
/// How long an invitation is valid, unless its maker says otherwise.
pub const INVITATION_MS: u64 = 24 * 60 * 60 * 1_000;
/// The clocks of two nodes may differ by this.
const BACKDATE_MS: u64 = 5 * 60 * 1_000;

/// What [`Groups`] is handed.
pub struct Ports {
    /// L2.
    pub communication: Communication,
    /// This node's key.
    pub key: SecretKey,
    /// The node's owner, as it is whenever it is asked.
    pub owner: Box<dyn Fn() -> OwnerNow + Send + Sync>,
    /// The store; it has [`GROUPS`] and the families of the log.
    pub store: Arc<dyn Store>,
    /// The time of day.
    pub clock: WallClock,
    /// Randomness.
    pub entropy: Entropy,
    /// Runs tasks of groups on this node; none if it takes part in no work.
    pub worker: Option<Arc<dyn Worker>>,
}

/// A node's owner at one time.
pub struct OwnerNow {
    /// Signs for the owner.
    pub key: SecretKey,
    /// Proves that the key is the owner's.
    pub log: KeyLog,
    /// Proves that the node is the owner's; none when that was withdrawn.
    pub proof: Option<Arc<OwnerProof>>,
}

/// How long the next leader may take to get everything.
const READY: Duration = Duration::from_secs(2);

/// How groups behave.
#[derive(Debug, Clone)]
pub struct GroupsConfig {
    /// The network's name.
    pub network: String,
    /// Each replica.
    pub replica: ReplicaConfig,
    /// How long a leader is sought before an operation fails.
    pub patience: Duration,
}

impl GroupsConfig {
    /// The defaults, in `network`.
    #[must_use]
    pub fn new(network: &str) -> GroupsConfig {
        let patience = Duration::from_secs(10);
        GroupsConfig { network: network.to_owned(), replica: ReplicaConfig::default(), patience }
    }
}

/// The groups of this node.
#[derive(Clone)]
pub struct Groups {
    shared: Arc<Shared>,
}

/// A weak handle of [`Groups`], for what they hold themselves.
#[derive(Clone)]
pub struct WeakGroups(Weak<Shared>);

impl WeakGroups {
    /// A weak handle of `groups`.
    #[must_use]
    pub fn of(groups: &Groups) -> WeakGroups {
        WeakGroups(Arc::downgrade(&groups.shared))
    }

    /// The groups, unless the node ended.
    #[must_use]
    pub fn upgrade(&self) -> Option<Groups> {
        self.0.upgrade().map(|shared| Groups { shared })
    }
}

pub(crate) struct Shared {
    communication: Communication,
    heartbeats: Arc<Heartbeats>,
    /// For the snapshots that arrive.
    room: Arc<Room>,
    key: SecretKey,
    owner: Box<dyn Fn() -> OwnerNow + Send + Sync>,
    store: Arc<dyn Store>,
    clock: WallClock,
    entropy: Entropy,
    worker: Option<Arc<dyn Worker>>,
    config: GroupsConfig,
    members: watch::Sender<BTreeMap<GroupId, Arc<Member>>>,
}

/// Without a leader for as long, a group is said to have none: elections take a second.
const LED_WITHIN: Duration = Duration::from_secs(5);

/// A group as this node sees it.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// `member`, `joining`, `gone` or `dissolved`.
    pub standing: &'static str,
    /// The replica here, if it runs.
    pub replica: Option<Status>,
    /// Why the replica does not run.
    pub failure: Option<String>,
    /// For how long no leader was heard, and none before one was; at the leader, for how long no majority of the voters
    /// acknowledged that it leads: when it is cut off, others write without it.
    pub silence: Option<Duration>,
    /// The members that equivocated when they led, as proofs here show: they lead here no more.
    pub equivocated: Vec<Equivocated>,
    /// The members that had another state at the last mark of the group's time.
    pub differing: Vec<PublicKey>,
}

impl Overview {
    /// Whether this node has a part in it.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.standing, "member" | "joining")
    }

    /// Whether a leader is known, and was heard lately: one that lost its majority still believes that it leads.
    #[must_use]
    pub fn is_led(&self) -> bool {
        let is_known = self.replica.as_ref().is_some_and(|replica| replica.leader.is_some());
        is_known && self.silence.is_none_or(|silence| silence < LED_WITHIN)
    }
}

impl Shared {
    fn here(&self) -> PublicKey {
        self.communication.network().local()
    }

    /// Milliseconds since 1970 and a random part, so that a later session has a higher number, and two are never equal.
    fn new_session(&self) -> u64 {
        let [a, b, c] = self.entropy.bytes::<3>();
        self.clock.now_ms() << 20 | u64::from(u32::from_be_bytes([0, a, b, c]) & 0xF_FFFF)
    }

    /// Connects to a member; failing is not reported, since the call that follows fails then.
    async fn reach(&self, node: PublicKey, addresses: Vec<String>) {
        let network = self.communication.network();
        if node != network.local() && !network.is_connected(node) {
            let dialled = tokio::time::timeout(DIAL, network.dial(Some(node), addresses)).await;
            if let Ok(Err(error)) = dialled {
                tracing::debug!(%node, %error, "a member of a group could not be reached");
            }
        }
    }

    fn addresses(&self) -> Vec<String> {
        self.communication.network().announced().into_iter().take(ADDRESSES_MAX).collect()
    }

    /// A statement with the signature of this node's owner.
    fn endorse<T: Statement>(&self, body: T, scope: &str) -> Result<Endorsed, GroupError> {
        Ok(Endorsed::new([object::sign(body, &self.config.network, scope, &(self.owner)().key)?.bytes]))
    }
}

/// How long dialling a member may take.
const DIAL: Duration = Duration::from_secs(5);

fn events(log: &KeyLog) -> Vec<ByteVec> {
    log.to_bytes().into_iter().map(ByteVec::from).collect()
}

/// The one outcome of a single command.
fn only(outcomes: Option<Vec<Outcome>>) -> Result<Option<u64>, GroupError> {
    match outcomes.and_then(|outcomes| outcomes.into_iter().next()) {
        Some(Outcome::Refused(refusal)) => Err(refusal.into()),
        Some(Outcome::Done(number)) => Ok(number),
        None => Err(GroupError::OutcomeUnknown),
    }
}

impl Groups {
    /// Opens the groups that this node belongs to. A group that cannot be started does not keep the others from running:
    /// [`Groups::overview`] shows why.
    ///
    /// # Errors
    /// The records of groups cannot be read.
    pub async fn open(ports: Ports, config: GroupsConfig) -> Result<Groups, GroupError> {
        let Ports { communication, key, owner, store, clock, entropy, worker } = ports;
        let records = record::all(store.as_ref())?;
        let (heartbeats, room, members) = (Heartbeats::new(communication.clone()), Room::new(), Default::default());
        let shared =
            Shared { communication, heartbeats, room, key, owner, store, clock, entropy, worker, config, members };
        let groups = Groups { shared: Arc::new(shared) };
        for (id, record) in records {
            groups.run(id, record).await;
        }
        Ok(groups)
    }

    /// Starts the replica of a group, and what keeps it running.
    async fn run(&self, id: GroupId, record: Record) -> Arc<Member> {
        let runs = record.standing == Standing::Member;
        let member = Member::new(id, record, self.shared.new_session(), self.shared.room.clone());
        self.shared.members.send_modify(|members| drop(members.insert(id, member.clone())));
        if runs {
            proofs::load(&self.shared, &member);
            if let Err(error) = member.start(&self.shared).await {
                tracing::error!(group = %id, %error, "the group could not be started");
            }
            tokio::spawn(tend::run(self.clone(), member.clone()));
            tokio::spawn(lead::run(self.clone(), member.clone()));
            tokio::spawn(proofs::run(self.clone(), member.clone()));
            tokio::spawn(rules::run(self.clone(), member.clone()));
            if let Some(worker) = self.shared.worker.clone() {
                tokio::spawn(worker::run(self.clone(), member.clone(), worker));
            }
        }
        member
    }

    fn member(&self, group: GroupId) -> Result<Arc<Member>, GroupError> {
        self.shared.members.borrow().get(&group).cloned().ok_or(GroupError::NoSuchGroup(group))
    }

    /// A member of a group that this node belongs to now.
    fn active(&self, group: GroupId) -> Result<Arc<Member>, GroupError> {
        let member = self.member(group)?;
        let standing = member.record.lock().expect("no panic").standing.clone();
        match standing {
            Standing::Member => Ok(member),
            Standing::Gone => Err(GroupError::NoSuchGroup(group)),
            Standing::Dissolved(_) => Err(GroupError::Dissolved(group)),
        }
    }

    /// Forms a group of this node alone, owned by this node's owner.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn create(&self, name: &str, policy: Policy) -> Result<GroupId, GroupError> {
        let shared = &self.shared;
        let owner = (shared.owner)();
        let proof = owner.proof.clone().ok_or(GroupError::NoOwner("it was withdrawn"))?;
        let (publisher, now_ms, nonce) = (owner.log.publisher(), shared.clock.now_ms(), shared.entropy.bytes());
        let charter = Charter::first(name, [publisher], 1, shared.here(), policy, now_ms, nonce);
        let id = GroupId::of(&charter);
        let charter = shared.endorse(charter, "")?;
        let (logs, addresses) = (vec![events(&owner.log)], shared.addresses());
        let founding = Founding { charter, logs, owner: proof.as_ref().clone(), addresses, rules: Some(RULES) };
        let member = self.enter(id, Record::founder(name)).await?;
        member.replica()?.initialise().await?;
        let author = Author::Node(shared.here());
        let command = Command::Found(Box::new(founding));
        only(self.send(&member, author, &shared.key, 0, vec![command], Some(shared.here())).await?)?;
        Ok(id)
    }

    /// Begins to belong to a group.
    async fn enter(&self, id: GroupId, record: Record) -> Result<Arc<Member>, GroupError> {
        let shared = &self.shared;
        let count = shared.members.borrow().len();
        let is_taken = |group: &Overview| group.id != id && group.is_here() && group.name == record.name;
        if let Some(other) = self.list().into_iter().find(is_taken) {
            return Err(GroupError::NameTaken(record.name, other.id));
        }
        let known = self.member(id);
        let _turn = match &known {
            Ok(known) if known.record.lock().expect("no panic").standing == Standing::Gone => {
                // Whoever ends it yet is done before, and finds that another membership has begun.
                let turn = known.stop().await;
                record::delete_data(shared.store.as_ref(), id).await?;
                Some(turn)
            }
            Ok(_) => return Err(GroupError::AlreadyHere(id)),
            Err(_) if count >= GROUPS_MAX => return Err(GroupError::TooMany(count)),
            Err(_) => None,
        };
        record::write(shared.store.as_ref(), id, &record).await?;
        Ok(self.run(id, record).await)
    }

    /// Invites `node`: a ticket for it, valid for `life_ms`.
    ///
    /// # Errors
    /// [`GroupError::Alone`] if more than one owner must sign: [`Owners::invite`] asks them.
    pub fn invite(&self, group: GroupId, node: PublicKey, life_ms: u64) -> Result<Ticket, GroupError> {
        owners::invite_alone(self, group, node, life_ms)
    }

    /// Joins the group of a ticket.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn join(&self, ticket: &Ticket) -> Result<GroupId, GroupError> {
        joining::join(self, ticket).await
    }

    /// This node leaves a group.
    ///
    /// # Errors
    /// See [`GroupError`]; the last member cannot leave.
    pub async fn leave(&self, group: GroupId) -> Result<(), GroupError> {
        let member = self.active(group)?;
        let author = Author::Node(self.shared.here());
        match self.submit(group, author, &self.shared.key, vec![Command::Leave]).await.and_then(only) {
            // An earlier attempt was executed, though its answer was lost.
            Ok(_) | Err(GroupError::Refused(Refusal::NotAMember(_))) => {}
            Err(error) => return Err(error),
        }
        leave_when_possible(self, &member).await
    }

    /// Removes what this node has of a group, without asking the group: after damage, or when no other member answers.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn forget(&self, group: GroupId) -> Result<(), GroupError> {
        discard(self, &self.member(group)?).await
    }

    /// This node has no part in a group any more.
    async fn end(&self, member: &Arc<Member>, standing: Standing) -> Result<(), GroupError> {
        let record = {
            let mut record = member.record.lock().expect("no panic");
            record.standing = standing;
            record.clone()
        };
        let _turn = member.stop().await;
        if !is_present(self, member) {
            return Ok(());
        }
        record::write(self.shared.store.as_ref(), member.id, &record).await?;
        self.shared.communication.keys().set_members(member.id, Default::default());
        record::delete_data(self.shared.store.as_ref(), member.id).await
    }

    /// Removes `node` from a group, or proposes it where more than one owner must sign.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn expel(&self, group: GroupId, node: PublicKey) -> Result<Signed, GroupError> {
        Owners::of(self, group).expel(node).await
    }

    /// Ends a group, or proposes it where more than one owner must sign.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn dissolve(&self, group: GroupId) -> Result<Signed, GroupError> {
        Owners::of(self, group).dissolve().await
    }

    /// Executes one command in this node's name; in its owner's where only owners may do it.
    ///
    /// # Errors
    /// See [`Groups::submit`].
    pub async fn command(&self, group: GroupId, command: Command) -> Result<Option<u64>, GroupError> {
        let owner = (self.shared.owner)();
        let (node, publisher) = (self.shared.here(), owner.log.publisher());
        let member = self.active(group)?;
        let as_owner = member.look(|state| acts_as_owner(state, node, publisher, &command))??;
        if !as_owner && outbox::is_small(&command) {
            return member.outbox(self).execute(command).await;
        }
        let (author, key) =
            if as_owner { (Author::Publisher(publisher), &owner.key) } else { (Author::Node(node), &self.shared.key) };
        only(self.submit(group, author, key, vec![command]).await?)
    }

    /// Hands the lead to `node`.
    ///
    /// # Errors
    /// [`GroupError::NotLeading`] if this node does not lead.
    pub async fn transfer(&self, group: GroupId, node: PublicKey) -> Result<(), GroupError> {
        hand_over(&self.active(group)?, node).await
    }

    /// Looks at the state of a group, as far as it has arrived here; after [`Groups::catch_up`], everything that was
    /// acknowledged before.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn look<T>(&self, group: GroupId, at: impl FnOnce(&Group) -> T) -> Result<T, GroupError> {
        self.active(group)?.look(at)
    }

    /// All groups of this node, ended ones too.
    #[must_use]
    pub fn list(&self) -> Vec<Overview> {
        let members: Vec<Arc<Member>> = self.shared.members.borrow().values().cloned().collect();
        members.iter().map(overview).collect()
    }

    /// The group of that id, or of that name: of those that ended here only if no other has it.
    ///
    /// # Errors
    /// [`GroupError::NotFound`], [`GroupError::Ambiguous`].
    pub fn resolve(&self, name: &str) -> Result<GroupId, GroupError> {
        if let Ok(id) = name.parse() {
            return Ok(id);
        }
        let named = self.named(name);
        // One that ended counts only where none goes on.
        let here: Vec<Overview> = named.iter().filter(|group| group.is_here()).cloned().collect();
        only_one(name, if here.is_empty() { &named } else { &here })
    }

    /// The group of that id, or of that name, whose data here is to go: where one that ended has the name too, only the id
    /// says which is meant.
    ///
    /// # Errors
    /// [`GroupError::NotFound`], [`GroupError::Ambiguous`].
    pub fn resolve_to_forget(&self, name: &str) -> Result<GroupId, GroupError> {
        if let Ok(id) = name.parse() {
            return Ok(id);
        }
        only_one(name, &self.named(name))
    }

    fn named(&self, name: &str) -> Vec<Overview> {
        self.list().into_iter().filter(|group| group.name == name).collect()
    }

    /// The group of that id, or of that name, to which this node belongs: none that ended.
    ///
    /// # Errors
    /// [`GroupError::NotFound`], [`GroupError::Ambiguous`].
    pub fn resolve_here(&self, name: &str) -> Result<GroupId, GroupError> {
        let is_meant = |group: &Overview| group.name == name || group.id.to_string() == name;
        if !self.list().iter().any(|group| group.is_here() && is_meant(group)) {
            return Err(GroupError::NotFound(name.to_owned()));
        }
        self.resolve(name)
    }

    /// One group as this node sees it.
    ///
    /// # Errors
    /// [`GroupError::NoSuchGroup`].
    pub fn overview(&self, group: GroupId) -> Result<Overview, GroupError> {
        Ok(overview(&self.member(group)?))
    }

    /// Stops all replicas. What they acknowledged is on disk.
    pub async fn shut_down(&self) {
        let members: Vec<Arc<Member>> = self.shared.members.borrow().values().cloned().collect();
        for member in members {
            drop(member.stop().await);
        }
    }
}

/// The id of the group that alone has that name.
fn only_one(name: &str, named: &[Overview]) -> Result<GroupId, GroupError> {
    match named {
        [one] => Ok(one.id),
        [] => Err(GroupError::NotFound(name.to_owned())),
        several => {
            let groups = several.iter().map(|group| (group.id, group.standing)).collect();
            Err(GroupError::Ambiguous { name: name.to_owned(), groups })
        }
    }
}

/// Hands the lead to another member, once that has everything.
async fn hand_over(member: &Arc<Member>, node: PublicKey) -> Result<(), GroupError> {
    let replica = member.replica()?;
    let status = replica.status();
    if status.role != Role::Leader {
        return Err(GroupError::NotLeading(status.leader));
    }
    // One that has just joined has not everything yet.
    let until = tokio::time::Instant::now() + READY;
    let handed = loop {
        match replica.transfer(node).await {
            Err(ReplicaError::NotReady(_)) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(READY / 40).await
            }
            handed => break handed,
        }
    };
    if let Err(ReplicaError::NotTaken(_)) = handed {
        member.restart().await;
    }
    Ok(handed?)
}

/// Ends a membership that the state ended already, once the others can go on without this node: when it does not vote.
async fn leave_when_possible(groups: &Groups, member: &Arc<Member>) -> Result<(), GroupError> {
    let until = tokio::time::Instant::now() + groups.shared.config.patience;
    while !member.stop.is_cancelled() && tokio::time::Instant::now() < until {
        if member.replica().is_ok_and(|replica| !replica.votes_in_log()) {
            return groups.end(member, Standing::Gone).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Stops a membership, and removes all that this node has of it.
async fn discard(groups: &Groups, member: &Arc<Member>) -> Result<(), GroupError> {
    let _turn = member.stop().await;
    if is_present(groups, member) {
        record::forget(groups.shared.store.as_ref(), member.id).await?;
        // Until then this node cannot join anew.
        groups.shared.members.send_modify(|members| drop(members.remove(&member.id)));
    }
    Ok(())
}

/// Whether this is the node's membership yet: it was not forgotten, and no other one has begun.
fn is_present(groups: &Groups, member: &Arc<Member>) -> bool {
    groups.member(member.id).is_ok_and(|now| Arc::ptr_eq(&now, member))
}

/// Whether `publisher` gives the command in its own name. One that the group's rules do not know yet is refused here: it would spoil
/// the others of its batch.
fn acts_as_owner(state: &Group, node: PublicKey, publisher: PublisherId, command: &Command) -> Result<bool, Refusal> {
    admission::check_known(state, std::slice::from_ref(command))?;
    Ok(is_for_owners(state, node, publisher, command))
}

/// Whether `publisher`, an owner of the group, may do what its node may not.
fn is_for_owners(state: &Group, node: PublicKey, publisher: PublisherId, command: &Command) -> bool {
    let Some(charter) = state.charter().filter(|charter| charter.owners.contains(&publisher)) else { return false };
    let me = Author::Node(node);
    let of_another = |task: &WorkId| state.work().tasks().get(task).is_some_and(|task| task.author != me);
    let run_of_another = |run: &WorkId| state.flows().runs().get(run).is_some_and(|run| run.author != me);
    let scheduled_by_another = |name: &str| state.flows().schedules().get(name).is_some_and(|known| known.author != me);
    let is_of_another = match command {
        Command::Schedule(schedule) => scheduled_by_another(&schedule.name),
        // Where only owners give work it is an owner's, even if it has not arrived here yet.
        Command::Unschedule(name) => scheduled_by_another(name) || charter.policy.assigners() == Rule::Owners,
        Command::Cancel(task) => of_another(task),
        Command::Depend(depend) => of_another(&depend.task),
        Command::CancelRun(run) | Command::ResumeRun(run) => run_of_another(run),
        Command::Decide(_) => true,
        _ => false,
    };
    is_of_another || permits::is_for_owners(&charter.policy, command)
}

fn overview(member: &Arc<Member>) -> Overview {
    let record = member.record.lock().expect("no panic").clone();
    let is_founded = member.look(|state| state.charter().is_some()).unwrap_or(true);
    let standing = match record.standing {
        Standing::Member if is_founded => "member",
        Standing::Member => "joining",
        Standing::Gone => "gone",
        Standing::Dissolved(_) => "dissolved",
    };
    let running = member.replica().ok();
    let replica = running.as_ref().map(|replica| replica.status());
    let leads = replica.as_ref().is_some_and(|status| status.role == Role::Leader);
    let silence = if leads { running.and_then(|replica| replica.acknowledged()) } else { member.silence() };
    let equivocated = member.proven.read().expect("no panic").values().copied().collect();
    let (failure, differing) = (member.failure(), member.look(comparison::differing).unwrap_or_default());
    Overview { id: member.id, name: record.name, standing, replica, failure, silence, equivocated, differing }
}

/// The members whom a ticket names: those that vote first.
fn contacts(state: &Group) -> Vec<Contact> {
    let members = state.members();
    let mut all: Vec<_> = members.iter().filter(|(_, member)| !member.addresses.is_empty()).collect();
    all.sort_by_key(|(node, member)| (!members.voters().contains(node), member.order));
    let contact = |(node, member): (&PublicKey, &crate::machine::members::Member)| Contact {
        node: *node,
        addresses: member.addresses.clone(),
    };
    all.into_iter().take(CONTACTS_MAX).map(contact).collect()
}
