//! One simulated member of a group: the real layers of a node from the network to the group, on a disk that survives it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{Communication, CommunicationConfig, Network, WallClock};
use althing_coordination::machine::group::Group;
use althing_coordination::{
    GroupError, Groups, GroupsConfig, OwnerNow, Ports, Proofs, RAFT, RAFT_LIMITS, RaftService, ReplicaConfig, Role,
    Status,
};
use althing_protocol::group::{Command, Equivocation, GroupId};
use althing_protocol::{PublicKey, SecretKey};
use althing_simnet::SimNet;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::disk::Disk;
use super::evidence::Books;
use super::flaw::Flaw;
use super::tap::Tap;
use super::worker::Laborer;
use crate::mesh::{Owner, membership};
use crate::{NETWORK, entropy, key};

/// The number of the owner of all members.
pub(super) const OWNER: u32 = 200;
/// How long an operation looks for a leader.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How long a node may take to stop.
const STOPPING: Duration = Duration::from_secs(2);

/// What all members of a run have in common.
#[derive(Clone)]
pub struct Ground {
    /// The network.
    pub net: SimNet,
    /// What is seen.
    pub books: Books,
    /// The planted bug.
    pub flaw: Arc<dyn Flaw>,
    /// How replicas behave.
    pub replica: ReplicaConfig,
    /// How long a disk takes to sync.
    pub sync: Duration,
    /// The seed of the run.
    pub seed: u64,
}

/// The time of day at one node.
#[derive(Clone)]
pub struct Clock {
    net: SimNet,
    flaw: Arc<dyn Flaw>,
    state: Arc<Mutex<ClockState>>,
}

#[derive(Default)]
struct ClockState {
    ahead_ms: u64,
    stands_at: Option<u64>,
}

impl Clock {
    fn new(ground: &Ground) -> Clock {
        Clock { net: ground.net.clone(), flaw: ground.flaw.clone(), state: Arc::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ClockState> {
        self.state.lock().expect("nobody panics with it")
    }

    /// The time, Unix milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        let state = self.state();
        self.flaw.time_of_day(state.stands_at.unwrap_or_else(|| self.net.now_ms() + state.ahead_ms))
    }

    /// It stands still until [`Clock::go`].
    pub fn stop(&self) {
        let now_ms = self.now_ms();
        self.state().stands_at = Some(now_ms);
    }

    /// It shows the right time again.
    pub fn go(&self) {
        *self.state() = ClockState::default();
    }

    /// It is ahead.
    pub fn jump(&self, ahead_ms: u64) {
        self.state().ahead_ms = ahead_ms;
    }
}

/// A member that runs.
#[derive(Clone)]
pub struct Running {
    pub groups: Groups,
    /// L2.
    pub communication: Communication,
    /// It crashed.
    pub down: CancellationToken,
}

pub struct Member {
    pub number: u8,
    pub key: SecretKey,
    /// Its time of day.
    pub clock: Clock,
    ground: Ground,
    disk: Disk,
    owner: Owner,
    running: Option<Running>,
}

impl Member {
    /// Starts the node of a number on an empty disk. Nodes of an adversary run no tasks.
    pub async fn start(ground: &Ground, number: u8) -> Member {
        let key = key(u32::from(number));
        let disk = Disk::new(key.public(), ground.sync, ground.books.clone(), ground.flaw.clone());
        let owner = Owner::new(crate::key(OWNER));
        let clock = Clock::new(ground);
        let mut member = Member { number, key, clock, ground: ground.clone(), disk, owner, running: None };
        member.run().await;
        member
    }

    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.key.public()
    }

    /// The node, if it runs.
    #[must_use]
    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    async fn run(&mut self) {
        let Ground { net, books, flaw, replica, seed, .. } = &self.ground;
        let node = self.id();
        let network: Arc<dyn Network> = net.join(node);
        let clock = self.clock.clone();
        let clock = WallClock::new(move || clock.now_ms());
        // Another program each time, with other random numbers.
        let random = entropy(seed.wrapping_mul(1_000) + u64::from(self.number) + (books.now_ms() << 20));
        let proof = membership(&self.owner, node, net.now_ms());
        let config = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
        let owned = watch::channel(Some(proof.clone())).1;
        let communication =
            Communication::start(network, self.key.clone(), owned, config, clock.clone(), random.clone());
        communication.trusts(|_| true);
        let owner = self.owner.clone();
        let owner = move || OwnerNow { key: owner.key.clone(), log: owner.log.clone(), proof: Some(proof.clone()) };
        let is_honest = books.open().honest.contains(&node);
        let worker = || Arc::new(Laborer { node, books: books.clone(), flaw: flaw.clone() });
        let ports = Ports {
            communication: communication.clone(),
            key: self.key.clone(),
            owner: Box::new(owner),
            store: Arc::new(self.disk.clone()),
            clock,
            entropy: random,
            worker: if is_honest { Some(worker()) } else { None },
        };
        let mut replica = replica.clone();
        flaw.configure(&mut replica);
        let config = GroupsConfig { replica, patience: PATIENCE, ..GroupsConfig::new(NETWORK) };
        let groups = Groups::open(ports, config).await.expect("what it keeps can be read");
        let inner = Arc::new(RaftService(groups.clone()));
        let tap = Tap { node, inner, books: books.clone(), flaw: flaw.clone() };
        communication.serve(RAFT, RAFT_LIMITS, Arc::new(tap)).expect("nobody else serves it");
        self.running = Some(Running { groups, communication, down: CancellationToken::new() });
    }

