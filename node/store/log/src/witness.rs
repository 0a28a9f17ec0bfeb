//! A witness: cosigns checkpoints of others' logs, those of registries and of audit logs, after it checked that they only grew
//! (C2SP tlog-witness).
//!
//! Invariants
//! - It never signs two histories of a log: what it signs is on disk before its signature leaves, and the next one goes on
//!   from there.
//! - It begins only once. Without what it signed before it does not start: it would not know what it must go on from.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::SecretKey;
use althing_protocol::tlog::{AddCheckpoint, Checkpoint, Head, NoteKey, NoteKeyError, NoteKeyKind, WitnessRefusal};
use althing_store::{Batch, Durability, Family, ReadError, Store, WriteError};

/// The time of day, Unix milliseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The checkpoint that was signed last, by the name of its log.
const SIGNED: Family = Family("witness.signed");
/// Two checkpoints of one size that a log signed, by its name.
const EVIDENCE: Family = Family("witness.evidence");
/// What there is once.
const META: Family = Family("witness.meta");
/// The key in [`META`] of the name of the witness, since it began.
const BEGUN: &[u8] = b"begun";

/// Checkpoints of one log that are signed in a second: each may wait for the disk, and a log that wants more asks for its newest.
pub const SIGNED_PER_SECOND_MAX: u32 = 64;

/// All families of a witness.
pub const FAMILIES: [Family; 3] = [SIGNED, EVIDENCE, META];

/// What a witness is opened with.
pub struct WitnessConfig {
    /// Its name, which every signature has.
    pub name: String,
    /// The keys of the logs that it looks after.
    pub logs: Vec<NoteKey>,
    /// Whether it begins here, so that its store may be empty.
    pub is_first: bool,
}

/// Why a witness does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenWitnessError {
    /// Its name is none.
    #[error("the name of the witness is refused: {0}")]
    Name(#[from] NoteKeyError),
    /// A key is that of a witness.
    #[error("{0} is the key of a witness, and no log's: a registry prints the key of its log when it starts")]
    NoLog(NoteKey),
    /// Two keys have one name.
    #[error("two logs have the name {0:?}: a witness tells them apart by it")]
    Twice(String),
    /// What it signed is gone.
    #[error(
        "this witness began before, and what it signed is not here: `store/` is not mounted, or was lost. Mount it, or restore \
         the folder as a whole; if there is no copy, begin anew in another folder with a new key: with this one it could sign \
         two histories"
    )]
    Lost,
    /// What it signed last is not signed by the key that was given.
    #[error(
        "what was signed last of {0:?} does not verify with the key that was given: a log never changes its key. Give the one \
         that was given before"
    )]
    OtherKey(String),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot be written.
    #[error("nothing can be written: {0}")]
    Write(#[from] WriteError),
}

/// Why a checkpoint is not cosigned.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// It may not be.
    #[error(transparent)]
    Refused(#[from] WitnessRefusal),
    /// It asked too often.
    #[error(
        "this witness signs at most {SIGNED_PER_SECOND_MAX} checkpoints of {0:?} in a second: ask for the newest one in a second"
    )]
    Often(String),
    /// What was signed last cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was signed last is damaged.
    #[error("what this witness signed last of {0:?} is damaged: its operator has to restore it from a copy")]
    Damaged(String),
    /// Nothing can be written.
    #[error("nothing can be written now: {0}")]
    Write(#[from] WriteError),
}

/// A log, as its witness shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The origin of its checkpoints.
    pub name: String,
    /// The head that was signed last.
    pub head: Head,
    /// Two checkpoints of one size, if the log signed such: the proof that it lies.
    pub evidence: Option<String>,
}

/// Signs checkpoints of other logs, of each only such as continue what it signed before.
pub struct Witness {
    store: Arc<dyn Store>,
    key: SecretKey,
    note_key: NoteKey,
    logs: BTreeMap<String, NoteKey>,
    clock: Clock,
    /// Held from the look at what was signed last until the next is on disk: in which second each log asked last, and how often.
    signing: tokio::sync::Mutex<BTreeMap<String, (u64, u32)>>,
}

impl Witness {
    /// Opens the witness that is in the store.
    ///
    /// # Errors
    /// See [`OpenWitnessError`].
    pub async fn open(
        store: Arc<dyn Store>,
        key: SecretKey,
        config: WitnessConfig,
        clock: Clock,
    ) -> Result<Witness, OpenWitnessError> {
        let note_key = NoteKey::new(&config.name, NoteKeyKind::Cosignature, key.public())?;
        let mut logs = BTreeMap::new();
        for log in config.logs {
            if log.kind() != NoteKeyKind::Note {
                return Err(OpenWitnessError::NoLog(log));
            }
            if let Some(twice) = logs.insert(log.name().to_owned(), log) {
                return Err(OpenWitnessError::Twice(twice.name().to_owned()));
            }
        }
        if store.read(META, BEGUN)?.is_none() {
            if !config.is_first {
                return Err(OpenWitnessError::Lost);
            }
            let mut batch = Batch::new();
            batch.put(META, BEGUN, config.name.as_bytes());
            store.write(batch, Durability::Synced).await?;
        }
        for (name, log) in &logs {
            let row = store.read(SIGNED, name.as_bytes())?;
            if row.is_some_and(|row| opened(&row, log).is_none()) {
                return Err(OpenWitnessError::OtherKey(name.clone()));
            }
        }
        Ok(Witness { store, key, note_key, logs, clock, signing: tokio::sync::Mutex::default() })
    }

