//! The log as others hold it: what it takes, and what it refuses.

use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use althing_protocol::audit::AuditLeaf;
use althing_protocol::tlog::NoteKey;
use althing_store::{Batch, Durability};
use tokio::sync::Notify;

use super::bodies::{commit, seal};
use super::draft::LeafDraft;
use super::drafts::Drafts;
use super::error::{AuditFault, AuditUnavailable};
use super::families::{BODIES, QUEUE, STATE};
use super::keys::{SubjectKeys, subject_digest};
use super::ledger::Ledger;
use super::ledgers::Ledgers;
use super::ports::AuditPorts;
use super::rows::{LeafId, QueueRow, bodies_of, written};
use super::share::{AuditUsage, BodyShare};
use crate::machine::successions::Successions;

/// The key in [`STATE`] of the row that is written to see whether rows can be.
const PROBE: &[u8] = b"probe";
/// A batch with more bytes of bodies counts as large.
const LARGE_BYTES: usize = 256 << 10;

/// How much it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditConfig {
    /// Bytes that the bodies may have in the store, sealed.
    pub share_bytes: u64,
    /// How long bodies are kept, milliseconds.
    pub retention_ms: u64,
}

impl Default for AuditConfig {
    /// 4 GiB, and half a year.
    fn default() -> AuditConfig {
        AuditConfig { share_bytes: 4 << 30, retention_ms: 183 * 24 * 60 * 60 * 1_000 }
    }
}

/// An owner's audit log on this node. Clones are the same log.
#[derive(Clone)]
pub struct AuditLog(Arc<AuditCore>);

struct AuditCore {
    ports: AuditPorts,
    config: AuditConfig,
    keys: SubjectKeys,
    ledgers: Ledgers,
    share: BodyShare,
    /// Held by whoever changes the log or the bodies' bytes.
    books: tokio::sync::Mutex<()>,
    drafts: Mutex<Drafts>,
    drafted: Notify,
    /// On whose word it was followed by another one.
    successions: Mutex<Successions>,
    /// Why it takes nothing.
    stopped: RwLock<Option<String>>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("head", &self.ledger().newest().head).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens the log, or begins one, and takes in what a stop left in the queue.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub async fn open(ports: AuditPorts, config: AuditConfig) -> Result<AuditLog, AuditFault> {
        let ledgers = Ledgers::open(ports.clone()).await?;
        let share = BodyShare::open(ports.store.clone(), config.share_bytes)?;
        let log = AuditLog(Arc::new(AuditCore {
            keys: SubjectKeys::new(ports.store.clone(), ports.entropy.clone()),
            ports,
            config,
            ledgers,
            share,
            books: tokio::sync::Mutex::default(),
            drafts: Mutex::default(),
            drafted: Notify::new(),
            successions: Mutex::default(),
            stopped: RwLock::default(),
        }));
        log.drain().await?;
        Ok(log)
    }

    /// The rows by which a leaf is recorded: whoever writes them, with what the leaf is about, has recorded it. Written twice
    /// they record it once.
    ///
    /// # Errors
    /// [`AuditUnavailable`]: it could not be recorded, so that the thing itself must not be done.
    pub fn entry(&self, draft: LeafDraft) -> Result<Batch, AuditUnavailable> {
        self.named_entry(draft).map(|(_, rows)| rows)
    }

    /// The same, and the id under which [`AuditLog::record`] finds the leaf.
    ///
    /// # Errors
    /// As [`AuditLog::entry`].
    pub fn named_entry(&self, draft: LeafDraft) -> Result<(LeafId, Batch), AuditUnavailable> {
        let LeafDraft { mut leaf, subject, bodies } = draft;
        self.has_room_for(&leaf, !bodies.is_empty())?;
        let bytes: usize = bodies.iter().map(|body| body.bytes.len()).sum();
        let mut rows = if bytes > LARGE_BYTES { Batch::large() } else { Batch::new() };
        let (commitments, plains) = commit(bodies, || self.0.ports.entropy.bytes());
        leaf.bodies = commitments;
        let leaf_bytes = leaf.encode()?;
        let id = self.next_id();
        let (mut key, mut body_bytes) = (None, 0);
        if !plains.is_empty() {
            let body_key = self.0.keys.current(&subject_digest(subject.as_deref()), &mut rows)?;
            for (role, plain) in &plains {
                let at = [&bodies_of(leaf.at_ms, &id)[..], &[*role as u8]].concat();
                let row = seal(&body_key, self.0.ports.entropy.bytes(), &at, plain);
                body_bytes += (at.len() + row.len()) as u64;
                rows.put(BODIES, at, row);
            }
            key = Some(body_key.name);
        }
        rows.put(QUEUE, id, written(&QueueRow { leaf: leaf_bytes, body_bytes, key }));
        self.0.drafted.notify_one();
        Ok((id, rows))
    }

