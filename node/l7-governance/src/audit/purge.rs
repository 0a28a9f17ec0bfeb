//! What ends bodies: their subject's wish, their age. Leaves stay.

use althing_protocol::Digest;
use althing_protocol::audit::{AuditLeaf, AuditStage};
use althing_protocol::hex;
use althing_store::{Batch, Durability, Range};

use super::draft::LeafDraft;
use super::error::{AuditFault, AuditUnavailable};
use super::families::{BODIES, KEYS};
use super::keys::subject_digest;
use super::log::AuditLog;
use super::rows::{keys_of, time_of_body};
use super::share::BodyShare;

/// Bodies that are deleted with one write.
const BODIES_MAX: usize = 512;
/// Bytes of bodies that are read for it.
const BODIES_BYTES_MAX: usize = 8 << 20;

/// The bodies about somebody are to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EraseOrder {
    /// Who it is, as drafts name them.
    pub subject: String,
    /// Who erases.
    pub principals: Vec<String>,
}

/// Old bodies are to end before their time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneOrder {
    /// Those made earlier, Unix milliseconds.
    pub before_ms: u64,
    /// Who prunes, and then who else agreed.
    pub principals: Vec<String>,
    /// The digest of the text that these signed.
    pub consent: Option<Digest>,
}

impl AuditLog {
    /// Burns the keys of the bodies about somebody, and makes sure that no file of the store has them any more. That it was
    /// done is a leaf, which names the subject by a digest. Says whether there were any: a name that is misspelt has none.
    ///
    /// # Errors
    /// [`AuditFault`]: it may be done in part, and is harmless to do again.
    pub async fn erase(&self, order: EraseOrder) -> Result<bool, AuditFault> {
        self.drain().await?;
        let subject = subject_digest(Some(&order.subject));
        let action = format!("audit/erase/{}", hex(&subject));
        let rows = self.keys().burn(&subject).and_then(|mut rows| {
            let is_known = !rows.is_empty();
            rows.append(change(self, action, order.principals, None)?);
            Ok((rows, is_known))
        });
        let outcome = match rows {
            Ok((rows, is_known)) => {
                let written = self.ports().store.write(rows, Durability::Synced).await;
                written.map(|()| is_known).map_err(AuditFault::from)
            }
            Err(error) => Err(error),
        };
        self.keys().end_burning(&subject);
        let is_known = outcome?;
        // The row of a key that was on its way goes with the queue.
        self.drain().await?;
        self.ports().store.scrub(vec![(KEYS, keys_of(&subject))]).await?;
        Ok(is_known)
    }

    /// Deletes the bodies of leaves that were made earlier; gives how many bytes. That it was done is a leaf, which is on disk
    /// before the first is deleted.
    ///
    /// # Errors
    /// [`AuditFault`]: it may be done in part, and is harmless to do again.
    pub async fn prune(&self, order: PruneOrder) -> Result<u64, AuditFault> {
        let action = format!("audit/prune/{}", order.before_ms);
        let rows = change(self, action, order.principals, order.consent)?;
        self.ports().store.write(rows, Durability::Synced).await?;
        end_before(self, order.before_ms).await
    }

    /// Deletes the bodies that are older than they are kept; gives how many bytes.
    ///
    /// # Errors
    /// As [`AuditLog::prune`].
    pub async fn expire(&self) -> Result<u64, AuditFault> {
        let now_ms = self.ports().clock.now_ms();
        end_before(self, now_ms.saturating_sub(self.config().retention_ms)).await
    }
}

async fn end_before(log: &AuditLog, before_ms: u64) -> Result<u64, AuditFault> {
    // A body is counted when its leaf is moved, and only then can it be taken off.
    log.drain().await?;
    let store = &log.ports().store;
    let mut all = 0;
    loop {
        let _books = log.books().await;
        let used = log.share().follow()?;
        let found = store.scan(BODIES, Range::all(BODIES_MAX).within(BODIES_BYTES_MAX))?;
        let old = |row: &&(Vec<u8>, Vec<u8>)| time_of_body(&row.0).is_some_and(|at_ms| at_ms < before_ms);
        let (mut rows, mut bytes) = (Batch::new(), 0);
        for (key, value) in found.iter().take_while(old) {
            bytes += (key.len() + value.len()) as u64;
            rows.delete(BODIES, key.clone());
        }
        if bytes == 0 {
            return Ok(all);
        }
        rows.append(BodyShare::row(used.saturating_sub(bytes)));
        store.write(rows, Durability::Synced).await?;
        log.share().follow()?;
        all += bytes;
    }
}

/// The leaf of something that a person changes in the log itself: without bodies, so that a full one takes it too.
fn change(
    log: &AuditLog,
    action: String,
    principals: Vec<String>,
    consent: Option<Digest>,
) -> Result<Batch, AuditUnavailable> {
    let mut leaf = AuditLeaf::new(AuditStage::Changed, log.ports().clock.now_ms());
    (leaf.action, leaf.principals, leaf.consent) = (Some(action), principals, consent);
    log.entry(LeafDraft::new(leaf))
}