    /// The key that its cosignatures are verified with.
    #[must_use]
    pub fn note_key(&self) -> &NoteKey {
        &self.note_key
    }

    /// Cosigns a checkpoint; gives the line of the signature. What it signs is on disk before.
    ///
    /// # Errors
    /// See [`WitnessError`].
    pub async fn add(&self, asked: &AddCheckpoint) -> Result<String, WitnessError> {
        let mut log = None;
        let checkpoint = asked.signed(|origin| {
            log = self.logs.get(origin);
            log.cloned()
        })?;
        let log = log.expect("its signature was verified");
        let mut signing = self.signing.lock().await;
        // Only what the log itself signed counts: nobody else uses its part up.
        take_part(&mut signing, log.name(), (self.clock)() / 1_000)?;
        let known = self.known(log)?;
        let head = known.as_ref().map_or_else(Head::default, |known| known.head);
        if let Err(refusal) = asked.goes_on(&checkpoint, head) {
            if let (WitnessRefusal::Forked { size }, Some(known)) = (&refusal, &known) {
                tracing::error!(log = log.name(), size, "a log signed two histories; both checkpoints are kept");
                self.keep_evidence(log, known, &checkpoint).await?;
            }
            return Err(refusal.into());
        }
        if known.is_none() || checkpoint.head != head {
            let mut batch = Batch::new();
            batch.put(SIGNED, log.name().as_bytes(), checkpoint.note().as_bytes());
            self.store.write(batch, Durability::Synced).await?;
        }
        let line = checkpoint.cosign(self.note_key.name(), (self.clock)() / 1_000, &self.key);
        Ok(line.expect("the name was checked"))
    }

    /// The logs that it looks after.
    ///
    /// # Errors
    /// See [`WitnessError`].
    pub fn logs(&self) -> Result<Vec<Seen>, WitnessError> {
        let seen = |(name, log): (&String, &NoteKey)| {
            let evidence = self.store.read(EVIDENCE, name.as_bytes())?;
            let evidence = evidence.map(|row| String::from_utf8_lossy(&row).into_owned());
            let head = self.known(log)?.map_or_else(Head::default, |known| known.head);
            Ok(Seen { name: name.clone(), head, evidence })
        };
        self.logs.iter().map(seen).collect()
    }

    /// What was signed last of a log.
    fn known(&self, log: &NoteKey) -> Result<Option<Checkpoint>, WitnessError> {
        let Some(row) = self.store.read(SIGNED, log.name().as_bytes())? else { return Ok(None) };
        opened(&row, log).map(Some).ok_or_else(|| WitnessError::Damaged(log.name().to_owned()))
    }

    /// Keeps the first proof that a log lies.
    async fn keep_evidence(&self, log: &NoteKey, one: &Checkpoint, other: &Checkpoint) -> Result<(), WitnessError> {
        if self.store.read(EVIDENCE, log.name().as_bytes())?.is_some() {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.put(EVIDENCE, log.name().as_bytes(), format!("{}\n{}", one.note(), other.note()));
        Ok(self.store.write(batch, Durability::Synced).await?)
    }
}

/// Counts a question of a log in this second.
fn take_part(parts: &mut BTreeMap<String, (u64, u32)>, log: &str, second: u64) -> Result<(), WitnessError> {
    let (last, count) = parts.entry(log.to_owned()).or_default();
    if *last != second {
        (*last, *count) = (second, 0);
    }
    if *count == SIGNED_PER_SECOND_MAX {
        return Err(WitnessError::Often(log.to_owned()));
    }
    *count += 1;
    Ok(())
}

fn opened(row: &[u8], log: &NoteKey) -> Option<Checkpoint> {
    Checkpoint::open(std::str::from_utf8(row).ok()?, log).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_asks_too_often_waits_for_the_next_second_and_others_do_not() {
        let mut parts = BTreeMap::new();
        for _ in 0..SIGNED_PER_SECOND_MAX {
            take_part(&mut parts, "a", 7).expect("it has a part");
        }
        assert!(matches!(take_part(&mut parts, "a", 7), Err(WitnessError::Often(log)) if log == "a"));
        take_part(&mut parts, "b", 7).expect("another log has a part of its own");
        take_part(&mut parts, "a", 8).expect("it is another second");
    }
}