    /// Cuts its power: nothing more is sent, received or written.
    pub async fn crash(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.ground.books.note(format_args!("{} crashes", self.id()));
        self.ground.books.open().crashes += 1;
        self.disk.cut_power();
        self.ground.net.crash(self.id());
        running.down.cancel();
        // Its tasks must be gone before it starts again under the same name.
        let _ = tokio::time::timeout(STOPPING, running.groups.shut_down()).await;
    }

    /// Starts it again on what its disk kept.
    pub async fn restart(&mut self) {
        if self.running.is_none() {
            self.ground.books.note(format_args!("{} starts again", self.id()));
            self.disk = self.disk.restarted().await;
            self.run().await;
        }
    }

    /// Its replica at a glance.
    #[must_use]
    pub fn status(&self, group: GroupId) -> Option<Status> {
        self.running()?.groups.overview(group).ok()?.replica
    }

    /// Whether it leads.
    #[must_use]
    pub fn leads(&self, group: GroupId) -> bool {
        self.status(group).is_some_and(|status| status.role == Role::Leader)
    }

    /// Whether it votes.
    #[must_use]
    pub fn votes(&self, group: GroupId) -> bool {
        self.status(group).is_some_and(|status| status.role != Role::Learner)
    }

    /// Writes down what it has applied: its state, and that this is committed.
    pub fn sample(&self, group: GroupId) {
        let books = &self.ground.books;
        if !books.open().honest.contains(&self.id()) {
            return;
        }
        let Some(running) = self.running() else { return };
        let Ok(overview) = running.groups.overview(group) else { return };
        let failure = overview.failure.or(overview.replica.as_ref().and_then(|status| status.failure.clone()));
        books.open().failures.extend(failure.map(|why| (self.id(), why)));
        for against in overview.equivocated.iter().map(|proven| proven.leader) {
            let bytes = Proofs::of(&running.groups).get(group, against).ok().flatten().unwrap_or_default();
            let proven = Equivocation::decode(&bytes).and_then(|proof| proof.verify(NETWORK)).ok();
            let of_group = proven.filter(|proven| proven.group == group).map(|proven| proven.leader);
            books.open().accused.insert((self.id(), against, of_group));
        }
        let Some(applied) = overview.replica.and_then(|status| status.applied) else { return };
        self.disk.commit(group, applied);
        if let Ok(digest) = running.groups.look(group, digest_of) {
            let (now_ms, node) = (books.now_ms(), self.id());
            let mut evidence = books.open();
            let last = evidence.states.iter().rev().find(|(of, ..)| *of == node);
            if last.is_none_or(|(_, _, last)| *last != digest) {
                evidence.states.push((node, now_ms, digest));
            }
        }
    }
}

impl Running {
    /// Executes a command; gives up when the node crashes.
    ///
    /// # Errors
    /// See [`GroupError`]; none if the node crashed.
    pub async fn command(&self, group: GroupId, command: Command) -> Result<Option<u64>, Option<GroupError>> {
        let done = self.down.run_until_cancelled(self.groups.command(group, command)).await;
        done.map_or(Err(None), |done| done.map_err(Some))
    }

    /// Looks at the state after everything that was acknowledged before; or without waiting for that.
    pub async fn read<T>(&self, group: GroupId, waits: bool, at: impl FnOnce(&Group) -> T) -> Option<T> {
        if waits {
            self.down.run_until_cancelled(self.groups.catch_up(group)).await?.ok()?;
        }
        self.groups.look(group, at).ok()
    }
}

/// The digest of a state.
#[must_use]
pub fn digest_of(state: &Group) -> althing_protocol::Digest {
    let rows = state.rows();
    let mut bytes = Vec::new();
    for row in rows {
        bytes.extend_from_slice(&(row.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&row);
    }
    althing_protocol::digest(&bytes)
}
