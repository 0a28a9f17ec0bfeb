//! This node as a member of one group: its replica, and what is known beside it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::group::{Equivocated, GroupId};
use althing_store::Store;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::outbox::Outbox;
use super::record::{self, Record};
use super::results::Results;
use super::work::Report;
use super::{Groups, Shared};
use crate::consensus::arriving::{Arriving, Room};
use crate::consensus::wire::Unserved;
use crate::consensus::{Replica, ReplicaError};
use crate::error::GroupError;
use crate::machine::frame_log::FrameLog;
use crate::machine::group::Group;

/// How often a term may rise far at once.
const LEAP_EVERY: Duration = Duration::from_secs(1);

/// This node in one group.
pub(crate) struct Member {
    pub id: GroupId,
    pub record: Mutex<Record>,
    /// None where it could not be started.
    replica: RwLock<Option<Arc<Replica>>>,
    /// Held while the replica is started or stopped: one begins when the one before has written its last row.
    turn: tokio::sync::Mutex<()>,
    /// Why it could not be started, or stopped.
    failure: Mutex<Option<String>>,
    pub arriving: Arriving,
    /// When this node began to take part, since it started.
    pub begun: Instant,
    /// When a leader was last heard.
    heard: Mutex<Option<Instant>>,
    /// When the term rose far at once.
    leapt: Mutex<Option<Instant>>,
    session: AtomicU64,
    sequence: AtomicU64,
    /// What other members said instead of serving a message.
    unserved: Mutex<BTreeMap<PublicKey, Unserved>>,
    /// Another member said that it does not know this one, or that the group ended.
    pub noticed: tokio::sync::Notify,
    /// What the members said that they can do, and when; at the leader.
    reports: Mutex<BTreeMap<PublicKey, (Report, Instant)>>,
    /// A report came.
    pub reported: tokio::sync::Notify,
    /// The state named this node a member since it started.
    was_named: AtomicBool,
    /// The group is being told where this node can be dialled.
    telling: AtomicBool,
    /// The results that this node holds for the group.
    pub results: Arc<Results>,
    outbox: OnceLock<Outbox>,
    /// The last appends that leaders sent this node, as they signed them.
    pub frames: Mutex<FrameLog>,
    /// An append was kept, or somebody proven to have equivocated.
    pub comparing: tokio::sync::Notify,
    /// The members that equivocated when they led, as proofs here show.
    pub proven: RwLock<BTreeMap<PublicKey, Equivocated>>,
    pub stop: CancellationToken,
}

impl Member {
    pub fn new(id: GroupId, record: Record, session: u64, room: Arc<Room>) -> Arc<Member> {
        Arc::new(Member {
            id,
            record: Mutex::new(record),
            replica: RwLock::new(None),
            turn: tokio::sync::Mutex::default(),
            failure: Mutex::new(None),
            arriving: Arriving::new(room),
            begun: Instant::now(),
            heard: Mutex::new(None),
            leapt: Mutex::new(None),
            session: AtomicU64::new(session),
            sequence: AtomicU64::new(0),
            unserved: Mutex::new(BTreeMap::new()),
            noticed: tokio::sync::Notify::new(),
            reports: Mutex::new(BTreeMap::new()),
            reported: tokio::sync::Notify::new(),
            was_named: AtomicBool::new(false),
            telling: AtomicBool::new(false),
            results: Arc::new(Results::new()),
            outbox: OnceLock::new(),
            frames: Mutex::default(),
            comparing: tokio::sync::Notify::new(),
            proven: RwLock::default(),
            stop: CancellationToken::new(),
        })
    }

    /// Whether the term may rise far now, as it then does.
    pub fn may_leap(&self) -> bool {
        let mut leapt = self.leapt.lock().expect("no panic");
        let may = leapt.is_none_or(|last| last.elapsed() >= LEAP_EVERY);
        if may {
            *leapt = Some(Instant::now());
        }
        may
    }

    /// What sends this node's commands.
    pub fn outbox(&self, groups: &Groups) -> &Outbox {
        self.outbox.get_or_init(|| Outbox::start(groups.clone(), self.id, self.stop.clone()))
    }

