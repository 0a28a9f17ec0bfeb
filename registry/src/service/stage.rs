//! Releases that were staged: a build machine hands in what its publisher may sign. Nothing of it is in the log, and nobody
//! sees it but those who may approve it.

use std::sync::Arc;

use althing_protocol::limits::AGENT_NAME_MAX;
use althing_protocol::registry::{Role, Version};
use althing_protocol::{AgentId, Digest, PublisherId, digest};
use althing_store::{Batch, Durability, Range, ReadError, Store};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tokio::sync::Mutex;

use super::admitting::admit_listed;
use super::error::StageError;
use super::rows::{STAGED, STAGED_BUNDLES};
use super::staging_room::{STAGED_MAX, StagedEntry, StagingRoom, is_over};
use super::{KEPT_BUNDLE_BYTES_MAX, Registry, RequestError, Visitor};

const ID_BYTES: usize = 16;

/// What a build machine hands in.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The agent.
    pub agent: AgentId,
    /// Its version.
    pub version: Version,
    /// Its description, which nobody signed.
    pub description: Vec<u8>,
    /// What it runs from.
    pub bundle: Vec<u8>,
    /// The digest of that, as the build machine knows it.
    pub digest: Digest,
}

/// A release that was staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Its id, hex.
    pub id: String,
    /// The agent.
    pub agent: AgentId,
    /// Its version.
    pub version: Version,
    /// Its description.
    pub description: Vec<u8>,
    /// The digest of its bundle.
    pub digest: Digest,
    /// How many bytes that has.
    pub bytes: u64,
    /// When it was staged, Unix milliseconds.
    pub at_ms: u64,
}

/// A release that is to be kept, which was read and may be staged.
pub struct StageDraft {
    row: Row,
    id: Vec<u8>,
    bundle: Vec<u8>,
}

/// A staged release on disk.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Row {
    #[n(0)]
    agent: AgentId,
    #[n(1)]
    version: Version,
    #[n(2)]
    description: ByteVec,
    #[cbor(n(3), with = "minicbor::bytes")]
    digest: Digest,
    #[n(4)]
    bytes: u64,
    #[n(5)]
    at_ms: u64,
    /// The net from which it came.
    #[n(6)]
    origin: Option<String>,
    #[n(7)]
    is_named: Option<bool>,
}

/// The releases that wait, on disk, and the room that they take.
#[derive(Clone)]
pub(super) struct Shelf {
    store: Arc<dyn Store>,
    /// Held while a release is added or taken away.
    room: Arc<Mutex<StagingRoom>>,
}

impl Shelf {
    /// What waits in a store.
    pub fn of(store: Arc<dyn Store>) -> Result<Shelf, ReadError> {
        let mut room = StagingRoom::default();
        let mut range = Range::all(STAGED_MAX);
        loop {
            let rows = store.scan(STAGED, range)?;
            let Some((last, _)) = rows.last() else { break };
            range = Range::all(STAGED_MAX).after(last.clone());
            for (key, row) in rows {
                if let Ok(row) = minicbor::decode::<Row>(&row) {
                    room.add(key, row.of_room());
                }
            }
        }
        Ok(Shelf { store, room: Arc::new(Mutex::new(room)) })
    }

    /// Writes a release that waits, if there is room, and takes those away that waited too long.
    async fn keep(self, key: Vec<u8>, row: Row, bundle: Vec<u8>) -> Result<(), RequestError> {
        let mut room = self.room.lock().await;
        if self.store.read(STAGED, &key)?.is_some() {
            return Ok(());
        }
        self.take_away_old(&mut room, row.at_ms).await?;
        let one = row.of_room();
        room.judge(&one).map_err(StageError::from)?;
        let mut batch = Batch::new();
        batch.put(STAGED, key.clone(), minicbor::to_vec(row).expect("writing to a vector cannot fail"));
        batch.put(STAGED_BUNDLES, key.clone(), bundle);
        self.store.write(batch, Durability::Synced).await?;
        room.add(key, one);
        Ok(())
    }

    /// Takes a release away.
    async fn remove(self, key: Vec<u8>) -> Result<(), RequestError> {
        let mut room = self.room.lock().await;
        self.store.write(removal(std::slice::from_ref(&key)), Durability::Synced).await?;
        room.remove(&key);
        Ok(())
    }

