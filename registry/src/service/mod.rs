//! A registry that runs: the log on disk, the state that follows from it, and the checkpoint over it.

mod admitting;
mod attesting;
mod commit;
mod error;
mod events;
mod host_presence;
mod hosts;
mod names;
mod organisation;
mod published;
mod purging;
mod quarantining;
mod releases;
mod replay;
mod rows;
mod search;
mod stage;
mod staging_room;
mod things;
mod witnessed;
mod write_batch;

use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use althing_log::{Log, Tile};
use althing_protocol::registry::{Entry, EntryKind, Logged, Submission, Version};
use althing_protocol::tlog::{Checkpoint, LogProof, NoteKey, NoteKeyKind};
use althing_protocol::{AgentId, Digest, KeyLog, PublisherId, SecretKey};
use althing_store::{Batch, Durability, Store};
use minicbor::bytes::ByteVec;
use tokio::sync::watch;

use admitting::admit_listed;
pub use admitting::{is_of_network, with_publishers};
pub use attesting::{AttestationQuery, Attesting};
pub use error::{OpenError, RequestError, StageError};
pub use events::{Event, EventKind};
pub use host_presence::HostPresence;
pub use hosts::{Host, HostQuery};
pub use names::{Names, ShownDomain};
pub use organisation::{SIGN_IN_MS, Visitor, Visits};
pub use published::Published;
pub use purging::Purging;
pub use releases::{BundleContent, Reader, Releases};
pub use rows::FAMILIES;
pub use search::{Found, SearchError, Turn, TurnError, Turns, check_query, keep_indexed, search, search_as};
pub use stage::{Stage, StageDraft, Staged, Staging, hex, unhex};
use things::DescriptionCache;
pub(crate) use things::Fault;
pub use things::{Directory, DirectoryConfig, Order, Page, Paged, Put, Shown, ThingDraft, ThingError};
pub use witnessed::Witnessing;
pub use write_batch::Random;

use crate::machine::{Admission, Opened, RegistryState, Released, Statement};
use crate::publishers::Publishers;
use commit::Waiting;
use hosts::Hosts;
use organisation::SignInTokens;
use published::PublishedThings;
use rows::{CHECKPOINT, LOG, META, STATEMENTS};
use search::Searching;
use stage::Shelf;
use witnessed::Cosigned;
use write_batch::{Accepted, Added, PendingWrite};

/// Bytes of a bundle that a registry keeps: one write to the store holds it.
pub const KEPT_BUNDLE_BYTES_MAX: usize = 3 << 20;

/// The time of day, Unix milliseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a registry is opened with.
pub struct RegistryConfig {
    /// The name of its log, such as `registry.example.org/log`: a checkpoint's origin.
    pub origin: String,
    /// The network whose statements it takes; empty for the open one.
    pub network: String,
    /// Who may publish.
    pub admission: Admission,
    /// Whether the log begins here, so that its store may be empty.
    pub is_first: bool,
}

/// A version of an agent, as it is listed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// What is said of it.
    pub released: Released,
}

/// A registry.
pub struct Registry {
    store: Arc<dyn Store>,
    log: Log,
    key: SecretKey,
    note_key: NoteKey,
    config: RegistryConfig,
    clock: Clock,
    state: RwLock<Seen>,
    hosts: Mutex<Hosts>,
    sign_ins: Mutex<SignInTokens>,
    published: Mutex<PublishedThings>,
    staging: Shelf,
    waiting: Waiting,
    /// Entries of the log, for those who wait for more.
    grown: watch::Sender<u64>,
    cosigned: watch::Sender<Cosigned>,
    directory: Option<DirectoryConfig>,
    listed: Option<Publishers>,
    searching: Searching,
    descriptions: DescriptionCache,
}

/// What follows from the entries that were read, and the checkpoint over them.
struct Seen {
    machine: RegistryState,
    /// The next entry to apply: none is applied twice, also where reading stopped half-way.
    next: u64,
    checkpoint: Checkpoint,
}

/// Verifies a submission of a publisher that may publish here: much work, for which nothing has to wait.
///
/// # Errors
/// See [`RequestError`].
pub fn verified(registry: &Registry, submission: &Submission) -> Result<Box<Opened>, RequestError> {
    registry.check(submission)?;
    let known = registry.seen().machine.key_log(Opened::claimed(submission)?).cloned();
    let log = Opened::keys(submission, known.as_ref())?;
    let context = (registry.config.network.as_str(), (registry.clock)());
    Ok(Box::new(Opened::of(log, known.as_ref(), submission, context)))
}

