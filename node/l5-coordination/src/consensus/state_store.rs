//! The group's state: in memory, rebuilt from the last snapshot on disk and the entries after it.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use althing_communication::WallClock;
use althing_protocol::group::{Batch as CommandBatch, StateMark};
use althing_protocol::{Authored, GroupId, ObjectError, PublicKey, object};
use althing_store::{Batch, Durability, Family, Range};
use futures::{FutureExt as _, Stream, TryStreamExt as _};
use minicbor::{Decode, Encode};
use openraft::entry::RaftEntry as _;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use super::image::Image;
use super::pen::Pen;
use super::records::{MembersRecord, Position, encode};
use super::runtime::apart;
use super::tally::Tally;
use super::types::{Applied, EntryPayload as Payload, LogId, NodeId, SnapshotMeta, StoredMembership, Types};
use super::watch;
use crate::machine::group::Group;
use crate::machine::group::comparison::{self, MARK_MS};
use crate::machine::outcome::Reply;
use crate::machine::rows::RowError;
use crate::machine::successor;

/// Snapshots: the group's 32 bytes, then `m` for the description of the last one, or `r`, its number and that of the row.
pub const RAFT_SNAPSHOTS: Family = Family("althing.raft.snapshots");

/// Bytes of one write of a snapshot, plus one row.
const WRITE_BYTES: usize = 1 << 20;
/// Rows that are read, or deleted, at once.
const SCAN_ROWS: usize = 1_024;
/// Bytes that are read at once, or one row.
const SCAN_BYTES: usize = 1 << 20;

/// Entries that are executed one after the other before whoever executes them looks for others.
const EXECUTED_MAX: usize = 64;
/// Bytes of their batches, and one batch more.
const EXECUTED_BYTES_MAX: usize = 1 << 20;

type Snapshot = openraft::alias::SnapshotOf<Types, Arc<Image>>;

/// What was applied.
pub(crate) struct State {
    pub group: Group,
    pub applied: Option<LogId>,
    pub members: StoredMembership,
    /// The nodes that are no members any more since an entry was executed here, the last ones last. A snapshot shows of nobody who
    /// signed that.
    pub leavers: Vec<PublicKey>,
}

impl State {
    /// Executes a batch of the log, and keeps who left by it.
    fn execute(&mut self, at_ms: u64, batch: &Result<Authored<CommandBatch>, ObjectError>) -> Reply {
        let before: Vec<PublicKey> = self.group.members().iter().map(|(node, _)| *node).collect();
        let reply = self.group.apply(at_ms, batch);
        self.leavers = successor::leavers(&self.leavers, &before, &self.group);
        reply
    }
}

/// The state of one group, and its snapshots.
#[derive(Clone)]
pub(crate) struct StateStore {
    id: GroupId,
    network: Arc<str>,
    state: Arc<RwLock<State>>,
    tally: Arc<Mutex<Tally>>,
    pen: Arc<Pen>,
    /// By which it knows entries that are executed again. None: it knows none.
    clock: Option<WallClock>,
    /// The number of changes that were applied, for who waits for one.
    changed: watch::Sender<u64>,
    /// Held while a snapshot is written: one is built while another may arrive.
    writing: Arc<tokio::sync::Mutex<()>>,
}

/// The last snapshot on disk.
#[derive(Debug, Clone, Encode, Decode)]
#[cbor(map)]
struct Description {
    /// Its number; its rows carry it.
    #[n(0)]
    number: u64,
    #[n(1)]
    last: Option<Position>,
    #[n(2)]
    members: MembersRecord,
    #[n(3)]
    rows: u64,
    /// What is no part of the group's state.
    #[n(5)]
    leavers: Option<Vec<PublicKey>>,
}

impl Description {
    fn meta(&self) -> io::Result<SnapshotMeta> {
        let last_membership = StoredMembership::try_from(self.members.clone()).map_err(|why| damaged(&why))?;
        Ok(SnapshotMeta { last_log_id: self.last.map(LogId::from), last_membership })
    }
}