    /// Starts the replica from what is on disk, unless it was stopped for good.
    pub async fn start(self: &Arc<Member>, shared: &Shared) -> Result<Arc<Replica>, ReplicaError> {
        let _turn = self.turn.lock().await;
        if self.stop.is_cancelled() {
            return Err(ReplicaError::Stopped("this node has no part in the group any more".to_owned()));
        }
        if self.record.lock().expect("no panic").rules.is_none() {
            let why = "it was formed by a build whose rules this one does not execute: have its members forget it, and form it \
                       anew";
            *self.failure.lock().expect("no panic") = Some(why.to_owned());
            return Err(ReplicaError::Stopped(why.to_owned()));
        }
        let member = Arc::downgrade(self);
        let on_unserved = Arc::new(move |peer, unserved| {
            if let Some(member) = member.upgrade() {
                member.unserved.lock().expect("no panic").insert(peer, unserved);
                member.noticed.notify_one();
            }
        });
        let started = Replica::start(
            self.id,
            &shared.config.network,
            &shared.config.replica,
            shared.store.clone(),
            shared.heartbeats.clone(),
            on_unserved,
            shared.clock.clone(),
        );
        match started.await {
            Ok(replica) => {
                if !self.record.lock().expect("no panic").is_joining() {
                    replica.may_stand();
                }
                let replica = Arc::new(replica);
                *self.replica.write().expect("no panic") = Some(replica.clone());
                *self.failure.lock().expect("no panic") = None;
                Ok(replica)
            }
            Err(error) => {
                *self.replica.write().expect("no panic") = None;
                *self.failure.lock().expect("no panic") = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// The replica.
    ///
    /// # Errors
    /// [`GroupError::Stopped`], with the reason.
    pub fn replica(&self) -> Result<Arc<Replica>, GroupError> {
        let replica = self.replica.read().expect("no panic").clone();
        replica.ok_or_else(|| {
            let why = self.failure.lock().expect("no panic").clone();
            GroupError::Stopped { group: self.id, why: why.unwrap_or_else(|| "it is being started".to_owned()) }
        })
    }

    /// Stops the replica for good: nothing of the group is written any more. Nobody else stops it as long as what is returned is
    /// held, and so nobody who waits for that begins anew before the data is gone.
    pub async fn stop(&self) -> MutexGuard<'_, ()> {
        self.stop.cancel();
        let turn = self.turn.lock().await;
        self.end_replica().await;
        turn
    }

    /// Stops the replica, which failed and will be started again.
    pub async fn halt(&self, why: String) {
        *self.failure.lock().expect("no panic") = Some(why);
        self.restart().await;
    }

    /// Stops the replica, which will be started again.
    pub async fn restart(&self) {
        let _turn = self.turn.lock().await;
        self.end_replica().await;
    }

    async fn end_replica(&self) {
        let replica = self.replica.write().expect("no panic").take();
        if let Some(replica) = replica {
            replica.stop().await;
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.lock().expect("no panic").clone()
    }

    /// Looks at the state, if there is a replica.
    pub fn look<T>(&self, at: impl FnOnce(&Group) -> T) -> Result<T, GroupError> {
        Ok(at(self.replica()?.view().group()))
    }

    /// A leader was heard just now.
    pub fn hear(&self) {
        *self.heard.lock().expect("no panic") = Some(Instant::now());
    }

    /// For how long no leader was heard.
    pub fn silence(&self) -> Option<Duration> {
        self.heard.lock().expect("no panic").map(|at| at.elapsed())
    }

    /// The number of this node's next batch, and its session.
    pub fn next_number(&self) -> (u64, u64) {
        (self.session.load(Ordering::Relaxed), self.sequence.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins another session.
    pub fn new_session(&self, session: u64) {
        self.session.fetch_max(session, Ordering::Relaxed);
    }

    /// A member said what it can do.
    pub fn take_report(&self, from: PublicKey, report: Report) {
        self.reports.lock().expect("no panic").insert(from, (report, Instant::now()));
        self.reported.notify_one();
    }

    /// What the members said lately.
    pub fn reports(&self, age: Duration) -> BTreeMap<PublicKey, Report> {
        let mut reports = self.reports.lock().expect("no panic");
        reports.retain(|_, (_, at)| at.elapsed() <= age);
        reports.iter().map(|(node, (report, _))| (*node, report.clone())).collect()
    }

    /// Remembers whether the state names this node a member; whether it ever did.
    pub fn was_named(&self, is_named: bool) -> bool {
        self.was_named.fetch_or(is_named, Ordering::Relaxed) || is_named
    }

    /// True for one caller until [`Member::end_telling`].
    pub fn begin_telling(&self) -> bool {
        !self.telling.swap(true, Ordering::Relaxed)
    }

    pub fn end_telling(&self) {
        self.telling.store(false, Ordering::Relaxed);
    }

    /// Whether `peer` may take part in consensus at this node, `here`.
    pub fn admits(&self, here: PublicKey, peer: PublicKey) -> bool {
        let Ok(replica) = self.replica() else { return false };
        if replica.knows(peer) {
            return true;
        }
        let record = self.record.lock().expect("no panic").clone();
        record.sponsors.contains(&peer) && believes(replica.view().group(), here, &record, peer)
    }

    /// Forgets those of the ticket once this node, `here`, is a member by its own state: nothing that comes later, not even its
    /// own end, makes them count again.
    pub async fn forget_sponsors(&self, store: &dyn Store, here: PublicKey, at: &Replica) -> Result<(), GroupError> {
        let record = self.record.lock().expect("no panic").clone();
        if !record.is_joining() || !record.has_joined(at.view().group(), here) {
            return Ok(());
        }
        // Whoever ends the membership has written so before, and has stopped it, or writes it afterwards.
        let _turn = self.turn.lock().await;
        if self.stop.is_cancelled() {
            return Ok(());
        }
        let record = Record { sponsors: Vec::new(), ..self.record.lock().expect("no panic").clone() };
        record::write(store, self.id, &record).await?;
        self.record.lock().expect("no panic").sponsors.clear();
        at.may_stand();
        Ok(())
    }

    /// Whether a proof here shows that `peer` equivocated when it led.
    pub fn is_proven(&self, peer: PublicKey) -> bool {
        self.proven.read().expect("no panic").contains_key(&peer)
    }

    /// What the others said instead of serving messages, since this was last asked.
    pub fn take_unserved(&self) -> BTreeMap<PublicKey, Unserved> {
        std::mem::take(&mut *self.unserved.lock().expect("no panic"))
    }
}

/// Whether `here`, which joins as its record says, believes a node of its ticket. Who leads may have joined later than what is
/// executed here says; but who was expelled in the epoch of the invitation or later is no member any more.
fn believes(group: &Group, here: PublicKey, record: &Record, sponsor: PublicKey) -> bool {
    !record.has_joined(group, here) && group.expelled.get(&sponsor).is_none_or(|at| *at < record.since_epoch)
}

#[cfg(test)]
mod tests;