    /// Whether it takes leaves at all.
    ///
    /// # Errors
    /// [`AuditUnavailable::Stopped`].
    pub fn availability(&self) -> Result<(), AuditUnavailable> {
        match &*self.0.stopped.read().expect("no holder panics") {
            Some(reason) => Err(AuditUnavailable::Stopped(reason.clone())),
            None => Ok(()),
        }
    }

    /// Whether a leaf that is drafted now could be written.
    ///
    /// # Errors
    /// [`AuditUnavailable::Stopped`].
    pub async fn probe(&self) -> Result<(), AuditUnavailable> {
        self.availability()?;
        let mut row = Batch::new();
        row.put(STATE, PROBE, self.0.ports.clock.now_ms().to_be_bytes());
        let written = self.0.ports.store.write(row, Durability::Buffered).await;
        written.map_err(|error| AuditUnavailable::Stopped(error.to_string()))
    }

    /// The rows of a leaf about what is over, or is not done: where bodies have no room left it has none.
    ///
    /// # Errors
    /// As [`AuditLog::entry`], but for [`AuditUnavailable::Full`].
    pub fn entry_at_least(&self, draft: LeafDraft) -> Result<Batch, AuditUnavailable> {
        match self.has_room_for(&draft.leaf, !draft.bodies.is_empty()) {
            Err(AuditUnavailable::Full { .. }) => self.entry(LeafDraft { bodies: Vec::new(), ..draft }),
            Ok(()) | Err(_) => self.entry(draft),
        }
    }

    /// How much of their share the bodies use; what is in the queue is not counted yet.
    #[must_use]
    pub fn usage(&self) -> AuditUsage {
        self.0.share.usage()
    }

    /// The key of the log that goes on now, with which strangers verify it.
    #[must_use]
    pub fn log_key(&self) -> NoteKey {
        self.ledger().key().clone()
    }

    fn has_room_for(&self, leaf: &AuditLeaf, has_bodies: bool) -> Result<(), AuditUnavailable> {
        self.availability()?;
        if has_bodies { self.0.share.has_room_for(leaf.stage) } else { Ok(()) }
    }

    fn next_id(&self) -> LeafId {
        let ordinal = self.drafts().next(self.0.ports.clock.now_ms() << 12);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&ordinal.to_be_bytes());
        self.0.ports.entropy.fill(&mut id[8..]);
        id
    }

    pub(super) fn ports(&self) -> &AuditPorts {
        &self.0.ports
    }

    pub(super) fn config(&self) -> AuditConfig {
        self.0.config
    }

    pub(super) fn keys(&self) -> &SubjectKeys {
        &self.0.keys
    }

    /// The log that goes on.
    pub(super) fn ledger(&self) -> Arc<Ledger> {
        self.0.ledgers.now()
    }

    pub(super) fn ledgers(&self) -> &Ledgers {
        &self.0.ledgers
    }

    pub(super) fn share(&self) -> &BodyShare {
        &self.0.share
    }

    pub(super) async fn books(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.books.lock().await
    }

    pub(super) async fn drafted(&self) {
        self.0.drafted.notified().await;
    }

    pub(super) fn drafts(&self) -> MutexGuard<'_, Drafts> {
        self.0.drafts.lock().expect("no holder panics")
    }

    /// Changed by whoever holds the books.
    pub(super) fn successions(&self) -> MutexGuard<'_, Successions> {
        self.0.successions.lock().expect("no holder panics")
    }

    /// Says whether the log can be continued.
    pub(super) fn tell(&self, outcome: Result<(), &AuditFault>) {
        let reason = outcome.err().map(ToString::to_string);
        let mut stopped = self.0.stopped.write().expect("no holder panics");
        match (&*stopped, &reason) {
            (None, Some(reason)) => tracing::error!(%reason, "the audit log takes no leaves"),
            (Some(_), None) => tracing::info!("the audit log takes leaves again"),
            _ => {}
        }
        *stopped = reason;
    }
}