impl Registry {
    /// Opens the registry that is in the store. An empty one begins only where the caller says that it is the first start:
    /// the same key over an empty store would be a second history.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(
        store: Arc<dyn Store>,
        key: SecretKey,
        config: RegistryConfig,
        clock: Clock,
    ) -> Result<Registry, OpenError> {
        let note_key = NoteKey::new(&config.origin, NoteKeyKind::Note, key.public())?;
        let log = Log::open(store.clone(), LOG)?;
        let head = log.head();
        let checkpoint = Checkpoint::sign(&config.origin, head, &key)?;
        match store.read(META, CHECKPOINT)? {
            Some(note) => continued(&log, &note_key, &note)?,
            None if config.is_first && head.size == 0 => {
                store.write(kept_row(&checkpoint), Durability::Synced).await?;
            }
            None => return Err(OpenError::NoCheckpoint { size: head.size }),
        }
        let machine = RegistryState::new(&config.network, config.admission.clone());
        let state = RwLock::new(Seen { machine, next: 0, checkpoint });
        let (hosts, sign_ins) = (Mutex::default(), Mutex::default());
        let staging = Shelf::of(store.clone())?;
        let (waiting, grown) = (Waiting::default(), watch::Sender::new(head.size));
        let registry = Registry {
            store,
            log,
            key,
            note_key,
            config,
            clock,
            state,
            hosts,
            sign_ins,
            published: Mutex::default(),
            staging,
            waiting,
            grown,
            cosigned: watch::Sender::default(),
            directory: None,
            listed: None,
            searching: Searching::default(),
            descriptions: DescriptionCache::default(),
        };
        {
            let mut seen = registry.state.write().expect("no holder panics");
            replay::replay(&registry, &mut seen, head.size)?;
            if let Some(index) = seen.machine.unexplained() {
                return Err(OpenError::Statement(index));
            }
        }
        registry.purging().scrub().await.map_err(|error| OpenError::Scrub(Box::new(error)))?;
        registry.staging().sweep().await;
        Ok(registry)
    }

    /// The key that its checkpoints are verified with.
    #[must_use]
    pub fn note_key(&self) -> &NoteKey {
        &self.note_key
    }

    /// The network whose statements it takes.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.config.network
    }

    /// The newest checkpoint, as a signed note.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.state.read().expect("no holder panics").checkpoint.clone()
    }

    /// The releases, as a reader sees them.
    #[must_use]
    pub fn releases(&self) -> Releases<'_> {
        Releases(self)
    }

    /// What was found of releases and models.
    #[must_use]
    pub fn attesting(&self) -> Attesting<'_> {
        Attesting(self)
    }

    /// The nodes that told of themselves.
    #[must_use]
    pub fn host_presence(&self) -> HostPresence<'_> {
        HostPresence(self)
    }

    /// The Things that were released and are no agents.
    #[must_use]
    pub fn published(&self) -> Published<'_> {
        Published(self)
    }

    /// What build machines staged.
    #[must_use]
    pub fn staging(&self) -> Staging<'_> {
        Staging(self)
    }

    /// Who asks.
    #[must_use]
    pub fn visits(&self) -> Visits<'_> {
        Visits(self)
    }

    /// What witnesses cosigned.
    #[must_use]
    pub fn witnessing(&self) -> Witnessing<'_> {
        Witnessing(self)
    }

    /// Taking releases away that are not for everybody.
    #[must_use]
    pub fn purging(&self) -> Purging<'_> {
        Purging(self)
    }

    /// Domains and names.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        Names(self)
    }

    /// Accepts statements of a publisher, all of them or none. When it completes they are on disk, and the checkpoint of the
    /// proofs covers them. Statements that were accepted before are no error.
    ///
    /// # Errors
    /// See [`RequestError`]. After [`RequestError::Append`] they may still be accepted; sending them again is harmless.
    pub async fn submit(&self, submission: &Submission) -> Result<Vec<Logged>, RequestError> {
        let opened = verified(self, submission)?;
        self.accept(opened).await
    }

    /// Refuses a submission whose publisher may not publish here, if it is its own. Nothing is verified for that.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn check(&self, submission: &Submission) -> Result<(), RequestError> {
        admit_listed(self);
        Ok(self.seen().machine.admits(Opened::claimed(submission)?, (self.clock)())?)
    }

    /// Accepts what was verified (see [`Registry::submit`]).
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn accept(&self, opened: Box<Opened>) -> Result<Vec<Logged>, RequestError> {
        let accepted = self.commit(|answer| PendingWrite::Submission(opened, answer)).await?;
        let newest = accepted.iter().map(|one| one.index).max().unwrap_or_default();
        let checkpoint = self.witnessing().soon_over(newest).await;
        accepted
            .into_iter()
            .map(|Accepted { index, new }| match new {
                Some(added) => self.proven(index, added, &checkpoint),
                None => self.logged_at(index, &checkpoint),
            })
            .collect()
    }

    /// Applies what the log has and the state has not, and signs the head: of a write that whoever began it did not end.
    fn catch_up(&self, size: u64) -> Result<(), RequestError> {
        let mut seen = self.state.write().expect("no holder panics");
        if seen.checkpoint.head.size == size {
            return Ok(());
        }
        if let Err(error) = replay::replay(self, &mut seen, size) {
            return Err(match error {
                OpenError::Log(error) => RequestError::Log(error),
                OpenError::Store(error) => RequestError::Read(error),
                OpenError::Statement(index) => RequestError::Damaged(index),
                _ => RequestError::Damaged(seen.next),
            });
        }
        let head = self.log.head_at(size)?;
        seen.checkpoint = self.sign(head);
        self.grown.send_replace(size);
        Ok(())
    }

    /// The key log of a publisher; empty if it is not known.
    fn key_log(&self, publisher: PublisherId) -> Vec<ByteVec> {
        let bytes = self.seen().machine.key_log(publisher).map(KeyLog::to_bytes);
        bytes.unwrap_or_default().into_iter().map(Into::into).collect()
    }

    /// A statement with its proof.
    fn logged_at(&self, index: u64, checkpoint: &Checkpoint) -> Result<Logged, RequestError> {
        let (entry, statement) = self.statement(index)?;
        self.logged(index, &entry, &statement, checkpoint)
    }

    fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        self.state.read().expect("no holder panics")
    }

    fn statement(&self, index: u64) -> Result<(Entry, Statement), RequestError> {
        let bytes = self.log.entry(index)?;
        let row = self.store.read(STATEMENTS, &index.to_be_bytes())?;
        let statement = row.and_then(|row| rows::read(&bytes, &row, &self.config.network).ok());
        let (entry, statement) = (Entry::decode(&bytes), statement);
        entry.zip(statement).ok_or(RequestError::Damaged(index))
    }

    /// A statement, and the proof under that checkpoint: all proofs of one answer are under the same.
    fn logged(
        &self,
        index: u64,
        entry: &Entry,
        statement: &Statement,
        checkpoint: &Checkpoint,
    ) -> Result<Logged, RequestError> {
        let salt = match entry.kind {
            EntryKind::Salted(_) => self.store.read(STATEMENTS, &index.to_be_bytes())?.as_deref().and_then(rows::salt),
            _ => None,
        };
        self.proven(index, Added { bytes: statement.bytes(), at_ms: entry.at_ms, salt }, checkpoint)
    }

    fn proven(&self, index: u64, added: Added, checkpoint: &Checkpoint) -> Result<Logged, RequestError> {
        let Added { bytes, at_ms, salt } = added;
        let hashes = self.log.inclusion(index, checkpoint.head.size)?;
        let proof = LogProof { index, hashes, checkpoint: checkpoint.note().to_owned() };
        Ok(Logged { statement: bytes.into(), at_ms, proof: proof.to_string(), salt: salt.map(Into::into) })
    }

    /// The hashes of a tile; none if the log has no such tile.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn tile(&self, tile: Tile) -> Result<Option<Vec<u8>>, RequestError> {
        Ok(self.log.tile(tile)?)
    }

    /// The entries of a tile of level 0; none if the log has no such tile.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn entries(&self, tile: Tile) -> Result<Option<Vec<u8>>, RequestError> {
        Ok(self.log.bundle(tile)?)
    }

    /// The hashes that show that the log of `new` entries goes on from that of `old`.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn growth(&self, old: u64, new: u64) -> Result<Vec<Digest>, RequestError> {
        Ok(self.log.consistency(old, new)?)
    }
}

/// The row of the newest checkpoint. It is written with what it covers, so that a log that lost entries is noticed when it is
/// opened.
fn kept_row(checkpoint: &Checkpoint) -> Batch {
    let mut batch = Batch::new();
    batch.put(META, CHECKPOINT, checkpoint.note().as_bytes());
    batch
}

/// Checks that the log goes on from a checkpoint that was kept.
fn continued(log: &Log, note_key: &NoteKey, note: &[u8]) -> Result<(), OpenError> {
    let forked = |signed| OpenError::Forked { size: log.head().size, signed };
    let signed = Checkpoint::open(&String::from_utf8_lossy(note), note_key).map_err(|_| forked(0))?.head;
    if log.head_at(signed.size).map_err(|_| forked(signed.size))? != signed {
        return Err(forked(signed.size));
    }
    Ok(())
}