    /// Takes those away that waited too long.
    pub async fn sweep(self, now_ms: u64) -> Result<(), RequestError> {
        let mut room = self.room.lock().await;
        self.take_away_old(&mut room, now_ms).await
    }

    async fn take_away_old(&self, room: &mut StagingRoom, now_ms: u64) -> Result<(), RequestError> {
        loop {
            let expired = room.expired(now_ms);
            if expired.is_empty() {
                return Ok(());
            }
            self.store.write(removal(&expired), Durability::Synced).await?;
            expired.iter().for_each(|key| room.remove(key));
        }
    }
}

/// Does something to its end, even if whoever asked for it hangs up: else rows would lie on disk that nobody counts.
async fn whole(work: impl Future<Output = Result<(), RequestError>> + Send + 'static) -> Result<(), RequestError> {
    tokio::spawn(work).await.map_err(|_| RequestError::Unfinished)?
}

impl Row {
    fn of_room(&self) -> StagedEntry {
        StagedEntry {
            publisher: self.agent.publisher(),
            bytes: self.bytes.saturating_add(self.description.len() as u64),
            at_ms: self.at_ms,
            is_named: self.is_named.unwrap_or_default(),
            origin: self.origin.clone(),
        }
    }
}

/// What build machines staged in a registry.
pub struct Staging<'a>(pub(super) &'a Registry);

impl Staging<'_> {
    /// Whether whoever asks may stage anything here: before the megabytes of a bundle are read.
    ///
    /// # Errors
    /// [`RequestError::StageFirst`], and [`RequestError::Refused`] where the registry takes nothing of that publisher.
    pub fn check(&self, visitor: Visitor) -> Result<(), RequestError> {
        let publisher = match visitor {
            Visitor::Anybody | Visitor::Reads(_) => return Err(RequestError::StageFirst),
            Visitor::Publisher(publisher) | Visitor::Stages(publisher) => publisher,
        };
        admit_listed(self.0);
        Ok(self.0.seen().machine.admits(publisher, (self.0.clock)())?)
    }

    /// Keeps a release for approval, for somebody from that origin (see [`Staging::keep`]).
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn stage(
        &self,
        visitor: Visitor,
        origin: Option<String>,
        stage: Stage,
        held: impl Send + 'static,
    ) -> Result<String, RequestError> {
        self.keep(self.draft(visitor, origin, stage)?, held).await
    }

    /// Keeps a release that was read; gives its id. It is on disk when this completes, and it is completed even if this is
    /// dropped. The same again is no error. `held` is kept until then: the request that it came in.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn keep(&self, draft: StageDraft, held: impl Send + 'static) -> Result<String, RequestError> {
        let StageDraft { row, id, bundle } = draft;
        let (shelf, key) = (self.0.staging.clone(), key(row.agent.publisher(), &id));
        let keeping = async move {
            let kept = shelf.keep(key, row, bundle).await;
            drop(held);
            kept
        };
        whole(keeping).await?;
        Ok(hex(&id))
    }

    /// Reads what somebody from that origin stages, if it may: work for which nothing has to wait.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn draft(&self, visitor: Visitor, origin: Option<String>, stage: Stage) -> Result<StageDraft, RequestError> {
        let Stage { agent, version, description, bundle, digest: said } = stage;
        let publisher = agent.publisher();
        self.check(visitor)?;
        let may = match visitor {
            Visitor::Stages(of) => of == publisher,
            Visitor::Publisher(who) => who == publisher || self.stages(who, &agent),
            Visitor::Anybody | Visitor::Reads(_) => false,
        };
        if !may {
            return Err(StageError::NotYours(agent).into());
        }
        if bundle.is_empty() || bundle.len() > KEPT_BUNDLE_BYTES_MAX {
            return Err(StageError::Bytes(bundle.len()).into());
        }
        if digest(&bundle) != said {
            return Err(StageError::Digest.into());
        }
        check_description(&agent, &version, &description)?;
        let (now_ms, is_named) = {
            let (now_ms, seen) = ((self.0.clock)(), self.0.seen());
            if seen.machine.agent(&agent).is_some_and(|versions| versions.get(&version).is_some()) {
                return Err(StageError::Released(agent, version).into());
            }
            (now_ms, seen.machine.names(publisher, now_ms))
        };
        let (bytes, description) = (bundle.len() as u64, description.into());
        let row =
            Row { agent, version, description, digest: said, bytes, at_ms: now_ms, origin, is_named: Some(is_named) };
        let id = id_of(&row);
        Ok(StageDraft { row, id, bundle })
    }

    /// Staged releases of a publisher's agents, without those that waited too long: those are taken away.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn staged(&self, who: PublisherId) -> Result<Vec<Staged>, RequestError> {
        self.sweep().await;
        self.list(who)
    }

    /// The same, though some that waited too long may still be on disk: a read for which nothing has to wait.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn list(&self, who: PublisherId) -> Result<Vec<Staged>, RequestError> {
        let now_ms = (self.0.clock)();
        let rows = self.0.store.scan(STAGED, Range::prefix(who.as_bytes().to_vec(), STAGED_MAX))?;
        let staged = rows.iter().filter_map(|(key, row)| read(key, row));
        Ok(staged.filter(|one| !is_over(one.at_ms, now_ms)).collect())
    }

    /// Takes those away that waited too long. A disk that takes no writes keeps nobody from what is there; what is not counted out
    /// is taken away again the next time.
    pub async fn sweep(&self) {
        if let Err(error) = self.0.staging.clone().sweep((self.0.clock)()).await {
            tracing::warn!(%error, "staged releases that waited too long are not taken away");
        }
    }

    /// A staged release of a publisher's agents, with its bundle.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn staged_one(&self, who: PublisherId, id: &str) -> Result<(Staged, Vec<u8>), RequestError> {
        let none = || StageError::None(id.chars().take(2 * ID_BYTES).collect());
        let key = key(who, &unhex(id).ok_or_else(none)?);
        let row = self.0.store.read(STAGED, &key)?.ok_or_else(none)?;
        let bundle = self.0.store.read(STAGED_BUNDLES, &key)?.ok_or_else(none)?;
        Ok((read(&key, &row).ok_or_else(none)?, bundle))
    }

    /// Takes a staged release away: it was approved, or is not wanted. It is completed even if this is dropped.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn unstage(&self, who: PublisherId, id: &str) -> Result<(), RequestError> {
        self.staged_one(who, id)?;
        let none = || StageError::None(id.chars().take(2 * ID_BYTES).collect());
        let key = key(who, &unhex(id).ok_or_else(none)?);
        whole(self.0.staging.clone().remove(key)).await
    }

    /// Whether the organisation's roster lets somebody stage its agent.
    fn stages(&self, who: PublisherId, agent: &AgentId) -> bool {
        let now_ms = (self.0.clock)();
        let seen = self.0.seen();
        let held = seen.machine.organisations().roster(agent.publisher());
        let of = |role| {
            held.is_some_and(|held| held.roster.in_force(now_ms).is_ok() && held.roster.allows(who, role, agent))
        };
        of(Role::Stage) || of(Role::Approve)
    }
}

