//! Receipts: the proofs that the logs of registries have what the owner signed. They are kept, and verified again without the
//! registry.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use althing_protocol::Digest;
use althing_protocol::object::Kind;
use althing_protocol::registry::Logged;
use althing_protocol::tlog::{LogProof, LogProofError, NoteKey, leaf_hash};
use althing_registry_client::RegistryError;
use althing_store::{Batch, Durability, Family, Range, Store};
use minicbor::{Decode, Encode};

use super::RegistriesError;

/// Receipts of what the owner sent to registries, by the key of the log, the index of the entry and the hash of its leaf.
pub const RECEIPTS: Family = Family("althing.receipts");

/// What is kept of one log: the oldest makes room for more.
const BOUNDS: Bounds = Bounds { count: 10_000, bytes: 64 << 20 };
/// Logs whose registries are followed no more, and of which receipts are still kept.
const FORMER_MAX: usize = 16;
/// Rows that are read, or deleted, at once.
const PAGE: usize = 64;

/// How much is kept of one log.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Receipts.
    count: usize,
    /// Bytes of all of them.
    bytes: usize,
}

/// Where a receipt lies among those of its log: the index of the entry (8 bytes, big-endian), and the hash of its leaf. So those
/// of two histories with one key lie beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place([u8; 40]);

impl Place {
    pub(super) fn of(index: u64, leaf: &Digest) -> Place {
        let mut place = [0; 40];
        place[..8].copy_from_slice(&index.to_be_bytes());
        place[8..].copy_from_slice(leaf);
        Place(place)
    }

    /// The index of the entry.
    pub(super) fn index(&self) -> u64 {
        self.0.first_chunk().map_or(0, |index| u64::from_be_bytes(*index))
    }
}

/// A statement of the owner's with the proof that a log has it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct ReceiptRow {
    /// The kind of the statement.
    #[n(0)]
    pub(super) kind: Kind,
    /// The statement, when it was accepted, and the proof.
    #[n(1)]
    pub(super) logged: Logged,
}

impl ReceiptRow {
    pub(super) fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Where it belongs.
    pub(super) fn place(&self) -> Result<Place, LogProofError> {
        let proof: LogProof = self.logged.proof.parse()?;
        Ok(Place::of(proof.index, &leaf_hash(&self.logged.entry(self.kind)?.encode())))
    }
}

/// What is kept of one log: bytes of each receipt, the oldest entry first.
#[derive(Debug, Default)]
struct Counted {
    rows: BTreeMap<Place, usize>,
    bytes: usize,
}

impl Counted {
    fn put(&mut self, place: Place, bytes: usize) {
        self.bytes += bytes;
        self.bytes -= self.rows.insert(place, bytes).unwrap_or(0);
    }

    /// Takes out the oldest ones that are too many.
    fn make_room(&mut self, bounds: Bounds) -> Vec<Place> {
        let mut gone = Vec::new();
        while self.rows.len() > bounds.count || self.bytes > bounds.bytes {
            let Some((place, bytes)) = self.rows.pop_first() else { break };
            self.bytes -= bytes;
            gone.push(place);
        }
        gone
    }
}

/// The receipts that a node keeps.
pub(super) struct Receipts {
    store: Arc<dyn Store>,
    bounds: Bounds,
    /// What is kept of each log that something was sent to since the start.
    counted: tokio::sync::Mutex<BTreeMap<String, Counted>>,
}

impl Receipts {
    pub(super) fn new(store: Arc<dyn Store>) -> Receipts {
        Receipts { store, bounds: BOUNDS, counted: tokio::sync::Mutex::default() }
    }