fn damaged(why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot of the group is damaged: {why}"))
}

fn description_key(group: GroupId) -> Vec<u8> {
    [group.as_bytes().as_slice(), b"m"].concat()
}

fn row_prefix(group: GroupId, number: u64) -> Vec<u8> {
    [group.as_bytes().as_slice(), b"r", &number.to_be_bytes()].concat()
}

impl StateStore {
    /// The state as of the last snapshot.
    ///
    /// # Errors
    /// The disk fails, or the snapshot is damaged.
    pub fn open(id: GroupId, network: &str, pen: Arc<Pen>, log_bytes: u64) -> io::Result<StateStore> {
        let (group, members) = (Group::new(id, network), StoredMembership::default());
        let empty = State { group, applied: None, members, leavers: Vec::new() };
        let opened = StateStore {
            id,
            network: network.into(),
            state: Arc::new(RwLock::new(empty)),
            tally: Arc::new(Mutex::new(Tally::new(log_bytes))),
            pen,
            clock: None,
            changed: watch::channel(0).0,
            writing: Arc::default(),
        };
        if let Some((description, rows)) = opened.read()? {
            let group = opened.restore(&rows).map_err(|error| damaged(&error))?;
            opened.replace(&description.meta()?, group, description.leavers.unwrap_or_default());
        }
        Ok(opened)
    }

    /// Takes no marks of times that are long over by this clock.
    #[must_use]
    pub fn by(self, clock: WallClock) -> StateStore {
        StateStore { clock: Some(clock), ..self }
    }

    /// The state now.
    pub fn view(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no holder of the state panics")
    }