fn removal(keys: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    for key in keys {
        batch.delete(STAGED, key.clone());
        batch.delete(STAGED_BUNDLES, key.clone());
    }
    batch
}

fn check_description(agent: &AgentId, version: &Version, description: &[u8]) -> Result<(), StageError> {
    let wrong = |reason: String| StageError::Description(reason);
    let td = althing_td::Description::parse(description).map_err(|error| wrong(error.to_string()))?;
    let (id, said) = (td.id().unwrap_or_default(), td.version().unwrap_or_default());
    if id != agent.to_string() || said != version.to_string() {
        let (id, said) = (short(id), short(said));
        return Err(wrong(format!("it is of {id} {said}, and {agent} {version} was to be staged")));
    }
    Ok(())
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(2 * AGENT_NAME_MAX).collect()
}

/// The same content has the same id, whenever it is staged.
fn id_of(row: &Row) -> Vec<u8> {
    let whole = minicbor::to_vec((&row.agent, &row.version, &row.description, ByteVec::from(row.digest.to_vec())));
    digest(&whole.expect("writing to a vector cannot fail"))[..ID_BYTES].to_vec()
}

fn key(publisher: PublisherId, id: &[u8]) -> Vec<u8> {
    [publisher.as_bytes().as_slice(), id].concat()
}

fn read(key: &[u8], row: &[u8]) -> Option<Staged> {
    let Row { agent, version, description, digest, bytes, at_ms, .. } = minicbor::decode(row).ok()?;
    let id = hex(key.get(32..)?);
    Some(Staged { id, agent, version, description: description.to_vec(), digest, bytes, at_ms })
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.len().is_multiple_of(2) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    if digits { (0..text.len()).step_by(2).map(byte).collect() } else { None }
}
