//! The group's state: in memory, rebuilt from the last snapshot on disk and the entries after it.

use std::io;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use althing_protocol::group::Batch as CommandBatch;
use althing_protocol::{Authored, GroupId, ObjectError, object};
use althing_store::{Batch, Durability, Family, Range, Store};
use futures::{Stream, TryStreamExt as _};
use minicbor::{Decode, Encode};
use openraft::entry::RaftEntry as _;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use super::records::{MembersRecord, Position, encode};
use super::types::{Applied, LogId, SnapshotMeta, StoredMembership, Types};
use super::watch;
use crate::machine::group::Group;

/// Snapshots: the group's 32 bytes, then `m` for the description of the last one, or `r`, its number and that of the row.
pub const RAFT_SNAPSHOTS: Family = Family("althing.raft.snapshots");

/// Bytes of one write of a snapshot, plus one row.
const WRITE_BYTES: usize = 1 << 20;
/// Rows that are read at once.
const SCAN_ROWS: usize = 1_024;

/// The rows of a snapshot.
pub(crate) type Rows = Arc<Vec<Vec<u8>>>;
type Snapshot = openraft::alias::SnapshotOf<Types, Rows>;

/// What was applied.
pub(crate) struct State {
    pub group: Group,
    pub applied: Option<LogId>,
    pub members: StoredMembership,
}

/// The state of one group, and its snapshots.
#[derive(Clone)]
pub(crate) struct StateStore {
    id: GroupId,
    network: Arc<str>,
    state: Arc<RwLock<State>>,
    store: Arc<dyn Store>,
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
    pub fn open(id: GroupId, network: &str, store: Arc<dyn Store>) -> io::Result<StateStore> {
        let empty = State { group: Group::new(id, network), applied: None, members: StoredMembership::default() };
        let state = Arc::new(RwLock::new(empty));
        let opened = StateStore {
            id,
            network: network.into(),
            state,
            store,
            changed: watch::channel(0).0,
            writing: Arc::default(),
        };
        if let Some((description, rows)) = opened.read()? {
            opened.replace(&description.meta()?, &rows)?;
        }
        Ok(opened)
    }

    /// The state now.
    pub fn view(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no holder of the state panics")
    }

    /// Follows the changes of the state.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn replace(&self, meta: &SnapshotMeta, rows: &[Vec<u8>]) -> io::Result<()> {
        let group = Group::restore(self.id, &self.network, rows).map_err(|error| damaged(&error))?;
        let (applied, members) = (meta.last_log_id, meta.last_membership.clone());
        *self.state.write().expect("no holder of the state panics") = State { group, applied, members };
        self.changed.send_modify(|count| *count += 1);
        Ok(())
    }

    fn description(&self) -> io::Result<Option<Description>> {
        let bytes = self.store.read(RAFT_SNAPSHOTS, &description_key(self.id)).map_err(io::Error::other)?;
        bytes.map(|bytes| minicbor::decode(&bytes).map_err(|error| damaged(&error))).transpose()
    }

    fn read(&self) -> io::Result<Option<(Description, Vec<Vec<u8>>)>> {
        let Some(description) = self.description()? else { return Ok(None) };
        let (prefix, mut rows) = (row_prefix(self.id, description.number), Vec::new());
        let mut range = Range::prefix(prefix.clone(), SCAN_ROWS);
        loop {
            let some = self.store.scan(RAFT_SNAPSHOTS, range).map_err(io::Error::other)?;
            let Some((last, _)) = some.last().cloned() else { break };
            rows.extend(some.into_iter().map(|(_, value)| value));
            range = Range::prefix(prefix.clone(), SCAN_ROWS).after(last);
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
    async fn write(&self, meta: &SnapshotMeta, rows: &[Vec<u8>]) -> io::Result<()> {
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
                let full = std::mem::take(&mut batch);
                self.store.write(full, Durability::Buffered).await.map_err(io::Error::other)?;
            }
        }
        let members = (&meta.last_membership).into();
        let description = Description { number, last, members, rows: rows.len() as u64 };
        batch.put(RAFT_SNAPSHOTS, description_key(self.id), encode(&description));
        self.store.write(batch, Durability::Synced).await.map_err(io::Error::other)?;
        match before {
            Some(before) => self.delete(before.number).await,
            None => Ok(()),
        }
    }

    async fn delete(&self, number: u64) -> io::Result<()> {
        loop {
            let range = Range::prefix(row_prefix(self.id, number), SCAN_ROWS);
            let rows = self.store.scan(RAFT_SNAPSHOTS, range).map_err(io::Error::other)?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            for (key, _) in rows {
                batch.delete(RAFT_SNAPSHOTS, key);
            }
            self.store.write(batch, Durability::Buffered).await.map_err(io::Error::other)?;
        }
    }

    fn apply_one(&self, id: LogId, payload: &super::types::EntryPayload) -> Applied {
        // Signatures are verified before the lock is taken.
        let opened = match payload {
            EntryPayload::Normal(proposal) => Some((proposal.at_ms, open(&self.network, self.id, &proposal.batch))),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        let mut state = self.state.write().expect("no holder of the state panics");
        if let EntryPayload::Membership(members) = payload {
            state.members = StoredMembership::new(Some(id), members.clone());
        }
        state.applied = Some(id);
        Applied(opened.map(|(at_ms, batch)| state.group.apply(at_ms, &batch)))
    }
}

/// The batch in these bytes, if its signature is valid.
pub(crate) fn open(network: &str, group: GroupId, bytes: &[u8]) -> Result<Authored<CommandBatch>, ObjectError> {
    object::open(bytes, network, &CommandBatch::scope(group))
}

impl RaftStateMachine<Types> for StateStore {
    type SnapshotData = Rows;
    type SnapshotBuilder = StateStore;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let state = self.view();
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let applied = self.apply_one(entry.log_id(), &entry.payload);
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        self.changed.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> StateStore {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, rows: Rows) -> io::Result<()> {
        // Checked before it replaces anything on disk.
        Group::restore(self.id, &self.network, &rows).map_err(|error| damaged(&error))?;
        self.write(meta, &rows).await?;
        self.replace(meta, &rows)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let Some((description, rows)) = self.read()? else { return Ok(None) };
        Ok(Some(Snapshot { meta: description.meta()?, snapshot: Arc::new(rows) }))
    }
}

impl RaftSnapshotBuilder<Types> for StateStore {
    type SnapshotData = Rows;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (meta, rows) = {
            let state = self.view();
            let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone() };
            (meta, state.group.rows())
        };
        self.write(&meta, &rows).await?;
        Ok(Snapshot { meta, snapshot: Arc::new(rows) })
    }
}