    /// Follows the changes of the state.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How much of the log was executed.
    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no holder of the tally panics")
    }

    /// The state that these rows of a snapshot are of. It may take seconds.
    pub fn restore(&self, rows: &[Vec<u8>]) -> Result<Group, RowError> {
        Group::restore(self.id, &self.network, rows)
    }

    /// Whether the log may have the voters of a snapshot.
    ///
    /// # Errors
    /// Why not.
    pub fn check_log(&self, members: &StoredMembership) -> Result<(), &'static str> {
        let here = self.view();
        successor::check_log(&voters(members), &here.group, &voters(&here.members))
    }

    /// Whether a snapshot takes nothing back of what was executed since it was checked. openraft ends the replica otherwise,
    /// which begins again with what is on disk: nothing of the log is deleted before the snapshot has taken its place.
    fn check_again(&self, group: &Group, members: &StoredMembership) -> io::Result<()> {
        let kept = successor::check_kept(group, &self.view().group);
        let checked = kept.and_then(|()| self.check_log(members));
        checked.map_err(|why| io::Error::other(format!("the snapshot is refused, since entries were executed: {why}")))
    }

    fn replace(&self, meta: &SnapshotMeta, group: Group, leavers: Vec<PublicKey>) {
        let next = State { group, applied: meta.last_log_id, members: meta.last_membership.clone(), leavers };
        let before = {
            let mut state = self.state.write().expect("no holder of the state panics");
            self.tally().replaced();
            std::mem::replace(&mut *state, next)
        };
        // It may be large: nobody waits while it goes.
        drop(before);
        self.changed.send_modify(|count| *count += 1);
    }

    fn description(&self) -> io::Result<Option<Description>> {
        let bytes = self.pen.store().read(RAFT_SNAPSHOTS, &description_key(self.id)).map_err(io::Error::other)?;
        bytes.map(|bytes| minicbor::decode(&bytes).map_err(|error| damaged(&error))).transpose()
    }

    fn read(&self) -> io::Result<Option<(Description, Vec<Vec<u8>>)>> {
        let Some(description) = self.description()? else { return Ok(None) };
        let (prefix, mut rows) = (row_prefix(self.id, description.number), Vec::new());
        let mut range = Range::prefix(prefix, SCAN_ROWS).within(SCAN_BYTES);
        loop {
            let some = self.pen.store().scan(RAFT_SNAPSHOTS, range.clone()).map_err(io::Error::other)?;
            let Some((last, _)) = some.last() else { break };
            range = range.after(last.clone());
            rows.extend(some.into_iter().map(|(_, value)| value));
        }
        if rows.len() as u64 != description.rows {
            // A later one may have been written meanwhile.
            let present = self.description()?.map(|present| present.number);
            if present != Some(description.number) {
                return self.read();
            }
            return Err(damaged(&format!("it has {} rows of {}", rows.len(), description.rows)));
        }
        Ok(Some((description, rows)))
    }

    /// Writes a snapshot, and deletes the one before, unless that is a later one.
    async fn write(&self, meta: &SnapshotMeta, rows: &[Vec<u8>], leavers: Vec<PublicKey>) -> io::Result<()> {
        let _writing = self.writing.lock().await;
        let before = self.description()?;
        let last = meta.last_log_id.map(Position::from);
        if before.as_ref().is_some_and(|before| before.last > last) {
            return Ok(());
        }
        let number = before.as_ref().map_or(0, |before| before.number + 1);
        // What a crash left of one that was not finished.
        self.delete(number).await?;
        let mut batch = Batch::new();
        for (at, row) in rows.iter().enumerate() {
            let key = [row_prefix(self.id, number).as_slice(), &(at as u64).to_be_bytes()].concat();
            batch.put(RAFT_SNAPSHOTS, key, row.as_slice());
            if batch.bytes() >= WRITE_BYTES {
                self.pen.write(std::mem::take(&mut batch), Durability::Buffered).await?;
            }
        }
        let members = (&meta.last_membership).into();
        let leavers = (!leavers.is_empty()).then_some(leavers);
        let description = Description { number, last, members, rows: rows.len() as u64, leavers };
        batch.put(RAFT_SNAPSHOTS, description_key(self.id), encode(&description));
        self.pen.write(batch, Durability::Synced).await?;
        match before {
            Some(before) => self.delete(before.number).await,
            None => Ok(()),
        }
    }

    async fn delete(&self, number: u64) -> io::Result<()> {
        loop {
            let range = Range::prefix(row_prefix(self.id, number), SCAN_ROWS);
            let keys = self.pen.store().keys(RAFT_SNAPSHOTS, range).map_err(io::Error::other)?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            for key in keys {
                batch.delete(RAFT_SNAPSHOTS, key);
            }
            self.pen.write(batch, Durability::Buffered).await?;
        }
    }

    /// Executes entries, in their order, and tells who waits for one what became of it. Where the group uses rules that this build
    /// does not know, none is executed, and the replica fails.
    fn apply_all(&self, entries: Vec<EntryResponder<Types>>) -> io::Result<()> {
        for (entry, responder) in entries {
            comparison::check_rules(&self.view().group).map_err(io::Error::other)?;
            let applied = self.apply_one(entry.log_id(), &entry.payload);
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    /// Executes one entry. The state is locked for the whole of it and no longer: whoever reads sees all of a batch that its author
    /// signed, or nothing of it, and waits for one batch at most, whose cost is bounded ([`crate::machine::work::Steps`]), and for what time does
    /// with it, which is never more than ending all tasks.
    fn apply_one(&self, id: LogId, payload: &Payload) -> Applied {
        // Signatures are verified before the lock is taken.
        let opened = match payload {
            EntryPayload::Normal(proposal) => Some((proposal.at_ms, open(&self.network, self.id, &proposal.batch))),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        // So is the mark taken, while others read: nothing but this executes entries, so that the state stays as it is.
        let mark = opened.as_ref().and_then(|(at_ms, _)| self.mark_before(*at_ms));
        let mut state = self.state.write().expect("no holder of the state panics");
        if let EntryPayload::Membership(members) = payload {
            state.members = StoredMembership::new(Some(id), members.clone());
        }
        state.applied = Some(id);
        self.tally().add(id.index, content_bytes(payload));
        if let Some(mark) = mark {
            comparison::keep_mark(&mut state.group, mark);
        }
        let applied = opened.map(|(at_ms, batch)| state.execute(at_ms, &batch));
        Applied(applied)
    }

    /// The mark that is taken before an entry of that time, if one is, and others may still declare theirs of it.
    fn mark_before(&self, at_ms: u64) -> Option<StateMark> {
        let is_over = |clock: &WallClock| at_ms.saturating_add(2 * MARK_MS) < clock.now_ms();
        if self.clock.as_ref().is_some_and(is_over) {
            return None;
        }
        comparison::mark_before(&self.view().group, at_ms)
    }

    /// A snapshot of the state now, and who left before it.
    fn picture(&self) -> (SnapshotMeta, Vec<Vec<u8>>, Vec<PublicKey>) {
        // Copied, since it takes much less than writing the rows: entries that are to be executed wait for whoever reads, and others
        // that read wait behind these.
        let (meta, group, leavers) = {
            let state = self.view();
            self.tally().covered();
            let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone() };
            (meta, state.group.clone(), state.leavers.clone())
        };
        (meta, group.rows(), leavers)
    }
}

/// What an entry has of content.
fn content_bytes(payload: &Payload) -> usize {
    match payload {
        EntryPayload::Normal(proposal) => proposal.batch.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

/// The sets of voters of a log.
pub(crate) fn voters(members: &StoredMembership) -> Vec<BTreeSet<PublicKey>> {
    let keys = |set: &BTreeSet<NodeId>| set.iter().map(|node| node.0).collect();
    members.membership().get_joint_config().iter().map(keys).collect()
}

/// The batch in these bytes, if its signature is valid.
pub(crate) fn open(network: &str, group: GroupId, bytes: &[u8]) -> Result<Authored<CommandBatch>, ObjectError> {
    object::open(bytes, network, &CommandBatch::scope(group))
}

impl RaftStateMachine<Types> for StateStore {
    type SnapshotData = Arc<Image>;
    type SnapshotBuilder = StateStore;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let state = self.view();
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(first) = entries.try_next().await? {
            let mut bytes = content_bytes(&first.0.payload);
            let mut some = vec![first];
            // Those that are there already are executed with it; it does not wait for others.
            while some.len() < EXECUTED_MAX
                && bytes < EXECUTED_BYTES_MAX
                && let Some(Some(next)) = entries.try_next().now_or_never().transpose()?
            {
                bytes += content_bytes(&next.0.payload);
                some.push(next);
            }
            let store = self.clone();
            apart(move || store.apply_all(some)).await??;
        }
        self.changed.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> StateStore {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, image: Arc<Image>) -> io::Result<()> {
        // Checked before it replaces anything on disk.
        let group = match image.take_group() {
            Some(group) => {
                let (store, members) = (self.clone(), meta.last_membership.clone());
                apart(move || store.check_again(&group, &members).map(|()| group)).await??
            }
            None => {
                let (store, image) = (self.clone(), image.clone());
                apart(move || store.restore(image.rows())).await?.map_err(|error| damaged(&error))?
            }
        };
        let leavers = successor::leavers(&self.view().leavers, &[], &group);
        self.write(meta, image.rows(), leavers.clone()).await?;
        self.replace(meta, group, leavers);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let store = self.clone();
        let Some((description, rows)) = apart(move || store.read()).await?? else { return Ok(None) };
        Ok(Some(Snapshot { meta: description.meta()?, snapshot: Image::new(rows) }))
    }
}

impl RaftSnapshotBuilder<Types> for StateStore {
    type SnapshotData = Arc<Image>;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let store = self.clone();
        let (meta, rows, leavers) = apart(move || store.picture()).await?;
        self.write(&meta, &rows, leavers).await?;
        Ok(Snapshot { meta, snapshot: Image::new(rows) })
    }
}

#[cfg(test)]
mod installs;
#[cfg(test)]
mod tests;
