//! One of the node's logs: its name, its entries, and who signs its head.

use std::sync::{Arc, RwLock};

use althing_log::{Log, Writer};
use althing_protocol::tlog::{
    Checkpoint, Head, LogProof, NoteError, NoteKey, NoteKeyError, NoteKeyKind, leaf_hash, node_hash,
};
use althing_protocol::{Digest, PublicKey};
use althing_store::{Batch, Store};

use super::checkpoints::Checkpoints;
use super::error::AuditFault;
use super::families::{LOG, STATE};

/// Signs the head of the log of that name, with the node's key.
pub type SignCheckpoint = Arc<dyn Fn(&str, Head) -> Result<Checkpoint, NoteKeyError> + Send + Sync>;

/// Entries that are read at once.
pub(super) const PAGE: u64 = 512;

/// A log of the node.
pub(super) struct Ledger {
    number: u32,
    key: NoteKey,
    log: Log,
    sign: SignCheckpoint,
    store: Arc<dyn Store>,
    checkpoints: RwLock<Checkpoints>,
}

/// The key of the row of what there is once for each log: its `name`, `newest` and `cosigned` checkpoint.
pub(super) fn of_log(what: &str, number: u32) -> Vec<u8> {
    [what.as_bytes(), b"/", &number.to_be_bytes()].concat()
}

impl Ledger {
    /// Opens the log with that number and name.
    ///
    /// # Errors
    /// [`AuditFault`]: it is not whole, or its head is not the one that was signed last.
    pub(super) fn open(
        store: Arc<dyn Store>,
        sign: SignCheckpoint,
        node: PublicKey,
        number: u32,
        name: &str,
    ) -> Result<Ledger, AuditFault> {
        let key = NoteKey::new(name, NoteKeyKind::Note, node)?;
        let log = Log::open_below(store.clone(), LOG, number.to_be_bytes().to_vec())?;
        let newest = match row(store.as_ref(), "newest", number, &key)? {
            Some(newest) => newest,
            None => sign(name, Head::default())?,
        };
        if newest.head != log.head() {
            return Err(AuditFault::Damaged("its end, which is not what was signed last".to_owned()));
        }
        let cosigned = row(store.as_ref(), "cosigned", number, &key)?;
        let checkpoints = RwLock::new(Checkpoints::new(newest, cosigned));
        Ok(Ledger { number, key, log, sign, store, checkpoints })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn key(&self) -> &NoteKey {
        &self.key
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) async fn writer(&self) -> Writer<'_> {
        self.log.writer().await
    }

    /// The row of the checkpoint over a head, to be written with its entries.
    pub(super) fn sign(&self, head: Head) -> Batch {
        let checkpoint = (self.sign)(self.key.name(), head).expect("the name was checked when the log was opened");
        let mut batch = Batch::new();
        batch.put(STATE, of_log("newest", self.number), checkpoint.note().as_bytes());
        batch
    }

    /// Shows the checkpoint that is on disk, after something was written.
    pub(super) fn follow(&self) -> Result<(), AuditFault> {
        if self.newest().head == self.log.head() {
            return Ok(());
        }
        let newest = row(self.store.as_ref(), "newest", self.number, &self.key)?;
        let newest = newest.filter(|newest| newest.head == self.log.head());
        let newest = newest.ok_or_else(|| AuditFault::Damaged("its newest checkpoint".to_owned()))?;
        self.checkpoints.write().expect("no holder panics").grow(newest);
        Ok(())
    }

    pub(super) fn newest(&self) -> Checkpoint {
        self.checkpoints.read().expect("no holder panics").newest().clone()
    }

    /// What shows that the log has the entry.
    pub(super) fn prove(&self, index: u64) -> Result<LogProof, AuditFault> {
        let over = self.checkpoints.read().expect("no holder panics").over(index).clone();
        let hashes = self.log.inclusion(index, over.head.size)?;
        Ok(LogProof { index, hashes, checkpoint: over.note().to_owned() })
    }

    /// Entries that a witness signed last, as far as it is known.
    pub(super) fn cosigned_size(&self, witness: &NoteKey) -> u64 {
        self.checkpoints.read().expect("no holder panics").size_of(witness)
    }

    /// Adds what a witness answered; gives the row.
    pub(super) fn add(&self, checkpoint: &Checkpoint, lines: &str, witness: &NoteKey) -> Result<Batch, NoteError> {
        let mut checkpoints = self.checkpoints.write().expect("no holder panics");
        let mut batch = Batch::new();
        if let Some(cosigned) = checkpoints.add(checkpoint, lines, witness)? {
            batch.put(STATE, of_log("cosigned", self.number), cosigned.note().as_bytes());
        }
        Ok(batch)
    }

    /// Reads the whole log anew, and compares the tree over its entries with what was signed.
    ///
    /// # Errors
    /// [`AuditFault`]: something was changed, with the place.
    pub(super) fn check(&self) -> Result<Checkpoint, AuditFault> {
        let signed = row(self.store.as_ref(), "newest", self.number, &self.key)?.unwrap_or_else(|| self.newest());
        let (mut spine, mut index) = (Vec::new(), 0);
        while index < signed.head.size {
            let entries = self.log.entries(index, PAGE.min(signed.head.size - index))?;
            index += entries.len() as u64;
            entries.iter().for_each(|entry| push(&mut spine, leaf_hash(entry)));
        }
        let root = spine.into_iter().rev().map(|(_, hash)| hash).reduce(|right, left| node_hash(&left, &right));
        let head = root.map_or_else(Head::default, |root| Head { size: index, root });
        if head != signed.head {
            return Err(AuditFault::Damaged("some entry: together they are not what was signed".to_owned()));
        }
        Ok(signed)
    }
}

/// Adds a leaf to the full trees from the left, each with its height.
fn push(spine: &mut Vec<(u32, Digest)>, leaf: Digest) {
    let (mut height, mut hash) = (0, leaf);
    while let Some((_, left)) = spine.pop_if(|(of, _)| *of == height) {
        hash = node_hash(&left, &hash);
        height += 1;
    }
    spine.push((height, hash));
}

/// A checkpoint on disk, if its signature is the log's.
fn row(store: &dyn Store, what: &str, number: u32, key: &NoteKey) -> Result<Option<Checkpoint>, AuditFault> {
    let Some(row) = store.read(STATE, &of_log(what, number))? else { return Ok(None) };
    let note = std::str::from_utf8(&row).ok().and_then(|note| Checkpoint::open(note, key).ok());
    note.map(Some).ok_or_else(|| AuditFault::Damaged(format!("its {what} checkpoint")))
}