    /// Keeps a receipt; it is on disk when this completes. The oldest ones of the log make room for it.
    pub(super) async fn keep(&self, log: &NoteKey, row: &ReceiptRow) -> Result<(), RegistriesError> {
        let place = row.place().map_err(|error| RegistryError::Receipt { at: 0, error })?;
        let (log, bytes) = (log.to_string(), row.encode());
        let mut all = self.counted.lock().await;
        let counted = match all.entry(log.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.count(&log)?),
        };
        counted.put(place, bytes.len());
        let mut batch = Batch::new();
        batch.put(RECEIPTS, key(&log, &place), bytes);
        for gone in counted.make_room(self.bounds) {
            batch.delete(RECEIPTS, key(&log, &gone));
        }
        let written = self.store.write(batch, Durability::Synced).await;
        if written.is_err() {
            // It is counted anew.
            all.remove(&log);
        }
        Ok(written?)
    }

    /// Whether there is a receipt of a statement.
    pub(super) fn has(&self, log: &NoteKey, kind: Kind, statement: &[u8]) -> Result<bool, RegistriesError> {
        let mut is_there = false;
        self.look_through(&log.to_string(), None, |_, row| {
            let row: Option<ReceiptRow> = minicbor::decode(row).ok();
            is_there = row.is_some_and(|row| row.kind == kind && row.logged.statement[..] == *statement);
            if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(is_there)
    }

    /// The places of all receipts of a log, the newest entry first.
    pub(super) fn places(&self, log: &NoteKey) -> Result<Vec<Place>, RegistriesError> {
        let mut places = Vec::new();
        self.look_through(&log.to_string(), None, |place, _| {
            places.push(place);
            ControlFlow::Continue(())
        })?;
        Ok(places)
    }

    /// The row in a place.
    pub(super) fn read(&self, log: &NoteKey, place: &Place) -> Result<Option<Vec<u8>>, RegistriesError> {
        Ok(self.store.read(RECEIPTS, &key(&log.to_string(), place))?)
    }

    /// Shows each row of a log, or of one entry of it, the newest entry first, until `look` breaks off.
    pub(super) fn look_through(
        &self,
        log: &str,
        entry: Option<u64>,
        mut look: impl FnMut(Place, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), RegistriesError> {
        let first = prefix(log);
        let mut wanted = first.clone();
        if let Some(entry) = entry {
            wanted.extend(entry.to_be_bytes());
        }
        let mut last: Option<Vec<u8>> = None;
        loop {
            let range = Range::prefix(wanted.clone(), PAGE).reversed();
            let range = match last.take() {
                Some(last) => range.after(last),
                None => range,
            };
            let rows = self.store.scan(RECEIPTS, range)?;
            for (key, row) in &rows {
                let place = key.get(first.len()..).and_then(|place| place.try_into().ok()).map(Place);
                if place.is_some_and(|place| look(place, row).is_break()) {
                    return Ok(());
                }
            }
            match rows.into_iter().next_back() {
                Some((key, _)) => last = Some(key),
                None => return Ok(()),
            }
        }
    }

    fn count(&self, log: &str) -> Result<Counted, RegistriesError> {
        let mut counted = Counted::default();
        self.look_through(log, None, |place, row| {
            counted.put(place, row.len());
            ControlFlow::Continue(())
        })?;
        Ok(counted)
    }

    /// Forgets receipts of logs that are `followed` no more, where these are too many; those of the `last` one stay. What
    /// cannot be forgotten only takes room.
    pub(super) async fn forget_former(&self, followed: &BTreeSet<String>, last: &str) {
        if let Err(error) = self.forget(followed, last).await {
            tracing::warn!(%error, "receipts of registries that are followed no more could not be forgotten");
        }
    }

    async fn forget(&self, followed: &BTreeSet<String>, last: &str) -> Result<(), RegistriesError> {
        let mut former = self.logs()?;
        former.retain(|log| !followed.contains(log) && log != last);
        let too_many = (former.len() + 1).saturating_sub(FORMER_MAX);
        for log in former.iter().take(too_many) {
            let mut all = self.counted.lock().await;
            loop {
                let rows = self.store.scan(RECEIPTS, Range::prefix(prefix(log), PAGE))?;
                if rows.is_empty() {
                    break;
                }
                let mut batch = Batch::new();
                for (key, _) in rows {
                    batch.delete(RECEIPTS, key);
                }
                self.store.write(batch, Durability::Synced).await?;
            }
            all.remove(log);
        }
        Ok(())
    }

    /// The keys of the logs that there are receipts of.
    fn logs(&self) -> Result<Vec<String>, RegistriesError> {
        let (mut logs, mut last): (Vec<String>, Option<Vec<u8>>) = (Vec::new(), None);
        loop {
            let range = match last.take() {
                Some(last) => Range::all(1).after(last),
                None => Range::all(1),
            };
            let Some((key, _)) = self.store.scan(RECEIPTS, range)?.pop() else { return Ok(logs) };
            let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
            logs.push(String::from_utf8_lossy(&key[..end]).into_owned());
            // After all receipts of that log: their keys have a zero here.
            last = Some([&key[..end], &[1]].concat());
        }
    }
}

/// What the keys of a log's receipts begin with: the key of a log has no zero in it.
fn prefix(log: &str) -> Vec<u8> {
    [log.as_bytes(), &[0]].concat()
}

fn key(log: &str, place: &Place) -> Vec<u8> {
    [&prefix(log)[..], &place.0].concat()
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use althing_protocol::tlog::{Checkpoint, Head, NoteKeyKind};
    use althing_store::MemoryStore;

    use super::*;

    fn log(name: &str) -> NoteKey {
        NoteKey::new(name, NoteKeyKind::Note, SecretKey::from_seed(&[1; 32]).public()).expect("a good name")
    }

    /// A receipt of an entry; what it proves is looked at by nobody here.
    fn row(index: u64, statement: &[u8]) -> ReceiptRow {
        let checkpoint = Checkpoint::sign("log", Head::default(), &SecretKey::from_seed(&[1; 32])).expect("a name");
        let proof = LogProof { index, hashes: Vec::new(), checkpoint: checkpoint.note().to_owned() };
        let logged = Logged { statement: statement.to_vec().into(), at_ms: 1, proof: proof.to_string(), salt: None };
        ReceiptRow { kind: Kind::Release, logged }
    }

    fn receipts(bounds: Bounds) -> Receipts {
        Receipts { bounds, ..Receipts::new(Arc::new(MemoryStore::new(&[RECEIPTS]))) }
    }

    fn indexes(receipts: &Receipts, log: &NoteKey) -> Vec<u64> {
        receipts.places(log).expect("they are read").iter().map(Place::index).collect()
    }

    #[tokio::test]
    async fn the_oldest_receipts_of_a_log_make_room() {
        let few = receipts(Bounds { count: 3, bytes: usize::MAX });
        let (one, other) = (log("one"), log("on"));
        for index in [0, 255, 256, 3] {
            few.keep(&one, &row(index, b"release")).await.expect("kept");
            few.keep(&one, &row(index, b"release")).await.expect("the same again");
        }
        few.keep(&other, &row(9, b"release")).await.expect("kept");
        assert_eq!(indexes(&few, &one), [256, 255, 3], "the newest first, and no log takes the room of another");
        assert_eq!(indexes(&few, &other), [9]);
        // As many bytes as two of them, counted anew from what is stored.
        let bytes = 2 * row(256, b"release").encode().len();
        let small = Receipts { bounds: Bounds { count: 3, bytes }, ..Receipts::new(few.store.clone()) };
        small.keep(&one, &row(257, b"release")).await.expect("kept");
        assert_eq!(indexes(&small, &one), [257, 256]);
    }

    #[tokio::test]
    async fn two_histories_with_one_key_lie_beside_each_other() {
        let all = receipts(BOUNDS);
        let log = log("log");
        for statement in ["one", "other"] {
            all.keep(&log, &row(7, statement.as_bytes())).await.expect("kept");
        }
        assert_eq!(indexes(&all, &log), [7, 7]);
        for (statement, is_there) in [("one", true), ("other", true), ("none", false)] {
            let has = all.has(&log, Kind::Release, statement.as_bytes());
            assert_eq!(has.ok(), Some(is_there), "{statement}");
        }
        assert_eq!(all.has(&log, Kind::Mark, b"one").ok(), Some(false));
        let mut found = 0;
        let count = |_: Place, _: &[u8]| {
            found += 1;
            ControlFlow::Continue(())
        };
        all.look_through(&log.to_string(), Some(7), count).expect("they are read");
        assert_eq!(found, 2);
    }

    #[tokio::test]
    async fn receipts_of_former_registries_are_kept_for_some_of_them() {
        let all = receipts(BOUNDS);
        let logs: Vec<NoteKey> = (0..FORMER_MAX + 3).map(|number| log(&format!("log-{number:02}"))).collect();
        for log in &logs {
            for index in 0..2 * PAGE as u64 {
                all.keep(log, &row(index, b"release")).await.expect("kept");
            }
        }
        let followed: BTreeSet<String> = [logs[1].to_string()].into();
        all.forget_former(&followed, &logs[0].to_string()).await;
        let left = || logs.iter().map(|log| indexes(&all, log).len() / (2 * PAGE)).collect::<Vec<usize>>();
        let wanted: Vec<usize> = [1, 1, 0, 0].into_iter().chain(std::iter::repeat_n(1, FORMER_MAX - 1)).collect();
        assert_eq!(left(), wanted, "neither the last one goes nor what is followed");
        all.forget_former(&followed, &logs[0].to_string()).await;
        assert_eq!(left(), wanted, "once more takes nothing");
    }
}
