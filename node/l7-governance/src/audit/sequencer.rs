//! Moves leaves from the queue into the log, in the order of their ids, many with one write.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::audit::AuditLeaf;
use althing_store::{Batch, Durability, Range};

use super::drafts::DraftMark;
use super::error::AuditFault;
use super::families::{INDEX, KEYS, QUEUE};
use super::ledger::Ledger;
use super::log::AuditLog;
use super::rows::{KeyName, LeafId, Place, QueueRow, damaged, id_at, key_row, ordinal_of, place_of, read};
use super::share::BodyShare;

/// Leaves that are moved with one write.
const ROUND_MAX: usize = 512;
/// Bytes of them: with the rows beside them a write has room for thrice as many.
const ROUND_BYTES_MAX: usize = 1 << 20;
/// A leaf that was drafted is looked for after this, then after twice as long, and so on: whoever drafted it writes it.
const LOOKS_AFTER: Duration = Duration::from_millis(50);
/// How often it is looked for: the last time after some 50 s. Later ones are found with the next leaf.
const LOOKS: u32 = 10;
/// The pause after a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What one write does.
struct Move {
    entries: Vec<Vec<u8>>,
    /// The ids of these.
    ids: Vec<LeafId>,
    rows: Batch,
    /// Bytes of bodies beside these leaves.
    body_bytes: u64,
}

impl AuditLog {
    /// Moves leaves for as long as the node runs. Whoever drops it loses nothing: what is left is taken when the log is opened.
    pub async fn keep(&self) {
        loop {
            self.drafted().await;
            if !self.drafts().are_done() {
                look(self).await;
            }
        }
    }

    /// Moves all that waits now; gives how many leaves.
    ///
    /// # Errors
    /// [`AuditFault`]: until it succeeds, nothing is taken.
    pub async fn drain(&self) -> Result<usize, AuditFault> {
        let mut all = 0;
        loop {
            match self.sequence().await? {
                0 => return Ok(all),
                some => all += some,
            }
        }
    }

    /// One write of leaves; gives how many rows it took from the queue.
    pub(super) async fn sequence(&self) -> Result<usize, AuditFault> {
        let _books = self.books().await;
        let outcome = round(self).await;
        self.tell(outcome.as_ref().map(|_| ()));
        outcome
    }
}

/// Looks for leaves until all that were drafted are in the log, or nobody wrote the others for long. A node at rest reads nothing
/// then, and no code of its store stays in memory for that.
async fn look(log: &AuditLog) {
    let mut looks = 0;
    loop {
        let mark = log.drafts().mark();
        tokio::time::sleep(LOOKS_AFTER.saturating_mul(1 << looks)).await;
        match log.sequence().await {
            Ok(0) => looks += 1,
            Ok(_) => looks = 0,
            Err(error) => {
                tracing::debug!(%error, "leaves wait in the queue of the audit log");
                tokio::time::sleep(AGAIN_AFTER).await;
                looks = 0;
            }
        }
        if is_over(log, looks, mark) {
            return;
        }
    }
}

/// Whether nothing is to be looked for after so many looks in vain.
fn is_over(log: &AuditLog, looks: u32, mark: DraftMark) -> bool {
    let mut drafts = log.drafts();
    if looks == LOOKS {
        drafts.give_up(mark);
    }
    looks == LOOKS || drafts.are_done()
}

async fn round(log: &AuditLog) -> Result<usize, AuditFault> {
    let (ledger, store) = (log.ledger(), &log.ports().store);
    let mut writer = ledger.writer().await;
    // A write of unknown outcome is done again here: what it moved is no longer in the queue.
    let first = writer.next().await?;
    ledger.follow()?;
    let before = log.share().follow()?;
    let waiting = store.scan(QUEUE, Range::all(ROUND_MAX).within(ROUND_BYTES_MAX))?;
    if waiting.is_empty() {
        return Ok(0);
    }
    let Move { entries, ids, mut rows, body_bytes } = gather(log, &ledger, first, &waiting)?;
    rows.append(BodyShare::row(before.saturating_add(body_bytes)));
    if entries.is_empty() {
        store.write(rows, Durability::Buffered).await?;
        return Ok(waiting.len());
    }
    let over = |head| {
        rows.append(ledger.sign(head));
        rows
    };
    writer.append(&entries, over).await?;
    let mut drafts = log.drafts();
    ids.iter().for_each(|id| drafts.end(ordinal_of(id)));
    drop(drafts);
    ledger.follow()?;
    log.share().follow()?;
    Ok(waiting.len())
}

fn gather(log: &AuditLog, ledger: &Ledger, first: u64, waiting: &[(Vec<u8>, Vec<u8>)]) -> Result<Move, AuditFault> {
    let mut moves = Move { entries: Vec::new(), ids: Vec::new(), rows: Batch::new(), body_bytes: 0 };
    let mut place = Place { log: ledger.number(), index: first };
    let of_key = |key: &Vec<u8>| LeafId::try_from(&key[..]).map_err(|_| damaged("the key in the queue", key));
    let ids = waiting.iter().map(|(key, _)| of_key(key)).collect::<Result<Vec<LeafId>, AuditFault>>()?;
    // One look-up for all: of each by itself they take as long as all else of a round.
    let places: Vec<Vec<u8>> = ids.iter().map(place_of).collect();
    let moved = log.ports().store.read_many(INDEX, &places)?;
    let mut burned = BTreeMap::new();
    for (((key, row), id), place_before) in waiting.iter().zip(ids).zip(moved) {
        let row: QueueRow = read("the leaf in the queue", key, row)?;
        AuditLeaf::read(&row.leaf).map_err(|_| damaged("the leaf in the queue", key))?;
        moves.rows.delete(QUEUE, id);
        end_late_key(log, row.key.as_ref(), (&mut burned, &mut moves.rows))?;
        // Its cause was written twice, the second time after it had been moved.
        if place_before.is_some() {
            continue;
        }
        moves.rows.put(INDEX, place_of(&id), place.bytes()).put(INDEX, id_at(place), id);
        moves.entries.push(row.leaf);
        moves.ids.push(id);
        moves.body_bytes = moves.body_bytes.saturating_add(row.body_bytes);
        place.index += 1;
    }
    Ok(moves)
}

/// A key that was burned while the batch with it was on its way is deleted once more. `burned` has what was found of keys of leaves
/// before this one: most are about the same few persons.
fn end_late_key(
    log: &AuditLog,
    name: Option<&KeyName>,
    (burned, rows): (&mut BTreeMap<KeyName, bool>, &mut Batch),
) -> Result<(), AuditFault> {
    let Some(name) = name.filter(|name| !burned.contains_key(*name)) else { return Ok(()) };
    let is_burned = log.keys().is_burned(name)?;
    burned.insert(*name, is_burned);
    if is_burned {
        rows.delete(KEYS, key_row(name));
    }
    Ok(())
}
