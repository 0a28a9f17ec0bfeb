//! Which set of policies was put in force last, on disk beside its file: what became of the file meanwhile is known at a start, and
//! since when the set is in force.

use althing_protocol::Digest;
use althing_store::{Batch, Durability, Store};

use crate::audit::AuditLog;
use crate::config::{Ports, SETTINGS};
use crate::consents::bad_row;
use crate::error::OpenError;
use crate::leaves;
use crate::policies::Policies;

const KEY: &[u8] = b"policy set in force";

/// The set that was put in force last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyRow {
    /// The set's own digest.
    pub(crate) digest: Digest,
    /// Since when, Unix milliseconds.
    pub(crate) since_ms: u64,
    /// Whether a start found no file of it, and recorded that.
    pub(crate) is_gone: bool,
}

impl PolicyRow {
    /// The one that the store has.
    ///
    /// # Errors
    /// [`OpenError`]: the store fails, or the row is damaged.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<PolicyRow>, OpenError> {
        let Some(row) = store.read(SETTINGS, KEY)? else { return Ok(None) };
        decode(&row).map(Some).ok_or_else(|| bad_row(SETTINGS, KEY))
    }

    /// The row alone; nothing of a node without a disk, whose sets end with it.
    pub(crate) fn batch(&self, ports: &Ports) -> Batch {
        let mut batch = Batch::new();
        if ports.folder.is_some() {
            self.put(&mut batch);
        }
        batch
    }

    fn put(&self, batch: &mut Batch) {
        let row = [self.digest.as_slice(), &self.since_ms.to_be_bytes(), &[u8::from(self.is_gone)]].concat();
        batch.put(SETTINGS, KEY, row);
    }

    /// No set is in force, and none is missing.
    pub(crate) fn forget(batch: &mut Batch) {
        batch.delete(SETTINGS, KEY);
    }
}

fn decode(row: &[u8]) -> Option<PolicyRow> {
    let (digest, rest) = row.split_first_chunk::<32>()?;
    let (since, rest) = rest.split_first_chunk::<8>()?;
    let is_gone = match rest {
        [0] => false,
        [1] => true,
        _ => return None,
    };
    Some(PolicyRow { digest: *digest, since_ms: u64::from_be_bytes(*since), is_gone })
}

/// Puts on record at a start that the file of policies is not the one which was put in force last, or is gone: no command did that. It
/// is the owner who answers for it.
///
/// # Errors
/// [`OpenError`].
pub(crate) async fn settle(ports: &Ports, policies: &Policies, audit: &AuditLog, owner: &str) -> Result<(), OpenError> {
    if ports.folder.is_none() {
        return Ok(());
    }
    let row = PolicyRow::read(ports.store.as_ref())?;
    let next = match (policies.digest(), row) {
        (Some(digest), Some(row)) if digest == row.digest && !row.is_gone => return Ok(()),
        (Some(digest), _) => PolicyRow { digest, since_ms: policies.since_ms(), is_gone: false },
        // A file that cannot be read is there, and denies.
        (None, Some(row)) if !policies.is_loaded() => {
            policies.misses(&row.digest);
            tracing::error!("a set of policies was in force, and its file is gone: no policies are in force");
            if row.is_gone {
                return Ok(());
            }
            PolicyRow { is_gone: true, ..row }
        }
        (None, _) => return Ok(()),
    };
    let mut batch = Batch::new();
    next.put(&mut batch);
    if row.is_some() {
        let text = policies.text().unwrap_or_default();
        let leaf = leaves::changed("policies", owner, ports.clock.now_ms(), ("", text.as_str()));
        match audit.entry_at_least(leaf) {
            Ok(leaf) => {
                batch.append(leaf);
            }
            Err(error) => tracing::error!(%error, "that the file of policies changed has no entry in the audit log"),
        }
    }
    Ok(ports.store.write(batch, Durability::Synced).await?)
}
