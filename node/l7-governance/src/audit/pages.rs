//! What is read of the log: records, lists, proofs, exported leaves.

use althing_protocol::audit::{AuditExport, AuditLeaf, BodyCommitment, OpenBody};
use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKey};

use super::bodies::open;
use super::error::AuditFault;
use super::families::{BODIES, INDEX};
use super::ledger::{Ledger, PAGE};
use super::log::AuditLog;
use super::record::{AuditFilter, AuditPage, AuditRecord, RecordBody};
use super::rows::{BodyRow, LeafId, Place, bodies_of, damaged, id_at, place_of, read};

/// Records of a page.
const RECORDS_MAX: usize = 1_000;
/// Leaves that are read for a page.
const LEAVES_MAX: u64 = 100_000;

impl AuditLog {
    /// The leaf with that id, as soon as it is in the log.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub async fn record(&self, id: &LeafId) -> Result<Option<AuditRecord>, AuditFault> {
        self.drain().await?;
        let key = place_of(id);
        let Some(row) = self.ports().store.read(INDEX, &key)? else { return Ok(None) };
        let place = Place::read(&row).ok_or_else(|| damaged("the place of a leaf", &key))?;
        self.record_at(place.log, place.index).map(Some)
    }

    /// The leaf at an index of one of the node's logs.
    ///
    /// # Errors
    /// [`AuditFault`]: there is none, among others.
    pub fn record_at(&self, log: u32, index: u64) -> Result<AuditRecord, AuditFault> {
        let ledger = self.ledgers().get(log)?;
        let mut record = bare(self, &ledger, index, None)?;
        let bodies = record.leaf.bodies.clone();
        record.bodies = bodies.iter().map(|commitment| body(self, &record, commitment)).collect::<Result<_, _>>()?;
        Ok(record)
    }

    /// Leaves that fit, the newest first; at most `limit` of them, and 1,000. A page may be short and have a next one: for each,
    /// no more than 100,000 leaves are read.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub async fn query(&self, filter: &AuditFilter, limit: usize) -> Result<AuditPage, AuditFault> {
        self.drain().await?;
        find(self, filter, limit.clamp(1, RECORDS_MAX))
    }

    /// What shows that the log which goes on has this entry, under the newest checkpoint that witnesses signed.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub fn prove(&self, index: u64) -> Result<LogProof, AuditFault> {
        self.ledger().prove(index)
    }

    /// The newest checkpoint of the log that goes on.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.ledger().newest()
    }

    /// The keys of all logs of the node, from the first: what an auditor is told.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub fn log_keys(&self) -> Result<Vec<NoteKey>, AuditFault> {
        (1..=self.ledger().number()).map(|number| Ok(self.ledgers().get(number)?.key().clone())).collect()
    }

    /// A leaf with its proof, as text that is verified without this node; its bodies are in it where they are to be shown and
    /// are there.
    ///
    /// # Errors
    /// [`AuditFault`].
    pub fn export(&self, log: u32, index: u64, with_bodies: bool) -> Result<AuditExport, AuditFault> {
        let ledger = self.ledgers().get(log)?;
        let whole = |body: RecordBody| match body {
            RecordBody::Whole(body) => Some(body),
            RecordBody::Salt { .. } | RecordBody::Absent(_) => None,
        };
        let bodies = if with_bodies {
            self.record_at(log, index)?.bodies.into_iter().filter_map(whole).collect()
        } else {
            Vec::new()
        };
        Ok(AuditExport {
            log: ledger.key().clone(),
            leaf: ledger.log().entry(index)?,
            bodies,
            proof: ledger.prove(index)?,
        })
    }

    /// Reads the log that goes on from its first leaf, and compares it with what was signed; gives the head.
    ///
    /// # Errors
    /// [`AuditFault`]: something was changed, with the place.
    pub fn check(&self) -> Result<Head, AuditFault> {
        Ok(self.ledger().check()?.head)
    }
}

fn bare(log: &AuditLog, ledger: &Ledger, index: u64, entry: Option<Vec<u8>>) -> Result<AuditRecord, AuditFault> {
    let entry = match entry {
        Some(entry) => entry,
        None => ledger.log().entry(index)?,
    };
    let leaf = AuditLeaf::read(&entry).map_err(|_| AuditFault::Damaged(format!("entry {index}")))?;
    let key = id_at(Place { log: ledger.number(), index });
    let row = log.ports().store.read(INDEX, &key)?;
    let id = row.and_then(|id| LeafId::try_from(id).ok()).ok_or_else(|| damaged("the id of a leaf", &key))?;
    Ok(AuditRecord { id, log: ledger.number(), index, leaf, bodies: Vec::new() })
}

fn body(log: &AuditLog, record: &AuditRecord, named: &BodyCommitment) -> Result<RecordBody, AuditFault> {
    let role = named.role;
    let at = [&bodies_of(record.leaf.at_ms, &record.id)[..], &[role as u8]].concat();
    let Some(row) = log.ports().store.read(BODIES, &at)? else { return Ok(RecordBody::Absent(role)) };
    let row: BodyRow = read("the body", &at, &row)?;
    let Some(secret) = log.keys().secret(&row.key)? else { return Ok(RecordBody::Absent(role)) };
    let plain = open(&secret, &at, &row)?;
    let Some(body) = plain.body else {
        return Ok(RecordBody::Salt { role, salt: plain.salt, bytes: plain.bytes });
    };
    if !named.names(&plain.salt, &body) {
        return Err(damaged("the body", &at));
    }
    Ok(RecordBody::Whole(OpenBody { role, salt: plain.salt, body }))
}

/// Leaves that fit, the newest first; at most `limit` of them.
fn find(log: &AuditLog, filter: &AuditFilter, limit: usize) -> Result<AuditPage, AuditFault> {
    let now = log.ledger();
    let (mut number, mut end) = filter.before.unwrap_or((now.number(), now.log().head().size));
    let (mut page, mut left) = (AuditPage::default(), LEAVES_MAX);
    loop {
        let ledger = log.ledgers().get(number)?;
        end = end.min(ledger.log().head().size);
        while end > 0 && left > 0 {
            let first = end.saturating_sub(PAGE.min(left));
            let entries = ledger.log().entries(first, end - first)?;
            left -= end - first;
            for (offset, entry) in entries.into_iter().enumerate().rev() {
                end = first + offset as u64;
                let record = bare(log, &ledger, end, Some(entry))?;
                if filter.fits(&record.leaf) {
                    page.records.push(record);
                }
                if page.records.len() == limit {
                    break;
                }
            }
            if page.records.len() == limit {
                left = 0;
            }
        }
        if end > 0 {
            page.next = Some((number, end));
            return Ok(page);
        }
        if number == 1 {
            return Ok(page);
        }
        (number, end) = (number - 1, u64::MAX);
    }
}
